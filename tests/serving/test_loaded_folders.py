"""Cards with metadata for the hub, and folders that transformers and lm-eval load."""

import json

import pytest
import torch
from pruning_models import save_model

from evenprune.cli import main
from evenprune.models.cards import split_card
from evenprune.serving.export_sparse24 import export_sparse24


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    root = tmp_path_factory.mktemp("loaded")
    base = save_model(root / "base", "llama2")
    words = ["--method", "magnitude", "--regime", "2of4", "--device", "cpu"]
    assert main(["prune", "--model", str(base), "--out", str(root / "pruned"), *words]) == 0
    return root / "pruned"


def test_the_card_has_metadata(pruned):
    data, body = split_card((pruned / "README.md").read_text())
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-generation")
    assert {"evenprune", "2of4", "magnitude"} <= set(data.tags)
    assert data.base_model is None
    assert "base_model_relation" not in data
    assert "evenprune prune --model BASE" in body
    assert "--seed 0" in body


def test_transformers_loads_folder_and_export_alike(pruned, tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM
    from transformers.quantizers import auto

    import evenprune.serving.sparse24_quantizer  # noqa: F401

    export_sparse24(pruned, tmp_path / "out")
    form = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    assert form["quant_method"] == "sparse24"
    assert form["layers"]
    data, body = split_card((tmp_path / "out/README.md").read_text())
    assert {"sparse24", "magnitude"} <= set(data.tags)
    assert body.count("## Use\n") == 1
    assert "sparse24_quantizer" in body
    ids = torch.arange(2, 26).view(2, 12)
    with torch.inference_mode():
        one = AutoModelForCausalLM.from_pretrained(pruned)(ids).logits
        assert AutoModelForCausalLM.from_pretrained(tmp_path / "out")(ids).logits.equal(one)
    # Without the package no weights are drawn at random.
    monkeypatch.delitem(auto.AUTO_QUANTIZATION_CONFIG_MAPPING, "sparse24")
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_lm_eval_loads_folder_and_export_alike(pruned, tmp_path):
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    import evenprune.serving.sparse24_quantizer  # noqa: F401

    export_sparse24(pruned, tmp_path / "out")
    asked = [Instance("loglikelihood", {}, ("a b", " c"), 0)]
    found = [
        HFLM(pretrained=str(folder), device="cpu").loglikelihood(asked, disable_tqdm=True)
        for folder in (pruned, tmp_path / "out")
    ]
    assert found[0] == found[1]
