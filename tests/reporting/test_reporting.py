"""From made-up metrics folders to results, tables, figures and the PDF, through the commands."""

import re

import closed_forms
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting_run import (
    collect,
    document_options,
    make_figure,
    make_table,
    make_tables,
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
    names = ("model", "method", "regime", "calibration", "seed", "benchmark", "metric", "category")
    keys = [tuple(row[name] for name in names) for row in rows]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    before = {name: (root / name).read_bytes() for name in ("results.csv", "significance.csv")}
    assert collect(root) == 0
    assert before == {name: (root / name).read_bytes() for name in before}


def test_dto_follows_from_its_parts(world):
    root, _ = world
    rows = read_csv(root / "results.csv")
    values = {
        (row["method"], row["regime"], row["calibration"], row["benchmark"], row["metric"]): row
        for row in rows
        if not row["category"]
    }
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
    names = ("model", "method", "regime", "calibration", "benchmark", "metric", "category")
    rows = read_csv(full / "results.csv")
    found = {"/".join(row[name] for name in names): row["printed"] for row in rows}
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
    rows = read_csv(root / "significance.csv")
    tested = [row for row in rows if row["p"] and row["benchmark"] != "dto"]
    rows = [row for row in tested if row["against"] == "method"]
    # Debias-SparseGPT: four pairs with ten metrics each, and one calibrated on CrowS-Pairs with
    # three metrics of StereoSet in place of two of CrowS-Pairs. Three pairs of Debias-LoRA.
    assert len(rows) == 4 * 10 + 11 + 3 * 10
    assert {row["baseline"] for row in rows} == {"sparsegpt"}
    row = next(r for r in rows if (r["regime"], r["benchmark"]) == ("u50", "mmlu"))
    ours, theirs = (
        list(read_jsonl(root / f"evals/world/{method}/u50/ss/s0/mmlu/items.jsonl"))
        for method in ("debias-sparsegpt", "sparsegpt")
    )
    items = [[one["correct"] for one in part] for part in (ours, theirs)]
    wins = sum(a > b for a, b in zip(*items, strict=True))
    losses = sum(a < b for a, b in zip(*items, strict=True))
    assert (int(row["wins"]), int(row["losses"])) == (wins, losses)
    # Clusters of one size: the paired t-test on their sums.
    sums = {}
    for one, other in zip(ours, theirs, strict=True):
        sums.setdefault(one["cluster"], []).append(one["correct"] - other["correct"])
    assert {len(part) for part in sums.values()} == {4}
    p = scipy_stats.ttest_1samp([sum(part) for part in sums.values()], 0).pvalue
    assert float(row["p"]) == pytest.approx(p)
    assert int(row["units"]) == len(sums) < int(row["n"])
    assert float(row["diff"]) == pytest.approx((wins - losses) / len(items[0]))
    assert float(row["low"]) < float(row["diff"]) < float(row["high"])


# Tables


def test_every_number_of_the_paper_stands_beside_ours(full):
    table = read_csv(full / "tables/ours_vs_paper.csv")
    names = ("model", "method", "regime", "calibration", "benchmark", "metric", "category")
    rows = read_csv(full / "results.csv")
    printed = {tuple(row[name] for name in names) for row in rows if row["printed"]}
    assert {tuple(row[name] for name in names) for row in table} == printed
    assert len(table) > 150
    assert {row["covered"] for row in table} == {"", "0", "1"}
    assert "of them are among the paper's 20" in (full / "tables/masks.md").read_text()


def test_bold_is_a_dagger_or_the_lowest_dto_and_the_dagger_the_test(world):
    root, _ = world
    tests = {
        row["benchmark"]: row
        for row in read_csv(root / "significance.csv")
        if (row["method"], row["regime"]) == ("debias-sparsegpt", "1of4")
        and row["metric"] not in ("acc_amb", "acc_dis")
        and row["p"]
    }
    header, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (root / "tables/main.md").read_text().splitlines()
        if line.startswith("|")
    ]
    names = [re.sub(r" [↑↓→].*", "", head) for head in header]
    slugs = {"PPL": "wikitext2", "HellaSwag": "hellaswag", "MMLU": "mmlu", "UnQover": "unqover",
             "BBQ": "bbq", "CP": "crows_pairs"}  # fmt: skip
    assert [line[0] for line in lines] == [
        "World-Llama", "+ Magnitude", "+ Wanda", "+ SparseGPT", "+ **Debias-SparseGPT**",
        "+ Debias-LoRA",
    ]  # fmt: skip
    ours = 4  # Debias-SparseGPT, behind SparseGPT
    for column, name in enumerate(names[1:], 1):
        shown = [float(re.sub(r"[*†]", "", line[column])) for line in lines]
        pruned = shown[1:]
        best = {"PPL": min, "DTO": min, "CP": lambda v: min(v, key=lambda x: abs(x - 50))}
        winner = best.get(name, max)(pruned)
        for line, value in zip(lines[1:], pruned, strict=True):
            lowest = name == "DTO" and value == winner
            assert ("**" in line[column]) == (lowest or "†" in line[column])
        assert "**" not in lines[0][column]
        assert not any("†" in line[column] for line in lines if line != lines[ours])
        test = tests.get(slugs.get(name, ""))
        if test is None:
            assert "†" not in lines[ours][column]
            continue
        distance = [abs(value - 50) for value in shown[ours - 1 : ours + 1]]
        improved = distance[1] < distance[0] if name == "CP" else shown[ours] > shown[ours - 1]
        assert ("†" in lines[ours][column]) == (float(test["p"]) < 0.01 and improved)
    assert any("†" in cell for cell in lines[ours])


def test_item_limits_are_stated(repo, tmp_path):
    root, _ = prepare(repo, tmp_path, "real-small.yaml", 12)
    assert make_table(root, "regimes") == 0
    text = (root / "tables/regimes.md").read_text()
    assert "MMLU: 12 of 14,042 items sampled with seed 0" in text
    assert "PPL (tinystories): at most 300" in text
    assert "BBQ: split helm1000" in text
    assert "invented world" not in text
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
            },
            "calib_size": {
                "models": ["world"],
                "methods": ["sparsegpt", "debias-sparsegpt"],
                "regimes": ["2of4"],
                "calibrations": ["ss", "ss-uc4", "ss-uc16"],
            },
        },
        "tables": ["main", "calib_size", "calibration"],
        "figures": ["answer"],
        "title": nasty,
    }
    root, _ = prepare(repo, tmp_path, only=["main", "regimes", "calib_size"], **changes)
    assert make_tables(root) == 0
    text = (root / "tables/main.md").read_text()
    assert text.count("*Sparsity") == 2
    assert "debias-sparsegpt.b64, StereoSet, shuffled pairs" in text
    assert len(read_csv(root / "tables/main.csv")) == 1 + 2 * (1 + 3 * 2)
    assert len(read_csv(root / "tables/calib_size.csv")) == 6
    variants = {row["method"] for row in read_csv(root / "significance.csv")}
    assert "debias-sparsegpt.b64" in variants
    if pdf_programs.latex_available():
        out = str(root / "paper.pdf")
        assert main(["make-paper", *document_options(root), "--out", out]) == 0


@given(st.text())
def test_escaped_text_has_no_active_sign(text):
    escaped = escape_latex(text)
    made = sorted(_ESCAPES.values(), key=len, reverse=True)
    bare = re.sub("|".join(map(re.escape, made)), "", escaped)
    assert not set(bare) & set("\\{}$&#^_~%"), (text, escaped)


# Errors: one sentence, exit 2, nothing written


def test_errors_name_what_is_wrong(repo, tmp_path, capsys):
    root, _ = prepare(repo, tmp_path, items=12, tables=["main", "regimes"])
    capsys.readouterr()  # progress, where the machine is slow

    def fails(code, *words):
        assert code == 2
        message = capsys.readouterr().err
        assert "error: " in message  # behind progress, where the machine is slow
        for word in words:
            assert word in message

    fails(make_table(root, "calib_size"), "calib_size", "main, regimes, regimes_one, ultrachat")
    assert not (root / "tables").exists()
    metrics = root / "evals/world/wanda/1of4/ss/s0/mmlu/metrics.json"
    good = metrics.read_text()
    (root / "results.csv").unlink()
    metrics.unlink()
    fails(collect(root), str(metrics))
    assert not (root / "results.csv").exists()
    metrics.write_text('{"metrics": {"acc": 3}}')
    fails(collect(root), "has changed", str(metrics))
    seal(metrics.parents[1])
    fails(collect(root), "another form", str(metrics))
    metrics.write_text(good)
    seal(metrics.parents[1])
    items = root / "evals/world/sparsegpt/1of4/ss/s0/mmlu/items.jsonl"
    lines = items.read_text().splitlines()
    items.write_text("\n".join(lines[1:]) + "\n")
    fails(collect(root), "has changed", str(items), f"snakemake --cores all -f {items.parents[1]}")
    seal(items.parents[1])
    fails(collect(root), "same items", "11")
    fails(make_table(root, "main"), "results.csv", "run collect-results")


def test_a_changed_results_csv_is_one_sentence(world, tmp_path, capsys):
    for name in ("run_sheet.json", "results.csv", "results.csv.sha256", "significance.csv"):
        (tmp_path / name).write_bytes((world[0] / name).read_bytes())
    results = tmp_path / "results.csv"
    text = results.read_text()
    without = "\n".join(line for line in text.splitlines() if ",wanda," not in line)
    for content, words in (
        (without, ("has changed", f"snakemake --cores all -f {results}")),
        (without, ("world/wanda/1of4/ss/s0",)),
        (text.replace("stderr", "error", 1), ("but stderr is missing",)),
    ):
        results.write_text(content)
        assert make_table(tmp_path, "main") == 2
        message = capsys.readouterr().err
        assert all(word in message for word in words)
        (tmp_path / "results.csv.sha256").unlink(missing_ok=True)


def test_tables_without_their_benchmark_say_so(repo, tmp_path, capsys):
    config = small_config(repo, tmp_path, tables=["confidence", "efficiency"])
    kept = {name: config.benchmarks[name] for name in ("wikitext2", "mmlu")}
    serving = config.serving.model_copy(update={"experiment": None})
    config = config.model_copy(update={"benchmarks": kept, "serving": serving})
    write_run(config, 12)
    assert collect(tmp_path) == 0
    assert make_table(tmp_path, "main") == 0
    assert "DTO" not in (tmp_path / "tables/main.md").read_text()
    assert make_table(tmp_path, "confidence") == 2
    assert "task unqover" in capsys.readouterr().err
    assert make_table(tmp_path, "efficiency") == 2
    assert "serving.experiment" in capsys.readouterr().err
    assert make_figure(tmp_path, "unqover_heatmap") == 2
    assert "no benchmark with task unqover" in capsys.readouterr().err


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
        for row in read_csv(root / "results.csv")
        if (row["benchmark"], row["metric"]) == ("unqover", "acc")
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
    arguments = document_options(root)
    out = tmp_path / "out.pdf"
    assert main(["make-paper", *arguments, "--tables", str(broken), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert "! Undefined control sequence" in message
    assert "nosuchcommand" in message
    (broken / f"{config.tables[0]}.tex").unlink()
    assert main(["make-paper", *arguments, "--tables", str(broken), "--out", str(out)]) == 2
    assert "run make-tables first" in capsys.readouterr().err
    assert not out.exists()
