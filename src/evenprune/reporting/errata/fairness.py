"""The statements on bias benchmarks, counted over the printed cells."""

import math
from collections.abc import Callable

from ...plan.tasks import FACTS
from ..labels import METHOD_LABELS, TASK_LABELS
from .paper import BASE, DENSE, OPEN, OURS, Check, Paper, Point, state_of, tally

# How far from guessing still counts as close, and how far one model's MMLU may be from the next,
# in points.
CLOSE = 5.0
CHANCE = 100 * (FACTS["unqover"].chance or 0.0)


def _lead(paper: Paper, name: str, ours: Point, base: Point) -> float | None:
    """Return by how much ``ours`` is better; None where a cell is missing."""
    a, b = paper.value(ours, name), paper.value(base, name)
    if a is None or b is None:
        return None
    return abs(b - 50) - abs(a - 50) if name == "crows_pairs" else a - b


def _leads(paper: Paper, name: str, regime: str = "") -> dict[Point, float]:
    found = {ours: _lead(paper, name, ours, base) for ours, base in paper.pairs(regime)}
    return {point: lead for point, lead in found.items() if lead is not None}


def _listed(paper: Paper, name: str, leads: dict[Point, float]) -> str:
    """Return the cells against a statement, ours and SparseGPT's."""
    parts = []
    for point, lead in leads.items():
        if round(lead, 9) <= 0:
            base = (point[0], BASE, *point[2:])
            cells = f"{paper.text(point, name)}/{paper.text(base, name)}"
            parts.append(f"{paper.label(point)} {cells}")
    return ", ".join(parts)


def _over_sparsegpt(slug: str, regime: str, follows: str) -> Callable[[Paper], Check]:
    """Return the check that UnQover and BBQ are above SparseGPT's."""

    def check(paper: Paper) -> Check:
        parts, holds = [], True
        for name in ("unqover", "bbq"):
            leads = _leads(paper, name, regime)
            wins, ties, losses = tally(list(leads.values()))
            holds = holds and not ties and not losses
            text = f"{TASK_LABELS[name]}: above in {wins} of {len(leads)}, equal in {ties}, "
            text += f"below in {losses}"
            listed = _listed(paper, name, leads)
            parts.append(text + (f" ({listed})" if listed else ""))
        return paper.check(slug, state_of(holds), ". ".join(parts), follows)

    return check


def crows_six(paper: Paper) -> Check:
    """Count the models whose CrowS-Pairs score is closer to 50 at 1:4."""
    leads = _leads(paper, "crows_pairs", "1of4")
    wins, ties, losses = tally(list(leads.values()))
    dense = [_lead(paper, "crows_pairs", point, (point[0], *DENSE)) for point in leads]
    known = [lead for lead in dense if lead is not None]
    claimed = round(paper.fact("crows_six"))
    return paper.check(
        "crows_six",
        state_of(wins >= claimed),
        f"closer to 50 than SparseGPT for {wins} of {len(leads)} models, equally close for {ties}, "
        f"farther for {losses}; closer than the dense model for {tally(known)[0]}",
        "The stated number is the one against the dense models.",
    )


def hit_hardest(paper: Paper) -> Check:
    """Compare SparseGPT's change of UnQover at 1:4 with that of the other accuracies."""
    against = []
    points = paper.points(BASE, "1of4", "ss")
    for point in points:
        dense = (point[0], *DENSE)
        changes = {
            name: paper.need(point, name) - paper.need(dense, name)
            for name in ("unqover", "hellaswag", "mmlu", "bbq")
        }
        other = max((name for name in changes if name != "unqover"), key=lambda n: abs(changes[n]))
        if round(abs(changes[other]) - abs(changes["unqover"]), 9) >= 0:
            against.append(
                f"{paper.names[point[0]]} UnQover {changes['unqover']:+.2f}, "
                f"{TASK_LABELS[other]} {changes[other]:+.2f}"
            )
    return paper.check(
        "hit_hardest",
        state_of(not against),
        f"by SparseGPT, UnQover changes most for {len(points) - len(against)} of {len(points)} "
        f"models" + (f"; not for {'; '.join(against)}" if against else ""),
        "BBQ often changes more than UnQover.",
    )


def dense_shift(paper: Paper) -> Check:
    """Compare the distances of both methods' UnQover to the dense model's."""
    leads, above = {}, 0
    for ours, base in paper.pairs():
        dense = paper.need((ours[0], *DENSE), "unqover")
        a, b = paper.need(ours, "unqover") - dense, paper.need(base, "unqover") - dense
        leads[ours] = (abs(b) - abs(a), a, b)
        above += b > 0
    wins, ties, losses = tally([lead for lead, *_ in leads.values()])
    _, a, b = leads[worst := min(leads, key=lambda point: leads[point][0])]
    return paper.check(
        "dense_shift",
        state_of(losses == 0, OPEN),
        f"UnQover is closer to the dense model's than SparseGPT's in {wins} of {len(leads)} "
        f"configurations, as close in {ties}, farther in {losses}; farthest off: "
        f"{paper.label(worst)}, {a:+.2f} from dense against {b:+.2f}. SparseGPT alone is above the "
        f"dense model in {above}",
        "What the tables measure is a higher UnQover, not a smaller shift from the dense model.",
    )


def near_random(paper: Paper) -> Check:
    """Compare the dense models that are called close to guessing with guessing."""
    slugs, n, parts, far = ("vicuna1.5-7b", "deepseek-7b"), paper.fact("unqover_rows"), [], False
    error = 100 * math.sqrt(CHANCE / 100 * (1 - CHANCE / 100) / n)
    for slug in slugs:
        value = paper.need((slug, *DENSE), "unqover")
        gap = value - CHANCE
        far = far or abs(gap) > CLOSE
        parts.append(f"{paper.names[slug]} {value:.2f}: {gap:+.2f} points")
    return paper.check(
        "near_random",
        state_of(not far),
        f"guessing gives {CHANCE:.2f}; {'; '.join(parts)} (standard error of guessing over "
        f"{n:,.0f} questions: {error:.2f})",
        "A model so far below guessing prefers named groups or a letter; that is not guessing.",
    )


def approaches_chance(paper: Paper) -> Check:
    """Compare UnQover at 2:4 with guessing."""
    parts, far = [], False
    for method in (BASE, OURS):
        value = paper.need(("qwen2.5-7b-it", method, "2of4", "ss"), "unqover")
        far = far or value < CHANCE - CLOSE
        parts.append(f"{METHOD_LABELS[method]} {value:.2f} ({value - CHANCE:+.2f})")
    return paper.check(
        "approaches_chance",
        state_of(not far),
        f"{', '.join(parts)} points from {CHANCE:.2f}",
        "The scores pass guessing and end below it.",
    )


def gemma(paper: Paper) -> Check:
    """Compare the dense Gemma's MMLU with the other models'."""
    values = {point[0]: paper.need(point, "mmlu") for point in paper.points("dense")}
    low = min(values, key=lambda name: values[name])
    second = sorted(values.values())[1]
    chance = 100 * (FACTS["mmlu"].chance or 0.0)
    gap = second - values[low]
    return paper.check(
        "gemma",
        state_of(low != "gemma2-9b-it" or gap < CLOSE, OPEN),
        f"MMLU of the dense {paper.names[low]} is {values[low]:.2f}: {values[low] - chance:.2f} "
        f"points above guessing and {gap:.2f} below the next model, the smallest of {len(values)} "
        f"from the largest model ({paper.fact('gemma_params'):g}B)",
        "Probably its prompts lacked the token that begins a text; its DTO says little.",
    )


def entropies(paper: Paper) -> Check:
    """Compare the printed entropies with the largest that the mean confidences allow."""
    parts, holds = [], True
    for point in paper.points("dense"):
        for part in ("correct", "wrong"):
            confidence = paper.value(point, f"unqover:confidence_{part}")
            entropy = paper.value(point, f"unqover:entropy_{part}")
            if confidence is None or entropy is None:
                continue
            rest = (1 - confidence) / 2
            most = -confidence * math.log(confidence) - 2 * rest * math.log(rest)
            # Both are rounded to three decimals.
            holds = holds and entropy <= most + 0.002
            parts.append(f"{entropy:.3f} ≤ {most:.3f}")
    return paper.check(
        "entropies",
        state_of(holds),
        f"largest entropy of three options at the mean confidence: {', '.join(parts)}",
        "An entropy above its bound cannot be of the same answers.",
    )


CHECKS = (
    _over_sparsegpt(
        "unqover_bbq", "1of4", "UnQover supports it for these models, BBQ for some of them only."
    ),
    _over_sparsegpt(
        "consistent", "", "It is no consistent improvement over the sparsity regimes."
    ),
    crows_six, hit_hardest, dense_shift, near_random, approaches_chance, gemma, entropies,
)  # fmt: skip
