"""What config.json and tokenizer.json must not say, whatever transformers would make of it."""

from pathlib import Path
from typing import Any

from ..io.errors import UserError, shown
from ..io.reading import read_json

# Keys of config.json that have transformers read other files than those that a result names.
REDIRECTS = ("transformers_weights", "configuration_files")
# What the names of sizes end in -> what no model exceeds; a name is made of each label.
SIZES = {"n_positions": 10**5, "n_ctx": 10**5, "num_labels": 10**4}
SIZES |= dict.fromkeys(("_dim", "_size", "_heads", "n_embd", "n_inner", "n_head"), 10**7)
MOST_GROWTH = 10_000


def check_config(path: Path, raw: dict[str, Any]) -> None:
    """Raise UserError for keys that lead to other files, and for sizes that no model has."""
    kernels = [f"{prefix}attn_implementation" for prefix in ("", "_")]
    found = [key for key in REDIRECTS if key in raw]
    found += [key for key in kernels if "/" in str(raw.get(key))]
    if found:
        raise UserError(
            f"{path} has transformers read files of other folders ({found[0]}); remove that key"
        )
    parts = [raw, *(part for part in raw.values() if isinstance(part, dict))]
    for name, value in ((name, value) for part in parts for name, value in part.items()):
        most = next((most for end, most in SIZES.items() if name.endswith(end)), None)
        if most and type(value) in (int, float) and value > most:
            raise UserError(
                f"{path} has {shown(value)} for {name}, expected at most {most:,}; fetch it again"
            )


def check_tokenizer(path: Path) -> None:
    """Raise UserError for a tokenizer that draws at random, or that multiplies a text."""
    raw = read_json(path, finite=False)
    model = raw.get("model")
    if isinstance(model, dict) and model.get("dropout"):
        raise UserError(
            f"{path} leaves merges out at random (dropout {shown(model['dropout'])}), so that no "
            "result could be had again; set it to null"
        )
    growth, parts = 1, [raw.get("normalizer"), raw.get("decoder")]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += part.values()
            added = part.get("content", part.get("prepend"))
            growth *= max(1, len(added)) if isinstance(added, str) else 1
        elif isinstance(part, list):
            parts += part
    if growth > MOST_GROWTH:
        raise UserError(
            f"the normalizer or decoder of {path} can make a text more than {MOST_GROWTH:,} times "
            "as long; fetch the model again"
        )
