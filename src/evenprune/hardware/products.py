"""Products of 2:4 weights beside dense ones at the shapes of the pruned random model."""

from typing import Any

from ..base.progress import Progress
from ..serving.products24 import (
    FORMS,
    block_rows,
    floor_us,
    measure_layer,
    time_us,
    time_us_on_cpu,
)
from .floors import Rates
from .runs import DTYPE
from .trial import Trial

REPETITIONS = 10


def products(trial: Trial, kind: str, rates: Rates) -> dict[str, Any]:
    """Return microseconds of each form in each layer and for all linears of a block.

    ``layers``: name -> shape, and for each number of tokens each form's time or reason, and the
    floors. ``block``: as ``products24.block_rows``. kind: ``cuda`` or ``cpu``.
    """
    layers = trial.decoder.linears()
    bits = 8 * DTYPE.itemsize
    bandwidth, rate = rates["copy_bytes_per_s"], rates["product_flop_per_s"]
    measured: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    distinct = sorted(set(layers.values()))
    progress = Progress(len(distinct), "2:4 products")
    for shape in distinct:
        measured[shape] = measure_layer(
            shape,
            trial.tokens,
            DTYPE,
            FORMS,
            time_us_on_cpu if kind == "cpu" else lambda p, x: time_us(p, x, REPETITIONS),
            kind,
            trial.working_set,
        )
        progress.update()
    floors = {
        name: {
            count: {
                form: floor_us(shape, count, bits, form == "2of4", bandwidth, rate)
                for form in ("dense", "2of4")
            }
            for count in trial.tokens
        }
        for name, shape in layers.items()
    }
    cells = {name: measured[shape] for name, shape in layers.items()}
    return {
        "layers": {
            name: {"shape": shape, "forms": cells[name], "floor_us": floors[name]}
            for name, shape in layers.items()
        },
        "block": block_rows(cells, floors),
    }
