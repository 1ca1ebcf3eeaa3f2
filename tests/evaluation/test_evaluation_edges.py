"""Edge cases of scoring that real tokenizers, models and files bring, and agreement of batches."""

import pytest
import torch
from evaluation_fixtures import tiny_lm, unqover_rows, write_jsonl

from evenprune.base.errors import UserError
from evenprune.evaluation import (
    bbq,
    crows_pairs,
    hellaswag,
    mmlu,
    perplexity,
    stereoset,
    unqover,
)
from evenprune.evaluation.language_model import load_language_model
from evenprune.evaluation.lettered_options import score_prompts
from evenprune.evaluation.protocol import Protocol

PROMPT = ("Who sang?\nAnswer:", [" A", " B", " C"])


@torch.inference_mode()
def sums(lm, prefix, options, shared):
    """Summed ln p of what follows the first ``shared`` tokens, from one plain pass an option."""
    found = []
    for option in options:
        ids = lm.tokenizer(prefix + option)["input_ids"]
        table = lm.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        found.append(sum(float(table[k - 1, ids[k]]) for k in range(shared, len(ids))))
    return found


@pytest.mark.parametrize("bos", [True, False])
def test_a_tokenizer_that_merges_the_colon_with_the_letter(bos):
    lm = tiny_lm(bos, words=(": A", ": B", ": C"))
    prompt = len(lm.tokenizer(PROMPT[0])["input_ids"])
    whole = len(lm.tokenizer(PROMPT[0] + " A")["input_ids"])
    assert whole == prompt  # the colon is gone, the merged token has come
    scores = score_prompts(lm, [PROMPT])[0]
    assert scores.path == "shared-prefix"
    assert scores.n_tokens == prompt - 1
    assert scores.logprobs == pytest.approx(sums(lm, *PROMPT, prompt - 1), abs=1e-4)


def test_a_tokenizer_that_merges_one_letter_only():
    lm = tiny_lm(words=(": A", " B", " C"))
    shared = len(lm.tokenizer(PROMPT[0])["input_ids"]) - 1
    scores = score_prompts(lm, [PROMPT])[0]
    assert scores.path == "summed"
    assert scores.mass is None
    assert scores.logprobs == pytest.approx(sums(lm, *PROMPT, shared), abs=1e-4)


def test_equal_logits_are_a_tie_in_the_records(tmp_path):
    lm = tiny_lm()
    with torch.no_grad():
        lm.head.weight.zero_()
    write_jsonl(tmp_path / "datas_rebuilt.jsonl", unqover_rows())
    found = unqover.TASK.evaluate(lm, tmp_path, Protocol("unqover"))
    assert all(item["tie"] and item["pred"] == 0 for item in found.items)
    assert found.metrics["ties"]["value"] == 1
    # The first letter wins; shared credit is chance.
    first = sum(row["label"] == 0 for row in unqover_rows()) / 12
    assert found.metrics["acc"]["value"] == pytest.approx(first)
    assert found.metrics["acc_ties"]["value"] == pytest.approx(1 / 3)
    assert found.metrics["entropy"]["value"] == pytest.approx(1.0986, abs=1e-4)


def test_a_story_of_one_token_has_nothing_to_score(tmp_path):
    write_jsonl(tmp_path / "stories_1000.jsonl", [{"id": 0, "text": "A"}])
    with pytest.raises(UserError, match="at least two tokens"):
        perplexity.TASK.evaluate(tiny_lm(bos=False), tmp_path, Protocol("perplexity"))
    found = perplexity.TASK.evaluate(tiny_lm(), tmp_path, Protocol("perplexity"))
    assert found.items[0]["n_tokens"] == 1


def test_an_empty_option_is_the_beginning_of_the_others():
    # Its tokens are those of the prompt: all are scored from the prompt's last token on.
    lm = tiny_lm()
    options = ["", " A", " B"]
    scores = score_prompts(lm, [(PROMPT[0], options)])[0]
    shared = len(lm.tokenizer(PROMPT[0])["input_ids"]) - 1
    assert scores.path == "summed"
    assert scores.logprobs == pytest.approx(sums(lm, PROMPT[0], options, shared), abs=1e-4)


# Batches on real models

TASKS = {
    "unqover": (unqover, "unqover"),
    "bbq": (bbq, "bbq"),
    "hellaswag": (hellaswag, "hellaswag"),
    "mmlu": (mmlu, "mmlu"),
    "crows_pairs": (crows_pairs, "crows_pairs"),
    "stereoset": (stereoset, "stereoset"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stories260k-llama", "stories3m-llama"])
@pytest.mark.parametrize("task", TASKS)
def test_one_at_a_time_agrees_with_batches(shared, name, task):
    """100 items: log-probabilities to 1e-3, and the same predictions."""
    lm = load_language_model(shared / "models" / name, "cpu", "float32")
    module, folder = TASKS[task]
    spec = {"task": task, "limit": 100, "split": "helm1000" if task == "bbq" else None}
    alone = module.TASK.evaluate(lm, shared / "data" / folder, Protocol(batch_size=1, **spec)).items
    many = module.TASK.evaluate(lm, shared / "data" / folder, Protocol(batch_size=32, **spec)).items
    assert len(alone) == len(many) == 100
    assert [item["item_id"] for item in alone] == [item["item_id"] for item in many]
    for one, other in zip(alone, many):
        assert other["option_logprobs"] == pytest.approx(one["option_logprobs"], abs=1e-3)
        assert other["pred"] == one["pred"]
    if task == "crows_pairs":
        for one, other in zip(alone, many):
            assert other["shared_logprobs"] == pytest.approx(one["shared_logprobs"], abs=1e-3)


@pytest.mark.slow
def test_perplexity_one_at_a_time_agrees_with_batches(shared):
    """100 stories: -ln p per token to 1e-3."""
    lm = load_language_model(shared / "models/stories3m-llama", "cpu", "float32")
    found = [
        perplexity.TASK.evaluate(
            lm, shared / "data/tinystories", Protocol("perplexity", limit=100, batch_size=size)
        ).items
        for size in (1, 32)
    ]
    for one, other in zip(*found, strict=True):
        assert other["nll"] / other["n_tokens"] == pytest.approx(
            one["nll"] / one["n_tokens"], abs=1e-3
        )
