"""The model and the text that ``gpu-check`` works on: random, made on the spot, of a real shape."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch

from ..data.calibration import TokenizedPairs, TokenPair, align
from ..io.files import write_json
from ..io.progress import Progress
from ..models.tensors import write_tensors
from ..pruning.packing import Text
from ..serving.shapes import Decoder

POSITIONS = 2048
STANDARD_DEVIATION = 0.02  # of all weights, Llama's own


@dataclass(frozen=True)
class Trial:
    """What is run: shapes, and how much text.

    pairs, texts, text_tokens: of the run that is timed. compared: the same three of the run whose
    masks are compared with the CPU's, on two blocks.
    """

    decoder: Decoder
    pairs: int
    texts: int
    text_tokens: int
    compared: tuple[int, int, int]


TRIALS = {
    # The shape of a Llama of 1.2 billion parameters with tied embeddings; the paper's text.
    "1b": Trial(Decoder(2048, 8192, 16, 32, 8, 128256), 2106, 256, 512, (64, 8, 512)),
    "tiny": Trial(Decoder(64, 128, 3, 4, 2, 256), 12, 3, 20, (8, 2, 16)),
}


def write_model(
    folder: Path, decoder: Decoder, blocks: int, vocabulary: int, dtype: torch.dtype
) -> int:
    """Write a random Llama of some ``blocks`` and return the bytes of its weights.

    One file a block, so that no more than one is in memory. The same on every machine.
    """
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=decoder.hidden,
        intermediate_size=decoder.intermediate,
        num_hidden_layers=blocks,
        num_attention_heads=decoder.heads,
        num_key_value_heads=decoder.kv_heads,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        dtype=str(dtype).removeprefix("torch."),
        architectures=["LlamaForCausalLM"],
        bos_token_id=0,
        eos_token_id=1,
    )
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    generator = torch.Generator().manual_seed(0)
    shards: list[dict[str, torch.Size]] = [{} for _ in range(blocks + 1)]
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        number = int(parts[2]) + 1 if parts[1] == "layers" else 0
        shards[number][name] = parameter.shape
    weight_map = {}
    total = 0
    progress = Progress(len(shards), "random model")
    for number, shapes in enumerate(shards):
        file = f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors"
        tensors = {}
        for name, shape in shapes.items():
            one = torch.ones(shape)
            if len(shape) > 1:
                one.normal_(std=STANDARD_DEVIATION, generator=generator)
            tensors[name] = one.to(dtype)
            weight_map[name] = file
            total += tensors[name].numel() * dtype.itemsize
        write_tensors(folder / file, tensors)
        progress.update()
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return total


def random_text(vocabulary: int, pairs: int, texts: int, text_tokens: int) -> Text:
    """Return random pairs that differ in one token, shaped as StereoSet's, and random texts.

    A sentence has 8 to 16 tokens; the one that differs stands behind two thirds of them.
    """
    rng = random.Random(0)
    found: list[TokenPair] = []
    for number in range(pairs):
        ids0 = [rng.randrange(2, vocabulary) for _ in range(rng.randint(8, 16))]
        ids1 = list(ids0)
        ids1[len(ids0) * 2 // 3] = rng.randrange(2, vocabulary)
        aligned = align(ids0, ids1, "equal-length")
        assert aligned is not None
        found.append(TokenPair(f"pair {number}", "random", *aligned))
    kept = {"random": {"total": pairs, "kept": pairs, "dropped": 0}}
    others = [
        (f"text {number}", [rng.randrange(2, vocabulary) for _ in range(text_tokens)])
        for number in range(texts)
    ]
    return Text(TokenizedPairs(found, 0, kept), others)
