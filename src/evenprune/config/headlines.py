"""What is said when a step has finished: its headline, read from what it wrote."""

from collections.abc import Callable
from pathlib import Path

from ..io.errors import UserError
from ..io.files import read_json
from .finished import SUMMARY


def headline(command: str, out: Path) -> str:
    """Return the headline of a step by its subcommand and output; "" where it has none."""
    say = SAYS.get(command)
    try:
        return say(out) if say else ""
    except (OSError, UserError, KeyError, TypeError, ValueError):
        return ""  # the step has finished; only its line is poorer


def _pruned(out: Path) -> str:
    return f"{read_json(out / 'manifest.json')['sparsity']:.2%} zeros"


def _checked(out: Path) -> str:
    found = read_json(out)
    return f"{found['sparsity']:.2%} zeros in {found['matrices']} matrices, as they should be"


def _rows(noun: str) -> Callable[[Path], str]:
    return lambda out: f"{len(out.read_text(encoding='utf-8').splitlines()) - 1} {noun}"


def _evaluated(out: Path) -> str:
    parts = []
    for slug, entry in read_json(out / SUMMARY)["benchmarks"].items():
        value = entry["metrics"][entry["headline"]]["value"]
        shown = "undefined" if value is None else f"{value:.4g}"
        parts.append(f"{slug} {entry['headline']} {shown}")
    return ", ".join(parts)


def _calibrated(out: Path) -> str:
    found = read_json(out / "manifest.json")
    return f"{found['pairs']['kept']} pairs, {found['texts']['kept']} texts"


SAYS: dict[str, Callable[[Path], str]] = {
    "build-calibration": _calibrated,
    "prune": _pruned,
    "check": _checked,
    "compare-masks": _rows("matrices compared"),
    "evaluate-checkpoint": _evaluated,
    "collect-results": _rows("values"),
}
