"""All tables, figures and items of a run as one page of HTML that needs no other file.

The page begins with what pruning did to each model. Its tables, the items among them, are
DataTables, whose files are in the package itables and are copied into the page: it opens without a
network, and its security policy lets only its own two scripts run. Equal inputs give equal bytes.
"""

import base64
import hashlib
import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..analysis.claims import NOT_TESTED
from ..analysis.labels import benchmark_label, point_label
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS
from ..io.checksums import read_sealed
from ..io.errors import UserError
from ..io.files import canonical_json
from ..io.pages import fill
from ..io.reading import expected_form
from .document import HEADS, SUBTITLE, Document
from .forms import STYLE

# Part of this module's code, see codedigest.py.
DATA_FILES = ("paper.html.j2", "page.js")
TEMPLATE, SCRIPT = (Path(__file__).with_name(name) for name in DATA_FILES)
FIRST = "answer"  # the figure below the answer
OPEN = ("Main Results", "Sparsity Regimes")  # all other sections are folded


def library() -> tuple[str, str]:
    """Return DataTables' script and style sheet, as they may stand within HTML.

    Raises UserError where the package that has them is not installed.
    """
    spec = importlib.util.find_spec("itables")  # importing it would load IPython
    if spec is None or spec.origin is None:
        raise UserError(
            "the page needs the Python package itables, which has DataTables, found none; "
            "run make env, or install it with pip"
        )
    folder = Path(spec.origin).parent / "html"
    script, style = (
        (folder / f"dt_bundle.{suffix}").read_text(encoding="utf-8") for suffix in ("js", "css")
    )
    return script.replace("</script", "<\\/script").replace("<!--", "\\x3C!--"), style


def page_text(
    content: Document, tables: Mapping[str, str], figures: Mapping[str, bytes],
    items: Iterable[dict[str, Any]] = (),
) -> str:  # fmt: skip
    """Return the page of tables, as pieces of HTML, and figures, as SVG, by their names."""
    library_script, library_style = library()
    scripts = [library_script, SCRIPT.read_text(encoding="utf-8")]
    hashes = [hashlib.sha256(one.encode()).digest() for one in scripts]
    sections: dict[str, list[dict[str, Any]]] = {"": []}  # "" is what the page begins with
    for piece in content.pieces:
        body = tables.get(piece.slug, "")
        if piece.kind == "figure":
            body = base64.b64encode(figures[piece.slug]).decode()
        place = "" if (piece.kind, piece.slug) == ("figure", FIRST) else piece.section
        sections.setdefault(place, []).append({**asdict(piece), "body": body})
    values = {
        "content": content,
        "subtitle": SUBTITLE,
        # Without the paper's claims the bottom line is the answer again.
        "claims": content.bottom if any(one.slug == "claims" for one in content.pieces) else (),
        "not_tested": HEADS[NOT_TESTED],
        "first": sections.pop(""),
        "sections": dict(sorted(sections.items(), key=lambda one: one[0] not in OPEN)),
        "open": OPEN,
        "printed": any('class="printed"' in body for body in tables.values()),
        # No text of an item ends the script that it stands in.
        "items": [canonical_json(one).replace("<", "\\u003c") for one in items],
        "style": library_style + STYLE.read_text(encoding="utf-8"),
        "scripts": scripts,
        "policy": " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes),
    }
    return fill(TEMPLATE, values)


# The items in words


def read_items(path: Path, sheet: RunSheet) -> list[dict[str, Any]]:
    """Return what ``make-items`` wrote, in the words of a run: a set a benchmark.

    The first one shows a stereotyped answer of the pruned model that changed the most answers,
    where there is one. Raises UserError for a file of another form.
    """
    with expected_form("items that make-items wrote", path, "run make-items again"):
        content = read_sealed(path, "run make-items again")
        several, flips = Counter(one["benchmark"] for one in content["sets"]), Counter[str]()
        sets = [
            _worded(sheet, one, content["seed"], several[one["benchmark"]] > 1)
            for one in content["sets"]
        ]
        for one in sets:
            flips.update({each["point"]: each["flips"] for each in one["answers"]})
        harshest = max(flips, key=lambda point: flips[point], default="")
        for one in sets:
            changed = [each["flips"] for each in one["answers"] if each["point"] == harshest]
            one |= {"harshest": harshest, "flipped": any(changed)}
        return sorted(
            sets,
            key=lambda one: (not one["stereotypes"], not one["flipped"], one["task"] != "unqover"),
        )


def _worded(sheet: RunSheet, one: Mapping[str, Any], seed: int, several: bool) -> dict[str, Any]:
    """Return a set of items with labels and a note; ``several``: its benchmark has several sets."""
    slug = one["benchmark"]
    way = ", ".join(filter(None, [one["split"], one["style"], "chat" if one["chat"] else ""]))
    named = [item[6] for item in one["items"]]
    answers = []
    for each in one["answers"]:
        point = Checkpoint(*(each[field.name] for field in fields(Checkpoint)))
        named += each.get("leans", [])
        label = point_label(sheet, point) + (f", seed {point.seed}" if point.seed else "")
        answers.append({**each, "point": point.key, "label": label, "dense": point.is_base})
    return {
        **one,
        "key": f"{slug}-{way}" if several else slug,
        "label": benchmark_label(sheet, slug) + (f" ({way})" if several else ""),
        "stereotypes": any(option is not None for option in named),
        "note": note(one, seed),
        "answers": answers,
    }


def note(one: Mapping[str, Any], seed: int) -> str:
    """Return how many items of a set there are, whether they are a sample, what is stereotyped."""
    shown = len(one["items"])
    text = f"{one['of']:,} items; pruning changes the answer to {one['changed']:,} of them."
    if shown < one["of"]:
        text += (
            f" This page holds {shown:,}, a sample with seed {seed} that takes changed items "
            "first: its shares are not those of the benchmark. All are in items.jsonl."
        )
    return f"{text} {FACTS[one['task']].named}".strip()
