"""What figures show, in words: apart from the drawing, so that a word redraws nothing."""

from ..plan.shown import FIGURES
from .captions import sizes
from .fields import Run


def figure_caption(run: Run, slug: str) -> str:
    """Return a figure's caption with items and seeds; ``tasks`` says whose items it shows."""
    entry, sheet = FIGURES[slug], run.sheet
    tasks = entry.get("tasks", ())
    names = [
        name
        for name, one in sheet.config.benchmarks.items()
        if "all" in tasks or (one.task in tasks and name == sheet.primary(one.task))
    ]
    seeds = {point.seed for point in sheet.files if point.calibration != "none"}
    world = "Measured in an invented world; not comparable to the paper."
    parts = [entry["caption"], world if sheet.config.source == "world" else ""]
    return " ".join(filter(None, [*parts, sizes(run, names, seeds) if tasks else ""]))
