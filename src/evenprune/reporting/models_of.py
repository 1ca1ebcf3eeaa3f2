"""The models of a run in the order of the tables that list them."""

from .fields import Run


def models_by_kind(run: Run) -> dict[bool | None, list[str]]:
    """Return the models of the experiments: instruction-tuned, base, and of unknown kind.

    Each list has the order of the experiments; a kind without models is left out.
    """
    points = [point for grid in run.sheet.experiments.values() for point in grid]
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for name in dict.fromkeys(point.model for point in points):
        found[run.sheet.config.models[name].instruction_tuned].append(name)
    return {kind: names for kind, names in found.items() if names}


def yes_no(fact: bool | None) -> str:
    """Return a fact as a sign: ✓, × or – where it is not known."""
    return "–" if fact is None else "✓" if fact else "×"
