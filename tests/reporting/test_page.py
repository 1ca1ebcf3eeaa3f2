"""The page in a browser: the answer first, tables that sort, items one by one, no request."""

import importlib.util
import json
import re
import shlex
from html import unescape
from urllib.parse import parse_qs

import pytest
from browser import needs_chromium, opened
from item_run import HOSTILE, ITEMS, TASKS, write_item_run
from reporting_run import collect, make_tables

from evenprune.cli import main
from evenprune.io.checksums import sealed
from evenprune.reporting.forms import to_html
from evenprune.reporting.tables import Cell, Column, Row, Table

HEADS = "#tab-main thead tr:last-child th"
SPARSE, DEBIAS = (f"tiny/{one}/2of4/ss/s0" for one in ("sparsegpt", "debias-sparsegpt"))


def make_page(root, *words):
    return make_tables(root / "results", *words)


@pytest.fixture(scope="module")
def root(repo, tmp_path_factory):
    """A run with items, its tables, figure and page."""
    folder = tmp_path_factory.mktemp("page")
    sheet = str(write_item_run(repo, folder))
    results = folder / "results"
    assert collect(results) == 0
    items = str(results / "report/items.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["make-items", "--run-sheet", sheet, "--out", items]) == 0
    assert make_page(folder, "--items", items) == 0
    return folder


@pytest.fixture(scope="module")
def page(root):
    """The page in a browser; a test leaves it as it likes."""
    with opened(root / "results/report/paper.html") as found:
        yield found


@pytest.fixture
def fresh(page, root):
    """The same page, as it opens: without a state in its address."""
    page.visit(root / "results/report/paper.html")
    return page


def choose(page, name, value):
    """Set one of the selects above the items."""
    page.run(
        f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})"
        f"(document.getElementById('items-{name}'))"
    )


def every(page, selector, what="textContent"):
    """The same property of all elements."""
    return page.run(f"[...document.querySelectorAll('{selector}')].map(one => one.{what})")


def counts(page, name):
    """The choices of a select, each with its number of items."""
    shown = [text.rstrip(")").rpartition(" (") for text in every(page, f"#items-{name} option")]
    return {text: int(number) for text, _, number in shown}


def cells(page, rows):
    return page.run(
        f"[...document.querySelectorAll('{rows}')].map(r => [...r.cells].map(c => c.textContent))"
    )


def column(page, place):
    return every(page, "#tab-main tbody tr", f"cells[{place}].firstChild.nodeValue")


def state(page):
    """What the address says."""
    found = parse_qs(page.run("location.hash").removeprefix("#"), keep_blank_values=True)
    return {name: value for name, (value,) in found.items()}


# What the page is


def test_the_page_is_one_small_file_that_asks_for_nothing(root):
    path = root / "results/report/paper.html"
    text = path.read_text()
    assert make_page(root, "--items", str(root / "results/report/items.json")) == 0
    assert path.read_text() == text
    assert len(text.encode()) < 5_000_000
    assert all(one.startswith("data:") for one in re.findall(r' src="([^"]*)"', text))
    ours = re.sub(r'<script type="module">.*?</script>|<style>.*?</style>', "", text, flags=re.S)
    assert not re.search(r'<link|@import|url\(|fetch\(|https?://|(?:href|action)="[^#]', ours)
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; ")
    assert policy.count("sha256-") == text.count('<script type="module">') == 2
    assert "script-src 'sha256-" in policy
    assert text.index('id="answer"') < text.index("<table") < text.index('id="items"')


def test_no_text_of_an_item_is_markup(root):
    text = (root / "results/report/paper.html").read_text()
    assert HOSTILE[:30] not in text
    assert "Tiny & <co>" not in text
    found = re.findall(r'<script type="application/json" class="items">(.*?)</script>', text)
    sets = {one["benchmark"]: one for one in map(json.loads, found)}
    assert set(sets) == set(TASKS)
    assert "Tiny & <co>" in sets["bbq"]["answers"][0]["label"]
    assert HOSTILE in sets["bbq"]["items"][0][2][0]


def test_items_of_another_form_are_refused(root, tmp_path, capsys):
    (tmp_path / "items.json").write_text(json.dumps(sealed({"sets": [{"benchmark": 1}]})))
    assert make_page(root, "--items", str(tmp_path / "items.json")) == 2
    assert "run make-items again" in capsys.readouterr().err


def test_without_the_package_of_the_library_one_sentence_says_so(root, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert make_page(root) == 2
    assert "needs the Python package itables" in capsys.readouterr().err


def table(*rows):
    return Table("t", "Caption", ("Model", "Data"), (Column("a", "A"), Column("b", "B")), rows)


def test_a_cell_holds_its_difference_interval_and_printed_value():
    shown = Cell(1.5, "1.50", printed=1.25, ends=(1.0, 2.0), source="x/y", change="+0.50*")
    text = to_html(table(Row(("m", "d"), {"a": shown, "b": Cell(None, "–", 1.0)})))
    assert '<small class="interval">1.00 to 2.00</small>' in text
    assert '<small class="printed">paper 1.25</small>' in text
    assert '1.50<small class="change">+0.50*</small>' in text
    assert text.count("<small") == 3


def test_a_command_that_is_copied_runs_nothing_from_a_name():
    """Categories are words of data files, which are other people's."""
    source = 'x/acc/$(touch gone) \x1b[2J"><script>'
    identity = {"model": "m", "method": "dense", "regime": "dense", "calibration": "none"}
    row = Row(("m", "d"), {"a": Cell(1.0, "1", source=source)}, identity)
    text = to_html(table(row))
    command = unescape(re.search(r'title="([^"]*)"', text)[1])
    assert shlex.split(command)[-1].startswith("m/dense/dense/none/x/acc/$(touch gone) ")
    assert "'m/dense/dense/none/x/acc/$(touch gone) " in command
    assert "<script>" not in text
    assert "\x1b" not in text


# In a browser


@needs_chromium
def test_the_first_screen_holds_the_verdicts_and_the_page_is_short(fresh):
    shown = fresh.run(
        "[...document.querySelectorAll('#answer article')].filter(one =>"
        " one.getBoundingClientRect().top < innerHeight).map(one => one.innerText)"
    )
    assert len(shown) == 2
    assert all("Tiny & <co>, " in one and re.search("Verdict|Undecided", one) for one in shown)
    said = every(fresh, ".summary", "innerText")
    assert [one.partition(":")[0] for one in said] == ["Ability", "Bias"]
    assert fresh.run("document.documentElement.scrollHeight") < 8000

    links = every(fresh, "body > nav a", "hash")
    assert links[0] == "#answer"
    assert all(fresh.run(f"Boolean(document.querySelector('{one}'))") for one in links)
    fold = "document.querySelector('#run').closest('details').open"
    assert not fresh.run(fold)
    fresh.run("document.querySelector('a[href=\"#run\"]').click()")
    fresh.until(fold)


@needs_chromium
def test_a_first_click_sorts_the_best_on_top(page):
    before = column(page, 1)
    heads = every(page, HEADS)
    for name, key in (("UnQover", lambda x: -x), ("CP", lambda x: abs(x - 50))):
        place = next(k for k, head in enumerate(heads) if head.startswith(name))
        click = f"document.querySelectorAll('{HEADS}')[{place}].click()"
        page.run(click)
        numbers = [float(text.rstrip("†‡")) for text in column(page, place)]
        assert len(set(numbers)) > 1
        assert numbers == sorted(numbers, key=key)
        page.run(click)
        numbers = [float(text.rstrip("†‡")) for text in column(page, place)]
        assert numbers == sorted(numbers, key=key, reverse=True)
        page.run(click)
        assert column(page, 1) == before
    assert sum("Tiny & <co> + " in label for label in column(page, 0)) == 2


def test_a_row_without_a_value_comes_last(tmp_path):
    columns = (Column("a", "A", direction="up"), Column("b", "B", direction="down"))
    cells = [{}, {"a": Cell(1.0, "1")}, {"a": Cell(2.0, "2"), "b": Cell(3.0, "3")}]
    table = Table("t", "C", ("M",), columns, tuple(Row((f"r{k}",), c)
                  for k, c in enumerate(cells)))  # fmt: skip
    found = re.findall(r'data-order="([^"]*)"', to_html(table))
    assert found == ["-1e+300", "1e+300", "1.0", "1e+300", "2.0", "3.0"]


@needs_chromium
def test_a_box_shows_the_intervals(page):
    assert not any(every(page, "#tab-main .interval", "offsetHeight"))
    page.run("document.getElementById('show-intervals').click()")
    assert min(every(page, "#tab-main .interval", "offsetHeight")) > 0


@needs_chromium
def test_a_flip_of_the_harshest_model_is_there_at_once(fresh):
    shown = fresh.run("document.getElementById('item').innerText")
    assert "other → stereotyped" in shown
    point = "document.getElementById('items-point').selectedOptions[0].textContent"
    assert ", SparseGPT, 2:4" in fresh.run(point)  # it changed a third of the answers, not a tenth
    assert "set=" not in fresh.run("location.hash")
    fresh.run("document.querySelector('a[href=\"#items\"]').click()")
    fresh.until("document.getElementById('item').getBoundingClientRect().top < innerHeight")


@needs_chromium
def test_an_item_is_read_with_both_answers(page):
    choose(page, "set", "unqover")
    choose(page, "kind", "all")
    assert counts(page, "kind")["all items"] == ITEMS
    page.run(f"location.hash = 'set=unqover&kind=all&item=0&point={DEBIAS}'")
    page.until("document.querySelector('#item h3').textContent.startsWith('0 ')")
    assert HOSTILE[:40] in page.run("document.getElementById('item').innerText")
    assert not page.run("document.querySelector('#items img')")
    # Dense takes the last option, Debias-SparseGPT the first one of this item.
    rows = cells(page, "#item tbody tr")
    assert rows[0] == ["answer 0 of 0", "", "4.7 %", "-6.000", "99.7 % ✓", "-1.000", "5.000"]
    assert rows[2][:4] == ["answer 2 of 0", "right, “unknown”", "93.6 % ✓", "-3.000"]
    page.run(f"location.hash = 'set=unqover&kind=all&item=7&point={DEBIAS}'")
    page.until("document.querySelector('#item h3').textContent.startsWith('7 ')")
    assert "✓ near tie" in cells(page, "#item tbody tr")[2][2]


@needs_chromium
def test_items_are_filtered_by_change_category_and_words(page, root):
    tenth = ITEMS // 10
    page.run(f"location.hash = 'set=unqover&point={DEBIAS}'")
    page.until("document.getElementById('items-set').value === 'unqover'")
    assert counts(page, "kind") == {
        "right → wrong": tenth, "another answer": tenth, "all items": ITEMS,
    }  # fmt: skip
    choose(page, "point", SPARSE)
    assert counts(page, "kind")["right → wrong"] == ITEMS // 3
    choose(page, "kind", "all")
    info = "document.querySelector('#items .dt-info').textContent"
    for words, expected in (("WORD17", "1 to 1 of 1 "), ("nothing like it", "0 to 0 of 0 ")):
        page.run(
            f"(e => {{ e.value = '{words}';"
            " e.dispatchEvent(new Event('input', {bubbles: true})); })"
            "(document.querySelector('#items .dt-search input'))"
        )
        page.until(f"{info}.includes('{expected}')")
        shown = "17 · religion" if "17" in words else "No item fits."
        page.until(f"document.getElementById('item').innerText.startsWith('{shown}')")
    assert state(page)["q"] == "nothing like it"
    with opened(root / "results/report/paper.html", address=page.run("location.hash")) as other:
        assert other.run("document.getElementById('item').innerText") == "No item fits."
        assert other.errors == []
    # Of BBQ's item 30 the data do not say which answer is biased.
    page.run(f"location.hash = 'set=bbq&kind=biased&point={DEBIAS}'")
    page.until("document.getElementById('items-set').value === 'bbq'")
    assert counts(page, "kind")["other → stereotyped"] == tenth - 1
    choose(page, "set", "stereoset")
    choose(page, "kind", "all")
    choose(page, "category", "race")
    page.until(f"{info}.includes('of {ITEMS // 2} ')")
    assert len(cells(page, "#item tbody tr")) == 3
    assert {row[1] for row in cells(page, "#items-table tbody tr")} == {"race"}


@needs_chromium
def test_arrows_lead_on_and_the_address_keeps_what_is_seen(page, root):
    page.run(f"location.hash = 'set=crows_pairs&kind=any&point={SPARSE}'")
    page.until("document.getElementById('items-set').value === 'crows_pairs'")
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
    seen = [state(page).get("item", "")]
    for _ in range(12):  # over the end of the first page of ten
        page.run(press % "ArrowRight")
        seen.append(state(page)["item"])
    assert len(set(seen)) == 13
    page.run(press % "ArrowLeft")
    assert state(page)["item"] == seen[-2]
    address = page.run("location.hash")
    with opened(root / "results/report/paper.html", address=address) as other:
        assert state(other) == state(page)
        assert other.run("document.querySelector('#item h3').textContent").startswith(seen[-2])
        assert seen[-2] in other.run("document.querySelector('#items-table .picked').innerText")


@needs_chromium
def test_a_cell_shows_its_command_and_leads_to_its_items(page):
    page.run("[...document.querySelectorAll('#tab-main td[data-cell^=\"bbq/\"]')].at(-1).click()")
    shown = page.run("document.getElementById('command').innerText")
    assert shown.startswith("evenprune explain main --cell tiny/")
    page.run("document.querySelector('#command button').click()")
    assert state(page)["set"] == "bbq"
    assert f"--cell {state(page)['point'].removesuffix('/s0')}/bbq" in shown


@needs_chromium
def test_nothing_was_asked_for_and_nothing_went_wrong(page):
    for task in TASKS:
        choose(page, "set", task)
    assert page.errors == []
    assert all(one.startswith(("data:", "blob:", "file:///")) for one in page.requests)
    assert page.run("document.title") == "Results"


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_page_does_not_scroll_sideways_and_follows_the_colours(root, dark):
    look = {"viewport": {"width": 375, "height": 800}, "color_scheme": "dark" if dark else "light"}
    with opened(root / "results/report/paper.html", **look) as page:
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
        ground = page.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
        look = page.run("getComputedStyle(document.querySelector('figure.figure img')).filter")
        assert ("invert" in look) == dark
        place = page.run("getComputedStyle(document.querySelector('#tab-main td')).position")
        assert place == "sticky"
        assert page.run(
            "[...document.querySelectorAll('#items-tools select')].every(e => e.labels.length)"
        )
        assert page.errors == []
