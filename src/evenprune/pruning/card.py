"""The README.md of a pruned model folder, made from its manifest alone."""

from typing import Any

METHOD_TEXT = {
    "magnitude": "the smallest weights by absolute value, no weight update",
    "wanda": "the smallest weights by |w| times the norm of their input, no weight update",
    "sparsegpt": "SparseGPT: second-order scores and weight update",
    "debias-sparsegpt": "Debias-SparseGPT: SparseGPT on a Hessian with a term for the difference "
    "between the two sentences of a pair",
}
REGIME_TEXT = {
    "u25": "25 % of the weights of each comparison group, unstructured",
    "u50": "50 % of the weights of each comparison group, unstructured",
    "1of4": "1 zero in each aligned group of 4 inputs",
    "2of4": "2 zeros in each aligned group of 4 inputs",
}


def model_card(manifest: dict[str, Any]) -> str:
    """Return the card's Markdown. Same manifest, same text."""
    calibration = manifest["calibration"]
    options = [
        f"- {name}: {value}" for name, value in manifest["options"].items() if value is not None
    ]
    base = [f"- `{name}` sha256 `{value}`" for name, value in manifest["base"]["files"].items()]
    lines = [
        "# Pruned causal language model",
        "",
        f"Method: `{manifest['method']}`: {METHOD_TEXT[manifest['method']]}.",
        f"Regime: `{manifest['regime']}`: {REGIME_TEXT[manifest['regime']]}.",
        f"Zeros in the pruned matrices: {manifest['sparsity']:.4%}.",
        f"Calibration: {calibration['pairs_kept']} sentence pairs "
        f"({calibration['pairs_dropped']} dropped), {calibration['tokens']['pairs']} tokens in "
        f"pairs, {calibration['tokens']['texts']} in unpaired texts.",
        "",
        "Only the linear layers inside the decoder blocks were pruned; every other tensor is equal",
        "to the base model's byte for byte. The weights are ordinary dense tensors with zeros.",
        "Licence and terms of the base model apply. Pruning can change what a model knows and",
        "whom it treats unfairly: evaluate before use.",
        "",
        "## Options",
        "",
        *options,
        "",
        "## Base model",
        "",
        *base,
        "",
    ]
    return "\n".join(lines)
