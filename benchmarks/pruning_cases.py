"""Models and text of the pruning benchmarks, used by our runs and by the peer's alike.

Needs torch and transformers only, so that it also imports in the peer's environment.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

VOCABULARY = 32000
INTERMEDIATE = {256: 704, 512: 1408, 1024: 2816, 2048: 5632}


def make_model(folder: Path, hidden: int, layers: int, dtype: torch.dtype) -> None:
    """Write a random Llama with the default initialisation, seed 0."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=INTERMEDIATE[hidden],
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=4 if hidden == 2048 else hidden // 64,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(folder)


def make_tokenizer(folder: Path, sentences: Sequence[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on the sentences, with ``<s>`` in front; write and return it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.save_pretrained(folder)
    return fast


def equal_pairs(file: Path, tokenizer: PreTrainedTokenizerFast) -> list[dict[str, Any]]:
    """Return the pairs of a pairs file whose sentences have equal token counts, with their ids."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["ids"] = tokenizer([row["stereotype"], row["anti_stereotype"]])["input_ids"]
    return [row for row in rows if len(row["ids"][0]) == len(row["ids"][1])]


@torch.no_grad()
def last_hidden_states(folder: Path, sentences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the last hidden states of all tokens, (t, h) float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    states = [model.model(torch.tensor([list(ids)])).last_hidden_state[0] for ids in sentences]
    return torch.cat(states)


@torch.no_grad()
def perplexity(folder: Path, base: Path, prose: Path, length: int = 1024, count: int = 40) -> float:
    """Return a model's perplexity on the first ``count`` windows of a text, in float32.

    The tokenizer is the base model's: the peer writes none.
    """
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = AutoTokenizer.from_pretrained(base)(prose.read_text())["input_ids"]
    windows = torch.tensor(ids[: length * count]).reshape(count, 1, length)
    losses = [model(window, labels=window).loss.double() for window in windows]
    return float(torch.stack(losses).mean().exp())


def peak_mb() -> float:
    """Return this process's peak resident memory in MB (ru_maxrss would count its parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measured(run: Callable[[], Any]) -> dict[str, float]:
    """Run once; return wall seconds, CPU seconds and the process's peak memory in MB."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
    }
