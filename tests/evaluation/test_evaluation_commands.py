import importlib.metadata
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from both import refused
from evaluation_fixtures import (
    checkpoint_command,
    command,
    items_of,
    result_of,
    tiny_lm,
    unexplained,
)
from lm_eval.tasks._yaml_loader import load_yaml
from safety_models import TURNS

from evenprune import cli
from evenprune.config.tasks import FACTS, metrics_of
from evenprune.data.readers.choice import ChoiceItem
from evenprune.language_models.language_model import load_language_model
from evenprune.stats.measures import MEASURES
from evenprune.stats.records import read_records
from evenprune.tasks import mmlu, perplexity
from evenprune.tasks.harness import Harness
from evenprune.tasks.protocol import Protocol

TASKS = {
    **{name: {} for name in ("perplexity", "hellaswag", "mmlu", "crows_pairs", "bbq")},
    "stereoset": {"counterfactuals": 2},
    "unqover": {"orders": 6},
}


@pytest.fixture(scope="module")
def lm(model):
    return load_language_model(model, "cpu", "float32")


@pytest.mark.parametrize("task", TASKS)
def test_each_benchmark_writes_metrics_and_items(task, model, data, tmp_path):
    headline = FACTS[task].headline
    words = [word for key, value in TASKS[task].items() for word in (f"--{key}", str(value))]
    assert cli.main(command(task, model, data, tmp_path, *words)) == 0
    found = result_of(tmp_path)
    assert (found["task"], found["headline"]) == (task, headline)
    assert set(found["metrics"]) == set(metrics_of(task, TASKS[task]))
    assert math.isfinite(found["metrics"][headline]["value"])
    assert all(len(value) == 64 for value in found["data"].values())
    items = items_of(tmp_path)
    assert len({(item["item_id"], item.get("perm")) for item in items}) == len(items) > 0
    assert not unexplained(task, items)
    if FACTS[task].compared:
        assert {"pred", "correct", "option_logprobs"} <= set(items[0])
    rows, checked = read_records(tmp_path / "items.jsonl"), 0
    for (own, name), measure in MEASURES.items():
        value = measure.value(rows) if own == task else None
        checked += value is not None
        assert value is None or value == pytest.approx(found["metrics"][name]["value"]), name
    assert checked
    if task != "perplexity":
        own = [item["correct"] for item in items if item.get("perm", "012") == "012"]
        accuracy = sum(own) / len(own)
        name = "ss" if task == "stereoset" else headline
        assert found["metrics"][name]["value"] == pytest.approx(accuracy)
        assert {item["category"] for item in items} >= set(found["categories"])


def specs(data, *tasks):
    return {f"my-{task}": {"task": task, "data": str(data / task)} for task in tasks}


def run_checkpoint(*words):
    return cli.main(checkpoint_command(*words))


def test_adding_a_benchmark_evaluates_only_that_one(model, data, tmp_path, ran):
    assert run_checkpoint(model, tmp_path, specs(data, "unqover", "bbq")) == 0
    before = (tmp_path / "my-bbq/items.jsonl").stat().st_mtime_ns
    assert run_checkpoint(model, tmp_path, specs(data, "unqover", "bbq", "crows_pairs")) == 0
    assert ran == ["my-unqover", "my-bbq", "my-crows_pairs"]
    assert (tmp_path / "my-bbq/items.jsonl").stat().st_mtime_ns == before
    # A changed option is another benchmark; one that is not asked for leaves the summary.
    changed = specs(data, "bbq")
    changed["my-bbq"]["style"] = "fairsteer"
    assert run_checkpoint(model, tmp_path, changed) == 0
    assert ran[3:] == ["my-bbq"]
    # Another headline is no reason to run again.
    changed["my-bbq"]["headline"] = "acc_amb"
    assert run_checkpoint(model, tmp_path, changed) == 0
    assert ran[4:] == []
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["benchmarks"]) == ["my-bbq"]
    entry = summary["benchmarks"]["my-bbq"]
    stored = result_of(tmp_path / "my-bbq")
    assert entry["digest"] == stored["digest"]
    assert (entry["metrics"], entry["headline"]) == (stored["metrics"], "acc_amb")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"my-bbq": {"task": "bbq"}}, "key data"),
        ({"x": {"task": "bbq", "data": ".", "limits": 3}}, "limits: unknown key"),
        *(({slug: {}}, "name of a benchmark") for slug in ("../../x", "summary.json")),
    ],
)
def test_bad_benchmarks_are_one_sentence(change, message, model, tmp_path, capsys):
    refused(capsys, checkpoint_command(model, tmp_path / "a/b/out", change), message)
    assert list(tmp_path.iterdir()) == []


def test_all_perplexities_at_once(lm, data):
    found = perplexity.TASK.evaluate(lm, data / "wikitext2", Protocol("perplexity", split="all"))
    assert found.metrics["ppl"] == found.metrics["ppl_gptq"]
    assert {"ppl_paper", "word_ppl_lmeval", "byte_ppl_lmeval"} <= set(found.metrics)
    word, byte = (found.metrics[f"{kind}_ppl_lmeval"] for kind in ("word", "byte"))
    total = sum(item["nll"] for item in found.items if item["category"] == "lmeval")
    assert math.log(word["value"]) * word["n"] == pytest.approx(total)
    assert math.log(byte["value"]) * byte["n"] == pytest.approx(total)


@pytest.mark.parametrize("chat", [False, True])
def test_mmlu_prompts_are_lm_eval_s_own_building(chat):
    """Of all 57 subjects: the text that lm-eval makes of its own files; some with a template."""
    import datasets
    from lm_eval.api.task import ConfigurableTask

    lm = tiny_lm()
    lm.tokenizer.chat_template = TURNS
    harness = Harness(lm, Protocol("mmlu", chat_template=chat))
    folder = Path(importlib.metadata.distribution("lm_eval").locate_file("lm_eval/tasks"))
    files = sorted((folder / "mmlu/default").glob("mmlu_*.yaml"))
    assert len(files) == 57
    files = files[::19] if chat else files
    items, theirs = [], []
    for file in files:
        shipped = load_yaml(file)
        item = ChoiceItem(
            file.stem, shipped["dataset_name"], " Is 2 odd? ", ("a", "b", "c", "d"), 1
        )
        document = {"question": item.query, "choices": list(item.choices), "answer": 1}
        for key in ("dataset_path", "dataset_name", "fewshot_split", "tag"):
            shipped.pop(key, None)
        rows = {"test": datasets.Dataset.from_list([document])}
        task = ConfigurableTask(config=shipped | {"custom_dataset": lambda rows=rows, **_: rows})
        given = {"apply_chat_template": chat, "chat_template": harness.model.apply_chat_template}
        theirs.append(task.fewshot_context(document, 0, **(given if chat else {})))
        items.append(item)
    samples = mmlu.TASK.ask(harness, items)
    assert [sample["arguments"][0][0] for sample in samples] == theirs
    assert theirs[0].startswith("[system]The following" if chat else "The following")


def test_continuations_too_long_or_of_a_whole_text_score_as_in_lm_eval():
    """What is cut at the left, what shares all but its last token, and rolling windows."""
    from lm_eval.models.huggingface import HFLM

    lm = replace(tiny_lm(), max_length=12)
    context = list(range(3, 33))
    requests = [
        (("", ""), context, [7, 8, 9]),
        (("", ""), context, [7, 8, 4]),
        (("", ""), context, [7]),
        (("", ""), [1], list(range(4, 16))),
    ]
    ours = lm.continuations(requests, 2)
    # lm-eval's own model class around the same weights computes by itself.
    prefix = lm.prefix("lm-eval")
    own = HFLM(pretrained=lm.model, tokenizer=lm.tokenizer, max_length=12, prefix_token_id=prefix)
    theirs = own._loglikelihood_tokens(list(requests), disable_tqdm=True)
    for (total, greedy), (their_total, their_greedy) in zip(ours, theirs, strict=True):
        assert total == pytest.approx(their_total, abs=2e-4)
        assert greedy == their_greedy
    # Positive control: another last token has another score.
    assert abs(ours[0][0] - ours[1][0]) > 1e-3
