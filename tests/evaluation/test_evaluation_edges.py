"""Edge cases of scoring that real tokenizers, models and files bring."""

import pytest
import torch
from evaluation_fixtures import tiny_lm, unqover_rows, write_jsonl

from evenprune.base.errors import UserError
from evenprune.evaluation import perplexity, unqover
from evenprune.evaluation.protocol import Protocol


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
