"""Quantise a model folder with llm-compressor: compress.py MODEL OUT BITS [GROUP].

Rounded to nearest as the presets W8A16 and W4A16, in groups of GROUP weights, which a matrix's
width must be a multiple of (theirs have 128; SmolLM2's are 576 wide).
"""

import sys

from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder: str, out: str, bits: str, group: str = "64") -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    weights = {"num_bits": int(bits), "type": "int", "strategy": "group", "group_size": int(group)}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    oneshot(model=model, recipe=QuantizationModifier(config_groups=groups, ignore=["lm_head"]))
    model.save_pretrained(out, save_compressed=True)
    AutoTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
