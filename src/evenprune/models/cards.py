"""Model cards: the YAML that the Hugging Face hub reads at the head of a README.md, and the text.

The hub's own library writes and reads the YAML, so that what it would refuse is not written.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

CARD = "README.md"
USE = "Use"  # the heading of the section that says how a folder is loaded


def with_front_matter(data: "ModelCardData", body: str) -> str:
    """Return a card: the metadata as YAML between dashes, then the Markdown ``body``."""
    return f"---\n{data.to_yaml()}\n---\n\n{body.lstrip()}"


def split_card(text: str) -> tuple["ModelCardData", str]:
    """Return metadata and body of a card; a head that is no metadata counts as none."""
    from huggingface_hub import ModelCard, ModelCardData

    if not text.startswith("---"):
        return ModelCardData(), text
    try:
        card = ModelCard(text, ignore_metadata_errors=True)
    except Exception:  # YAML that does not parse, or is no mapping: the library raises either's own
        return ModelCardData(), re.sub(r"\A---\n.*?^---\n", "", text, flags=re.S | re.M)
    assert isinstance(card.data, ModelCardData)  # what a ModelCard holds
    return card.data, card.text


def metadata(**fields: Any) -> "ModelCardData":
    """Return the metadata of a causal language model for transformers; None leaves a field out."""
    from huggingface_hub import ModelCardData

    return ModelCardData(library_name="transformers", pipeline_tag="text-generation", **fields)


def without_section(body: str, heading: str) -> str:
    """Return Markdown without the section ``## heading``."""
    return re.sub(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", "", body, flags=re.S | re.M)
