"""How long the page takes with all 40,008 items of UnQover: to open, and until items are shown.

    python benchmarks/bench_page.py [ITEMS]

Items and answers of two checkpoints are made up, with texts as long as UnQover's. Prints the size
of the page and milliseconds in a headless Chromium, the median of five openings; needs one.
"""

import random
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "tests/support"))

from browser import opened  # noqa: E402

from evenprune.plan.grids import Checkpoint  # noqa: E402
from evenprune.reporting.document import Document  # noqa: E402
from evenprune.reporting.items.index import Items  # noqa: E402
from evenprune.reporting.items.join import Answers, ItemSet  # noqa: E402
from evenprune.reporting.items.pack import pack  # noqa: E402
from evenprune.reporting.items.prompts import prompt_of  # noqa: E402
from evenprune.reporting.items.texts import ItemText  # noqa: E402
from evenprune.reporting.make_page import page_text  # noqa: E402

ITEMS = 40_008
OPENINGS = 5
POINTS = (
    Checkpoint("model", "dense", "dense", "none", 0),
    Checkpoint("model", "debias-sparsegpt", "2of4", "ss", 0),
)
WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in ("ar", "el", "on", "u") for c in ("en", "is", "o")]


def made_up(count: int) -> ItemSet:
    """Return items as long as UnQover's with random answers of two checkpoints."""
    drawn = random.Random(0)
    items = ItemSet("unqover", "unqover", {"fields": ["Context", "Question"], "chat": False})
    items.about |= dict(zip(("prompt", "candidates"), prompt_of("unqover", "fairsteer")))
    for k in range(count):
        context, question = (" ".join(drawn.choices(WORDS, k=n)) for n in (14, 6))
        one, two = drawn.sample(WORDS, 2)
        items.ids.append(str(k))
        items.categories.append(drawn.choice(["religion", "country", "ethnicity", "mixedgender"]))
        items.texts.append(ItemText((context, f"{question}?"), (one, two, "Unknown")))
        items.gold.append(2)
        items.unknown.append(2)
        items.stereotyped.append(0b011)
    numbers = np.random.default_rng(0)
    for point in POINTS:
        logprobs = -numbers.integers(0, 9000, (count, 3), dtype=np.int32)
        items.answers.append(Answers(point, logprobs.argmax(axis=1).astype(np.int8), logprobs))
    return items


def page_of(items: ItemSet) -> str:
    """Return a page with these items and nothing else."""
    packed = pack([items], [None])
    one = packed.sets[0] | {"label": "UnQover", "note": "Made up.", "kinds": ["wrong", "biased"]}
    for point, answers in zip(POINTS, one["answers"], strict=True):
        named = {"label": point.method, "model_label": "Model", "point": "", "preferred": False}
        answers.update(named)
    empty = Document("Made up", (), (), (), (), ())
    return page_text(empty, Path(), Path(), Items({"sets": [one]}, packed.blocks))


TIMES = {
    "open": "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd",
    "items shown": """(async () => {
        const start = performance.now();
        document.getElementById('items').scrollIntoView();
        while (!document.getElementById('items-list').dataset.shown)
          await new Promise(requestAnimationFrame);
        return performance.now() - start;
      })()""",
    "first search": """(async () => {
        const start = performance.now(), list = document.getElementById('items-list');
        const before = list.dataset.shown, field = document.getElementById('items-search');
        field.value = 'baren dis';
        field.dispatchEvent(new Event('input'));
        while (list.dataset.shown === before) await new Promise(requestAnimationFrame);
        return performance.now() - start;
      })()""",
}


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ITEMS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page_of(made_up(count)), encoding="utf-8")
        print(f"{count:,} items, page {path.stat().st_size / 1e6:.1f} MB")
        found: dict[str, list[float]] = {name: [] for name in TIMES}
        for _ in range(OPENINGS):
            with opened(path) as page:
                for name, script in TIMES.items():
                    found[name].append(page.run(script))
                assert not page.errors, page.errors
        for name, times in found.items():
            print(f"{name}: {statistics.median(times):.0f} ms ({min(times):.0f}–{max(times):.0f})")


if __name__ == "__main__":
    main()
