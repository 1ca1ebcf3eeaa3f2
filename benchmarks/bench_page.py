"""How long the page takes to open with as many items of UnQover as it holds, and to filter them.

    python benchmarks/bench_page.py [ITEMS]

Items and answers of two checkpoints are made up, with texts as long as UnQover's. Prints the size
of the page and milliseconds in a headless Chromium, the median of five openings; needs one.
"""

import random
import statistics
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "tests/support"))

from browser import opened  # noqa: E402

from evenprune.plan.grids import Checkpoint  # noqa: E402
from evenprune.reporting.document import Document  # noqa: E402
from evenprune.reporting.item_texts import ItemText, prompt_of  # noqa: E402
from evenprune.reporting.make_items import MEGABYTES, fitted, joined  # noqa: E402
from evenprune.reporting.make_page import page_text  # noqa: E402

ITEMS = 40_008
OPENINGS = 5
POINTS = (
    Checkpoint("model", "dense", "dense", "none", 0),
    Checkpoint("model", "debias-sparsegpt", "2of4", "ss", 0),
)
WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in ("ar", "el", "on", "u") for c in ("en", "is", "o")]


def made_up(count: int) -> dict:
    """Return items as long as UnQover's with random answers of two checkpoints."""
    drawn = random.Random(0)
    texts, rows = {}, [[], []]
    for k in range(count):
        context, question = (" ".join(drawn.choices(WORDS, k=n)) for n in (14, 6))
        texts[str(k)] = ItemText((context, question), (*drawn.sample(WORDS, 2), "Unknown"))
        category = drawn.choice(["religion", "country", "ethnicity", "mixedgender"])
        for mine in rows:
            scores = [-drawn.uniform(0, 9) for _ in range(3)]
            head = {"item_id": str(k), "category": category, "gold": 2, "unknown_idx": 2}
            mine.append({**head, "option_logprobs": scores, "pred": scores.index(max(scores))})
    prompt, candidates = prompt_of("unqover", "fairsteer")
    about = {"benchmark": "unqover", "task": "unqover", "chat": False, "prompt": prompt}
    about |= {"fields": ["Context", "Question"], "candidates": candidates}
    return joined(about, texts, zip(POINTS, rows, strict=True))


def page_of(items: dict) -> str:
    """Return a page with these items and nothing else."""
    (one,) = fitted([items], MEGABYTES * 1e6)
    one |= {"key": "unqover", "label": "UnQover", "note": "Made up.", "harshest": ""}
    for point, answers in zip(POINTS, one["answers"], strict=True):
        answers |= {"label": point.method, "point": point.key, "dense": point.is_base}
    return page_text(Document("Made up", (), (), (), ()), Path(), Path(), [one])


TIMES = {
    "open": "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd",
    "all items": """(() => {
        const start = performance.now(), kind = document.getElementById('items-kind');
        kind.value = 'all';
        kind.dispatchEvent(new Event('change'));
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
