"""The whole prune step, with every method, on a GPU that is not there (tests/support/fake_gpu.py).

Its tensors may not meet tensors of the CPU. The result has the bytes of a run on the CPU, since the
values are computed there.
"""

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu
from pruning_models import WORDS, random_pairs, save_model

from evenprune.blocks.packing import Plan, Text
from evenprune.data.calibration import tokenize_pairs, tokenize_texts
from evenprune.io import onednn
from evenprune.methods import solver
from evenprune.methods.masks import smallest, smallest_of_group
from evenprune.methods.options import PRUNING_METHODS, Options
from evenprune.models.loading import load_tokenizer
from evenprune.pruning import engine

pytestmark = pytest.mark.usefixtures("torch_products")

# Options, and what else a case has: its text, model and dtype.
CASES = {
    "magnitude-refit": (Options("magnitude", "2of4", refit_steps=2), {}),
    "sparsegpt-texts": (Options("sparsegpt", "2of4"), {"text": "texts"}),
    "bfloat16": (Options("debias-sparsegpt", "1of4", refit_steps=2), {"dtype": torch.bfloat16}),
    "wanda-sentences-refit": (Options("wanda", "u50", packing="sentences", refit_steps=1), {}),
    "mixtral": (Options("debias-sparsegpt", "2of4"), {"model": "mixtral"}),
    "gpt_oss": (Options("wanda", "u50"), {"model": "gpt_oss", "text": "texts"}),
    "gpt2": (Options("debias-sparsegpt", "2of4"), {"model": "gpt2"}),
}  # fmt: skip
SLOW = {"mixtral", "gpt_oss", "gpt2"}


def calibration(kind, model) -> Text:
    tokenizer = load_tokenizer(model)
    words = ["a b c d e", "f g h"]
    if kind == "texts":  # enough of them for each expert
        words += [" ".join(WORDS[k : k + 30]) for k in range(0, 20, 4)]
    items = [(str(number), ids) for number, ids in enumerate(tokenize_texts(words, tokenizer))]
    pairs = tokenize_pairs(random_pairs(8), tokenizer, "equal-length")
    return Text(None if kind == "texts" else pairs, items)


def on_gpu(model, text, options, folder, monkeypatch):
    """Return the manifest of a run on the fake GPU."""
    monkeypatch.setenv(solver.COLUMN_LOOP, "triton")
    with fake_gpu():
        fake_triton.install(monkeypatch)
        return engine.prune_model(model, options, text, folder / "gpu", DEVICE)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_a_method_gives_the_bytes_of_the_cpu(name, tmp_path, monkeypatch):
    options, given = CASES[name]
    options.check()
    # Without bfloat16 the CPU's run alone would be float32, without AMX take another attention.
    monkeypatch.setattr(onednn, "has_bfloat16", lambda: True)
    monkeypatch.setattr(engine, "has_tiles", lambda: True)
    architecture = given.get("model", "llama")
    model = save_model(tmp_path / "base", architecture, 0, given.get("dtype", torch.float32))
    text = calibration(given.get("text", "pairs"), model) if options.calibrated else Text()
    monkeypatch.setenv(solver.COLUMN_LOOP, "plain")
    ours = engine.prune_model(model, options, text, tmp_path / "cpu")
    theirs = on_gpu(model, text, options, tmp_path, monkeypatch)
    assert ours["model_sha256"] == theirs["model_sha256"]
    assert ours["options"] == theirs["options"]


def test_every_method_is_tried():
    # The steps of debias-lora are ordinary training of the whole model.
    tried = {options.method for options, _ in CASES.values()} | {"debias-lora"}
    assert tried == set(PRUNING_METHODS)


def test_a_misplaced_tensor_is_refused(tmp_path, monkeypatch):
    """A positive control: a fault that a CPU would not show."""
    monkeypatch.setattr(Plan, "to", lambda self, device: self)  # stays on the CPU
    model = save_model(tmp_path / "base", "llama")
    text = calibration("pairs", model)
    with pytest.raises(RuntimeError, match="on the same device"):
        on_gpu(model, text, Options("debias-sparsegpt", "2of4"), tmp_path, monkeypatch)


@pytest.mark.parametrize("transposed", [False, True])
def test_masks_are_the_same(transposed):
    """What decides by position among equal scores has another form on a GPU."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (12, 20), generator=generator).float()
    if transposed:
        scores = scores.T
    for count in (0, 1, 97, 239, 240):
        expected = smallest(scores, count)
        assert int(expected.sum()) == count
        with fake_gpu():
            assert torch.equal(smallest(scores.to(DEVICE), count).cpu(), expected)
    groups = scores.reshape(4, -1)
    for zeros in (1, 2):
        with fake_gpu():
            found = smallest_of_group(groups.to(DEVICE), zeros)
            assert torch.equal(found.cpu(), smallest_of_group(groups, zeros))
