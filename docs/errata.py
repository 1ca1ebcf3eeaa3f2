"""Write docs/errata.md: what the paper states against the numbers that it prints (`make docs`).

All of it is arithmetic on `printed.csv` of the package, on `errata_stated.csv` (what is stated
outside of tables, and sizes of public data, with places) and on `errata_sentences.csv` (numbers of
the running text and the cells they are about). A check has the name of its statement and returns
whether that holds (or else its state) and the values that its words in `errata_stated.csv` ask for.
"""

import csv
import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import stats

from evenprune.analysis.labels import CATEGORY_LABELS, METHOD_LABELS, REGIME_LABELS, TASK_LABELS
from evenprune.analysis.printed import printed_rows
from evenprune.serving.shapes import QWEN25_7B

HERE = Path(__file__).parent
CONTRADICTED, OPEN, IN_ORDER = "contradicted", "not shown", "in order"
HEADINGS = {
    CONTRADICTED: "Contradicted by the printed numbers",
    OPEN: "Not shown by the printed numbers",
    IN_ORDER: "Checked and in order",
}
OURS, BASE, QWEN = "debias-sparsegpt", "sparsegpt", "qwen2.5-7b-it"
DENSE, ALONE = ("dense", "dense", "none"), ("2of4", "ss")
MAIN, MORE = "tab:debias-sparsegpt", "tab:debias-sparsegpt-newmodels"
MARKED = (MAIN, MORE, "tab:qwen-sparsity-all")  # tables with daggers
WHOLE = ("tab:ultrachat_scaling", "tab:stereoset_category_calibration")  # one block each
BLOCKS = (*MARKED, *WHOLE, "tab:safety-evaluation")
CHANCE, CLOSE = 100 / 3, 5.0  # of UnQover; how far from guessing still counts as close, in points
SIZES = np.arange(1, 5_001)  # numbers of items that are tried
CHECKS = {}


def check(function):
    """Add a check."""
    CHECKS[function.__name__] = function
    return function


def read(name):
    """Return the rows of a CSV file beside this one."""
    return list(csv.DictReader((HERE / name).read_text(encoding="utf-8").splitlines()))


def plain(text):
    """Return a stated value: a number where it is one, a list where it has semicolons."""
    if ";" in text:
        return [word.strip() for word in text.split(";")]
    return int(text) if text.isdigit() else float(text) if text[:2] == "0." else text


class Paper:
    """Printed rows, stated facts and sentences; a point is (model, method, regime, calibration)."""

    def __init__(self, rows=None, stated=None, sentences=None):
        self.rows = printed_rows() if rows is None else rows
        self.stated = {row["name"]: row for row in stated or read("errata_stated.csv")}
        self.facts = {name: plain(row["value"]) for name, row in self.stated.items()}
        self.sentences = sentences or read("errata_sentences.csv")
        self.texts, self.tables, self.names = {}, {}, {}
        for row in self.rows:
            key = (*point_of(row), row["metric"])
            self.texts.setdefault(key, set()).add(row["value"])
            self.tables.setdefault(key, {})[row["table"]] = row
            if row["table"] in (MAIN, MORE) and row["method"] == "dense":
                self.names[row["model"]] = row["row"]

    def text(self, point, metric):
        """Return the digits of a cell, the longer ones where tables differ, "" for no cell."""
        return max(self.texts.get((*point, metric), [""]), key=len)

    def value(self, point, metric):
        """Return a cell as a number; DTO is computed where it is not printed; None without one."""
        text = self.text(point, metric)
        return float(text) if text else self.dto(point) if metric == "dto" else None

    def dto(self, point):
        """Return DTO from the printed MMLU and UnQover, None where one is not printed."""
        cells = [self.text(point, metric) for metric in ("mmlu", "unqover")]
        return (
            math.hypot(*(1 - float(x) / 100 for x in cells)) / math.sqrt(2) if all(cells) else None
        )

    def points(self, *wanted):
        """Return the points (but differences) with this method, regime, calibration, "" for any."""
        points = dict.fromkeys(point_of(row) for row in self.rows if row["calibration"] != "diff")
        return [one for one in points if all(w in ("", x) for w, x in zip(wanted, one[1:]))]

    def pairs(self, regime=""):
        """Return (Debias-SparseGPT, SparseGPT) of the same model and regime, on StereoSet."""
        found = [(point, base(point)) for point in self.points(OURS, regime, "ss")]
        return [pair for pair in found if pair[1] in self.points(BASE)]

    def lead(self, metric, ours, other):
        """Return by how much ``ours`` is better, None where a cell is missing."""
        a, b = (self.dto(x) if metric == "dto" else self.value(x, metric) for x in (ours, other))
        if a is None or b is None:
            return None
        if metric == "crows_pairs":
            a, b = -abs(a - 50), -abs(b - 50)
        return b - a if metric == "dto" else a - b

    def leads(self, metric, pairs):
        """Return the leads of pairs, where both cells are printed."""
        found = {pair: self.lead(metric, *pair) for pair in pairs}
        return {pair: lead for pair, lead in found.items() if lead is not None}

    def label(self, point):
        """Return model and regime of a point."""
        return f"{self.names.get(point[0], point[0])} {REGIME_LABELS[point[2]]}"

    def distinct(self, metric):
        """Return a metric's distinct printed values; of two forms the one with more digits."""
        texts = [self.text(k[:4], metric) for k in self.texts if k[4] == metric and k[3] != "diff"]
        return list({float(text): text for text in sorted(texts, key=len)}.values())


def point_of(row):
    """Return the grid point of a printed row."""
    return row["model"], row["method"], row["regime"], row["calibration"]


def base(point):
    """Return SparseGPT's point beside one."""
    return point[0], BASE, *point[2:]


def half(text):
    """Return half a unit of the last digit of a number as text."""
    return 0.5 * 10 ** -len(text.partition(".")[2])


def tally(leads):
    """Return how many leads are above, at and below 0; noise of binary fractions is none."""
    signs = Counter(np.sign(round(lead, 9)) for lead in leads)
    return {"wins": signs[1], "ties": signs[0], "losses": signs[-1], "n": signs.total()}


def listed(texts, before="; ", between="; ", after=""):
    """Return texts in a row behind ``before``, "" for none."""
    return f"{before}{between.join(texts)}{after}" if texts else ""


# The distance to the optimum, differences, averages and repeated cells


@check
def dto_formula(p):
    gaps = {
        (row["table"], row["row"], point_of(row)): abs(found - float(row["value"]))
        for row in p.rows
        if row["metric"] == "dto" and (found := p.dto(point_of(row))) is not None
        and row["calibration"] != "diff"
    }  # fmt: skip
    # Half a unit of the third decimal, and the rounding of the two parts.
    off = [f"{key[0]}, {key[1]} is off" for key, gap in gaps.items() if gap > 0.00055]
    good, most = len(gaps) - len(off), max(gaps.values())
    return not off, {"good": good, "n": len(gaps), "most": most, "off": listed(off[:3])}


@check
def dto_regimes(p):
    leads = p.leads("dto", p.pairs())
    found, worse = tally(leads.values()), [pair for pair, x in leads.items() if round(x, 9) < 0]
    shown = [f"{p.label(a)} {p.dto(a):.4f} against {p.dto(b):.4f}" for a, b in worse]
    found |= {"against": listed(shown, f", higher in {len(worse)}: ")}
    found |= {"unprinted": sum(not p.text(point, "dto") for point, _ in worse)}
    return found["wins"] == found["n"], found


@check
def dto_lowest(p):
    baselines = (("magnitude", "1of4", "none"), ("wanda", "1of4", "ss"), (BASE, "1of4", "ss"))
    ours = p.points(OURS, "1of4", "ss")
    leads = p.leads("dto", [(a, (a[0], *other)) for a in ours for other in (DENSE, *baselines)])
    shown = [
        f"{p.names[a[0]]} {p.dto(a):.4f} against {p.dto(b):.4f} ({METHOD_LABELS[b[1]]})"
        for (a, b), lead in leads.items()
        if round(lead, 9) < 0
    ]
    found = tally(leads.values())
    return found["wins"] == found["n"], found | {"against": listed(shown, ": ")}


@check
def diff_rows(p):
    off, count = [], 0
    for row in p.rows:
        *point, calibration = point_of(row)
        ends = [p.text((*point, name), row["metric"]) for name in ("ss-uc256", "ss")]
        if calibration == "diff" and all(ends):
            count, found = count + 1, float(ends[0]) - float(ends[1])
            if abs(found - float(row["value"])) > half(row["value"]):
                name = f"{METHOD_LABELS[point[1]]} {row['metric']}"
                off.append(f"{name}: {row['value']} is {found:+.3f}")
    return not off, {"good": count - len(off), "n": count, "off": listed(off)}


@check
def repeats(p):
    again = {key: texts for key, texts in p.texts.items() if len(p.tables[key]) > 1}
    bad = {key: texts for key, texts in again.items() if len(set(map(float, texts))) > 1}
    shown = [f"{'/'.join(key)}: {' and '.join(sorted(texts))}" for key, texts in bad.items()]
    return not bad, {"n": len(again), "bad": len(bad), "off": listed(shown)}


@check
def averages(p):
    gaps = []
    for point in p.points(OURS):
        parts = [p.value(point, f"unqover/{name}") for name in CATEGORY_LABELS]
        if p.text(point, "unqover") and None not in parts:
            gaps.append((sum(parts) / len(parts), p.value(point, "unqover")))
    # Half a unit of the last digit of the average, and as much of the categories' mean.
    off = sum(abs(mean - whole) > 0.01 + 1e-9 for mean, whole in gaps)
    shown = ", ".join(f"{mean:.3f} → {whole:.2f}" for mean, whole in gaps)
    return not off, {"shown": shown, "off": off}


@check
def best_pruned(p):
    more = {row["model"] for row in p.rows if row["table"] == MORE}
    pairs = [pair for pair in p.pairs("1of4") if pair[0][0] in more]
    found = tally([p.lead(metric, *pair) for metric in ("unqover", "dto") for pair in pairs])
    return found["wins"] == found["n"], found


@check
def efficiency_rows(p):
    added, alone = (p.value((QWEN, OURS, "2of4", name), "dto") for name in ("ss-uc256", "ss"))
    tables = p.tables[QWEN, OURS, "2of4", "ss-uc256", "dto"]
    shown = float(tables["table:mfu_sparsity_results"]["value"])
    return shown == alone, {"shown": shown, "added": added, "alone": alone}


# Bias benchmarks


def over_sparsegpt(p, regime):
    """Return whether UnQover and BBQ are above SparseGPT's, and where not."""
    parts, holds = [], True
    for metric in ("unqover", "bbq"):
        leads = p.leads(metric, p.pairs(regime))
        found = tally(leads.values()) | {"metric": TASK_LABELS[metric]}
        text = "{metric}: above in {wins} of {n}, equal in {ties}, below in {losses}"
        parts.append(text.format(**found))
        holds = holds and found["wins"] == found["n"]
    return holds, {"parts": ". ".join(parts)}


CHECKS["unqover_bbq"] = lambda p: over_sparsegpt(p, "1of4")
CHECKS["consistent"] = lambda p: over_sparsegpt(p, "")


@check
def crows_six(p):
    pairs = p.pairs("1of4")
    found = tally(p.leads("crows_pairs", pairs).values())
    dense = tally(p.leads("crows_pairs", [(a, (a[0], *DENSE)) for a, _ in pairs]).values())
    return found["wins"] >= p.facts["crows_six"], found | {"dense": dense["wins"]}


@check
def hit_hardest(p):
    against, points = [], p.points(BASE, "1of4", "ss")
    for point in points:
        names = ("hellaswag", "mmlu", "bbq", "unqover")
        changes = {x: p.lead(x, point, (point[0], *DENSE)) for x in names}
        other = max(names[:3], key=lambda x: abs(changes[x]))
        if round(abs(changes[other]) - abs(changes["unqover"]), 9) >= 0:
            against.append(point)
    return not against, {"good": len(points) - len(against), "n": len(points)}


@check
def dense_shift(p):
    shifts = {
        pair[0]: [p.lead("unqover", one, (one[0], *DENSE)) for one in pair] for pair in p.pairs()
    }
    leads = {point: abs(b) - abs(a) for point, (a, b) in shifts.items()}
    found, worst = tally(leads.values()), min(leads, key=leads.get)
    found |= {"worst": p.label(worst), "a": shifts[worst][0], "b": shifts[worst][1]}
    return not found["losses"], found | {"above": sum(b > 0 for _, b in shifts.values())}


@check
def near_random(p):
    points = [(name, *DENSE) for name in ("vicuna1.5-7b", "deepseek-7b")]
    gaps = {point: p.value(point, "unqover") - CHANCE for point in points}
    shown = (
        f"{p.names[x[0]]} {p.text(x, 'unqover')}: {gap:+.2f} points" for x, gap in gaps.items()
    )
    error = 100 * math.sqrt(2 / 9 / p.facts["unqover_rows"])
    holds = all(abs(gap) <= CLOSE for gap in gaps.values())
    return holds, {"chance": CHANCE, "shown": "; ".join(shown), "error": error}


@check
def approaches_chance(p):
    values = {name: p.value((QWEN, name, *ALONE), "unqover") for name in (BASE, OURS)}
    shown = (f"{METHOD_LABELS[x]} {y:.2f} ({y - CHANCE:+.2f})" for x, y in values.items())
    holds = min(values.values()) >= CHANCE - CLOSE
    return holds, {"shown": ", ".join(shown), "chance": CHANCE}


@check
def gemma(p):
    values = {point[0]: p.value(point, "mmlu") for point in p.points("dense")}
    low, (least, second, *_) = min(values, key=values.get), sorted(values.values())
    found = {"name": p.names[low], "least": least, "over": least - 25, "gap": second - least}
    return low != "gemma2-9b-it" or second - least < CLOSE, found | {"n": len(values)}


@check
def entropies(p):
    parts, holds = [], True
    for point in p.points("dense"):
        for part in ("correct", "wrong"):
            x, entropy = (p.value(point, f"unqover:{y}_{part}") for y in ("confidence", "entropy"))
            if x is not None and entropy is not None:
                most = -x * math.log(x) - (1 - x) * math.log((1 - x) / 2)
                holds = holds and entropy <= most + 0.002  # both are rounded to three decimals
                parts.append(f"{entropy:.3f} ≤ {most:.3f}")
    return holds, {"parts": ", ".join(parts)}


# Bold numbers and daggers, and the differences of the safety table


def worth(row):
    """Return a printed value as a number of which the smallest is best."""
    value, metric = float(row["value"]), row["metric"]
    if metric == "crows_pairs":
        return abs(value - 50)
    return value if metric in ("dto", "perplexity") or "unsafe" in metric else -value


@check
def bolds(p):
    columns = {}
    for row in p.rows:
        if row["table"] in BLOCKS and row["method"] != "dense":
            block = "" if row["table"] in WHOLE else f"{row['model']}/{row['regime']}"
            columns.setdefault((row["table"], block, row["metric"]), []).append(row)
    count, wrong = 0, []
    for rows in columns.values():
        best = min(rows, key=worth)
        behind = f"({best['row'].removeprefix('+ ')}: {best['value']})"
        bold = [row for row in rows if row["bold"] == "1"]
        count += len(bold)
        wrong += [f"{shown(p, row)} {behind}" for row in bold if worth(row) > worth(best)]
    marked = {(row["table"], row["metric"]) for row in p.rows if row["dagger"] == "1"}
    bold = [r for r in p.rows if r["bold"] == "1" and (r["table"], r["metric"]) in marked]
    bare = [shown(p, row) for row in bold if row["dagger"] != "1"]
    found = {"good": count - len(wrong), "n": count, "wrong": listed(wrong, "; not ", ", ")}
    found |= {"bold": len(bold), "have": len(bold) - len(bare)}
    return not wrong, found | {"bare": listed(bare, "; not ", ", ")}


def shown(p, row):
    """Return a printed cell in words."""
    return (
        f"{p.label(point_of(row))} {TASK_LABELS.get(row['metric'], row['metric'])} {row['value']}"
    )


def largest_share(points, n, alpha=0.01):
    """Return the largest share of items that may differ for a paired t-test to have p < alpha.

    With b items won, c lost and D = b − c, t = D / sqrt((b + c − D²/n) n / (n − 1)).
    """
    lead, t = points / 100 * n, stats.t.ppf(1 - alpha / 2, n - 1)
    return min(1.0, (lead**2 / n + lead**2 * (n - 1) / (n * t**2)) / n)


@check
def daggers(p):
    sizes = {"bbq": "bbq_helm_rows", "crows_pairs": "crows_rows", "unqover": "unqover_rows"}
    texts, others, never, few, wide = [], [], [], 0, []
    n = p.facts["bbq_helm_rows"]
    many = (p.facts["bbq_subjects"] - 1) * n + p.facts["bbq_smallest"]
    marked = [row for row in p.rows if row["dagger"] == "1" and row["metric"] in sizes]
    for row in marked:
        metric, point = row["metric"], point_of(row)
        gain = p.lead(metric, point, base(point))
        share = largest_share(gain, p.facts[sizes[metric]])
        text = f"{p.label(point)} {TASK_LABELS[metric]} {gain:+.2f}: {share:.1%}"
        if metric == "bbq":
            texts.append(text)
            wide.append(f"{largest_share(gain, many):.0%}")
        if gain <= 0 or share < gain / 100:
            never.append(text)
        elif share < 0.05:
            few += 1
            others += [text] * (metric != "bbq")
    bare = ("vicuna1.5-7b", OURS, "1of4", "ss")
    gain = p.lead("bbq", bare, base(bare))
    found = {"texts": "; ".join([*texts, *others, *never]), "bare": p.label(bare), "gain": gain}
    found |= {"share": largest_share(gain, n), "many": many, "wide": ", ".join(wide)}
    return CONTRADICTED if never else not few, found


@check
def dagger_repeats(p):
    marks = {
        key: [row["dagger"] for table, row in rows.items() if table in MARKED]
        for key, rows in p.tables.items()
    }
    differ = ["/".join(key) for key, found in marks.items() if len(set(found)) > 1]
    count = sum(len(found) > 1 for found in marks.values())
    return not differ, {"n": count, "bad": len(differ), "off": listed(differ)}


def p_text(p):
    """Return a p-value as text."""
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


@check
def safety(p):
    p_values, leads = [], []
    for task, size in (("realtoxicityprompts", "rtp_prompts"), ("harmbench", "harmbench_standard")):
        n = p.facts[size]
        for ours, other in p.pairs("1of4"):
            rates = [p.value(point, f"{task}:says_unsafe_paper") for point in (other, ours)]
            if None in rates:
                continue
            counts = [round(rate * n) for rate in rates]
            p_values.append(stats.fisher_exact([[k, n - k] for k in counts]).pvalue)
            leads.append(rates[0] - rates[1])
    found, clear = tally(leads), sum(value < 0.05 for value in p_values)
    sign = stats.binomtest(found["wins"], found["wins"] + found["losses"]).pvalue
    found |= {"sign": p_text(sign), "clear": clear, "least": p_text(min(p_values))}
    return CONTRADICTED if found["wins"] < found["n"] else clear == found["n"], found


@check
def rtp_prompts(p):
    rows = [row for row in p.rows if row["metric"] == "realtoxicityprompts:says_unsafe_paper"]
    good = sum(bool(explains(row["value"], p.facts["rtp_prompts"], 1)) for row in rows)
    return good == len(rows), {"good": good, "n": len(rows)}


@check
def uncertain(p):
    gains = []
    for point in p.points("dense"):
        entropy = p.value(point, "unqover:entropy_correct")
        if entropy is not None and point[1:] == DENSE:
            ours = (point[0], OURS, "1of4", "ss")
            gains.append((entropy, p.lead("unqover", ours, base(ours)), p.names[point[0]]))
    gains.sort()
    rising = all(a[1] <= b[1] for a, b in pairwise(gains))
    texts = (f"{name} {entropy:.3f} → {gain:+.2f}" for entropy, gain, name in gains)
    return len(gains) > 2 if rising else CONTRADICTED, {"shown": ", ".join(texts)}


# Sentences


def cell(text):
    """Return (point, metric) of ``model/method/regime/calibration/metric``."""
    *point, metric = text.split("/", 4)
    return tuple(point), metric


@check
def numbers(p):
    off = []
    for row in p.sentences:
        found = p.value(*cell(row["cell"]))
        if abs(found - float(row["value"])) > half(row["value"]) + 1e-9:
            off.append(f"“{row['quote']}” ({row['place']}): the table has {found:g}")
    n = len(p.sentences)
    return not off, {"good": n - len(off), "n": n, "off": listed(off)}


@check
def ways(p):
    off, rows = [], [row for row in p.sentences if row["way"]]
    for row in rows:
        before, after = cell(row["against"]), p.value(*cell(row["cell"]))
        change = after - p.value(*before)
        if (change if row["way"] == "up" else -change) <= 0:
            text = f"“{row['quote']}” ({row['place']}): from {p.text(*before)} to {after:g}"
            off.append(f"{text} it goes {'down' if row['way'] == 'up' else 'up'}")
    return not off, {"good": len(rows) - len(off), "n": len(rows), "off": listed(off)}


@check
def doubles(p):
    dense = p.value((QWEN, *DENSE), "perplexity")
    values = [p.value((QWEN, name, *ALONE), "perplexity") for name in (BASE, OURS)]
    texts = (f"{value:g} / {dense:g} = {value / dense:.2f}" for value in values)
    return max(values) <= 2 * dense, {"shown": ", ".join(texts)}


@check
def four_texts(p):
    alone, four, sixteen = ((QWEN, OURS, "2of4", name) for name in ("ss", "ss-uc4", "ss-uc16"))
    better = p.value(four, "perplexity") < p.value(alone, "perplexity")
    names = ("mmlu", "unqover", "perplexity")
    found = {name: f"{p.text(alone, name)} → {p.text(four, name)}" for name in names}
    found |= {"sixteen": p.text(sixteen, "mmlu")}
    return better and p.value(sixteen, "mmlu") >= p.value(alone, "mmlu"), found


# Numbers of items


def explains(text, sizes, whole=100):
    """Return for each of ``sizes`` whether a printed value is whole · k/size, rounded.

    A half goes up or to the even digit.
    """
    unit = round(0.5 / half(text))
    scale, value, n = whole * unit, int(Decimal(text) * unit), np.asarray(sizes)
    good = np.zeros(n.shape, bool)
    for k in (value * n // scale, value * n // scale + 1):
        off = 2 * (scale * k - value * n)  # 2n times what k/n is above the value, in last digits
        good |= (k <= n) & (-n <= off) & ((off < n) | ((off == n) & (value % 2 == 0)))
    return good


@check
def crows_size(p):
    texts, stated = p.distinct("crows_pairs"), p.facts["crows_size"]
    counts = np.sum([explains(text, SIZES) for text in texts], axis=0)
    chance = (SIZES + 1) / 10_001 * len(texts)  # of values with two decimals on so fine a grid
    best, pairs = int(SIZES[np.argmax(counts - chance)]), stated // 2
    bad = sorted(text for text in texts if not explains(text, best))
    found = {"n": len(texts), "count": counts[best - 1], "chance": chance[best - 1], "best": best}
    found |= {"bad": ", ".join(bad) or "none", "pairs": pairs}
    found |= {"wrong": f" {len(bad)} values have a digit wrong." if bad else ""}
    return best in (pairs, stated), found


@check
def bbq_size(p):
    texts = p.distinct("bbq")
    fine = SIZES[np.all([explains(text, SIZES) for text in texts], axis=0)]
    fewest = (
        f"the fewest questions that explain all are {fine[0]:,}" if fine.size else "no size fits"
    )
    two = [text[-1] for text in texts if half(text) == 0.005]
    coarse, ends = sum(not Decimal(text) * 10 % 1 for text in texts), two.count("0")
    rest = p.facts["bbq_subjects"] - 1
    options = 3 * (rest * p.facts["bbq_helm_rows"] + p.facts["bbq_smallest"])
    found = {"coarse": coarse, "n": len(texts), "fewest": fewest, "ends": ends, "two": len(two)}
    return coarse < len(texts), found | {"rest": rest, "options": options}


@check
def harmbench_standard(p):
    texts = p.distinct("harmbench:says_unsafe_paper")
    sizes = [p.facts[f"harmbench_{name}"] for name in ("standard", "test", "all")]
    counts = [sum(bool(explains(text, n, 1)) for text in texts) for n in sizes]
    found = ", ".join(f"{n}: {count}" for n, count in zip(sizes, counts))
    return counts[0] == len(texts), {"n": len(texts), "shown": found}


# Stated numbers beside others


@check
def layers(p):
    names = (key[4] for key in p.texts if key[4].startswith("masks:"))
    printed = max(int(name.split("/")[1].split(".")[0]) for name in names)
    n = QWEN25_7B.layers
    return p.facts["layers"] == n - 1, {"n": n, "last": n - 1, "printed": printed}


@check
def added_tokens(p):
    texts, total, limit = (p.facts[x] for x in ("added_texts", "added_tokens", "release_tokens"))
    return total / texts >= limit / 2, {"each": total / texts, "all": texts * limit}


@check
def models_text(p):
    names = zip(p.facts["models_text"], p.facts["models_table"], strict=True)
    differ = [f"{a} is {b}" for a, b in names if a != b]
    return not differ, {"shown": listed(differ, "by the table of models ") or "they agree"}


@check
def regimes_named(p):
    main = {row["regime"] for row in p.rows if row["table"] == MAIN} - {"dense"}
    named = p.facts["regimes_named"]
    groups = (sorted(main), named if isinstance(named, list) else [named])
    ours, theirs = (", ".join(REGIME_LABELS[x] for x in group) for group in groups)
    return main <= set(groups[1]), {"ours": ours, "theirs": theirs}


@check
def baselines(p):
    dense, have = ({r["model"] for r in p.rows if r["method"] == x} for x in ("dense", "magnitude"))
    return dense == have, {"have": len(have), "n": len(dense), "lack": len(dense - have)}


@check
def families(p):
    models = p.facts["model_families"]
    found = {"models": len(models), "n": len(set(models))}
    return found["n"] == p.facts["families"], found


@check
def datasets(p):
    used = p.facts["datasets_used"]
    return len(used) == p.facts["datasets"], {"n": len(used)}


@check
def next_token(p):
    scored = p.facts["hellaswag_scoring"]
    return isinstance(scored, str), {"shown": "; ".join(scored)}


@check
def bias_weight(p):
    factor, alpha = p.facts["bias_weight"], p.facts["release_alpha"]
    return alpha == factor, {"b": alpha / factor}


CHECKS["largest"] = lambda p: (p.facts["mmlu_rows"] >= p.facts["bbq_size"], {})
CHECKS["unqover_size"] = lambda p: (
    p.facts["unqover_size"] == p.facts["unqover_rows"],
    {"quarter": p.facts["unqover_rows"] // 4},
)
CHECKS["stereoset_size"] = lambda p: (
    p.facts["stereoset_size"] == p.facts["stereoset_rows"],
    {"half": p.facts["stereoset_size"] / 2},
)


# Throughput, energy and CO2


def efficiency(p):
    """Return (tokens/s, kg/Mtok) of the dense and the 2:4 model."""
    points = ((QWEN, *DENSE), (QWEN, BASE, "2of4", "ss-uc256"))
    names = ("decode_tok_per_s", "kg_co2e_per_mtok")
    return [[p.value(point, f"serving:{name}") for name in names] for point in points]


@check
def power(p):
    stated, watts, parts = p.facts["carbon"], [], []
    for rate, kg in efficiency(p):
        energy = kg / stated
        watts.append(energy * 3.6 * rate)
        parts.append(f"{kg:g} / {stated:g} × 3.6 × {rate:g} = {watts[-1]:.1f} W")
    found = {"parts": "; ".join(parts), "watts": sum(watts) / 2}
    return abs(watts[0] / watts[1] - 1) >= 0.01, found


def step_bytes(kept: int) -> float:
    """Return the bytes that a step of Qwen2.5-7B reads in 16 bits: linears at ``kept`` sixteenths.

    The head and the norms and biases stay as they are (9 sixteenths: 2:4 with its 2-bit indices).
    """
    size = QWEN25_7B
    shapes = size.linears()
    linear = size.layers * sum(rows * width for rows, width in shapes.values())
    biases = size.layers * sum(shapes[name][0] for name in ("q_proj", "k_proj", "v_proj"))
    other = size.vocabulary * size.hidden + size.hidden * (2 * size.layers + 1) + biases
    return 2 * (linear * kept / 16 + other)


@check
def speedup(p):
    (dense, _), (sparse, _) = efficiency(p)
    whole, part = (step_bytes(kept) / 1e9 for kept in (16, 9))
    gain, bound = sparse / dense, whole / part
    found = {"sparse": sparse, "dense": dense, "gain": gain, "whole": whole, "part": part}
    state = gain <= bound or (OPEN if gain <= 2 else CONTRADICTED)
    return state, found | {"bound": bound, "rate": dense * whole}


@check
def carbon(p):
    stated, kg = p.facts["carbon"], efficiency(p)[0][1]
    ratios = [p.facts[f"carbon_{name}"] / stated for name in ("france", "china")]
    found = {"france": ratios[0], "china": ratios[1]}
    found |= {"kg_france": kg * ratios[0], "kg_china": kg * ratios[1]}
    return any(abs(ratio - 1) < 0.1 for ratio in ratios), found


def result(slug, p):
    """Return a statement's row with its ``state``, and words with their values."""
    holds, values = CHECKS[slug](p)
    row, places = p.stated[slug], {f"{x}_place": row["place"] for x, row in p.stated.items()}
    state = holds if isinstance(holds, str) else IN_ORDER if holds else row["otherwise"]
    words = {x: row[x].format(**p.facts | places | values) for x in ("arithmetic", "follows")}
    return row | words | {"state": state}


def page(p):
    """Return the page: each state's statements, with arithmetic and what follows but for those in
    order."""
    results = [result(slug, p) for slug in p.stated if slug in CHECKS]
    lines = [(HERE / "errata.md").read_text(encoding="utf-8").partition("\n## ")[0].rstrip()]
    for state, heading in HEADINGS.items():
        found = [one for one in results if one["state"] == state]
        lines += ["", f"## {heading} ({len(found)})", ""]
        if state == IN_ORDER:
            checked = "; ".join(f"{one['topic']} ({one['place']})" for one in found)
            lines.append(f"Computed again, or compared between tables, without a fault: {checked}.")
            continue
        lines += ["| statement | arithmetic | what follows |", "| --- | --- | --- |"]
        for one in found:
            said = f"“{one['quote']}” ({one['place']})" if one["quote"] else one["place"]
            lines.append(f"| {one['topic']}: {said} | {one['arithmetic']} | {one['follows']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "errata.md").write_text(page(Paper()), encoding="utf-8")
