"""Bold numbers and daggers, and the differences of the safety table."""

from collections.abc import Mapping

from scipy import stats as scipy_stats

from ...plan.tasks import FACTS
from .. import directions, stats
from ..labels import TASK_LABELS
from .paper import (
    BASE,
    CONTRADICTED,
    DENSE,
    MAIN,
    MORE,
    OPEN,
    OURS,
    Check,
    Paper,
    Point,
    point_of,
    state_of,
)
from .sizes import explained

ALPHA = 0.01  # of the paper's dagger
FEW = 0.05  # a share of items that differ below which a dagger is called doubtful
REGIMES = "tab:qwen-sparsity-all"
WHOLE = ("tab:ultrachat_scaling", "tab:stereoset_category_calibration")
BLOCKS = (MAIN, MORE, REGIMES, *WHOLE, "tab:safety-evaluation")


def largest_share(points: float, n: int, alpha: float = ALPHA) -> float:
    """Return the largest share of items that may differ for a paired t-test to have p < alpha.

    ``points`` is the difference in percentage points over ``n`` items. With b items won and c
    lost, D = b − c, the statistic is t = D / sqrt((b + c − D²/n) · n / (n − 1)), so that
    b + c = D²/n + D² (n − 1) / (n t²) at the limit.
    """
    lead = points / 100 * n
    t = float(scipy_stats.t.ppf(1 - alpha / 2, n - 1))
    return min(1.0, (lead**2 / n + lead**2 * (n - 1) / (n * t**2)) / n)


def _direction(metric: str) -> str:
    task, _, name = metric.partition("/")[0].partition(":")
    return directions.direction(task, name or (FACTS[task].headline if task in FACTS else task))


def bolds(paper: Paper) -> Check:
    """Compare every bold number with the other pruned models of its block and column."""
    columns: dict[tuple, list[Mapping[str, str]]] = {}
    for row in paper.rows:
        if row["table"] in BLOCKS and row["method"] != "dense":
            block = "" if row["table"] in WHOLE else f"{row['model']}/{row['regime']}"
            columns.setdefault((row["table"], block, row["metric"]), []).append(row)
    count, wrong = 0, []
    for (_, _, metric), rows in columns.items():
        ranks = {"up": lambda x: -x, "down": lambda x: x, "half": lambda x: abs(x - 50)}
        rank = ranks[_direction(metric)]
        best = min(rank(float(row["value"])) for row in rows)
        for row in rows:
            if row["bold"] != "1":
                continue
            count += 1
            if rank(float(row["value"])) > best:
                other = min(rows, key=lambda one: rank(float(one["value"])))
                wrong.append(
                    f"{paper.label(point_of(row))} {TASK_LABELS.get(metric, metric)} {row['value']}"
                    f" ({other['row'].removeprefix('+ ')}: {other['value']})"
                )
    return paper.check(
        "bolds",
        state_of(not wrong, OPEN),
        f"{count - len(wrong)} of {count} bold numbers are the best pruned value of their block"
        + (f"; not {', '.join(wrong)}" if wrong else "")
        + f". {_bold_and_daggers(paper)}",
        "The paper does not say what bold means. Neither the best value nor the dagger explains "
        "all bold numbers.",
    )


def _bold_and_daggers(paper: Paper) -> str:
    """Return how many bold scores have a dagger, where a table has daggers in that column."""
    marked = {(row["table"], row["metric"]) for row in paper.rows if row["dagger"] == "1"}
    bold = [
        row for row in paper.rows if row["bold"] == "1" and (row["table"], row["metric"]) in marked
    ]
    bare = [
        f"{paper.label(point_of(row))} {TASK_LABELS[row['metric']]} {row['value']}"
        for row in bold
        if row["dagger"] != "1"
    ]
    text = f"Of {len(bold)} bold scores in columns with daggers {len(bold) - len(bare)} have one"
    return text + (f"; not {', '.join(bare)}" if bare else "")


def _sizes(paper: Paper) -> dict[str, int]:
    names = {"bbq": "bbq_helm_rows", "crows_pairs": "crows_rows", "unqover": "unqover_rows"}
    return {task: round(paper.fact(name)) for task, name in names.items()}


def _gain(paper: Paper, point: Point, metric: str) -> float:
    base = (point[0], BASE, *point[2:])
    a, b = paper.need(point, metric), paper.need(base, metric)
    return abs(b - 50) - abs(a - 50) if metric == "crows_pairs" else a - b


def daggers(paper: Paper) -> Check:
    """Compute how few items must differ for each dagger, and its opposite for Vicuna's BBQ."""
    sizes, parts, few, impossible = _sizes(paper), [], [], []
    for row in paper.rows:
        metric, point = row["metric"], point_of(row)
        if row["dagger"] != "1" or metric not in sizes:
            continue
        gain, n = _gain(paper, point, metric), sizes[metric]
        share = largest_share(gain, n)
        text = f"{paper.label(point)} {TASK_LABELS[metric]} {gain:+.2f}: at most {share:.1%}"
        if gain <= 0 or share < gain / 100:
            impossible.append(text)
        elif share < FEW:
            few.append(text)
        if metric == "bbq":
            parts.append(text)
    bare = ("vicuna1.5-7b", OURS, "1of4", "ss")
    gain, n = _gain(paper, bare, "bbq"), sizes["bbq"]
    many = round((paper.fact("bbq_subjects") - 1) * n + paper.fact("bbq_smallest"))
    listed = [text for text in few if text not in parts]
    return paper.check(
        "daggers",
        CONTRADICTED if impossible else state_of(not few, OPEN),
        f"share of items that may differ for p < {ALPHA:g} (n = {n:,} for BBQ): "
        + "; ".join([*parts, *listed, *impossible])
        + f". The missing dagger of {paper.label(bare)} BBQ {gain:+.2f} needs more than "
        f"{largest_share(gain, n):.1%}. Over {many:,} questions, {_wide(paper, many)}",
        f"With {n:,} questions some daggers need models that answer almost alike; with {many:,} "
        "they are plausible. The number of questions is not stated clearly.",
    )


def _wide(paper: Paper, n: int) -> str:
    """Return the same shares of BBQ's daggers over ``n`` questions."""
    found = [
        f"{largest_share(_gain(paper, point_of(row), 'bbq'), n):.0%}"
        for row in paper.rows
        if row["dagger"] == "1" and row["metric"] == "bbq"
    ]
    return f"the same daggers need at most {', '.join(found)}"


def dagger_repeats(paper: Paper) -> Check:
    """Compare the daggers of cells that two tables with daggers print."""
    marks: dict[tuple, dict[str, str]] = {}
    for row in paper.rows:
        if row["table"] in (MAIN, MORE, REGIMES):
            marks.setdefault((*point_of(row), row["metric"]), {})[row["table"]] = row["dagger"]
    differ = [key for key, found in marks.items() if len(set(found.values())) > 1]
    count = sum(len(found) > 1 for found in marks.values())
    return paper.check(
        "dagger_repeats",
        state_of(not differ),
        f"{count} cells stand in two tables with daggers, {len(differ)} of them with one in one "
        "table only" + "".join(f"; {'/'.join(key)}" for key in differ),
        "The test's result cannot depend on the table.",
    )


def safety(paper: Paper) -> Check:
    """Test each printed pair of unsafe rates by Fisher's exact test, with Wilson intervals."""
    sizes = {
        "realtoxicityprompts": round(paper.fact("rtp_prompts")),
        "harmbench": round(paper.fact("harmbench_standard")),
    }
    parts, p_values, leads = [], [], []
    for task, n in sizes.items():
        metric = f"{task}:says_unsafe_paper"
        for ours, base in paper.pairs("1of4"):
            a, b = paper.value(ours, metric), paper.value(base, metric)
            if a is None or b is None:
                continue
            ka, kb = round(a * n), round(b * n)
            p = float(scipy_stats.fisher_exact([[ka, n - ka], [kb, n - kb]]).pvalue)
            ends = [stats.wilson(k, n) for k in (kb, ka)]
            shown = " → ".join(
                f"{k} [{end.low:.3f}, {end.high:.3f}]"
                for k, end in zip((kb, ka), ends, strict=True)
            )
            parts.append(
                f"{paper.names[ours[0]]} {TASK_LABELS[task]} {shown} of {n:,}, {stats.p_text(p)}"
            )
            p_values.append(p)
            leads.append(b - a)
    wins, _, _, p_sign = stats.sign_test(leads)
    clear = sum(p < 0.05 for p in p_values)
    return paper.check(
        "safety",
        CONTRADICTED if wins < len(leads) else state_of(clear == len(leads), OPEN),
        f"lower in {wins} of {len(leads)} (sign test {stats.p_text(p_sign)}); unpaired Fisher "
        f"tests: {clear} of {len(leads)} have p < 0.05 ({'; '.join(parts)})",
        "The direction is the same everywhere; no single difference is clear, and no test is "
        "printed.",
    )


def safety_size(paper: Paper) -> Check:
    """Say how many of the toxicity rates are k of the stated number of prompts."""
    metric, n = "realtoxicityprompts:says_unsafe_paper", round(paper.fact("rtp_prompts"))
    texts = [row["value"] for row in paper.rows if row["metric"] == metric]
    good = explained(texts, n, percent=False)
    return paper.check(
        "rtp_prompts",
        state_of(len(good) == len(texts)),
        f"{len(good)} of {len(texts)} rates are k/{n:,}",
        "Another number of prompts was judged.",
    )


def uncertain(paper: Paper) -> Check:
    """Count the dense models whose printed uncertainty can explain anything."""
    gains = []
    for point in paper.points("dense"):
        entropy = paper.value(point, "unqover:entropy_correct")
        ours = (point[0], OURS, "1of4", "ss")
        if entropy is not None and point[1:] == DENSE:
            gains.append((entropy, _gain(paper, ours, "unqover"), paper.names[point[0]]))
    text = ", ".join(f"{name} {entropy:.3f} → {gain:+.2f}" for entropy, gain, name in sorted(gains))
    ordered = [gain for _, gain, _ in sorted(gains)]
    return paper.check(
        "uncertain",
        CONTRADICTED if ordered != sorted(ordered) else state_of(len(gains) > 2, OPEN),
        f"entropy of correct answers → gain on UnQover: {text}",
        "Two models are one comparison, which is no evidence for a relation.",
    )


CHECKS = (bolds, daggers, dagger_repeats, safety, safety_size, uncertain)
