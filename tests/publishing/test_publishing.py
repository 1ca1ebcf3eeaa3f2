"""Cards with metadata for the hub, uploads, and folders that transformers loads."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from fake_hub import FakeHub
from pruning_models import save_model

from evenprune.base.errors import UserError
from evenprune.base.files import read_json, sha256_file
from evenprune.cli import main
from evenprune.models.cards import split_card
from evenprune.models.identity import check_pruned, identify, own_manifest
from evenprune.publishing.card import card_of
from evenprune.publishing.push import published_files
from evenprune.serving.export_sparse24 import export_sparse24


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    root = tmp_path_factory.mktemp("publishing")
    base = save_model(root / "base", "llama2")
    words = ["--method", "magnitude", "--regime", "2of4", "--device", "cpu"]
    assert main(["prune", "--model", str(base), "--out", str(root / "pruned"), *words]) == 0
    return root / "pruned"


@pytest.fixture
def copy(pruned, tmp_path):
    return shutil.copytree(pruned, tmp_path / "copy")


def test_the_card_has_metadata_and_follows_from_the_manifest(pruned):
    text = (pruned / "README.md").read_text()
    assert card_of(pruned) == text
    data, body = split_card(text)
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-generation")
    assert {"evenprune", "2of4", "magnitude"} <= set(data.tags)
    assert data.base_model is None
    assert "base_model_relation" not in data
    assert "evenprune prune --model BASE" in body
    assert "--seed 0" in body


def test_what_the_user_knows_is_added(pruned):
    data, _ = split_card(card_of(pruned, base_model="org/base", licence="apache-2.0"))
    assert (data.base_model, data.license) == ("org/base", "apache-2.0")
    with pytest.raises(UserError, match="org/name"):
        card_of(pruned, base_model="a/b/c")


def test_a_changed_folder_gets_no_card(copy, tmp_path, capsys):
    (copy / "config.json").write_text("{}")
    assert main(["card", "--model", str(copy), "--out", str(tmp_path / "card.md")]) == 2
    assert "has changed since" in capsys.readouterr().err
    assert not (tmp_path / "card.md").exists()


def test_an_uploaded_folder_is_whole(pruned, tmp_path):
    before = {file.name: sha256_file(file) for file in pruned.iterdir()}
    files = published_files(pruned, "---\nlicense: mit\n---\n\n# Another card\n")
    assert "provenance.json" not in files  # host and times
    (tmp_path / "there").mkdir()
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.read_bytes()
        (tmp_path / "there" / name).write_bytes(data)
    check_pruned(tmp_path / "there", own_manifest(tmp_path / "there"))
    assert identify(tmp_path / "there") == identify(pruned)
    assert before == {file.name: sha256_file(file) for file in pruned.iterdir()}


def test_links_and_foreign_files_are_refused(copy, tmp_path):
    (copy / "notes.md").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.md is none of the files"):
        published_files(copy, "card")
    (copy / "notes.md").unlink()
    (copy / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a link"):
        published_files(copy, "card")


def test_a_dry_run_asks_no_hub_and_no_token(pruned, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.HfApi", None)
    assert main(["push", str(pruned), "--repo", "org/name"]) == 0
    said = capsys.readouterr().out
    assert "private" in said
    assert "manifest.json" in said
    assert "--yes" in said
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert main(["push", str(pruned), "--repo", "org/name", "--yes"]) == 2
    assert "HF_TOKEN" in capsys.readouterr().err
    assert main(["push", str(pruned), "--repo", "name"]) == 2


class Api:
    """What `upload` asks of the hub's library; ``there`` is what the repository holds."""

    endpoint = "http://hub"
    there: dict = {}
    sent: list = []

    def __init__(self, endpoint=None):
        pass

    def create_repo(self, repo, **options):
        assert options["private"]

    def model_info(self, repo, **_):
        files = [
            SimpleNamespace(rfilename=name, lfs=SimpleNamespace(sha256=sha256))
            for name, sha256 in self.there.items()
        ]
        return SimpleNamespace(siblings=files, sha="0" * 40)

    def create_commit(self, repo, operations, **_):
        self.sent.append([one.path_in_repo for one in operations])
        return SimpleNamespace(commit_url="http://hub/commit")


def test_what_is_there_is_not_sent_again(pruned, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_secret")
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    shard = next(pruned.glob("*-00001-*.safetensors"))
    monkeypatch.setattr(Api, "there", {shard.name: sha256_file(shard), ".gitattributes": "0"})
    monkeypatch.setattr(Api, "sent", [])
    assert main(["push", str(pruned), "--repo", "org/name", "--yes"]) == 0
    assert shard.name not in Api.sent[0]
    assert "README.md" in Api.sent[0]
    monkeypatch.setattr(Api, "there", {"other.safetensors": "0"})
    assert main(["push", str(pruned), "--repo", "org/name", "--yes"]) == 2
    said = "".join(capsys.readouterr())
    assert "other.safetensors" in said
    assert "hf_secret" not in said
    assert len(Api.sent) == 1


@pytest.fixture
def server(monkeypatch):
    """A hub that takes weights by large file storage, as the library sends them without hf_xet."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub = FakeHub()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    yield hub
    hub.close()


def test_what_was_uploaded_is_loaded_from_the_hub_again(pruned, server, tmp_path, capsys):
    from evenprune.data.hub import Hub

    assert main(["push", str(pruned), "--repo", "org/name", "--yes"]) == 0
    files = server.repositories["model", "org/name"]
    there = files.commits[files.refs["main"]]
    assert set(there) == set(published_files(pruned, card_of(pruned)))
    (tmp_path / "there").mkdir()
    for name, data in there.items():
        (tmp_path / "there" / name).write_bytes(data)
    check_pruned(tmp_path / "there", own_manifest(tmp_path / "there"))
    assert identify(tmp_path / "there") == identify(pruned)
    listed = Hub().listing("org/name", "model", "main").files
    shard = next(pruned.glob("*-00001-*.safetensors"))
    assert listed[shard.name].sha256 == sha256_file(shard)
    tokens = [token for _, path, token in server.requests if "org/name" in path]
    assert set(tokens) == {"Bearer hf_secret"}
    assert "hf_secret" not in "".join(capsys.readouterr())


def test_an_upload_that_was_cut_off_goes_on(pruned, server, capsys):
    shards = sorted(pruned.glob("*.safetensors"))
    assert len(shards) > 1
    words = ["push", str(pruned), "--repo", "org/name", "--yes"]
    server.refused[sha256_file(shards[1])] = 403
    assert main(words) == 2
    assert "org/name" in capsys.readouterr().err
    repository = server.repositories["model", "org/name"]
    assert repository.commits[repository.refs["main"]] == {}  # no half of a model
    server.refused["commit"] = 412
    assert main(words) == 2
    assert "was changed meanwhile" in capsys.readouterr().err
    assert main(words) == 0
    assert shards[0].name in repository.commits[repository.refs["main"]]
    uploads = [path for kind, path, _ in server.requests if kind == "PUT"]
    assert len([path for path in uploads if path.endswith(sha256_file(shards[0]))]) == 1
    # Once more: weights that are there are not asked for.
    server.requests.clear()
    assert main(words) == 0
    assert "were there" in capsys.readouterr().out
    assert not [path for kind, path, _ in server.requests if kind == "PUT" or "batch" in path]


QUESTIONS = [
    {"id": f"q{k}", "question": f"a b c {k}", "options": ["d", "e f"], "answer": k % 2}
    for k in range(12)
]


@pytest.fixture(scope="module")
def evals(pruned):
    """Evaluations of the pruned folder on an own multiple-choice file."""
    data = pruned.parent / "own.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in QUESTIONS))
    benchmarks = {"own": {"task": "multiple_choice", "data": str(data)}}
    words = ["--benchmarks", json.dumps(benchmarks), "--out", str(pruned.parent / "evals")]
    assert main(["evaluate-checkpoint", "--model", str(pruned), *words]) == 0
    return pruned.parent / "evals"


def test_scores_on_a_card_are_those_of_the_evaluation(pruned, evals):
    found = read_json(evals / "summary.json")["benchmarks"]["own"]["metrics"]["acc"]
    assert found["n"] == len(QUESTIONS)
    data, body = split_card(card_of(pruned, evals))
    (score,) = [one for one in data.eval_results if one.metric_type == "acc"]
    assert score.metric_value == found["value"]
    ends = [score.metric_args[end] for end in ("low", "high")]
    middle, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    assert middle == pytest.approx(found["value"], abs=1e-8)
    assert half == pytest.approx(1.959964 * found["stderr"], rel=1e-4)
    assert score.metric_args["n"] == len(QUESTIONS)
    assert f"| acc | {found['value']:.4f} |" in body
    assert data.base_model is None


def test_scores_of_another_checkpoint_are_refused(pruned, evals, tmp_path):
    words = ["--method", "magnitude", "--regime", "u50", "--device", "cpu"]
    base = pruned.parent / "base"
    assert main(["prune", "--model", str(base), "--out", str(tmp_path / "other"), *words]) == 0
    with pytest.raises(UserError, match="give the evaluations of this checkpoint"):
        card_of(tmp_path / "other", evals)


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
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import evenprune.serving.sparse24_quantizer  # noqa: F401

    export_sparse24(pruned, tmp_path / "out")
    asked = [Instance("loglikelihood", {}, ("a b", " c"), 0)]
    found = [
        HFLM(pretrained=str(folder), device="cpu").loglikelihood(asked, disable_tqdm=True)
        for folder in (pruned, tmp_path / "out")
    ]
    assert found[0] == found[1]
    tokenizer = AutoTokenizer.from_pretrained(pruned)
    whole, context = (tokenizer(text)["input_ids"] for text in ("a b c", "a b"))
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(pruned)(torch.tensor([whole])).logits[0]
    logprobs = logits.float().log_softmax(-1)[range(len(whole) - 1), whole[1:]]
    assert found[0][0][0] == pytest.approx(float(logprobs[len(context) - 1 :].sum()), abs=1e-4)


def test_an_export_of_another_format_is_refused(tmp_path):
    from evenprune.serving.sparse24_quantizer import Sparse24Config

    with pytest.raises(ValueError, match="export the checkpoint again"):
        Sparse24Config(layers=[], format=1)
