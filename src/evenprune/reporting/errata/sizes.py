"""Numbers of items: which ones explain the printed values, and what the paper states."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...serving.shapes import QWEN25_7B
from ..labels import REGIME_LABELS
from .paper import MAIN, OPEN, Check, Paper, decimals, state_of

LARGEST = 5_000  # the largest number of items that is tried


def explains(text: str, sizes: ArrayLike, percent: bool = True) -> NDArray[np.bool_]:
    """Return for each of ``sizes`` whether a printed value is k of so many items, rounded.

    Rounded to its decimals, a half up or to the even digit. ``sizes`` are integers of any shape,
    that of the result.
    """
    unit = 10 ** decimals(text)
    scale, value, n = (100 if percent else 1) * unit, int(Decimal(text) * unit), np.asarray(sizes)
    good = np.zeros(n.shape, bool)
    for k in (value * n // scale, value * n // scale + 1):
        off = 2 * (scale * k - value * n)  # 2n times what k/n is above the value, in last digits
        good |= (k <= n) & (-n <= off) & ((off < n) | ((off == n) & (value % 2 == 0)))
    return good


def explained(texts: Iterable[str], n: int, percent: bool = True) -> list[str]:
    """Return the values that ``n`` items can give."""
    return [text for text in texts if explains(text, n, percent)]


def by_chance(n: int, digits: int) -> float:
    """Return the share of all percentages with ``digits`` decimals that ``n`` items can give."""
    return min(1.0, (n + 1) / (100 * 10**digits + 1))


def best_size(texts: Sequence[str], largest: int = LARGEST) -> int:
    """Return the number of items, at most ``largest``, that explains most beyond chance.

    ``texts`` are percentages with two decimals; of equal ones the smallest.
    """
    sizes = np.arange(1, largest + 1)
    chance = [by_chance(n, 2) for n in sizes.tolist()]
    counts = np.sum([explains(text, sizes) for text in texts], axis=0)
    return int(sizes[np.argmax(counts - np.array(chance) * len(texts))])


def _printed(paper: Paper, metric: str) -> list[str]:
    """Return the distinct printed values of a metric; of two forms the one with more digits."""
    found: dict[float, str] = {}
    for row in paper.rows:
        if row["metric"] == metric and row["calibration"] != "diff":
            text = row["value"]
            if len(text) > len(found.get(float(text), "")):
                found[float(text)] = text
    return list(found.values())


def crows_grid(paper: Paper) -> Check:
    """Find the number of pairs behind the CrowS-Pairs scores."""
    texts = _printed(paper, "crows_pairs")
    stated, best = round(paper.fact("crows_size")), best_size(texts)
    good = explained(texts, best)
    bad = [text for text in texts if text not in good]
    pairs = stated // 2
    sizes = [(n, len(explained(texts, n)), by_chance(n, 2) * len(texts)) for n in (pairs, stated)]
    others = "; ".join(f"{n:,}: {count} (by chance {odds:.0f})" for n, count, odds in sizes)
    return paper.check(
        "crows_size",
        state_of(best in (pairs, stated)),
        f"of {len(texts)} distinct values {len(good)} are k/{best:,} (by chance "
        f"{by_chance(best, 2) * len(texts):.0f}), the most beyond chance of all sizes up to "
        f"{LARGEST:,}; "
        f"{others}. On no grid: {', '.join(sorted(bad)) or 'none'}",
        f"Evaluated were {best:,} pairs; {stated:,} are the sentences of {pairs:,} pairs."
        + (f" {len(bad)} values have a digit wrong." if bad else ""),
    )


def bbq_grid(paper: Paper) -> Check:
    """Find the number of questions behind the BBQ values."""
    texts, stated = _printed(paper, "bbq"), round(paper.fact("bbq_size"))
    every = np.arange(1, LARGEST + 1)
    fine = every[np.all([explains(text, every) for text in texts], axis=0)].tolist()
    coarse = [text for text in texts if Decimal(text) * 10 % 1 == 0]
    two = [text for text in texts if decimals(text) == 2]
    ends = sum(text.endswith("0") for text in two)
    fewest = f"the fewest questions that explain all are {fine[0]:,}" if fine else "no size fits"
    subjects, smallest = round(paper.fact("bbq_subjects")), round(paper.fact("bbq_smallest"))
    own, everything = round(paper.fact("bbq_helm_rows")), round(paper.fact("bbq_rows"))
    return paper.check(
        "bbq_size",
        state_of(len(coarse) < len(texts)),
        f"{len(coarse)} of {len(texts)} distinct values are multiples of 0.1; {fewest}. With "
        f"{stated:,} one value in ten would be; that {ends} of {len(two)} with two decimals end in "
        f"0 has a chance of about 1e-{ends}. HELM's set has {own:,} questions, BBQ {everything:,}; "
        f"three options of the tests of {subjects} subjects are 3 × ({subjects - 1} × {own:,} + "
        f"{smallest:,}) = {3 * ((subjects - 1) * own + smallest):,}",
        f"The values are of {own:,} questions or were printed with three decimals of a fraction; "
        f"{stated:,} questions do not follow from either data set.",
    )


def harm_grid(paper: Paper) -> Check:
    """Find the number of behaviours behind the HarmBench rates."""
    texts = _printed(paper, "harmbench:says_unsafe_paper")
    own = round(paper.fact("harmbench_standard"))
    sizes = (own, *(round(paper.fact(f"harmbench_{name}")) for name in ("test", "all")))
    counts = {n: len(explained(texts, n, percent=False)) for n in sizes}
    listed = ", ".join(f"{n}: {count}" for n, count in counts.items())
    return paper.check(
        "harmbench_standard",
        state_of(counts[own] == len(texts), OPEN),
        f"of {len(texts)} rates are k/n for n = {listed}",
        "The number of behaviours is not stated and does not follow from the rates.",
    )


def largest(paper: Paper) -> Check:
    """Compare the stated sizes with "the largest benchmarks"."""
    mmlu, bbq = round(paper.fact("mmlu_rows")), round(paper.fact("bbq_size"))
    return paper.check(
        "largest",
        state_of(mmlu >= bbq),
        f"MMLU has {mmlu:,} questions, BBQ as stated {bbq:,}",
        "Either BBQ is smaller than stated or DTO is not of the two largest.",
    )


def unqover_size(paper: Paper) -> Check:
    """Compare the stated size of UnQover with its data."""
    stated, rows = round(paper.fact("unqover_size")), round(paper.fact("unqover_rows"))
    return paper.check(
        "unqover_size",
        state_of(stated == rows, OPEN),
        f"4 × {rows // 4:,} = {rows:,} questions in the cited data, {stated:,} stated",
        "A rounded number. In these data each category compares one group with all others.",
    )


def pairs(paper: Paper) -> Check:
    """Compare the stated pairs with StereoSet's."""
    stated, rows = round(paper.fact("stereoset_size")), round(paper.fact("stereoset_rows"))
    return paper.check(
        "stereoset_size",
        state_of(stated == rows),
        f"{stated:,} = 2 × {stated / 2:,.0f}; the development set has {rows:,} entries, each one "
        "pair",
        f"{stated:,} are the sentences; there are {rows:,} pairs.",
    )


def tokens(paper: Paper) -> Check:
    """Divide the stated tokens of the added texts by the texts."""
    texts, total = paper.fact("added_texts"), paper.fact("added_tokens")
    limit = paper.fact("release_tokens")
    return paper.check(
        "added_tokens",
        state_of(total / texts >= limit / 2, OPEN),
        f"{total:,.0f} / {texts:g} = {total / texts:.0f} tokens a text; the authors' release takes "
        f"{limit:,.0f} a text, {texts * limit:,.0f} in all",
        "Either the texts were cut short or different tokens were counted, as in the sentence on "
        "StereoSet before it.",
    )


def layers(paper: Paper) -> Check:
    """Compare the stated range of layers with the model and the printed rows."""
    printed = [
        int(row["metric"].split("/")[1].split(".")[0])
        for row in paper.rows
        if row["metric"].startswith("masks:")
    ]
    stated = round(paper.fact("layers"))
    return paper.check(
        "layers",
        state_of(stated == QWEN25_7B.layers - 1),
        f"the model has {QWEN25_7B.layers} layers, 0 to {QWEN25_7B.layers - 1}; the largest "
        f"printed index is {max(printed)}",
        f"The last layer is {QWEN25_7B.layers - 1}.",
    )


def datasets(paper: Paper) -> Check:
    """Count the data sets that the paper uses."""
    used, stated = paper.words("datasets_used"), round(paper.fact("datasets"))
    return paper.check(
        "datasets",
        state_of(len(used) == stated),
        f"{len(used)} are used: {', '.join(used)}",
        "The statement on usage covers some of them only.",
    )


def families(paper: Paper) -> Check:
    """Count the families of the models."""
    stated, models = round(paper.fact("families")), paper.words("model_families")
    own = list(dict.fromkeys(models))
    return paper.check(
        "families",
        state_of(len(own) == stated),
        f"{len(models)} models of {len(own)} families ({', '.join(own)})",
        f"They are {len(models)} models.",
    )


def sizes_of_models(paper: Paper) -> Check:
    """Compare the models' names in the text with those of the table of models."""
    text, table = paper.words("models_text"), paper.words("models_table")
    differ = [f"{a} is {b}" for a, b in zip(text, table, strict=True) if a != b]
    return paper.check(
        "models_text",
        state_of(not differ),
        f"by the table of models {'; '.join(differ)}" if differ else "they agree",
        "The table of models counts; the link of the base Qwen-3 leads to the post-trained model.",
    )


def regimes(paper: Paper) -> Check:
    """Compare the regimes that the abstract names with that of the main table."""
    main = {row["regime"] for row in paper.rows if row["table"] == MAIN} - {"dense"}
    named = paper.words("regimes_named")
    ours, theirs = (", ".join(REGIME_LABELS[x] for x in group) for group in (sorted(main), named))
    return paper.check(
        "regimes_named",
        state_of(main <= set(named)),
        f"the main table is of {ours}, the abstract names {theirs}",
        "In the paper N of M weights are zeros; usually N:M counts what is kept. No hardware is "
        "faster with one zero in four.",
    )


def magnitude_rows(paper: Paper) -> Check:
    """Count the models with rows of every baseline."""
    models = {row["model"] for row in paper.rows if row["method"] == "dense"}
    have = {row["model"] for row in paper.rows if row["method"] == "magnitude"}
    return paper.check(
        "baselines",
        state_of(models == have),
        f"magnitude pruning has rows for {len(have)} of {len(models)} models; the table of methods "
        f"lists {', '.join(paper.words('methods_listed'))}, not the dense model",
        f"{len(models - have)} models lack that baseline.",
    )


CHECKS = (
    crows_grid, bbq_grid, harm_grid, largest, unqover_size, pairs, tokens, layers, datasets,
    families, sizes_of_models, regimes, magnitude_rows,
)  # fmt: skip
