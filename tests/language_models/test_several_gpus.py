"""A model that does not fit one GPU: spread by transformers."""

import pytest

from evenprune.config.config import load_config
from evenprune.config.job_options import gpus_for
from evenprune.language_models.generation import generate_batch
from evenprune.language_models.language_model import load_language_model
from evenprune.models import loading

ROWS = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 12], [5, 3]]
WANTED = [[[1, 2]], [[3]], [[4, 5], [6]]]


def scores(lm):
    losses = lm.row_losses(ROWS)
    answers, _ = generate_batch(lm, ROWS[:2], 3, None, False)
    positions = [(rows, compute()) for rows, compute in lm.position_scores(ROWS, WANTED, 2)]
    return losses, positions, answers


def test_a_spread_model_scores_alike_and_is_let_go(model, monkeypatch):
    from accelerate import dispatch_model

    expected = scores(load_language_model(model, "cpu"))
    asked = []
    parts = ["embed_tokens", "layers.0", "layers.1", "norm", "rotary_emb"]
    places = dict.fromkeys([*(f"model.{part}" for part in parts), "lm_head"], "cpu")
    monkeypatch.setattr(loading, "spread", lambda to: asked.append(to) or {"device_map": places})
    spread_out = load_language_model(model, "cpu", devices=["cuda:0", "cuda:1"])
    assert asked == [["cuda:0", "cuda:1"]]
    assert scores(spread_out) == expected
    # With the hooks that move tensors from device to device.
    dispatch_model(spread_out.model, places, force_hooks=True)
    assert hasattr(spread_out.model.model.layers[1], "_hf_hook")
    assert scores(spread_out) == expected
    spread_out.close()
    assert all(one.is_meta for one in spread_out.model.parameters())


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        ({"device": "cuda"}, 1),
        ({"device": "cuda", "models": {"world": {"gpus": 4}}}, 4),
        ({"models": {"world": {"gpus": 4}}}, 0),
    ],
)
def test_a_job_asks_for_the_gpus_of_its_model(repo, given, gpus):
    config = load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")
    assert gpus_for(config, "world") == gpus
    assert gpus_for(config, "smollm2-135m") == min(gpus, 1)
