"""A model that does not fit one GPU: spread by transformers, or by vLLM's tensor parallelism."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from evenprune.base import gpu
from evenprune.base.errors import UserError
from evenprune.evaluation import load_model, vllm_model
from evenprune.evaluation.language_model import load_language_model
from evenprune.evaluation.load_model import Loader
from evenprune.evaluation.protocol import Protocol
from evenprune.evaluation.vllm_worker import Engine
from evenprune.models import loading
from evenprune.plan.config import load_config
from evenprune.plan.jobs import gpus_for
from evenprune.serving.backends import TransformersBackend

ROWS = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 12], [5, 3]]
WANTED = [[[1, 2]], [[3]], [[4, 5], [6]]]


def scores(lm):
    losses = lm.row_losses(ROWS)
    answers, _ = lm.generate(ROWS[:2], 3, None)
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


def test_only_the_claimed_gpus_get_weights(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda one: (1000, 2000))
    found = loading.spread(["cuda:1", "cuda:3"])
    assert found == {"device_map": "balanced", "max_memory": {1: 900, 3: 900}}


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "visible_gpus", lambda: ["one", "two"])
    monkeypatch.setattr(gpu, "lock_folder", lambda: tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    current = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    return current


def test_an_evaluation_claims_its_gpus_and_gives_them_back(two_gpus, monkeypatch, tmp_path):
    loaded = []

    def load(folder, device, dtype, devices):
        loaded.append((device, list(devices)))
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr("evenprune.evaluation.language_model.load_language_model", load)
    with gpu.claim_several(["one"], tmp_path, 1) as taken, Loader(tmp_path, "cuda", None) as loader:
        assert taken == [0]
        loader.load(Protocol("unqover"))
        # The other job has the first one; plain "cuda", a guard model's say, is the second.
        assert loaded == [("cuda", ["cuda:1"])]
        assert two_gpus == ["cuda:1"]
    with Loader(tmp_path, "cuda", None, gpus=2) as loader:
        loader.load(Protocol("unqover"))
        assert loaded[-1] == ("cuda", ["cuda:0", "cuda:1"])
    three = Loader(tmp_path, "cuda", None, gpus=3)
    with three, pytest.raises(UserError, match="needs 3 GPUs"):
        three.load(Protocol("unqover"))


def test_a_vllm_worker_sees_the_claimed_gpus_alone(two_gpus, monkeypatch, tmp_path):
    def load(*arguments):
        return SimpleNamespace(close=lambda: None, told=arguments[4:])

    monkeypatch.setattr(vllm_model, "load_vllm_model", load)
    monkeypatch.setattr(load_model.Loader, "vllm", ("python", "1.0"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for device, gpus, visible in (("cuda", 1, "0"), ("cuda", 2, "0,1"), ("cpu", 1, None)):
        with Loader(tmp_path, device, None, gpus=gpus) as loader:
            told = loader.load(Protocol("unqover", backend="vllm")).told
            assert told == (gpus, visible)
    assert vllm_model._environment("4,6")["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert "CUDA_VISIBLE_DEVICES" not in vllm_model._environment()


@pytest.mark.parametrize(("gpus", "said"), [(1, None), (4, 4)])
def test_vllm_is_told_to_split_its_matrices(monkeypatch, gpus, said):
    told = {}

    class Model:
        def __init__(self, **options):
            told.update(options)
            config = SimpleNamespace(dtype=torch.float32)
            self.llm_engine = SimpleNamespace(vllm_config=SimpleNamespace(model_config=config))

    platform = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: False))
    package = ModuleType("vllm")
    package.LLM, package.SamplingParams = Model, object
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platform)
    Engine().load("folder", "float32", 64, "cuda", gpus=gpus)
    assert told.get("tensor_parallel_size") == said


def test_an_export_is_served_from_one_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr("evenprune.serving.backends.is_export", lambda folder: True)
    with pytest.raises(UserError, match="is a 2:4 export, which runs on one GPU"):
        TransformersBackend(tmp_path, "cpu", gpus=2)


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
