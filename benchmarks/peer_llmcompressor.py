"""Prune with llm-compressor's SparseGPT, 2:4; run by bench_pruning.py in the peer's environment.

    python peer_llmcompressor.py MODEL PAIRS.jsonl TEXTS.jsonl OUT BATCH

Prints one JSON line. Batch 1 is its default. Larger batches use its padding collator, since
the default one cuts every batch to its shortest sentence.
"""

import json
import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.pruning import SparseGPTModifier
from transformers import AutoModelForCausalLM, AutoTokenizer

from pruning_cases import measured


def main(folder: str, pairs: str, further: str, out: str, batch: int) -> None:
    """Load, prune and save; everything is inside the measured time, as in our own runs."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows = [json.loads(line) for line in Path(pairs).read_text().splitlines()]
    texts = [row[name] for row in rows for name in ("stereotype", "anti_stereotype")]
    texts += [json.loads(line)["text"] for line in Path(further).read_text().splitlines()]

    def run() -> None:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        encoded = tokenizer(texts)
        dataset = Dataset.from_dict(
            {name: encoded[name] for name in ("input_ids", "attention_mask")}
        )
        oneshot(
            model=model,
            tokenizer=tokenizer,
            dataset=dataset,
            recipe=SparseGPTModifier(sparsity=0.5, mask_structure="2:4", ignore=["re:.*lm_head"]),
            num_calibration_samples=len(texts),
            batch_size=batch,
            data_collator="truncation" if batch == 1 else "padding",
            max_seq_length=128,
        )
        model.save_pretrained(out)

    print(json.dumps(measured(run)))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
