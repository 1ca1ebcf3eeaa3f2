"""The whole prune step, with every method, on a GPU that is not there (tests/support/fake_gpu.py).

Its tensors may not meet tensors of the CPU, and every wait of the host is noted: ``BLOCKS`` and
``STEPS`` list them, with how often. The result has the bytes of a run on the CPU, since the values
are computed there.
"""

from dataclasses import dataclass

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu
from pruning_models import ARCHITECTURES, WORDS, random_pairs, save_model, write_rows

from evenprune.base import onednn
from evenprune.data.calibration import tokenize_pairs, tokenize_texts
from evenprune.data.readers.own_rows import read_pairs
from evenprune.models.loading import load_tokenizer
from evenprune.pruning import solver
from evenprune.pruning.engine import prune_model
from evenprune.pruning.hessian import Plan
from evenprune.pruning.options import PRUNING_METHODS, Options
from evenprune.pruning.packing import Text

pytestmark = pytest.mark.usefixtures("torch_products")

IN_BLOCKS = "pruning.engine.PruningRun._prune_block"
# Two blocks of a Llama: seven matrices in four groups each.
BLOCKS, GROUPS, MATRICES = 2, 2 * 4, 2 * 7
# Function -> how often it waits while the blocks are pruned; a word is a number of the case, None
# what depends on the text.
WRITE = {
    "engine.PruningRun._write_block": MATRICES,  # the result goes to the file
}
TEXT = WRITE | {
    "probe.check_rows": MATRICES // BLOCKS,
    "forward.advance": BLOCKS - 1,  # activations that are not finite must stop the run
}
SUMS = TEXT | {
    "routed.is_finite": "sums",  # so must sums that overflow
    "target.InputMetric.dead_columns": "groups",
}
WANDA = SUMS | {"methods.wanda.Wanda.solve": 2 * MATRICES}
MAGNITUDE = {"methods.magnitude.Magnitude.solve": 2 * MATRICES}
FACTOR = {"factor.inverse_factor": "factors"}
SPARSEGPT = SUMS | FACTOR | {"methods.sparsegpt.SparseGPT.solve": "groups"}
IMPROVE = {"refit.improve": MATRICES}
SHIFT = {"shifting.relative_change": "shifted"}
EXPERTS = {
    "models.experts.Experts.forward": None,
    "models.experts.Experts.by_library": None,
    "probe.check_experts": None,
    "routed.count_tokens": None,
    "routed.routed_rows": None,
    "routed.restricted": None,
}


@dataclass
class Case:
    """A prune step and the functions that wait in its block loop.

    sums: of all groups, what is summed; groups: those with sums; factors: those that are
    factorised; shifted: matrices with a target of their own. text: ``pairs`` or ``texts``. uploads:
    functions that copy to the device, beside what loads a block.
    """

    options: Options
    waits: dict
    text: str = "pairs"
    sums: int = GROUPS
    groups: int = GROUPS
    factors: int = GROUPS
    shifted: int = 0
    model: str = "llama"
    dtype: torch.dtype = torch.float32
    counted: bool = True
    uploads: tuple = ()

    def check(self, found: dict, expected: dict) -> None:
        """Compare counted waits with those of a table."""
        names = {one if one.startswith("models.") else f"pruning.{one}" for one in expected}
        assert set(found) == names
        for name, often in expected.items() if self.counted else ():
            if often is not None:
                times = getattr(self, often) if isinstance(often, str) else often
                assert found[f"pruning.{name}"] == times, name


def case(method: str, regime: str, waits: dict, facts: dict | None = None, **options) -> Case:
    return Case(Options(method, regime, **options), waits, **(facts or {}))


ERASE = {"sums": 12, "shifted": 4}  # the differences of two groups and two matrices a block
CASES = {
    "magnitude": case("magnitude", "u50", WRITE | MAGNITUDE),
    "magnitude-refit": case(
        "magnitude", "2of4", SUMS | MAGNITUDE | IMPROVE, refit_steps=2
    ),
    "wanda-pairs": case("wanda", "u50", WANDA),
    "sparsegpt-texts": case("sparsegpt", "2of4", SPARSEGPT, {"text": "texts"}),
    "debias-sparsegpt": case("debias-sparsegpt", "2of4", SPARSEGPT),
    "debias-sparsegpt-refit": case("debias-sparsegpt", "1of4", SPARSEGPT | IMPROVE, refit_steps=2),
    "debias-sparsegpt-bfloat16": case(
        "debias-sparsegpt", "2of4", SPARSEGPT, {"dtype": torch.bfloat16}
    ),
    "debias-erase": case("debias-erase", "2of4", SPARSEGPT | SHIFT, ERASE),
    "debias-erase-wanda": case(
        "debias-erase", "u50", WANDA | FACTOR | SHIFT | IMPROVE, ERASE | {"factors": 4},
        solver="wanda", packing="sentences", refit_steps=1,
    ),
    "debias-erase-dense": case(
        "debias-erase", "dense", SUMS | FACTOR | SHIFT,
        {"sums": 8, "groups": 4, "factors": 4, "shifted": 4},
    ),
    "mixtral": case(
        "debias-sparsegpt", "2of4", SPARSEGPT | EXPERTS, {"model": "mixtral", "counted": False}
    ),
    "gpt_oss": case(
        "wanda", "u50", WANDA | EXPERTS,
        {"model": "gpt_oss", "counted": False, "text": "texts"},
    ),
}  # fmt: skip
SLOW = {"mixtral", "gpt_oss"}


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
        fake_triton.install(monkeypatch)
        return prune_model(model, options, text, folder / "gpu", DEVICE), record


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES],
)
def test_a_method_runs_and_waits_as_listed(name, models, tmp_path, monkeypatch):
    one = CASES[name]
    one.options.check()
    # On a processor without bfloat16 the CPU's run alone would compute in float32.
    monkeypatch.setattr(onednn, "has_bfloat16", lambda: True)
    model = models(one.model, one.dtype)
    text = calibration(one.text, model, tmp_path) if one.options.calibrated else Text()
    monkeypatch.setenv(solver.COLUMN_LOOP, "plain")
    ours = prune_model(model, one.options, text, tmp_path / "cpu")
    theirs, record = on_gpu(model, text, one.options, tmp_path, monkeypatch)
    assert ours["model_sha256"] == theirs["model_sha256"]
    pairs = one.options.packing if one.text == "pairs" and one.options.calibrated else None
    assert theirs["options"]["packing"] == pairs
    one.check(record.reads(IN_BLOCKS), one.waits)
    # Each of a block's nine parameters is copied once.
    uploads, load = record.uploads(IN_BLOCKS), "pruning.base_model.BaseModel._convert"
    assert set(uploads) == {load, *(f"pruning.{name}" for name in one.uploads)}
    assert not one.counted or uploads[load] == BLOCKS * 9


def test_every_method_is_tried():
    # The steps of debias-lora are ordinary training of the whole model, with nothing to wait for.
    tried = {one.options.method for one in CASES.values()} | {"debias-lora"}
    assert tried == set(PRUNING_METHODS)


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
