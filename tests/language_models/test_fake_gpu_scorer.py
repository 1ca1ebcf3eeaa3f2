"""Our scorer on a GPU that is not there (tests/support/fake_gpu.py): the numbers of the CPU.

Whatever a benchmark asks of a model, ``LanguageModel``'s methods, and answers.
"""

import pytest
from evaluation_fixtures import tiny_lm
from fake_gpu import DEVICE, fake_gpu

from evenprune.language_models.generation import generate_batch
from evenprune.language_models.losses import nll_rows

pytestmark = pytest.mark.usefixtures("torch_products")

PROMPTS = ["A Vel man stood at gate 1. A", "A Vel man stood at gate 2.", "No."]


def position_scores(lm, rows):
    wanted = [[[3, 4]], [[5]], [[6], [7, 3]]]
    return [(batch, compute()) for batch, compute in lm.position_scores(rows, wanted, 2)]


def continuations(lm, rows):
    asked = [(rows[0], [5, 6]), (rows[0], [5, 7]), (rows[1], [9])]
    return lm.continuations([("", context, ends) for context, ends in asked], 2)


def losses(lm, rows):
    return [values.tolist() for values in nll_rows(lm, rows, 2, "losses")]


def sentences(lm, rows):
    return lm.group_losses([rows, [rows[1]]])


def answers(lm, rows):
    found, steps = generate_batch(lm, rows, 6, ". A", True)
    return found, [step.cpu().tolist() for step in steps]


@pytest.fixture(scope="module")
def cpu():
    return tiny_lm()


@pytest.mark.parametrize("asked", [position_scores, continuations, losses, sentences, answers])
def test_what_a_benchmark_asks_is_the_same(asked, cpu):
    rows = cpu.encode(PROMPTS)
    expected = asked(cpu, rows)
    assert cpu.shares_prefixes
    with fake_gpu() as gpu:
        lm = tiny_lm()
        lm.model.to(DEVICE)
        assert lm.device_type == "cuda"
        assert lm.shares_prefixes
        assert asked(lm, rows) == expected
    assert gpu.unfakeable == set()
