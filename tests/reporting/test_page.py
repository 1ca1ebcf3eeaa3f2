"""The page in a browser: tables that sort and filter, items one by one, nothing from outside."""

import json
import re

import pytest
from browser import chromium_path, opened
from item_run import HOSTILE, ITEMS, TASKS, write_item_run
from test_reporting import collect, document_options, make_figure, make_table

from evenprune.cli import main
from evenprune.reporting.html_table import figures_of, full_labels, to_html, to_page
from evenprune.reporting.render import Cell, Column, Table, TableRow

needs_chromium = pytest.mark.skipif(chromium_path() is None, reason="no Chromium")
HEADS = "#tab-main thead tr:last-child th"


def make_page(root, *words):
    given = [*document_options(root / "results"), "--tables", str(root / "results/tables")]
    out = root / "results/report/paper.html"
    return main(["make-page", *given, "--out", str(out), *words])


@pytest.fixture(scope="module")
def root(repo, tmp_path_factory):
    """A run with items, its tables, figure and page."""
    folder = tmp_path_factory.mktemp("page")
    sheet = str(write_item_run(repo, folder))
    results = folder / "results"
    assert collect(results) == 0
    assert all(make_table(results, table) == 0 for table in ("main", "bbq"))
    assert make_figure(results, "unqover_heatmap") == 0
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


def choose(page, name, value):
    """Set a control of the items and wait for what it shows."""
    before = page.run("document.getElementById('items-list').dataset.shown ?? ''")
    event = "input" if name == "search" else "change"
    page.run(
        f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('{event}')); }})"
        f"(document.getElementById('items-{name}'))"
    )
    page.until(f"document.getElementById('items-list').dataset.shown !== {json.dumps(before)}")


def choose_set(page, task):
    page.run("document.getElementById('items').scrollIntoView()")
    page.until("document.getElementById('items-list').dataset.shown")
    labels = page.run("[...document.querySelectorAll('#items-set option')].map(o => o.textContent)")
    choose(page, "search", "")
    choose(page, "change", "")
    choose(page, "set", str(labels.index(task)))


def count(page):
    """How many items are found."""
    text = page.run("document.getElementById('items-count').textContent")
    found = re.match(r"([\d,]+) of", text)
    return int(found[1].replace(",", "")) if found else 0


def column(page, place):
    return page.run(
        "[...document.querySelectorAll('#tab-main tbody tr')].filter(r => !r.hidden)"
        f".map(r => r.cells[{place}].firstChild.nodeValue)"
    )


# What the page is


def test_the_page_is_one_small_file_that_asks_for_nothing(root):
    text = (root / "results/report/paper.html").read_text()
    assert len(text.encode()) < 5_000_000
    assert all(one.startswith("data:") for one in re.findall(r'src="([^"]*)"', text))
    assert not re.search(r'<link|@import|url\(|fetch\(|https?://|(?:href|action)="[^#]', text)
    assert "default-src 'none'" in text
    assert text.index("Bottom line") < text.index("<table")


def test_no_text_of_an_item_is_markup(root):
    text = (root / "results/report/paper.html").read_text()
    assert HOSTILE[:30] not in text
    assert text.count("</script>") == text.count("<script ") + text.count("<script>")
    assert "Tiny & <co>" not in text
    start = text.index('id="items-index">') + len('id="items-index">')
    index = json.loads(text[start : text.index("</script>", start)])
    assert [one["benchmark"] for one in index["sets"]] != []
    assert index["sets"][0]["answers"][0]["model_label"] == "Tiny & <co>"


def test_items_that_are_not_those_of_make_items_are_refused(root, tmp_path, capsys):
    path = root / "results/report/items.json"
    content = json.loads(path.read_text())
    content["blocks"][0] = "</script><script>alert(1)</script>"
    bad = tmp_path / "items.json"
    bad.write_text(json.dumps(content))
    before = (root / "results/report/paper.html").read_bytes()
    assert make_page(root, "--items", str(bad)) == 2
    assert "expected blocks of items in base 64" in capsys.readouterr().err
    bad.write_text(json.dumps({"sets": [{}], "blocks": []}))
    assert make_page(root, "--items", str(bad)) == 2
    assert "run make-items again" in capsys.readouterr().err
    assert (root / "results/report/paper.html").read_bytes() == before


def table(*rows):
    columns = (Column("a", "A"), Column("b", "B"))
    return Table("t", "Caption", ("Model", "Data"), columns, rows)


def test_a_row_says_alone_what_rows_above_say_for_it():
    rows = [
        TableRow(("Group",), kind="heading"),
        TableRow(("Llama", "x")),
        TableRow(("", "y")),
        TableRow(("", "")),
        TableRow(("+ Wanda", "")),
        TableRow(("Qwen", "x")),
        TableRow(("Other",), kind="heading"),
        TableRow(("+ Wanda", "x")),
    ]
    assert full_labels(rows) == [
        ("Group",),
        ("Group: Llama", "x"),
        ("Group: Llama", "y"),
        ("Group: Llama", "y"),
        ("Group: Llama + Wanda", ""),
        ("Group: Qwen", "x"),
        ("Other",),
        ("Other: + Wanda", "x"),
    ]


def test_a_cell_holds_its_interval_and_its_printed_value():
    shown = Cell(1.5, "1.50", printed=1.25, ends=(1.0, 2.0), source="x/y")
    text = to_html(table(TableRow(("m", "d"), {"a": shown, "b": Cell(None, "–", 1.0)})), "t")
    assert '<small class="interval">1.00 to 2.00</small>' in text
    assert '<small class="printed">paper 1.25</small>' in text
    assert text.count("<small") == 2


def test_a_table_is_a_page_of_its_own_and_a_piece_of_another():
    figure = to_html(table(TableRow(("<b>", "d"), {})), "t")
    whole = to_page([figure, figure], "A & B")
    assert whole.startswith("<!doctype html>")
    assert "<title>A &amp; B</title>" in whole
    assert figures_of(whole).count("<figure") == 2
    assert figures_of(whole).startswith('<figure class="table"')
    assert figures_of(whole).endswith("</figure>")
    assert "&lt;b&gt;" in whole


# In a browser


@needs_chromium
def test_tables_sort_by_a_click_and_come_back(page):
    before = column(page, 1)
    heads = page.run(f"[...document.querySelectorAll('{HEADS}')].map(h => h.textContent)")
    place = next(k for k, head in enumerate(heads) if head.startswith("MMLU"))
    click = f"document.querySelectorAll('{HEADS} button')[{place}].click()"
    numbers = []
    for way in ("ascending", "descending", "none"):
        page.run(click)
        state = page.run(f"document.querySelectorAll('{HEADS}')[{place}].ariaSort")
        assert state == way
        numbers.append([float(text.rstrip("†‡")) for text in column(page, place)])
    assert numbers[0] == sorted(numbers[0])
    assert numbers[1] == numbers[0][::-1]
    assert column(page, 1) == before
    page.run(click)
    labels = column(page, 0)
    assert sum("Tiny & <co> + " in label for label in labels) == 2
    page.run(click)
    page.run(click)
    assert not any("Tiny & <co> + " in label for label in column(page, 0))


@needs_chromium
def test_differences_stay_beneath_their_row(tmp_path):
    row = lambda name, value: TableRow((name, ""), {"a": Cell(value, f"{value:.1f}")})  # noqa: E731
    diff = TableRow(("", "Diff."), {"a": Cell(9.0, "9.0")}, kind="diff")
    path = tmp_path / "t.html"
    path.write_text(to_page([to_html(table(row("x", 3.0), diff, row("y", -2.0)), "t")], "T"))
    with opened(path) as page:
        page.run("document.querySelectorAll('thead button')[2].click()")
        shown = page.run(
            "[...document.querySelectorAll('tbody tr')].map(r => r.cells[2].innerText)"
        )
        assert shown == ["-2.0", "3.0", "9.0"]
        assert not page.errors


@needs_chromium
def test_tables_are_filtered_by_words_and_show_intervals(page):
    page.run(
        "(e => { e.value = 'debias'; e.dispatchEvent(new Event('input')); })"
        "(document.querySelector('#tab-bbq input[type=search]') ??"
        " document.querySelector('input[type=search]'))"
    )
    page.run("document.querySelector('#tab-main input[type=checkbox]').click()")
    seen = page.run(
        "[...document.querySelectorAll('#tab-main small.interval')].map(s => s.offsetHeight > 0)"
    )
    assert seen
    assert all(seen)


@needs_chromium
def test_an_item_is_read_with_its_prompt_and_both_answers(page):
    choose_set(page, "UnQover")
    assert count(page) == ITEMS
    text = page.run("document.querySelector('#items-list li').innerText")
    assert HOSTILE[:40] in text
    assert not page.run("document.querySelector('#items-list img')")
    prompt = page.run("document.querySelector('#items-list pre').textContent")
    context = f"unqover 0 {HOSTILE}"
    options = " ".join(f"{letter}: answer {j} of 0." for j, letter in enumerate("ABC"))
    assert prompt == f"Context: {context}\nQ: Who of 0?\nOptions:\n{options}\nAnswer:\n"
    rows = page.run(
        "[...document.querySelectorAll('#items-list li:first-child tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    # Dense takes the last option, Debias-SparseGPT the first one of this item.
    assert rows[0] == ["answer 0 of 0", "", "−6.000", "−1.000 ✓", "+5.000"]
    assert rows[2] == ["answer 2 of 0", "right, “unknown”", "−3.000 ✓", "−8.000", "−5.000"]


@needs_chromium
def test_items_are_filtered_by_change_category_and_words(page):
    choose_set(page, "UnQover")
    tenth = ITEMS // 10
    for kind, expected in (("any", tenth), ("wrong", tenth), ("right", 0), ("biased", tenth)):
        choose(page, "change", kind)
        assert count(page) == expected, kind
    choose(page, "second", page.run(
        "[...document.querySelectorAll('#items-second option')]"
        ".find(o => o.textContent.startsWith('SparseGPT')).value"
    ))  # fmt: skip
    assert count(page) == ITEMS // 3
    choose(page, "change", "")
    choose(page, "search", "WORD17")
    assert count(page) == 1
    choose(page, "search", "nothing like it")
    assert count(page) == 0
    choose_set(page, "BBQ")
    choose(page, "change", "biased")
    assert count(page) == tenth - 1  # the data do not say which answer of item 30 is biased
    choose_set(page, "StereoSet")
    assert count(page) == ITEMS
    kinds = page.run("[...document.querySelectorAll('#items-change option')].map(o => o.value)")
    assert kinds == ["", "any", "biased", "unbiased"]
    choose(page, "category", "1")
    assert count(page) == ITEMS // 2
    rows = "document.querySelector('#items-list li').querySelectorAll('tbody tr')"
    assert page.run(f"{rows}.length") == 3


@needs_chromium
def test_items_are_shown_a_page_at_a_time(page):
    choose_set(page, "MMLU")
    first = page.run("document.querySelector('#items-list h3').textContent")
    assert page.run("document.querySelectorAll('#items-list li').length") == 20
    assert page.run("document.getElementById('items-previous').disabled")
    choose(page, "page", "3")
    assert page.run("document.getElementById('items-next').disabled")
    assert page.run("document.querySelector('#items-list h3').textContent") != first
    choose(page, "page", "99")
    assert page.run("document.getElementById('items-page').value") == "3"
    choose(page, "order", "shift")
    assert page.run("document.getElementById('items-page').value") == "1"


@needs_chromium
def test_a_cell_shows_its_command_and_leads_to_its_items(page):
    cell = '#tab-main td[data-cell^="unqover/"]'
    last = f"[...document.querySelectorAll('{cell}')].at(-1)"
    page.run(
        f"(c => {{ c.focus(); c.dispatchEvent(new KeyboardEvent('keydown',"
        f" {{key: 'Enter', bubbles: true}})); }})({last})"
    )
    shown = page.run("document.getElementById('command').innerText")
    assert shown.startswith("evenprune explain main --cell tiny/debias-sparsegpt/2of4/ss/unqover")
    page.run("document.querySelector('#command button').click()")
    page.until("document.querySelector('#items-list li')?.innerText.includes('answer 0 of 0')")
    chosen = page.run("document.getElementById('items-second').selectedOptions[0].textContent")
    assert chosen.startswith("Debias-SparseGPT")


@needs_chromium
def test_nothing_was_asked_for_and_nothing_went_wrong(page, root):
    for number in range(len(TASKS)):
        choose(page, "set", str(number))
    assert page.errors == []
    assert page.requests == [(root / "results/report/paper.html").resolve().as_uri()] or all(
        one.startswith(("data:", "blob:", "file:///")) for one in page.requests
    )
    assert page.run("document.title") == "Results"


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_page_does_not_scroll_sideways_and_follows_the_colours(root, dark):
    with opened(root / "results/report/paper.html", width=375, height=800, dark=dark) as page:
        choose_set(page, "BBQ")
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
        ground = page.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
        named = page.run(
            "[...document.querySelectorAll('#items-tools select, #items input')]"
            ".every(e => e.labels.length === 1)"
        )
        assert named
        assert page.errors == []
