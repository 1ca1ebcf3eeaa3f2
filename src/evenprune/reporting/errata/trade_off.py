"""The distance to the optimum, differences, averages and repeated cells, recomputed."""

from ..labels import CATEGORY_LABELS, METHOD_LABELS, REGIME_LABELS
from .paper import DENSE, MORE, OPEN, OURS, Check, Paper, decimals, point_of, state_of, tally

DTO_TOLERANCE = 0.00055  # half a unit of the third decimal, and the rounding of the two parts


def dto_formula(paper: Paper) -> Check:
    """Recompute every printed DTO from the printed MMLU and UnQover."""
    gaps = {}
    cells = [row for row in paper.rows if row["metric"] == "dto" and row["calibration"] != "diff"]
    for row in cells:
        found = paper.dto(point_of(row))
        if found is not None:
            gaps[row["table"], row["row"], point_of(row)] = abs(found - float(row["value"]))
    off = [key for key, gap in gaps.items() if gap > DTO_TOLERANCE]
    listed = "".join(f"; {table}, {row} is off" for table, row, _ in off[:3])
    return paper.check(
        "dto_formula",
        state_of(not off),
        f"sqrt(((1 − MMLU)^2 + (1 − UnQover)^2) / 2): {len(gaps) - len(off)} of {len(gaps)} "
        f"printed cells agree, the largest gap is {max(gaps.values()):.5f}{listed}",
        "Use the recomputed values.",
    )


def dto_regimes(paper: Paper) -> Check:
    """Compare the recomputed DTO of Debias-SparseGPT and SparseGPT at every pattern."""
    leads = {}
    for ours, base in paper.pairs():
        a, b = paper.dto(ours), paper.dto(base)
        if a is not None and b is not None:
            leads[ours] = (b - a, a, b)
    wins, ties, losses = tally([lead for lead, *_ in leads.values()])
    worse = [point for point, (lead, *_) in leads.items() if round(lead, 9) < 0]
    against = [
        f"{paper.label(point)} {leads[point][1]:.4f} against {leads[point][2]:.4f}"
        for point in worse
    ]
    unprinted = sum(paper.text(point, "dto") is None for point in worse)
    return paper.check(
        "dto_regimes",
        state_of(losses + ties == 0),
        f"recomputed, lower in {wins} of {len(leads)} configurations"
        + (f", higher in {losses}: {'; '.join(against)}" if losses else ""),
        "It is lower in most configurations, not in all; for "
        f"{unprinted} of these {losses} no DTO is printed.",
    )


def dto_lowest(paper: Paper) -> Check:
    """Compare the recomputed DTO at 1:4 with that of every baseline and the dense model."""
    leads = []
    for ours in paper.points(OURS, "1of4", "ss"):
        model, own = ours[0], paper.dto(ours)
        others = [(model, *DENSE), (model, "magnitude", "1of4", "none")]
        others += [(model, name, "1of4", "ss") for name in ("wanda", "sparsegpt")]
        for other in others:
            found = paper.dto(other)
            if found is not None and own is not None:
                leads.append((found - own, ours, other, own, found))
    wins, ties, losses = tally([lead for lead, *_ in leads])
    against = [
        f"{paper.names[ours[0]]} {own:.4f} against {found:.4f} ({METHOD_LABELS[other[1]]})"
        for lead, ours, other, own, found in leads
        if round(lead, 9) < 0
    ]
    return paper.check(
        "dto_lowest",
        state_of(losses + ties == 0),
        f"recomputed, {wins} comparisons for and {losses} against"
        + (f": {'; '.join(against)}" if losses else ""),
        "The dense model, or Wanda, has the lower distance there.",
    )


def diff_rows(paper: Paper) -> Check:
    """Recompute the rows Diff. from the two rows above each."""
    off, count = [], 0
    for row in paper.rows:
        if row["calibration"] != "diff":
            continue
        model, method, regime = row["model"], row["method"], row["regime"]
        ends = [paper.text((model, method, regime, c), row["metric"]) for c in ("ss-uc256", "ss")]
        if None in ends:
            continue
        count += 1
        found = float(ends[0] or 0) - float(ends[1] or 0)
        if abs(found - float(row["value"])) > 0.5 * 10 ** -decimals(row["value"]):
            off.append(f"{METHOD_LABELS[method]} {row['metric']}: {row['value']} is {found:+.3f}")
    return paper.check(
        "diff_rows",
        state_of(not off),
        f"{count - len(off)} of {count} differences are those of the rows above them"
        + "".join(f"; {text}" for text in off),
        "Use the recomputed differences.",
    )


def repeats(paper: Paper) -> Check:
    """Compare the cells that several tables print."""
    texts: dict[tuple, set[str]] = {}
    for row in paper.rows:
        texts.setdefault((*point_of(row), row["metric"]), set()).add(row["value"])
    again = [key for key, found in _times(paper).items() if found > 1]
    conflicts = [key for key in again if len({float(text) for text in texts[key]}) > 1]
    return paper.check(
        "repeats",
        state_of(not conflicts),
        f"{len(again)} numbers stand in more than one table, {len(conflicts)} of them differ"
        + "".join(f"; {'/'.join(key)}: {' and '.join(sorted(texts[key]))}" for key in conflicts),
        "One of the tables is out of date.",
    )


def _times(paper: Paper) -> dict[tuple, int]:
    found: dict[tuple, set[str]] = {}
    for row in paper.rows:
        found.setdefault((*point_of(row), row["metric"]), set()).add(row["table"])
    return {key: len(tables) for key, tables in found.items()}


def averages(paper: Paper) -> Check:
    """Compare printed UnQover averages with the mean of the four printed categories."""
    gaps = {}
    for point in paper.points(OURS):
        parts = [paper.value(point, f"unqover/{name}") for name in CATEGORY_LABELS]
        whole = paper.value(point, "unqover")
        if whole is None or None in parts:
            continue
        gaps[point[3]] = (sum(part or 0 for part in parts) / len(parts), whole)
    # Half a unit of the last digit of the average, and as much of the categories' mean.
    off = [name for name, (mean, whole) in gaps.items() if abs(mean - whole) > 0.01 + 1e-9]
    listed = ", ".join(f"{mean:.3f} → {whole:.2f}" for mean, whole in gaps.values())
    return paper.check(
        "averages",
        state_of(not off),
        f"mean of the categories → printed: {listed}; {len(off)} beyond rounding",
        "Use the means of the categories.",
    )


def best_pruned(paper: Paper) -> Check:
    """Compare UnQover and DTO of the six further models with SparseGPT's."""
    leads = []
    for ours, base in paper.pairs("1of4"):
        if ours[0] not in {row["model"] for row in paper.rows if row["table"] == MORE}:
            continue
        leads.append(paper.need(ours, "unqover") - paper.need(base, "unqover"))
        leads.append((paper.dto(base) or 0) - (paper.dto(ours) or 0))
    wins, ties, losses = tally(leads)
    return paper.check(
        "best_pruned",
        state_of(losses + ties == 0),
        f"{wins} of {len(leads)} comparisons as stated, {losses} against",
        "It holds for some of these models only.",
    )


def efficiency_rows(paper: Paper) -> Check:
    """Say which calibration the DTO column of the efficiency table is of."""
    point = ("qwen2.5-7b-it", OURS, "2of4")
    added = paper.need((*point, "ss-uc256"), "dto")
    alone = paper.need((*point, "ss"), "dto")
    shown = [
        float(row["value"])
        for row in paper.rows
        if row["table"] == "table:mfu_sparsity_results"
        and (row["method"], row["metric"]) == (OURS, "dto")
    ]
    unlabelled = any(value != alone for value in shown)
    return paper.check(
        "efficiency_rows",
        state_of(not unlabelled, OPEN),
        f"its DTO {shown[0]:.3f} is that of calibration with UltraChat ({added:.3f}), not that of "
        f"StereoSet alone ({alone:.3f}), the calibration of the other tables at "
        f"{REGIME_LABELS['2of4']}",
        "The table does not say that its 2:4 rows have the added texts.",
    )


CHECKS = (
    dto_formula, dto_regimes, dto_lowest, diff_rows, repeats, averages, best_pruned,
    efficiency_rows,
)  # fmt: skip
