"""Architectures.md: which types of causal language models are pruned, from a sweep of them all.

python docs/architectures.py
"""

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import transformers

sys.path.append(str(Path(__file__).parents[1] / "tests/support"))

from registry_models import TYPES
from registry_sweep import LAYERS, REGIME, sweep_type, token_pairs

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Which architectures are pruned

We made a random model of {layers} layers for nearly every type of causal language model in
transformers {version}, and pruned it with SparseGPT ({regime}) on {pairs} pairs of random tokens.
Code written apart pruned the same models in float64, by transformers' own forward passes. In every
pruned type at least {agreement:.2%} of the mask entries of each matrix agree. Everything else stays
byte for byte the same, and the result loads in transformers.

`prune` tries a model on a few tokens and looks at its parameters, then prunes or refuses it. It
refuses a block with a weight matrix (outside its linear layers) as large as its smallest linear
layer; a wider model of that type may pass. Routers, the gates of shared experts and depthwise
convolutions stay dense. `--method magnitude` needs no calibration text, so it also prunes types
whose code uses a weight without calling its layer.

| outcome | why | types |
| --- | --- | --- |
"""
END = """
`python docs/architectures.py` writes this page; slow tests check a third of it.
"""
# A part of the sentence that refuses a type -> the same in the page's words.
REASONS = {
    "are not called for ordinary text": "Its code uses a weight without calling the "
    "layer, or needs an encoder.",
    "renames or joins tensors": "transformers renames or joins its tensors while it loads them.",
    "is a matrix, but not the weight": "A large matrix of no linear layer would stay dense.",
    "nn.ModuleList": "It has no single list of equal decoder blocks.",
    "hidden states": "Its blocks exchange more than hidden states, or in another form.",
    "does not load": "transformers does not load it as a causal language model.",
    "": "A run on a few tokens fails, or stored tensors fit no parameter.",
}


def main() -> None:
    """Sweep all types and write the page."""
    rows = []
    for kind in TYPES:
        with tempfile.TemporaryDirectory() as place:
            rows.append(sweep_type(kind, Path(place)))
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        why = {"pruned": "", "not small": "We could not make a small model of it."}.get(row.outcome)
        if why is None:
            why = next(words for part, words in REASONS.items() if part in row.reason)
        groups[row.outcome, why].append(row.kind)
    page = HEAD.format(
        layers=LAYERS, regime=REGIME, pairs=len(token_pairs()), version=transformers.__version__,
        agreement=min(row.agreement for row in rows if row.outcome == "pruned"),
    )  # fmt: skip
    for outcome in ("pruned", "refused", "not small"):
        for (said, why), kinds in groups.items():
            if said == outcome:
                page += f"| {outcome} ({len(kinds)}) | {why} | {', '.join(sorted(kinds))} |\n"
    PAGE.write_text(page + END)


if __name__ == "__main__":
    main()
