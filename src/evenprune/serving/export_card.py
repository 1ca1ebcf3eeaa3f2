"""The README.md of a 2:4 export: what it is, what loads it, and the card of its checkpoint."""

from collections.abc import Mapping
from pathlib import Path

from ..io.pages import fill
from ..models.cards import CARD, USE, metadata, split_card, with_front_matter, without_section

# Part of this module's code, see codedigest.py.
DATA_FILES = ("export_card.md.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
TAGS = ("2of4", "sparse24")


def export_card(source: Path, layers: int, sizes: Mapping[str, int], model_sha256: str) -> str:
    """Return the card's Markdown; ``source`` is the checkpoint that was compressed.

    layers: compressed linear layers; sizes: their bytes, ``dense`` and ``sparse24``. What the
    checkpoint's own card says follows, but for how that folder is loaded.
    """
    text = source.joinpath(CARD).read_text("utf-8", "replace") if (source / CARD).is_file() else ""
    found, body = split_card(text)
    kept = found.to_dict()
    for name in ("library_name", "pipeline_tag", "model-index"):
        kept.pop(name, None)
    kept["tags"] = [*(kept.get("tags") or ()), *TAGS]
    if "base_model" in kept:
        kept["base_model_relation"] = "quantized"
    _, _, rest = body.lstrip().partition("\n") if body.lstrip().startswith("# ") else ("", "", body)
    values = {
        "layers": layers,
        "sizes": sizes,
        "model_sha256": model_sha256,
        "checkpoint": without_section(rest, USE).strip(),
        "use": USE,
    }
    return with_front_matter(metadata(**kept), fill(TEMPLATE, values))
