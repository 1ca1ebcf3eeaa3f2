"""Prompts, energy labels and the command on a small random model."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_fixtures import save_model, write_jsonl
from test_serving_sparse24 import prune_2of4

from evenprune.cli import main
from evenprune.serving import (
    backends,
    energy,
    export_sparse24,
    measure,
    workload,
)

WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A model folder with a context of 48."""
    return save_model(tmp_path_factory.mktemp("tiny"), positions=48)


@pytest.fixture
def texts(tmp_path) -> Path:
    rows = [
        {"id": str(i), "text": " ".join(WORDS[(i * 7 + j) % 60] for j in range(3 + i))}
        for i in range(9)
    ]
    write_jsonl(tmp_path / "texts.jsonl", rows)
    return tmp_path / "texts.jsonl"


@pytest.fixture
def no_network(monkeypatch):
    """Record and refuse every attempt to leave the process through a socket."""
    attempts = []

    def refuse(*args, **kwargs):
        attempts.append(args)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


def arguments(tiny, texts, out, *more):
    return [
        "benchmark-serving", "--model", str(tiny), "--prompts", str(texts), "--out", str(out),
        "--backend", "transformers", "--device", "cpu", "--batch-sizes", "1,2",
        "--new-tokens", "24", "--prompt-tokens", "12", "--rounds", "2",
        "--min-seconds", "0.05", *more,
    ]  # fmt: skip


# prompts


def test_prompts_have_one_length_and_follow_the_seed(tiny, texts):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    rows = workload.prompt_texts(texts)
    first = workload.make_prompts(rows, tokenizer, 12, 20, seed=0)
    assert [len(prompt) for prompt in first] == [20] * 12
    assert all(prompt[0] == tokenizer.bos_token_id for prompt in first)
    assert len({tuple(prompt) for prompt in first}) == len(rows)  # then the texts come again
    assert workload.make_prompts(rows, tokenizer, 12, 20, seed=0) == first
    assert workload.make_prompts(rows, tokenizer, 12, 20, seed=1) != first


# energy


def test_a_machine_without_readings_gives_a_labelled_estimate():
    for device, own in (("cpu", "cpu"), ("cuda", "gpu")):
        reading = energy.complete(2.0, {}, None, device)
        scope = reading.scope(device)
        assert reading.total(scope) == pytest.approx(2.0 * energy.ASSUMED_WATTS[own])
        assert reading.source(scope) == "estimated"
        assert "assumed" in reading.methods[own]


def test_labels_follow_the_way_a_component_was_read():
    load = energy.complete(1.0, {"cpu": 4.0, "ram": 20.0}, "cpu_load", "cpu")
    assert load.scope("cpu") == ("cpu", "ram")
    assert load.source(load.scope("cpu")) == "estimated"
    assert load.total(load.scope("cpu")) == 24.0
    rapl = energy.complete(1.0, {"cpu": 50.0, "ram": 20.0}, "intel_rapl", "cpu")
    assert rapl.scope("cpu") == ("cpu",)
    assert (rapl.source(rapl.scope("cpu")), rapl.source()) == ("measured", "estimated")
    nvml = energy.complete(1.0, {"cpu": 4.0, "gpu": 300.0, "ram": 20.0}, "cpu_load", "cuda")
    assert nvml.scope("cuda") == ("gpu",)
    assert nvml.source(nvml.scope("cuda")) == "measured"
    assert nvml.total() == 324.0


def test_tracker_gives_energy_without_network_or_files(no_network, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    # a user's own settings must not open a connection or leave files behind
    (tmp_path / ".codecarbon.config").write_text(
        "[codecarbon]\nsave_to_api=true\nsave_to_file=true\nemissions_endpoint=http://a.invalid\n"
        "electricitymaps_api_token=secret\n"
    )
    meter = energy.EnergyMeter("cpu", 0.033)
    try:
        reading = meter.measure(lambda: sum(range(3_000_000)))
    finally:
        meter.close()
    assert no_network == []
    assert reading.total() > 0
    assert reading.seconds > 0
    assert set(reading.sources.values()) <= {"measured", "estimated"}
    assert [path.name for path in tmp_path.iterdir()] == [".codecarbon.config"]
    assert "ERROR" not in "".join(capfd.readouterr())


# figures


def reading(seconds, joules, source="measured"):
    return energy.Reading(seconds, {"cpu": joules}, {"cpu": source}, {"cpu": "test"})


def test_figures_of_one_measurement():
    # two calls a region: prefill 0.1 s and 5 J, generation 1.1 s and 55 J a call
    asked = measure.Settings(new_tokens=11, carbon_intensity=0.033)
    both = (reading(0.2, 10.0), 2), (reading(2.2, 110.0), 2)
    out = measure.figures([[0] * 10] * 4, asked, *both, "cpu")
    assert out["ttft_s"] == pytest.approx(0.1)
    assert out["prefill_tok_per_s"] == pytest.approx(400)
    assert out["decode_tok_per_s"] == pytest.approx(4 * 10 / 1.0)
    assert out["tok_per_s"] == pytest.approx(44 / 1.1)
    assert out["power_w"] == pytest.approx(50)
    assert out["j_per_token"] == pytest.approx(55 / 44)
    assert out["kg_co2e_per_mtok"] == pytest.approx(55 / 44 * 1e6 / 3.6e6 * 0.033)


# the command


@pytest.fixture(scope="session")
def measured(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    file = folder / "texts.jsonl"
    write_jsonl(file, [{"id": str(i), "text": " ".join(WORDS[i:])} for i in range(5)])
    out = folder / "out" / "efficiency.json"
    assert main(arguments(tiny, file, out)) == 0
    return file, out


def test_command_writes_the_measurement(measured):
    _, out = measured
    content = json.loads(out.read_text())
    (result,) = content["checkpoints"].values()
    assert [path.name for path in out.parent.iterdir()] == ["efficiency.json"]
    assert result["backend"]["name"] == "transformers"
    assert result["backend"]["kernel"] == "dense kernel"
    assert content["spec"]["prompt_tokens"] == 12
    assert [(one["round"], one["batch"]) for one in content["rounds"]] == [
        (1, 1), (1, 2), (2, 1), (2, 2),
    ]  # fmt: skip
    assert set(result["categories"]) == {"batch 1", "batch 2"}
    assert result["metrics"] == result["categories"]["batch 1"]
    assert result["energy"]["source"] in ("measured", "estimated")
    for metrics in result["categories"].values():
        for name in ("decode_tok_per_s", "prefill_tok_per_s", "ttft_s", "j_per_token"):
            assert metrics[name]["value"] > 0
            assert metrics[name]["n"] == 2
        assert metrics["kg_co2e_per_mtok"]["value"] == pytest.approx(
            metrics["j_per_token"]["value"] * 1e6 / 3.6e6 * 0.033
        )


def test_every_run_makes_exactly_the_new_tokens(tiny):
    # the model's own end-of-text token must not shorten a run
    backend = backends.TransformersBackend(tiny, "cpu")
    new = backend.generate([[1, 5, 6], [1, 7, 8]], 30)
    assert [len(row) for row in new] == [30, 30]
    assert backend.generate([[1, 5, 6], [1, 7, 8]], 30) == new


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--names", "a", "b"], "one name of its own for each of the 1 models"),
        (["--new-tokens", "48"], "context of 48"),
        (["--batch-sizes", "1,1"], "--batch-sizes: got [1, 1], expected each one once"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(tiny, texts, tmp_path, capsys, more, message):
    out = tmp_path / "out" / "efficiency.json"
    assert main(arguments(tiny, texts, out, *more)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.parent.exists()


GENERATE = """
import json, sys
from evenprune.serving.backends import load_backend
if __name__ == '__main__':
    backend = load_backend(sys.argv[1], sys.argv[2], 'cpu', 'float32', 2, 48, 0)
    tokens = backend.generate([[1, 400, 401], [1, 402, 403]], 24)
    print('RESULT' + json.dumps([backend.describe(), tokens]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "export"])
def test_real_vllm_gives_the_tokens_of_transformers(shared, vllm_python, tmp_path, form):
    script = tmp_path / "generate.py"
    script.write_text(GENERATE)
    source = tmp_path / "model"
    shutil.copytree(shared / "models" / "stories3m-llama", source)
    source.chmod(0o755)
    served = source
    if form == "export":
        (source / "model.safetensors").chmod(0o644)
        prune_2of4(source)
        served = tmp_path / "export"
        export_sparse24.export_sparse24(source, served)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "VLLM_CACHE_ROOT": str(tmp_path / "cache"),
    }
    found = {}
    for name, interpreter, folder in (
        ("vllm", vllm_python, served),
        ("transformers", sys.executable, source),
    ):
        done = subprocess.run(
            [interpreter, str(script), name, str(folder)], capture_output=True, text=True,
            timeout=400, check=True, env=environment,
        )  # fmt: skip
        line = next(row for row in done.stdout.splitlines() if row.startswith("RESULT"))
        found[name] = json.loads(line.removeprefix("RESULT"))
    described, tokens = found["vllm"]
    assert described["name"] == "vllm"
    assert described["kernel"] == "dense kernel"  # the CPU has no 2:4 product
    assert ("Sparse24LinearMethod" in described["linear"]) == (form == "export")
    assert tokens == found["transformers"][1]


RESOLVE = """
from vllm.model_executor.layers.quantization import get_quantization_config
from vllm.plugins import load_general_plugins
load_general_plugins()
print('RESULT', get_quantization_config('sparse24').__module__)
"""


@pytest.mark.slow
def test_installed_vllm_finds_the_plugin_by_its_entry_point(repo, vllm_python, tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(repo / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(repo / name, source)
    subprocess.run(
        [vllm_python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
         "--no-index", "--target", str(site), str(source)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    done = subprocess.run(
        [vllm_python, "-c", RESOLVE], env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert "RESULT evenprune.serving.vllm_plugin" in done.stdout


def test_the_vllm_plugin_is_declared(repo):
    import tomllib

    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    module, _, function = project["entry-points"]["vllm.general_plugins"]["sparse24"].partition(":")
    source = (repo / "src" / Path(*module.split("."))).with_suffix(".py")
    assert f"def {function}(" in source.read_text()
