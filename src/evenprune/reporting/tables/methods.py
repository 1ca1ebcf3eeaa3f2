"""The methods of a run: the paper's tab:pruning-comparison."""

from dataclasses import dataclass

from ...plan.facts import METHODS
from ..fields import Run
from ..labels import METHOD_LABELS
from ..models_of import yes_no
from ..render import Rule, Table, TableRow


@dataclass(frozen=True)
class Form:
    """What the paper compares methods by, beside their calibration data.

    ``update``: whether kept weights are changed; ``bias``: whether the method knows of bias;
    ``metric``: what the pruned weights have the least of; ``cost``: operations a matrix.
    """

    update: bool
    bias: bool
    metric: str
    cost: str


_OBS = "Wᵢⱼ² / [(XXᵀ + λI)⁻¹]ⱼⱼ"
FORMS = {
    "magnitude": Form(False, False, "|Wᵢⱼ|", "O(1)"),
    "wanda": Form(False, False, "|Wᵢⱼ| ‖Xⱼ‖₂", "O(d²)"),
    "sparsegpt": Form(True, False, _OBS, "O(d³)"),
    "debias-sparsegpt": Form(True, True, "Wᵢⱼ² / [(X₀X₀ᵀ + X₁X₁ᵀ + 2ΔXΔXᵀ + λI)⁻¹]ⱼⱼ", "O(d³)"),
    # Not in the paper: their target is shifted first, then a solver prunes it.
    "debias-erase": Form(True, True, f"{_OBS}, of shifted weights", "O(d³)"),
    "debias-gradient": Form(True, True, f"{_OBS}, of shifted weights", "O(d³), gradients"),
}


def build(run: Run, slug: str) -> Table:
    """Return what each pruning method of the run changes, reads and compares weights by."""
    config = run.sheet.config
    used = {
        run.sheet.base_method(point.method)
        for grid in run.sheet.experiments.values()
        for point in grid
        if not point.is_base
    }
    rows: list[TableRow] = []
    for name, facts in METHODS.items():
        if name not in used:
            continue
        form = FORMS.get(name)
        ours = form is not None and form.bias
        solved = f" (solver {config.pruning.solver})" if facts.shifts else ""
        labels = (
            METHOD_LABELS[name],
            yes_no(form.update if form else None),
            yes_no(facts.calibrated),
            yes_no(form.bias if form else None),
            f"{form.metric}{solved}" if form else "–",
            form.cost if form else "–",
        )
        keys = ("weight_update", "calibration_data", "bias_aware", "metric", "complexity")
        identity = {"method": name, **dict(zip(keys, labels[1:], strict=True))}
        rule: Rule = "full" if ours and rows and not rows[-1].strong else ""
        rows.append(TableRow(labels, identity=identity, rule=rule, strong=ours))
    return Table(
        slug,
        "Pruning methods: whether they change the weights that they keep, look at calibration data "
        "and know of bias; what the pruned weights have the least of (X the inputs of a layer, X₀ "
        "and X₁ those of stereotypes and anti-stereotypes, Δ their difference); and their cost in "
        "the hidden size d, a matrix.",
        ("Method", "Weight update", "Calib. data", "Bias-aware", "Pruning metric", "Complexity"),
        (),
        tuple(rows),
        widths=(0.18, 0.08, 0.07, 0.08, 0.36, 0.11),
    )
