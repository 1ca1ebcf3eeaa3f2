"""Debias-LoRA's adapters trained after pruning, inside the mask, for docs/bias.md.

python benchmarks/adapters_after.py results/bias    # after a run of config/bias.yaml
"""

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import evenprune
from evenprune.blocks.base_model import BaseModel
from evenprune.config.facts import regime_facts
from evenprune.methods import adapters
from evenprune.methods.options import Options
from evenprune.models.identity import OWN_FILES
from evenprune.pruning.prune import calibration_text

MODEL, POINT = "smollm2-135m", "u50/ss-b64-cf4/s0"
BENCHMARKS = {
    "prose": ("perplexity", "bold_held_out", {"limit": 40}),
    "stereoset": ("stereoset", "stereoset_test", {"counterfactuals": 2}),
}


class Masked(adapters.Adapters):
    """Adapters whose change is 0 where the weights are."""

    def _mask(self, name: str) -> Tensor:
        return self.linears[name].weight != 0

    def __init__(self, linears: dict[str, nn.Module], generator: torch.Generator) -> None:
        self.linears = linears
        super().__init__(linears, generator)

    def _added(self, name: str):
        def hook(_module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
            if not self.scale:
                return output
            inner, outer = self.used[name]
            return output + self.scale * nn.functional.linear(
                args[0], (outer @ inner) * self._mask(name)
            )

        return hook

    def change(self, name: str) -> Tensor:
        """Return ΔW of a linear, 0 where the weights are."""
        return super().change(name) * self._mask(name).cpu()


def main(results: Path) -> None:
    """Train, write the model beside the pruned ones, and evaluate it as lora.after."""
    pruned = results / "pruned" / MODEL / "sparsegpt" / POINT / "model"
    out = results / "after" / "model"
    shutil.copytree(pruned, out, dirs_exist_ok=True)
    for name in OWN_FILES:
        (out / name).unlink(missing_ok=True)
    calibration = results / "calibration" / MODEL / "ss-b64-cf4/s0"
    options = Options("debias-lora", "dense", seed=0)
    files = [calibration / f"{name}.jsonl" for name in ("pairs", "texts")]
    text = calibration_text(pruned, options, files, None)
    adapters.Adapters = Masked
    base = BaseModel(pruned, regime_facts("dense"), "cpu")
    texts = [ids for _, ids in text.texts]
    adapters.adapt(base, text.kept, texts, options, results / "after" / "blocks")
    changed: dict[str, Tensor] = {}
    for file in (results / "after" / "blocks").glob("*.safetensors"):
        changed |= load_file(file)
    for file in out.glob("*.safetensors"):
        tensors = load_file(file)
        for name in tensors.keys() & changed.keys():
            assert not changed[name][tensors[name] == 0].any(), name
            tensors[name] = changed[name]
        save_file(tensors, file, metadata={"format": "pt"})
    place = results / "evals" / MODEL / "lora.after" / POINT
    for name, (task, data, given) in BENCHMARKS.items():
        source = results / "sources" / "data" / f"{data}.json"
        evenprune.evaluate(out, task, data=source, out=place / name, **given)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
