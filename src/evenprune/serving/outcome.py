"""The output of a measurement: statistics over rounds and energy of each checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..io.codedigest import package_versions
from ..models.identity import Identity
from .energy import Reading
from .interleave import Record
from .measure import summarize


def energy_of(record: Record, device: str) -> dict[str, Any]:
    """Return what the energy of a record is made of, and how it was read."""
    fields = {name: value for name, value in record["generate"].items() if name != "calls"}
    reading = Reading(**fields)
    scope = reading.scope(device)
    return {
        "source": reading.source(scope),
        "scope": list(scope),
        "components": {
            name: {
                "source": reading.sources[name],
                "method": reading.methods[name],
                "watts": joules / reading.seconds,
            }
            for name, joules in reading.joules.items()
        },
        "tracker": {
            "name": "codecarbon offline",
            "version": package_versions("codecarbon")["codecarbon"],
        },
    }


def dense_name(models: Mapping[str, Identity]) -> str | None:
    """Return the name of the model that was pruned from none: what the others are compared with.

    None where there is no such model, or more than one.
    """
    found = [name for name, model in models.items() if model.base_sha256 is None]
    return found[0] if len(found) == 1 else None


def checkpoint_part(
    model: Identity,
    records: Sequence[Record],
    described: Mapping[str, Any],
    sizes: Sequence[int],
    device: str,
) -> dict[str, Any]:
    """Return what the output says of one checkpoint: digests, figures, kernel and energy.

    records: its own; described: of its engine.
    """
    categories = {}
    for size in sizes:
        rows = [one["figures"] for one in records if one["batch"] == size]
        categories[f"batch {size}"] = {
            name: summarize([row[name] for row in rows]) for name in rows[0]
        }
    return {
        **model.as_dict(),
        "headline": "decode_tok_per_s",
        "metrics": categories[f"batch {sizes[0]}"],
        "categories": categories,
        "backend": described,
        "energy": energy_of(records[-1], device),
    }
