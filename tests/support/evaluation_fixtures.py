"""Tiny models, tokenizers and data sets about invented people for the evaluation tests."""

import csv
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch
from reporting_run import write_jsonl
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from evenprune.language_models.language_model import LanguageModel, context_length, logit_transform

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:?'()\n-"


def char_tokenizer(bos=True, words=(), adds=True) -> PreTrainedTokenizerFast:
    """One token a character, and one for each of ``words`` wherever it occurs.

    With ``bos`` there is a BOS token, which the tokenizer puts before a text if it ``adds`` it.
    """
    pieces = ["<unk>", "<s>", *words, *ALPHABET]
    tokenizer = Tokenizer(
        models.WordLevel({piece: k for k, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    pattern = "|".join([*(w.replace("\n", "\\n") for w in words), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    if bos and adds:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>" if bos else None
    )


LETTERS = (" A", " B", " C")


def tiny_llama(vocabulary, positions=512, seed=0, **changes) -> LlamaForCausalLM:
    """A random Llama of two layers; large weights, so that its predictions differ."""
    torch.manual_seed(seed)
    options = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": positions,
        "initializer_range": 0.3,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **options | changes)).eval()


def tiny_lm(bos=True, words=LETTERS, positions=512, adds=True) -> LanguageModel:
    """A tiny random model with a character tokenizer, in memory."""
    tokenizer = char_tokenizer(bos, words, adds)
    return wrap(tiny_llama(len(tokenizer), positions), tokenizer)


def wrap(model, tokenizer) -> LanguageModel:
    """A model and its tokenizer, as an evaluation has them."""
    config = model.config
    return LanguageModel(model.eval(), tokenizer, context_length(config), logit_transform(config))


def logprob(lm: LanguageModel, prompt: str, continuation: str) -> float:
    """ln p of a continuation, by one plain pass over both."""
    start = len(lm.tokenizer(prompt)["input_ids"])
    ids = torch.tensor([lm.tokenizer(prompt + continuation)["input_ids"]])
    with torch.no_grad():
        table = torch.log_softmax(lm.model(ids).logits[0].double(), -1)
    return float(sum(table[k - 1, ids[0, k]] for k in range(start, ids.shape[1])))


def save_model(folder: Path, seed=0, positions=512, dtype=torch.float32) -> Path:
    """Write a tiny model folder and return it."""
    tokenizer = char_tokenizer(True, LETTERS)
    tiny_llama(len(tokenizer), positions, seed).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def unqover_rows(count: int = 12) -> Iterator[dict]:
    """Yield rows as in datas_rebuilt.jsonl: pairs of a question and its negation, orders vary."""
    acts = ("was kind", "was rude"), ("sang well", "sang badly"), ("was rich", "was poor")
    for k in range(count):
        category = ("tribe", "town")[k // (count // 2)]
        first, second = (("Vel", "Tor"), ("Lumo", "Kesh"))[k // (count // 2)]
        options = [first, second, "unknown"]
        options = options[k % 3 :] + options[: k % 3]
        yield {
            "example_id": k, "category": category, "context": f"A {first} man met a {second} man.",
            "question": f"Who {acts[k // 2 % 3][k % 2]}?",
            **{f"ans{j}": text for j, text in enumerate(options)},
            "label": options.index("unknown"), "unknown_num": options.index("unknown"),
        }  # fmt: skip


def bbq_rows() -> Iterator[dict]:
    """Yield rows as in BBQ's files: even ids ambiguous, odd ones disambiguated."""
    for k in range(12):
        polarity = ("neg", "nonneg")[k // 2 % 2]
        people = [("Vel man", "Vel"), ("Tor man", "Tor"), ("Not known", "unknown")]
        people = people[k % 3 :] + people[: k % 3]
        groups = [group for _, group in people]
        told = " The Tor man had lost his keys." if k % 2 else ""
        gold = groups.index("Tor" if k % 2 else "unknown")
        yield {
            "example_id": k, "question_index": str(k // 4), "question_polarity": polarity,
            "context_condition": ("ambig", "disambig")[k % 2], "category": "Tribe",
            "answer_info": {f"ans{j}": list(pair) for j, pair in enumerate(people)},
            "additional_metadata": {"stereotyped_groups": ["Vel"]},
            "context": f"A Vel man and a Tor man stood at gate {k // 2}.{told}",
            "question": "Who was careless?" if polarity == "neg" else "Who was careful?",
            **{f"ans{j}": text for j, (text, _) in enumerate(people)}, "label": gold,
        }  # fmt: skip


def stereoset_rows() -> Iterator[dict]:
    """Yield rows as in StereoSet's intrasentence file, three target terms of two categories."""
    for k in range(12):
        category, target = (("tribe", "Vel"), ("tribe", "Tor"), ("trade", "smith"))[k % 3]
        words = {"stereotype": "lazy", "anti-stereotype": "diligent", "unrelated": "wet tea"}
        context = f"At gate {k} a {target} is BLANK."
        sentences = [
            {"gold_label": label, "sentence": context.replace("BLANK", word)}
            for label, word in words.items()
        ]
        head = {"id": f"c{k}", "target": target, "bias_type": category, "context": context}
        yield head | {"sentences": sentences}


def write_datasets(root: Path) -> Path:
    """Write small data sets in the canonical files; return the folder that holds them."""
    write_jsonl(root / "unqover/datas_rebuilt.jsonl", unqover_rows())
    write_jsonl(root / "bbq/Tribe.jsonl", bbq_rows())
    ends = ["breaks them.", "sings to them at night.", "runs.", "is a boat."]
    text = "Baking: A Vel woman takes {} eggs. She"
    rows = [{"row": k, "query": text.format(k), "choices": ends, "gold": k % 4} for k in range(6)]
    write_jsonl(root / "hellaswag/validation_lm_eval.jsonl", rows)
    rows = [
        {
            "question": f"How many moons has planet {k}?", "choices": list("0123"),
            "subject": ("moon_lore", "trade")[k % 2], "answer": k % 4,
        }
        for k in range(8)
    ]  # fmt: skip
    write_jsonl(root / "mmlu/test.jsonl", rows)
    pairs = [("Vel men are slow.", "Tor men are slow."), ("Kesh lie.", "Lumo never lie.")] * 3
    lines = ["\tsent_more\tsent_less\tstereo_antistereo\tbias_type"]
    lines += [f"{k}\t{a}\t{b}\tstereo\ttribe" for k, (a, b) in enumerate(pairs)]
    (root / "crows_pairs").mkdir()
    (root / "crows_pairs/crows_pairs_revised.csv").write_text("\n".join(lines) + "\n")
    write_jsonl(root / "stereoset/intrasentence.jsonl", stereoset_rows())
    pages = []
    for title in ("Vel", "Tor"):
        body = " ".join(f"The {title} people have {k} boats and sing ." for k in range(40))
        pages += [" ", f" = {title} = ", " ", f" {body} ", " ", " = = Life = = ", " ", f" {body} "]
    (root / "wikitext2").mkdir()
    (root / "wikitext2/wiki.test.raw").write_text("\n".join(pages) + "\n")
    text = "A Vel girl had {} cats.\n\nThey sang all day."
    rows = [{"id": k, "text": text.format(k)} for k in range(9)]
    write_jsonl(root / "tinystories/stories_1000.jsonl", rows)
    prompts = [{"text": f"A Vel man {k} said", "toxicity": 0.25} for k in range(6)]
    rows = [{"challenging": k % 2 == 0, "prompt": one} for k, one in enumerate(prompts)]
    write_jsonl(root / "realtoxicityprompts/train.jsonl", rows)
    write_harmbench(root, [(f"Sing song {k}", "standard", "music", "") for k in range(5)])
    return root


def write_harmbench(root: Path, rows: list[tuple[str, str, str, str]]) -> None:
    """Write HarmBench's file: behaviour, subset, topic and context of each row."""
    head = ("Behavior", "FunctionalCategory", "SemanticCategory", "Tags", "ContextString")
    (root / "harmbench").mkdir()
    with open(root / "harmbench/harmbench_behaviors_text_all.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow((*head, "BehaviorID"))
        for k, (text, subset, topic, context) in enumerate(rows):
            writer.writerow([text, subset, topic, "", context, f"id-{k}"])


def write_lm_eval_task(folder: Path, name: str, rows: list[dict], **facts) -> Path:
    """Write a task of lm-eval, by default a choice scored by accuracy, and its data."""
    write_jsonl(folder / f"{name}.jsonl", rows)
    task = {
        "task": name, "dataset_path": "json", "test_split": "test", "metadata": {"version": 1.0},
        "dataset_kwargs": {"data_files": {"test": str(folder / f"{name}.jsonl")}},
        "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_target": "gold",
        "doc_to_choice": "choices", "metric_list": [{"metric": "acc"}], **facts,
    }  # fmt: skip
    # All of it is JSON but for the names of functions.
    lines = [
        f"{key}: {value if str(value).startswith('!') else json.dumps(value)}\n"
        for key, value in task.items()
        if value is not None
    ]
    (folder / f"{name}.yaml").write_text("".join(lines))
    return folder


def command(task: str, model: Path, data: Path, out: Path, *more: str) -> list[str]:
    """The words that evaluate a task on a model, its data in a folder of ``data``."""
    words = ["evaluate", "--model", str(model), "--benchmark", task, "--device", "cpu"]
    folder = data / ("wikitext2" if task == "perplexity" else task)
    return [*words, "--data", str(folder), "--out", str(out), *more]


def checkpoint_command(model: Path, out: Path, wanted: dict | str, *more: str) -> list[str]:
    """The words that evaluate a model on several benchmarks; ``wanted`` may be JSON as text."""
    text = wanted if isinstance(wanted, str) else json.dumps(wanted)
    words = ["evaluate-checkpoint", "--model", str(model), "--benchmarks", text]
    return [*words, "--out", str(out), *more]


def items_of(folder: Path) -> list[dict]:
    """The records that an evaluation wrote."""
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


def unexplained(task: str, items: list[dict]) -> set[str]:
    """Fields of records that neither docs/evaluation.md nor the task's module explains."""
    text = (Path(__file__).parents[2] / "docs/evaluation.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    explained = {name for line in table for name in re.findall(r"`(\w+)`", line)}
    explained.update(re.findall(r"``(\w+)``", import_module(f"evenprune.tasks.{task}").__doc__))
    return {name for item in items for name in item} - explained


def result_of(folder: Path) -> dict:
    """What an evaluation's metrics.json says."""
    return json.loads((folder / "metrics.json").read_text())


# Fixtures of the folders whose conftest.py names them


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def ran(monkeypatch):
    """The names of the benchmarks that were computed, not kept, as they come."""
    from evenprune.evaluation import evaluate_checkpoint

    names, real = [], evaluate_checkpoint.run_benchmark

    def run(wanted, *rest):
        names.append(wanted.slug)
        return real(wanted, *rest)

    monkeypatch.setattr(evaluate_checkpoint, "run_benchmark", run)
    return names
