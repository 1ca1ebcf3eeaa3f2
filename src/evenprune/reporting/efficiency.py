"""How throughput was measured, and the sentences on it that the tables of efficiency share."""

import operator
from collections.abc import Mapping, Sequence

from ..base.errors import UserError
from ..base.files import read_json
from ..base.reading import expected_form
from ..plan.run_sheet import RunSheet
from .fields import Run
from .results import Group, Quantity

# Share of its threads' time that a measurement on the CPU has on a quiet machine.
UNDISTURBED = 0.85


def measurements(run: Run, group: Group) -> list[str]:
    """Return the files of a grid point's measurements; none of printed numbers."""
    found = [run.sheet.files[point]["serving"] for point in group.checkpoints()]
    return [path for path in found if path]


def serving_stack(run: Run, group: Group) -> dict[str, str]:
    """Return how a grid point was measured: backend and device, kernel, source of the energy.

    Seeds measured in different ways are all named. Empty where there are no files, as of printed
    numbers.
    """
    found: dict[str, dict[str, None]] = {"backend": {}, "kernel": {}, "energy": {}}
    paths = measurements(run, group)
    for path in paths:
        content = read_json(path)
        try:
            backend = content["backend"]
            device = content["spec"]["device"]
            found["backend"][f"{backend['name']} {backend['version']} on {device}"] = None
            found["kernel"][backend["kernel"]] = None
            found["energy"][content["energy"]["source"]] = None
        except (KeyError, TypeError):
            raise UserError(
                f"expected the backend and the energy source in {path}, got another form; "
                "measure this checkpoint again"
            ) from None
    return {name: "; ".join(values) for name, values in found.items()} if paths else {}


def disturbance_notes(run: Run, shown: Sequence[Group]) -> list[str]:
    """Return a warning where other work on the machine slowed a measurement on the CPU.

    The process then had less CPU time than its threads could use.
    """
    shares = []
    for group in shown:
        used = run.results.of(group, Quantity("serving", "cpus_used"))
        paths = measurements(run, group)
        if used is not None and paths:
            content = read_json(paths[0])
            with expected_form("the threads of a measurement", paths[0], "measure it again"):
                shares.append(used.value / operator.index(content["system"]["threads"]))
    if not shares or min(shares) >= UNDISTURBED:
        return []
    return [
        f"Other work slowed these runs: their threads had {min(shares):.0%} to {max(shares):.0%} "
        "of the CPU time they could use, so differences between rows are the machine's, not the "
        "models'."
    ]


def serving_notes(run_sheet: RunSheet, stacks: Sequence[Mapping[str, str]]) -> list[str]:
    """Return sentences on energy and kernels."""
    sources = dict.fromkeys(stack["energy"] for stack in stacks)
    intensity = f"{run_sheet.config.serving.carbon_intensity:g}"
    return [
        f"Energy is {' or '.join(sources)} (measured: read from a counter, NVML or RAPL; "
        "estimated: from assumed power, which leaves no idle power to subtract). CO₂e is all "
        f"energy times {intensity} kg/kWh. Energy and CO₂e at batch "
        f"{run_sheet.config.serving.batch_sizes[0]}.",
        "A dense kernel multiplies the zeros too: on it every regime runs at the dense model's "
        "speed, and for unstructured zeros and 1:4 there is no other.",
    ]
