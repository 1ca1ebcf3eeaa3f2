"""The whole prune step on a GPU that is not there (tests/support/fake_gpu.py).

Its tensors may not meet tensors of the CPU, and every wait of the host is noted. The result has the
bytes of a run on the CPU, since the values are computed there.
"""

import re

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, READ, UPLOAD, fake_gpu
from pruning_models import random_pairs, save_model, write_rows

from evenprune.data.calibration import read_pairs, tokenize_pairs, tokenize_texts
from evenprune.models.loading import load_tokenizer
from evenprune.pruning import factor, solver
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.hessian import Plan
from evenprune.pruning.masks import REGIMES, smallest, smallest_of_group
from evenprune.pruning.options import Options

LOOP = "pruning.engine.PruningRun._prune_block"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "base")


@pytest.fixture(scope="module")
def text(model, tmp_path_factory):
    tokenizer = load_tokenizer(model)
    file = write_rows(tmp_path_factory.mktemp("text") / "pairs.jsonl", random_pairs(8))
    pairs = tokenize_pairs(read_pairs(file), tokenizer, "equal-length")
    ids = tokenize_texts(["a b c d e", "f g h"], tokenizer)
    return Text(pairs, [(str(number), tokens) for number, tokens in enumerate(ids)])


def both(model, text, options, folder, monkeypatch, record_only=False):
    """Return the manifests of a run on the CPU and on the fake GPU, and the latter's record."""
    text = text if options.calibrated else Text()
    monkeypatch.setenv(solver.COLUMN_LOOP, "plain")
    ours = None if record_only else prune_model(model, options, text, folder / "cpu")
    monkeypatch.setenv(solver.COLUMN_LOOP, "triton")
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        theirs = prune_model(model, options, text, folder / "gpu", DEVICE)
    return ours, theirs, record


def documented(repo) -> set[str]:
    """Return the functions in the table of waits in docs/gpu.md."""
    part = (repo / "docs/gpu.md").read_text().partition("## Waits in the block loop")[2]
    return set(re.findall(r"^\| `([\w.]+)` \|", part.partition("\n## ")[0], re.M))


def test_debias_sparsegpt_waits_as_documented(model, text, tmp_path, monkeypatch, repo):
    options = Options("debias-sparsegpt", "2of4", bias_weight=1.0)
    ours, theirs, record = both(model, text, options, tmp_path, monkeypatch)
    assert ours["model_sha256"] == theirs["model_sha256"]
    assert theirs["options"]["packing"] == "shared-prefix"
    # Two blocks of seven matrices in four groups; what comes after a block comes once.
    assert dict(record.reads(LOOP)) == {
        "pruning.sums.BlockSums._statistics": 2 * 4,
        "pruning.target.InputMetric.dead_columns": 2 * 4,
        "pruning.factor.inverse_factor": 2 * 4 * 2,
        "pruning.methods.sparsegpt.SparseGPT.solve": 2 * 4,
        "pruning.forward.advance": 1,
        "pruning.engine.PruningRun._write_block": 2 * 7,
        "pruning.provenance.Stopwatch._read": 2,
        # Once for each kind of block, here for the first.
        "pruning.probe.check_rows": 7,
    }
    assert set(record.reads(LOOP)) <= documented(repo)
    # Each of a block's nine parameters is copied once, and nothing else.
    assert dict(record.uploads(LOOP)) == {"pruning.base_model.BaseModel._convert": 2 * 9}


# Positive controls: each fault is one that a CPU would not show.


def test_a_misplaced_tensor_is_refused(model, text, tmp_path, monkeypatch):
    options = Options("debias-sparsegpt", "2of4")
    monkeypatch.setattr(Plan, "to", lambda self, device: self)  # stays on the CPU
    with pytest.raises(RuntimeError, match="on the same device"):
        both(model, text, options, tmp_path, monkeypatch, record_only=True)


def test_a_constant_on_the_cpu_is_refused():
    real = torch.eye

    def misplaced(size, **named):
        return real(size, dtype=named["dtype"])

    with fake_gpu(), pytest.MonkeyPatch.context() as patch:
        hessian = 2 * torch.eye(8, device=DEVICE)
        assert factor.inverse_factor(hessian, 0.01).upper.device == torch.device(DEVICE)
        patch.setattr(torch, "eye", misplaced)
        with pytest.raises(RuntimeError, match="on the same device"):
            factor.inverse_factor(hessian, 0.01)


def test_every_kind_of_wait_is_seen():
    with fake_gpu() as record:
        values = torch.arange(6.0).to(DEVICE)
        for look in (
            lambda: values.sum().item(),
            lambda: bool(values.any()),
            values.cpu,
            values.tolist,
            values.nonzero,
            lambda: values[values > 2],
            lambda: torch.equal(values, values),
            lambda: torch.empty(6).copy_(values),
            torch.cuda.synchronize,
        ):
            record.waits.clear()
            look()
            assert [wait.kind for wait in record.waits] == [READ]
        with pytest.raises(TypeError):
            values.numpy()
        record.waits.clear()
        torch.ones(3).to(DEVICE)
        values[torch.tensor([1])]
        assert [wait.kind for wait in record.waits] == [UPLOAD, UPLOAD]
        record.waits.clear()
        values.masked_fill(values > 2, 0.0).add_(1).view(2, 3).T.sum()
        assert record.waits == []


# What decides by position among equal scores has another form on a GPU, which must agree.


@pytest.mark.parametrize("transposed", [False, True])
def test_masks_are_the_same_and_wait_for_nothing(transposed):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (12, 20), generator=generator).float()
    if transposed:
        scores = scores.T
    for count in (0, 1, 97, 239, 240):
        expected = smallest(scores, count)
        with fake_gpu() as record:
            found = smallest(scores.to(DEVICE), count)
            assert record.reads() == {}
            assert torch.equal(found.cpu(), expected)
            assert int(expected.sum()) == count
    groups = scores.reshape(4, -1)
    for zeros in (1, 2):
        with fake_gpu() as record:
            found = smallest_of_group(groups.to(DEVICE), zeros)
            assert record.reads() == {}
            assert torch.equal(found.cpu(), smallest_of_group(groups, zeros))


# Launches of the column loop.

FORMS = ("plain", "triton")


def launches(form, regime, heights, width, monkeypatch, block=32):
    monkeypatch.setenv(solver.COLUMN_LOOP, form)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(width, sum(heights), generator=generator)
    upper = torch.eye(width) + 0.1 * torch.randn(width, width, generator=generator).triu()
    expected = weight.clone()
    with monkeypatch.context() as patch:
        patch.setenv(solver.COLUMN_LOOP, "plain")
        solver.prune_columns(expected, upper, regime, block, heights)
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        found, factors = weight.to(DEVICE), upper.to(DEVICE)
        record.clear()
        solver.prune_columns(found, factors, regime, block, heights)
        assert record.waits == []
        count = sum(record.operators().values())
        assert torch.equal(found.cpu(), expected)
    return count


# (form, N:M) -> launches of a further block of 32 columns, of a further matrix in the stack.
EXPECTED = {
    ("plain", False): (82, 12),
    ("plain", True): (284, 0),
    ("triton", False): (18, 12),
    ("triton", True): (5, 0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("slug", ["u50", "2of4"])
def test_launches_of_the_column_loop(form, slug, monkeypatch):
    """Exact, and the same for each further block."""
    regime = REGIMES[slug]
    one, two, three = (launches(form, regime, [6], width, monkeypatch) for width in (32, 64, 96))
    assert three - two == two - one
    stacked = launches(form, regime, [6, 5], 32, monkeypatch)
    assert (two - one, stacked - one) == EXPECTED[form, regime.structured]


def test_a_block_of_128_columns_is_one_launch_of_the_kernel(monkeypatch):
    for slug, structured in (("u50", False), ("2of4", True)):
        one, two = (
            launches("triton", REGIMES[slug], [3], width, monkeypatch, 128) for width in (128, 256)
        )
        assert two - one == EXPECTED["triton", structured][0]
