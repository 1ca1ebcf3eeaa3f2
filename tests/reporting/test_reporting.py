"""From made-up metrics folders to results, tables, figures and the PDF, through the commands."""

import re

import closed_forms
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting_run import (
    FILES,
    collect,
    make_table,
    make_tables,
    options,
    prepare,
    read_csv,
    seal,
    small_config,
    write_run,
)
from scipy import stats as scipy_stats

from evenprune.cli import main
from evenprune.io import pdf_programs
from evenprune.io.files import read_jsonl
from evenprune.reporting.forms import _ESCAPES, escape_latex

NAMES = ("model", "method", "regime", "calibration", "benchmark", "metric", "category")
needs_latex = pytest.mark.skipif(
    not pdf_programs.latex_available(), reason="no latexmk and pdflatex"
)


@pytest.fixture(scope="module")
def full(repo, tmp_path_factory):
    """A collected run of a part of the paper's grid, with some tables."""
    only = ["main", "ultrachat", "calib_source", "safety", "efficiency", "masks"]
    root, _ = prepare(repo, tmp_path_factory.mktemp("full"), "paper.yaml", 40, only=only)
    assert make_tables(root, tables=["ours_vs_paper", "masks"]) == 0
    return root


# results.csv and significance.csv


def test_results_are_tidy_sorted_and_the_same_again(world):
    root, _ = world
    rows = read_csv(root / "results.csv")
    keys = [tuple(row[name] for name in (*NAMES[:4], "seed", *NAMES[4:])) for row in rows]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    before = {name: (root / name).read_bytes() for name in ("results.csv", "significance.csv")}
    assert collect(root) == 0
    assert before == {name: (root / name).read_bytes() for name in before}


def test_dto_follows_from_its_parts(world):
    root, _ = world
    names = ("method", "regime", "calibration", "benchmark", "metric")
    rows = read_csv(root / "results.csv", category="")
    values = {tuple(row[name] for name in names): row for row in rows}
    point = ("debias-sparsegpt", "1of4", "ss")
    parts = [float(values[*point, name, "acc"]["value"]) for name in ("mmlu", "unqover")]
    assert float(values[*point, "dto", "dto"]["value"]) == closed_forms.dto(*parts)
    assert values[*point, "bbq", "s_dis"]["value"] == ""  # undefined stays empty, not 0
    assert values[*point, "mmlu", "items_total"]["value"] == "14042"
    assert values["", "", "ss", "calibration", "pairs_dropped"]["value"] == "10"
    # main has one grid point a method; 50 % and 2:4; UltraChat, other strengths; CrowS-Pairs.
    distances = {key: row for key, row in values.items() if key[3] == "dto"}
    assert len(distances) == (6 + 2 * 2 + 4 + 2) * 3
    for (*point, _, name), row in distances.items():
        if name == "dto":
            low, high = (float(values[*point, "dto", f"dto_{e}"]["value"]) for e in ("low", "high"))
            assert low < float(row["value"]) < high
            assert high - low == pytest.approx(2 * 1.96 * float(row["stderr"]), rel=0.2)


def test_printed_counterparts_of_the_paper(full):
    rows = read_csv(full / "results.csv")
    found = {"/".join(row[name] for name in NAMES): row["printed"] for row in rows}
    qwen, llama = "qwen2.5-7b-it/debias-sparsegpt/2of4", "llama3.1-8b-it"
    for path, printed in {
        f"{qwen}/ss/unqover/acc/": "0.2494",
        f"{qwen}/ss.religion-uc256/unqover/acc/religion": "0.5768",
        f"{qwen}/ss-uc256/dto/dto/": "0.494",
        f"{qwen}/ss-uc256/serving/kg_co2e_per_mtok/": "0.0376",
        f"{llama}/dense/dense/none/wikitext2/ppl/": "6.99",
        f"{llama}/dense/dense/none/unqover/entropy_wrong/": "0.858",
        f"{llama}/sparsegpt/1of4/ss/unqover/acc/ethnicity": "0.355",
    }.items():
        assert found[path] == printed, path


def test_every_tested_pair_is_tested_on_its_items(world):
    root, _ = world
    rows = read_csv(root / "significance.csv", against="method")
    rows = [row for row in rows if row["p"] and row["benchmark"] != "dto"]
    # Debias-SparseGPT: four pairs with ten metrics each, and one calibrated on CrowS-Pairs with
    # three metrics of StereoSet in place of two of CrowS-Pairs. Three pairs of Debias-LoRA.
    assert len(rows) == 4 * 10 + 11 + 3 * 10
    assert {row["baseline"] for row in rows} == {"sparsegpt"}
    row = next(r for r in rows if (r["regime"], r["benchmark"]) == ("u50", "mmlu"))
    ours, theirs = (
        list(read_jsonl(root / f"evals/world/{method}/u50/ss/s0/mmlu/items.jsonl"))
        for method in ("debias-sparsegpt", "sparsegpt")
    )
    gains = [a["correct"] - b["correct"] for a, b in zip(ours, theirs, strict=True)]
    wins, losses = gains.count(1), gains.count(-1)
    assert (int(row["wins"]), int(row["losses"])) == (wins, losses)
    # Clusters of one size: the paired t-test on their sums.
    sums = {}
    for one, gain in zip(ours, gains, strict=True):
        sums.setdefault(one["cluster"], []).append(gain)
    assert {len(part) for part in sums.values()} == {4}
    p = scipy_stats.ttest_1samp([sum(part) for part in sums.values()], 0).pvalue
    assert float(row["p"]) == pytest.approx(p)
    assert int(row["units"]) == len(sums) < int(row["n"])
    assert float(row["diff"]) == pytest.approx((wins - losses) / len(gains))
    assert float(row["low"]) < float(row["diff"]) < float(row["high"])


# Tables


def test_every_number_of_the_paper_stands_beside_ours(full):
    table = read_csv(full / "tables/ours_vs_paper.csv")
    rows = read_csv(full / "results.csv")
    printed = {tuple(row[name] for name in NAMES) for row in rows if row["printed"]}
    assert {tuple(row[name] for name in NAMES) for row in table} == printed
    assert len(table) > 150
    assert {row["covered"] for row in table} == {"", "0", "1"}
    assert "of them are among the paper's 20" in (full / "tables/masks.md").read_text()


def test_bold_is_a_dagger_or_the_lowest_dto_and_the_dagger_the_test(world):
    root, _ = world
    tests = {
        row["benchmark"]: row
        for row in read_csv(root / "significance.csv", method="debias-sparsegpt", regime="1of4")
        if row["metric"] not in ("acc_amb", "acc_dis") and row["p"]
    }
    header, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (root / "tables/main.md").read_text().splitlines()
        if line.startswith("|")
    ]
    slugs = {"HellaSwag": "hellaswag", "MMLU": "mmlu", "UnQover": "unqover", "BBQ": "bbq",
             "CP": "crows_pairs"}  # fmt: skip
    assert [line[0] for line in lines] == [
        "World-Llama", "+ Magnitude", "+ Wanda", "+ SparseGPT", "+ **Debias-SparseGPT**",
        "+ Debias-LoRA",
    ]  # fmt: skip
    for name, column in zip(header[1:], [*zip(*lines)][1:]):
        name = re.sub(r" [↑↓→].*", "", name)
        _, *shown = (float(re.sub(r"[*†]", "", cell)) for cell in column)
        *_, base, ours, _ = shown
        test = tests.get(slugs.get(name))
        improved = abs(ours - 50) < abs(base - 50) if name == "CP" else ours > base
        dagger = test is not None and float(test["p"]) < 0.01 and improved
        assert ["†" in cell for cell in column] == [False] * 4 + [dagger, False]
        bold = [name == "DTO" and value == min(shown) for value in shown]
        bold[3] |= dagger
        assert ["**" in cell for cell in column] == [False, *bold]
    assert any("†" in cell for cell in lines[4])


def test_item_limits_are_stated(repo, tmp_path):
    root, _ = prepare(repo, tmp_path, "real-small.yaml", 12)
    assert make_table(root, "regimes") == 0
    text = (root / "tables/regimes.md").read_text()
    assert "MMLU: 12 of 14,042 items sampled with seed 0" in text
    assert "PPL (tinystories): at most 300" in text
    assert "BBQ: split helm1000" in text
    header = (root / "tables/regimes.csv").read_text().splitlines()[0]
    assert header.index("wikitext2") < header.index("tinystories") < header.index("mmlu")


def test_a_table_follows_its_experiment(repo, tmp_path):
    """Variants, several regimes and calibrations, labels full of LaTeX: all in one table.

    In figures dollar signs are drawn as they stand, in place of an error of mathtext.
    """
    nasty = r"A_b%c & \d ~f^g #h $^$ <j> ‐ é"
    changes = {
        "models": {"world": {"label": nasty}},
        "methods": {"debias-sparsegpt.b64": {"method": "debias-sparsegpt", "bias_weight": 64.0}},
        "experiments": {
            "main": {
                "methods": ["magnitude", "sparsegpt", "debias-sparsegpt", "debias-sparsegpt.b64"],
                "regimes": ["u25", "2of4"],
                "calibrations": ["ss", "ss-shuffled"],
            }
        },
        "tables": ["main", "calibration"],
        "figures": ["answer"],
        "title": nasty,
    }
    root, _ = prepare(repo, tmp_path, items=60, only=["main", "regimes"], **changes)
    assert make_tables(root) == 0
    text = (root / "tables/main.md").read_text()
    assert text.count("*Sparsity") == 2
    assert "debias-sparsegpt.b64, StereoSet, shuffled pairs" in text
    assert len(read_csv(root / "tables/main.csv")) == 1 + 2 * (1 + 3 * 2)
    if pdf_programs.latex_available():
        out = str(root / "paper.pdf")
        assert main(["make-paper", *options(root, *FILES), "--out", out]) == 0


@given(st.text())
def test_escaped_text_has_no_active_sign(text):
    escaped = escape_latex(text)
    made = sorted(_ESCAPES.values(), key=len, reverse=True)
    bare = re.sub("|".join(map(re.escape, made)), "", escaped)
    assert not set(bare) & set("\\{}$&#^_~%"), (text, escaped)


# Errors: one sentence, exit 2, nothing written


def test_errors_name_what_is_wrong(repo, tmp_path, capsys):
    root, _ = prepare(repo, tmp_path, items=12, only=["main"], tables=["main"])

    def fails(code, *words):
        message = capsys.readouterr().err
        assert (code, [word for word in words if word not in message]) == (2, []), message

    fails(make_table(root, "calib_size"), "calib_size", "experiment")
    assert not (root / "tables").exists()
    lines = (results := root / "results.csv").read_text().splitlines(keepends=True)
    results.write_text("".join(line for line in lines if ",wanda," not in line))
    fails(make_table(root, "main"), "has changed", f"snakemake --cores all -f {results}")
    results.with_name("results.csv.sha256").unlink()
    fails(make_table(root, "main"), "world/wanda/1of4/ss/s0")
    results.unlink()
    fails(make_table(root, "main"), "results.csv", "run collect-results")
    items = root / "evals/world/sparsegpt/1of4/ss/s0/mmlu/items.jsonl"
    items.write_text("".join(items.read_text().splitlines(keepends=True)[1:]))
    seal(items.parents[1])
    fails(collect(root), "same items", "11")
    items.with_name("metrics.json").unlink()
    fails(collect(root), str(items.with_name("metrics.json")))
    assert not results.exists()


def test_tables_without_their_benchmark_say_so(repo, tmp_path, capsys):
    config = small_config(repo, tmp_path, only=["main"])
    kept = {name: config.benchmarks[name] for name in ("wikitext2", "mmlu")}
    write_run(config.model_copy(update={"benchmarks": kept}), 12)
    assert (collect(tmp_path), make_table(tmp_path, "main")) == (0, 0)
    assert "DTO" not in (tmp_path / "tables/main.md").read_text()
    for shown, words in (
        ({"tables": ["confidence"]}, "task unqover"),
        ({"tables": ["efficiency"]}, "serving.experiment"),
        ({"figures": ["unqover_heatmap"]}, "no benchmark with task unqover"),
    ):
        assert make_tables(tmp_path, **shown) == 2
        assert words in capsys.readouterr().err


# Figures and the PDF


def test_figures_are_the_same_again(world):
    root, _ = world
    names = ["motivation", "unqover_heatmap"]
    again = root / "again"
    assert make_tables(root, "--figures", str(again), figures=names) == 0
    for path in again.iterdir():
        assert path.read_bytes() == (root / "figures" / path.name).read_bytes()
    assert len(list(again.iterdir())) == 8
    rows = read_csv(root / "figures/unqover_heatmap.csv")
    names = [row["category"] for row in rows[:4]]
    assert names == ["religion", "country", "ethnicity", "mixedgender"]
    assert [row["method"] for row in rows[::4]] == ["dense", "sparsegpt", "debias-sparsegpt"]
    measured = {
        (row["method"], row["regime"], row["category"]): float(row["value"])
        for row in read_csv(root / "results.csv", benchmark="unqover", metric="acc")
    }
    for row in rows:
        value = 100 * measured[row["method"], row["regime"], row["category"]]
        assert float(row["accuracy_percent"]) == pytest.approx(value, abs=0.006)


@needs_latex
def test_a_latex_error_is_one_sentence(world, tmp_path, capsys):
    root, config = world
    broken = tmp_path / "tables"
    broken.mkdir()
    for table in config.tables:
        text = (root / "tables" / f"{table}.tex").read_text()
        (broken / f"{table}.tex").write_text(text + r"\nosuchcommand" + "\n")
    out = tmp_path / "out.pdf"
    words = [*options(root, *FILES), "--tables", str(broken), "--out", str(out)]
    assert main(["make-paper", *words]) == 2
    message = capsys.readouterr().err
    assert "! Undefined control sequence" in message
    assert "nosuchcommand" in message
    (broken / f"{config.tables[0]}.tex").unlink()
    assert main(["make-paper", *words]) == 2
    assert "run make-tables first" in capsys.readouterr().err
    assert not out.exists()
