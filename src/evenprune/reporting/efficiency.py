"""How throughput was measured, and the sentences on it that the tables of efficiency share."""

from collections.abc import Mapping, Sequence

from ..analysis.measurements import ratio_to_dense, read_part
from ..analysis.results import Group, Quantity, dense_group
from ..base.reading import expected_form
from ..plan.run_sheet import RunSheet
from ..stats.directions import direction
from ..stats.inference import PairedRatio
from .cells import Field, Run
from .render import Cell, Column

ENERGY = (
    ": assumed power times the measured seconds, so it says nothing that the speed does not.",
    ": read from a counter (NVML or RAPL).",
)
# Of each one-sided test of equivalence.
LEVEL = 0.05
SPEED = Quantity("serving", "decode_tok_per_s")
# Whose ratio a number has: CO2 is energy times a constant.
PAIRED_AS = {SPEED.metric: SPEED.metric, "j_per_token": "j_per_token",
             "kg_co2e_per_mtok": "j_per_token"}  # fmt: skip
RATIO_HEAD = "Speed / dense [95 %]"


def verdict(ratio: PairedRatio | None, margin: float) -> str:
    """Return what a ratio of speeds to the dense model's shows, in words.

    "same within …" where both one-sided tests against the margin reject at 5 %, however precisely a
    smaller difference is known; else "faster" or "slower" where the 95 % interval lies on one side
    of 1; else "not shown". An en dash where there is no ratio.
    """
    if ratio is None:
        return "–"
    if ratio.p_same is not None and ratio.p_same < LEVEL:
        return f"same within {100 * margin:g} %"
    if ratio.low is not None and ratio.low > 1:
        return "faster"
    if ratio.high is not None and ratio.high < 1:
        return "slower"
    return "not shown"


def ratio_columns(batch: str = "") -> tuple[Column, Column]:
    """Return the columns of the ratio to the dense model's speed and of its verdict.

    ``batch`` as in ``batch 8``; "" for the first one in a table that shows no other.
    """
    key = f"{SPEED.metric}_ratio{'_' if batch else ''}{batch.replace(' ', '_')}"
    spans = (RATIO_HEAD, "Verdict") if batch else ("", "")
    way = direction("serving", f"{SPEED.metric}_ratio")
    return (
        Column(key, batch or RATIO_HEAD, "performance", way, digits=3, span=spans[0]),
        Column(f"{key}_verdict", batch or "Verdict", span=spans[1], text=True),
    )


def ratio_cells(run: Run, group: Group, batch: str = "", printed: bool = True) -> dict[str, Cell]:
    """Return the cells of ``ratio_columns``; the paper's ratio beside ours where ``printed``."""
    column, words = ratio_columns(batch)
    found = ratio_to_dense(run.sheet, group, SPEED.metric, batch)
    said = Cell(None, verdict(found, run.sheet.config.serving.margin))
    if found is None:
        return {column.key: Cell(None, column.show(None)), words.key: said}
    ends = None if found.low is None or found.high is None else (found.low, found.high)
    text = column.show(found.value)
    if ends:
        text += f" [{', '.join(map(column.show, ends))}]"
    theirs = _printed_ratio(run, group) if printed else None
    source = "/".join(filter(None, ("serving", f"{SPEED.metric}_ratio", batch)))
    return {column.key: Cell(found.value, text, theirs, ends=ends, source=source), words.key: said}


def paired_cell(run: Run, group: Group, field: Field) -> Cell:
    """Return a number of speed or energy: the dense model's times the ratio within rounds.

    The median of what was measured, for the dense model and where there is no ratio.
    """
    column, quantity = field.column, field.quantity
    own, dense = run.results.of(group, quantity), dense_group(run.sheet, group.model)
    if own is None:
        return Cell(None, column.show(None))
    base = run.results.of(dense, quantity) if dense is not None else None
    ratio = ratio_to_dense(run.sheet, group, PAIRED_AS[quantity.metric], quantity.category)
    value = own.value if ratio is None or base is None else base.value * ratio.value
    source = "/".join(filter(None, quantity))
    return Cell(value, column.show(value), own.printed, source=source)


def _printed_ratio(run: Run, group: Group) -> float | None:
    dense = dense_group(run.sheet, group.model)
    pair = [run.results.of(one, SPEED) if one else None for one in (group, dense)]
    values = [one.printed if one else None for one in pair]
    return values[0] / values[1] if values[0] and values[1] else None


def serving_stack(run: Run, group: Group) -> dict[str, str]:
    """Return how a grid point was measured: backend and device, kernel, source of the energy.

    Seeds measured in different ways are all named. Empty where there are no files, as of printed
    numbers.
    """
    found = []
    for point in group.checkpoints():
        path = run.sheet.files[point]["serving"]
        if path is None:
            continue
        content = read_part(path, point)
        with expected_form("the backend and the energy source", path, "measure it again"):
            backend, device = content["backend"], content["spec"]["device"]
            name = f"{backend['name']} {backend['version']} on {device}"
            found.append((name, backend["kernel"], content["energy"]["source"]))
    said = ["; ".join(dict.fromkeys(values)) for values in zip(*found, strict=True)]
    return dict(zip(("backend", "kernel", "energy"), said, strict=False))


def serving_notes(run_sheet: RunSheet, stacks: Sequence[Mapping[str, str]]) -> list[str]:
    """Return sentences on what was measured, on ratios, energy and kernels."""
    serving, margin = run_sheet.config.serving, f"{100 * run_sheet.config.serving.margin:g} %"
    energy = " or ".join(dict.fromkeys(stack["energy"] for stack in stacks))
    measured = dict.fromkeys(f"{stack['backend']}, {stack['kernel']}" for stack in stacks)
    return [
        f"Measured with {'; '.join(measured)}.",
        f"Ratios: in each of {serving.rounds} rounds all checkpoints of a model were measured in "
        "turn; the geometric mean of the ratios within rounds, with its t interval. A pruned "
        "model's speed at the first batch size is the dense model's median times that ratio. "
        f"Same within {margin}: two one-sided tests at 5 % reject a larger difference. Faster, "
        "slower: the interval lies on one side of 1. Not shown: neither.",
        f"Energy is {energy}{ENERGY[energy == 'measured']} CO₂e is energy times "
        f"{serving.carbon_intensity:g} kg/kWh. Both are at batch {serving.batch_sizes[0]}.",
        "A dense kernel multiplies the zeros too: on it every regime runs at the dense model's "
        "speed, and for unstructured zeros and 1:4 there is no other.",
    ]
