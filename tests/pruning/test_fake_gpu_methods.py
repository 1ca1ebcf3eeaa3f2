"""The whole prune step, with every method, on a GPU that is not there (tests/support/fake_gpu.py).

Its tensors may not meet tensors of the CPU, and every wait of the host is noted: the tables of
docs/gpu.md list them, with how often, and are compared here with what was counted. The result has
the bytes of a run on the CPU, since the values are computed there.
"""

import re
from dataclasses import dataclass

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu
from pruning_models import ARCHITECTURES, WORDS, random_pairs, save_model, write_rows

from evenprune.data.calibration import read_pairs, tokenize_pairs, tokenize_texts
from evenprune.models.loading import load_tokenizer
from evenprune.pruning import solver
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.hessian import Plan
from evenprune.pruning.options import PRUNING_METHODS, Options

pytestmark = pytest.mark.usefixtures("torch_products")

# Heading in docs/gpu.md of a table of waits -> the function within which they are counted.
LOOPS = {
    "Waits in the block loop": "pruning.engine.PruningRun._prune_block",
    "Waits in the steps of debias-gradient": "pruning.shift.Shift.run",
}
# Two blocks of a Llama: seven matrices in four groups each.
BLOCKS, GROUPS, MATRICES = 2, 2 * 4, 2 * 7

WRITE = "pruning.engine.PruningRun._write_block pruning.provenance.Stopwatch._read"
TEXT = f"{WRITE} pruning.probe.check_rows pruning.forward.advance"
SUMS = f"{TEXT} pruning.sums.BlockSums._statistics pruning.target.InputMetric.dead_columns"
WANDA = f"{SUMS} pruning.methods.wanda.Wanda.solve"
MAGNITUDE = "pruning.methods.magnitude.Magnitude.solve"
FACTOR = "pruning.factor.inverse_factor"
SPARSEGPT = f"{SUMS} {FACTOR} pruning.methods.sparsegpt.SparseGPT.solve"
IMPROVE = "pruning.refit.improve"
SHIFT = "pruning.shifting.relative_change"
LEADING = "pruning.hessian.LeadingDifferences.add pruning.hessian.LeadingDifferences.result"
EXPERTS = (
    "models.experts.Experts.forward models.experts.Experts.by_library "
    "pruning.probe.check_experts pruning.routed.count_tokens pruning.routed.routed_rows "
    "pruning.routed.restricted pruning.routed.ExpertSums._sums"
)
STEPS = (
    "models.loading.all_finite pruning.factor.inverse_factor pruning.forward.advance "
    "pruning.forward.record_calls pruning.head.Head.scores pruning.head.logits_of "
    "pruning.reverse.Sentences.forward pruning.reverse.block_gradients "
    "pruning.shift.Shift._directions pruning.shift.Shift._solve pruning.standin._same"
)


@dataclass
class Case:
    """A prune step and the functions that wait in its block loop, as one text.

    sums: of all groups, what is summed; groups: those with sums; factors: those that are
    factorised; shifted: matrices with a target of their own. text: ``pairs`` or ``texts``.
    """

    options: Options
    waits: str
    text: str = "pairs"
    steps: str = ""
    sums: int = GROUPS
    groups: int = GROUPS
    factors: int = GROUPS
    shifted: int = 0
    model: str = "llama"
    dtype: torch.dtype = torch.float32
    counted: bool = True

    def times(self) -> dict[str, int]:
        """Return how often each of the documented phrases is; those in ``for each`` vary."""
        return {
            "once a block": BLOCKS,
            "once between two blocks": BLOCKS - 1,
            "once a group": self.groups,
            "once a sum": self.sums,
            "once a factor": self.factors,
            "once a matrix": MATRICES,
            "twice a matrix": 2 * MATRICES,
            "once a shifted matrix": self.shifted,
            "once a shifted group and category": 2 * 4,
            "once a matrix of a kind of block": MATRICES // BLOCKS,
            # One step: a pass before it and a pass behind it.
            "once a block and pass": 2 * BLOCKS,
            "once a group and step": GROUPS,
            "once a matrix and step": MATRICES,
        }


def case(method: str, regime: str, waits: str, facts: dict | None = None, **options) -> Case:
    return Case(Options(method, regime, **options), waits, **(facts or {}))


ERASE = {"sums": 12, "shifted": 4}  # the differences of two groups and two matrices a block
GRADIENT = {"gradient_steps": 1}
CASES = {
    "magnitude": case("magnitude", "u50", f"{WRITE} {MAGNITUDE}"),
    "magnitude-refit": case(
        "magnitude", "2of4", f"{SUMS} {MAGNITUDE} {IMPROVE}", refit_steps=2, swaps=1
    ),
    "wanda-pairs": case("wanda", "u50", WANDA),
    "wanda-texts": case("wanda", "2of4", WANDA, {"text": "texts"}),
    "sparsegpt-texts": case("sparsegpt", "2of4", SPARSEGPT, {"text": "texts"}),
    "sparsegpt-sentences": case("sparsegpt", "u50", SPARSEGPT, packing="sentences"),
    "debias-sparsegpt": case("debias-sparsegpt", "2of4", SPARSEGPT),
    "debias-sparsegpt-sentences": case("debias-sparsegpt", "u25", SPARSEGPT, packing="sentences"),
    "debias-sparsegpt-module": case(
        "debias-sparsegpt", "1of4", f"{SPARSEGPT} {IMPROVE}",
        sequential="module", refit_steps=2, swaps=1,
    ),
    "debias-sparsegpt-bfloat16": case(
        "debias-sparsegpt", "2of4", SPARSEGPT, {"dtype": torch.bfloat16}
    ),
    "debias-erase": case("debias-erase", "2of4", f"{SPARSEGPT} {SHIFT}", ERASE),
    "debias-erase-rank": case(
        "debias-erase", "2of4", f"{SPARSEGPT} {SHIFT} {LEADING}", ERASE, erase_rank=1
    ),
    "debias-erase-wanda": case(
        "debias-erase", "u50", f"{WANDA} {FACTOR} {SHIFT} {IMPROVE}", ERASE | {"factors": 4},
        solver="wanda", packing="sentences", refit_steps=1,
    ),
    "debias-erase-dense": case(
        "debias-erase", "dense", f"{SUMS} {FACTOR} {SHIFT}",
        {"sums": 8, "groups": 4, "factors": 4, "shifted": 4},
    ),
    "debias-gradient": case("debias-gradient", "2of4", SPARSEGPT, {"steps": STEPS}, **GRADIENT),
    "debias-gradient-after": case(
        "debias-gradient", "u50", f"{SUMS} {MAGNITUDE} {IMPROVE}", {"steps": STEPS},
        **GRADIENT, gradient_when="after", solver="magnitude", swaps=1,
    ),
    "debias-gradient-dense": case(
        "debias-gradient", "dense", TEXT, {"steps": STEPS},
        **GRADIENT, gradient_loss="text", gradient_holdout=0.5, gradient_max_perplexity=50.0,
    ),
    "mixtral": case(
        "debias-sparsegpt", "2of4", f"{SPARSEGPT} {EXPERTS}", {"model": "mixtral", "counted": False}
    ),
    "gpt_oss": case(
        "wanda", "u50", f"{WANDA} {EXPERTS}",
        {"model": "gpt_oss", "counted": False, "text": "texts"},
    ),
}  # fmt: skip
SLOW = {"debias-gradient-after", "debias-gradient-dense", "mixtral", "gpt_oss"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return folders of models by architecture and dtype, made when first asked for."""
    made = {}

    def find(name, dtype=torch.float32):
        if (name, dtype) not in made:
            made[name, dtype] = save_model(tmp_path_factory.mktemp(name) / "base", name, 0, dtype)
        return made[name, dtype]

    return find


def calibration(kind, model, folder) -> Text:
    tokenizer = load_tokenizer(model)
    words = ["a b c d e", "f g h"]
    if kind == "texts":  # enough of them for each expert
        words += [" ".join(WORDS[k : k + 30]) for k in range(0, 20, 4)]
    texts = tokenize_texts(words, tokenizer)
    items = [(str(number), tokens) for number, tokens in enumerate(texts)]
    if kind == "texts":
        return Text(None, items)
    file = write_rows(folder / "pairs.jsonl", random_pairs(8))
    return Text(tokenize_pairs(read_pairs(file), tokenizer, "equal-length"), items)


def on_gpu(model, text, options, folder, monkeypatch):
    """Return the manifest of a run on the fake GPU, and what was asked of it."""
    monkeypatch.setenv(solver.COLUMN_LOOP, "triton")
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        return prune_model(model, options, text, folder / "gpu", DEVICE), record


def documented(repo) -> dict[str, dict[str, str]]:
    """Return of each table of waits in docs/gpu.md the functions and how often they wait."""
    page = (repo / "docs/gpu.md").read_text()
    tables = {}
    for heading in LOOPS:
        part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        tables[heading] = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", part, re.M))
    return tables


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES],
)
def test_a_method_runs_and_waits_as_documented(name, models, tmp_path, monkeypatch, repo):
    one = CASES[name]
    one.options.check()
    model = models(one.model, one.dtype)
    text = calibration(one.text, model, tmp_path) if one.options.calibrated else Text()
    monkeypatch.setenv(solver.COLUMN_LOOP, "plain")
    ours = prune_model(model, one.options, text, tmp_path / "cpu")
    theirs, record = on_gpu(model, text, one.options, tmp_path, monkeypatch)
    assert ours["model_sha256"] == theirs["model_sha256"]
    pairs = one.options.packing if one.text == "pairs" and one.options.calibrated else None
    assert theirs["options"]["packing"] == pairs
    for (heading, within), waits in zip(LOOPS.items(), (one.waits, one.steps), strict=True):
        often, found = documented(repo)[heading], record.reads(within)
        assert set(found) == set(waits.split())
        counts = {one: count for one, count in found.items() if not often[one].startswith("for ")}
        if one.counted:
            assert counts == {function: one.times()[often[function]] for function in counts}
    # Each of a block's nine parameters is copied once, and nothing else.
    uploads = record.uploads(LOOPS["Waits in the block loop"])
    assert set(uploads) == {"pruning.base_model.BaseModel._convert"}
    assert not one.counted or sum(uploads.values()) == BLOCKS * 9


def test_every_method_and_every_row_of_the_tables_is_tried(repo):
    assert {one.options.method for one in CASES.values()} == set(PRUNING_METHODS)
    for heading, waits in zip(LOOPS, ("waits", "steps"), strict=True):
        tried = {function for one in CASES.values() for function in getattr(one, waits).split()}
        assert tried == set(documented(repo)[heading])


@pytest.mark.slow
@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - {"llama"}))
def test_an_architecture_runs(architecture, models, tmp_path, monkeypatch):
    model = models(architecture)
    options, text = Options("debias-sparsegpt", "2of4"), calibration("pairs", model, tmp_path)
    ours = prune_model(model, options, text, tmp_path / "cpu")
    theirs, _ = on_gpu(model, text, options, tmp_path, monkeypatch)
    assert ours["model_sha256"] == theirs["model_sha256"]
    shared = ARCHITECTURES[architecture].tree
    assert theirs["options"]["packing"] == ("shared-prefix" if shared else "sentences")


def test_a_misplaced_tensor_is_refused(models, tmp_path, monkeypatch):
    """A positive control: a fault that a CPU would not show."""
    monkeypatch.setattr(Plan, "to", lambda self, device: self)  # stays on the CPU
    model = models("llama")
    text = calibration("pairs", model, tmp_path)
    with pytest.raises(RuntimeError, match="on the same device"):
        on_gpu(model, text, Options("debias-sparsegpt", "2of4"), tmp_path, monkeypatch)
