"""Sentences with numbers, against the tables that they are about."""

from collections.abc import Iterator, Mapping

from .paper import BASE, DENSE, OPEN, OURS, Check, Paper, Point, decimals, state_of

QWEN = "qwen2.5-7b-it"


def cell(text: str) -> tuple[Point, str]:
    """Return (grid point, metric) of ``model/method/regime/calibration/metric``."""
    model, method, regime, calibration, metric = text.split("/", 4)
    return (model, method, regime, calibration), metric


def _sentences(paper: Paper) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield (sentence, the value of its cell in the table)."""
    for row in paper.sentences:
        point, metric = cell(row["cell"])
        found = paper.dto(point) if metric == "dto" and paper.text(point, metric) is None else None
        yield row, paper.need(point, metric) if found is None else found


def numbers(paper: Paper) -> Check:
    """Compare every number of the text with its cell, at the text's decimals."""
    off, count = [], 0
    for row, found in _sentences(paper):
        count += 1
        half = 0.5 * 10 ** -decimals(row["value"])
        if abs(found - float(row["value"])) > half + 1e-9:
            off.append(f"“{row['quote']}” ({row['place']}): the table has {found:g}")
    return paper.check(
        "numbers",
        state_of(not off),
        f"{count - len(off)} of {count} numbers in sentences are those of the tables"
        + "".join(f"; {text}" for text in off),
        "The tables count.",
    )


def ways(paper: Paper) -> Check:
    """Compare "increases" and "decreases" with the cells before and after."""
    off, count = [], 0
    for row, found in _sentences(paper):
        if not row["way"]:
            continue
        count += 1
        point, metric = cell(row["against"])
        before = paper.need(point, metric)
        if (found - before) * (1 if row["way"] == "up" else -1) <= 0:
            off.append(
                f"“{row['quote']}” ({row['place']}): from {paper.text(point, metric)} to {found:g} "
                f"it goes {'down' if row['way'] == 'up' else 'up'}"
            )
    return paper.check(
        "ways",
        state_of(not off),
        f"{count - len(off)} of {count} changes go the stated way"
        + "".join(f"; {text}" for text in off),
        "The sentence has the direction wrong.",
    )


def doubles(paper: Paper) -> Check:
    """Compute by how much perplexity grows at 2:4."""
    dense = paper.need((QWEN, *DENSE), "perplexity")
    values = [paper.need((QWEN, name, "2of4", "ss"), "perplexity") for name in (BASE, OURS)]
    ratios = ", ".join(f"{value:g} / {dense:g} = {value / dense:.2f}" for value in values)
    return paper.check(
        "doubles",
        state_of(all(value <= 2 * dense for value in values)),
        ratios,
        "It more than doubles.",
    )


def four_texts(paper: Paper) -> Check:
    """Compare the model with four added texts with the one without, on every printed metric."""
    point, alone = (QWEN, OURS, "2of4", "ss-uc4"), (QWEN, OURS, "2of4", "ss")
    sixteen = (QWEN, OURS, "2of4", "ss-uc16")
    worse = paper.need(point, "perplexity") >= paper.need(alone, "perplexity")
    dip = paper.need(sixteen, "mmlu") < paper.need(alone, "mmlu")
    return paper.check(
        "four_texts",
        state_of(not worse and not dip),
        f"MMLU {paper.text(alone, 'mmlu')} → {paper.text(point, 'mmlu')}, UnQover "
        f"{paper.text(alone, 'unqover')} → {paper.text(point, 'unqover')}, but perplexity "
        f"{paper.text(alone, 'perplexity')} → {paper.text(point, 'perplexity')}; with 16 texts "
        f"MMLU is {paper.text(sixteen, 'mmlu')}",
        "MMLU and UnQover rise, perplexity does not improve, and more texts are not always better.",
    )


def bias_weight(paper: Paper) -> Check:
    """Compare the weight of the bias term in the equation and in the released code."""
    factor, alpha = paper.fact("bias_weight"), paper.fact("release_alpha")
    return paper.check(
        "bias_weight",
        state_of(alpha == factor, OPEN),
        f"the paper adds {factor:g} b times the sum over differences of inputs, with b = 1; the "
        f"release adds alpha times that sum, and {paper.place('release_alpha')} says alpha = "
        f"{alpha:g} for the paper: b = alpha / {factor:g} = {alpha / factor:g}",
        f"By its release the printed runs have b = {alpha / factor:g}; try both.",
    )


def next_token(paper: Paper) -> Check:
    """Say which of the two named benchmarks is scored by one token."""
    scored = paper.words("hellaswag_scoring")
    return paper.check(
        "next_token",
        state_of(len(scored) == 1),
        f"in the named implementation: {'; '.join(scored)}",
        "It is true of MMLU; HellaSwag is scored by the likelihood of whole endings.",
    )


CHECKS = (numbers, ways, doubles, four_texts, bias_weight, next_token)
