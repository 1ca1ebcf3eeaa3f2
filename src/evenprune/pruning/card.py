"""The README.md of a pruned model folder, made from its manifest alone."""

import shlex
from pathlib import Path
from typing import Any

from ..config.facts import regime_facts
from ..io.pages import fill
from ..methods import description
from ..models.cards import USE, metadata, with_front_matter

# Part of this module's code, see codedigest.py.
DATA_FILES = ("card.md.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
TAGS = ("evenprune", "pruning", "sparsity")


def regime_text(slug: str) -> str:
    """Return in words which weights a regime zeroes; ``dense`` zeroes none."""
    regime = regime_facts(slug)
    if not regime.zeros:
        return "no new zeros, the changed weights as they are"
    if regime.structured:
        plural = "" if regime.zeros == 1 else "s"
        return f"{regime.zeros} zero{plural} in each aligned group of {regime.of} inputs"
    share = 100 * regime.zeros / regime.of
    return f"{share:g} % of the weights of each comparison group, unstructured"


def command(manifest: dict[str, Any]) -> str:
    """Return the command that prunes with a manifest's options; files have general names."""
    text = manifest["calibration"]
    words = ["evenprune", "prune", "--model", "BASE"]
    words += ["--pairs", "pairs.jsonl"] if text["pairs_sha256"] else []
    words += ["--texts", "texts.jsonl"] if text["texts_sha256"] else []
    given = {"method": manifest["method"], "regime": manifest["regime"], **manifest["options"]}
    for name, value in sorted(given.items()):
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--out", "DIR"])


def model_card(manifest: dict[str, Any]) -> str:
    """Return the card: YAML for the hub, then Markdown. Same manifest, same text.

    What the manifest does not know (the base model's place on the hub, data sets) is left out.
    """
    base, calibration = manifest["base"], manifest["calibration"]
    data = metadata(
        base_model=base.get("hub"),
        base_model_relation="finetune" if base.get("hub") else None,
        datasets=list(calibration.get("datasets", ())) or None,
        tags=[*TAGS, manifest["regime"], manifest["method"]],
    )
    body = fill(
        TEMPLATE,
        {
            "manifest": manifest,
            # A manifest has another order in memory than in its file.
            "options": sorted(manifest["options"].items()),
            "files": sorted(base["files"].items()),
            "calibration": calibration,
            "description": description(manifest["method"]),
            "regime": regime_text(manifest["regime"]),
            "command": command(manifest),
            "use": USE,
        },
    )
    return with_front_matter(data, body)
