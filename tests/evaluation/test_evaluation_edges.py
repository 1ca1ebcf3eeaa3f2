"""Edge cases of scoring that real tokenizers, models and files bring."""

import pytest
import torch
from evaluation_fixtures import tiny_lm, unqover_rows, write_jsonl

from evenprune.base.errors import UserError
from evenprune.evaluation import perplexity, unqover
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


@pytest.mark.parametrize(
    ("words", "options", "path"),
    [
        ((": A", ": B", ": C"), PROMPT[1], "shared-prefix"),  # the colon melts into every letter
        ((": A", " B", " C"), PROMPT[1], "summed"),  # or into one of them
        ((" A", " B", " C"), ["", " A", " B"], "summed"),  # one option begins the others
    ],
)
@pytest.mark.parametrize("bos", [True, False])
def test_options_are_scored_from_the_last_common_token(words, options, path, bos):
    lm = tiny_lm(bos, words)
    shared = len(lm.tokenizer(PROMPT[0])["input_ids"]) - 1
    scores = score_prompts(lm, [(PROMPT[0], options)])[0]
    assert (scores.path, scores.n_tokens) == (path, shared)
    assert (scores.mass is None) == (path == "summed")
    assert scores.logprobs == pytest.approx(sums(lm, PROMPT[0], options, shared), abs=1e-4)


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
