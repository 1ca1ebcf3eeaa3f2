"""The document of a run: what its pages look like, what it says, and where its numbers lead."""

import itertools
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from html import unescape

import pytest
from reporting_run import FILES, options, run_of

from evenprune.analysis import claims
from evenprune.cli import main
from evenprune.io.pdf_programs import latex_available
from evenprune.reporting import document as documents
from evenprune.reporting.explain import find, parse
from evenprune.reporting.forms import latex_signs, to_latex
from evenprune.reporting.make_paper import latex_text, typeset
from evenprune.reporting.make_tables import build_table
from evenprune.reporting.tables import Cell, Column, Row, Table

needs_latex = pytest.mark.skipif(not latex_available(), reason="no latexmk and pdflatex")

OVERFULL = 5.0  # points that a line may stand out
CELL = re.compile(r'<tr[^>]*data-point="([^"]*)"|data-cell="([^"]*)" title="([^"]*)"')


@pytest.fixture(scope="module")
def root(world):
    """The run of the invented world, with its page."""
    return world[0]


@pytest.fixture(scope="module")
def run(root):
    return run_of(root)


def overfull(folder):
    """Return by how many points a line stands out at most."""
    log = (folder / "paper.log").read_text(errors="replace")
    found = re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide", log)
    return max(map(float, found), default=0.0)


# Pages


@needs_latex
def test_the_pdf_is_the_same_again_and_no_line_of_it_stands_out(root, run, tmp_path):
    for kind in ("tables", "figures"):
        shutil.copytree(root / kind, tmp_path / kind)
    text = latex_text(documents.document(run))
    assert text.index("Bottom line") < text.index("What was run")
    (tmp_path / "paper.tex").write_text(text)
    pdf = typeset(tmp_path)
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert overfull(tmp_path) <= OVERFULL
    assert "undefined" not in (tmp_path / "paper.log").read_text(errors="replace")
    assert main(["make-paper", *options(root, *FILES), "--out", str(tmp_path / "again.pdf")]) == 0
    assert (tmp_path / "again.pdf").read_bytes() == pdf


def test_without_any_program_one_sentence_says_what_to_install(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["make-paper", *options(root, *FILES), "--out", str(tmp_path / "none.pdf")]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in ("Debian", "Fedora", "latexmk"))
    assert not (tmp_path / "none.pdf").exists()


def test_each_cell_of_the_page_names_a_command_that_finds_it(root, run):
    built = {name: build_table(run, name) for name in run.sheet.config.tables}
    seen, point = Counter(), ""
    for started, cell, command in CELL.findall((root / "report/paper.html").read_text()):
        point = started or point
        if not cell:
            continue
        *head, name, _, path = shlex.split(unescape(command))
        assert (head, path) == (["evenprune", "explain"], f"{point}/{cell}")
        assert find(built[name], *parse(run, path))[1].value is not None
        seen[name] += 1
    assert {"main", "bbq", "masks", "efficiency"} <= {*seen}
    assert not re.search(r"−0\.0+\b", (root / "report/paper.html").read_text())
    assert seen.total() > 300


# What the document says


def test_tables_and_figures_stand_in_the_papers_order(run):
    config = run.sheet.config.model_copy(
        update={"tables": ["main", "methods"], "figures": ["motivation"]}
    )
    found = documents.document(replace(run, sheet=replace(run.sheet, config=config)))
    assert [one.slug for one in found.pieces] == ["methods", "motivation", "main"]


def test_the_document_names_what_was_run(run):
    found = documents.document(run)
    facts = dict(found.facts)
    assert (facts["Models"], "120 items" in facts["Benchmarks"]) == ("World-Llama.", True)
    assert not re.search(r"wikitext2|crows_pairs|debias-sparsegpt|u50", " ".join(facts.values()))
    captions = {piece.slug: piece.caption for piece in found.pieces if piece.kind == "figure"}
    assert "n = 120 (UnQover); calibration seed 0." in captions["motivation"]


def test_the_bottom_line_counts_every_claim(run, root):
    lines = documents.document(run).bottom
    found = claims.findings(run)
    head, text = lines[0]
    assert head == "Bottom line"
    assert text.startswith(f"Of {len(found)} claims of the paper, ")
    assert "not the numbers of the paper" in text
    # No claim stands anywhere without its verdict before it.
    for one in found:
        (head,) = [head for head, text in lines if one.claim.text.rstrip(".") in text]
        assert head == documents.HEADS[one.verdict]
    untested = sum(one.verdict == claims.NOT_TESTED for one in found)
    page = (root / "report/paper.html").read_text()
    assert f"<summary>Claims not tested here: {untested}</summary>" in page
    assert page.count("Not tested here") == untested


# Tables


@needs_latex
def test_no_table_is_wider_than_the_text_and_latex_knows_each_sign(tmp_path):
    tables = []
    labels = ("Short", "A long label of many words that goes on")
    for count, label, widths in itertools.product((1, 6, 12, 30), labels, ((), (0.2, 0.3))):
        columns = tuple(Column(f"c{k}", f"Head of column {k}", direction="up")
                        for k in range(count))  # fmt: skip
        cells = {column.key: Cell(1.0, "100.00 ± 10.00", bold=True) for column in columns}
        row = Row((label, label), cells, strong=0)
        table = Table("t", "Caption.", ("Model", "Data"), columns, (row,), widths=widths)
        tables.append(to_latex(table))
    content = documents.Document(" ".join(sorted(latex_signs())), [], [], [], [], [])
    text = latex_text(content).replace(r"\end{document}", "".join(tables) + r"\end{document}")
    (tmp_path / "paper.tex").write_text(text)
    typeset(tmp_path)
    assert overfull(tmp_path) <= OVERFULL
