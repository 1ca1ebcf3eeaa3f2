"""Prune a model by DebiasSparseGPTModifier; run in an environment with llm-compressor.

    python peer_modifier.py MODEL PAIRS.jsonl TEXTS.jsonl OUT BIAS_WEIGHT

Writes H, the weights before and after of every matrix (OUT/trace.safetensors) and the model
(OUT/model).
"""

import json
import sys
from pathlib import Path

import torch
from llmcompressor import oneshot
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.llmcompressor import DebiasSparseGPTModifier, pair_batches


def main(folder: str, pairs: str, texts: str, out: str, bias_weight: float) -> None:
    trace: dict[str, torch.Tensor] = {}

    class Traced(DebiasSparseGPTModifier):
        def compress_modules(self) -> None:
            modules = list(self._num_samples)
            for module in modules:
                name = self._module_names[module].strip(".")
                trace[f"{name}.hessian"] = self._hessians[module].clone()
                trace[f"{name}.before"] = module.weight.detach().clone()
            super().compress_modules()
            for module in modules:
                name = self._module_names[module].strip(".")
                trace[f"{name}.after"] = module.weight.detach().clone()

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows, plain = (
        [json.loads(line) for line in Path(path).read_text().splitlines()]
        for path in (pairs, texts)
    )
    oneshot(
        model=model,
        tokenizer=tokenizer,
        dataset=pair_batches(rows, tokenizer, [row["text"] for row in plain]),
        recipe=Traced(
            bias_weight=bias_weight, sparsity=0.5, mask_structure="2:4", ignore=["re:.*lm_head"]
        ),
    )
    Path(out).mkdir()
    save_file(trace, Path(out) / "trace.safetensors")
    model.save_pretrained(Path(out) / "model")


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]))
