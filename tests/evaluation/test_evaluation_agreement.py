"""Our own scorer against lm-eval's, on real items and models: 500 of each task, perplexity."""

import math
import os

import pytest
import torch
from lm_eval_pairs import crows_pairs_samples

from evenprune.data.readers.crows_pairs import read_crows_pairs
from evenprune.data.readers.hellaswag import read_hellaswag
from evenprune.data.readers.mmlu import read_mmlu
from evenprune.data.readers.wikitext import read_wikitext
from evenprune.evaluation.harness import Harness, loglikelihoods, wikitext_pages
from evenprune.evaluation.language_model import load_language_model
from evenprune.evaluation.lettered_options import score_prompts
from evenprune.evaluation.losses import nll_rows
from evenprune.evaluation.protocol import Protocol
from evenprune.evaluation.sampling import stratified_sample

ITEMS = 500
READERS = {
    "hellaswag": read_hellaswag,
    "mmlu": lambda folder: read_mmlu(folder, "test"),
    "crows_pairs": lambda folder: read_crows_pairs(folder, "revised"),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["stories260k-llama", "stories3m-llama"])
def lm(shared, request):
    return load_language_model(shared / "models" / request.param, "cpu", "float32")


@pytest.mark.parametrize("task", READERS)
def test_predictions_equal_lm_evals(shared, lm, task):
    large = lm.model.num_parameters() > 1e6 and task != "crows_pairs"
    if large and not os.environ.get("EVENPRUNE_AGREEMENT"):
        pytest.skip("minutes of work; set EVENPRUNE_AGREEMENT=1")
    items = READERS[task](shared / "data" / task)
    chosen = [items[k] for k in stratified_sample([0] * len(items), ITEMS, 0)]
    if task == "crows_pairs":
        samples = crows_pairs_samples(lm, chosen)
    else:
        samples = getattr(Harness(lm, Protocol(task)), task)(chosen)
    prompts = [
        (sample["arguments"][0][0], [arguments[1] for arguments in sample["arguments"]])
        for sample in samples
    ]
    ours = torch.tensor([s.logprobs for s in score_prompts(lm, prompts)], dtype=torch.float64)
    theirs = torch.tensor([loglikelihoods(sample) for sample in samples], dtype=torch.float64)
    assert len(ours) == ITEMS
    # Tokens that all options begin with count in lm-eval's sums and not in ours.
    torch.testing.assert_close(
        ours - ours[:, :1], theirs - theirs[:, :1], rtol=0, atol=1e-3 * max(map(len, prompts))
    )
    same = ours.argmax(1) == theirs.argmax(1)
    assert same.double().mean() >= 0.995
    if task != "crows_pairs":
        gold = torch.tensor([item.gold for item in chosen])
        accuracies = [(scores.argmax(1) == gold).double().mean() for scores in (ours, theirs)]
        assert abs(accuracies[0] - accuracies[1]) <= 0.002


def test_rolling_perplexity_equals_lm_evals(shared, lm):
    from lm_eval.tasks.wikitext.preprocess_wikitext import wikitext_detokenizer

    pages = wikitext_pages(read_wikitext(shared / "data/wikitext2"))[:3]
    theirs = [-total for total, _, _ in Harness(lm, Protocol("perplexity")).wikitext(pages)]
    size = lm.max_length
    for page, expected in zip(pages, theirs):
        text = wikitext_detokenizer({"page": page})
        # lm-eval puts the prefix token before the tokenizer's own BOS.
        tokens = [lm.prefix_id, *lm.tokenizer(text)["input_ids"]]
        found = 0.0
        for start in range(0, len(tokens) - 1, size):
            new = min(size, len(tokens) - 1 - start)
            end = start + new + 1
            # The last window reaches back as far as the model allows.
            row = tokens[max(0, end - size - 1) : end]
            found += float(nll_rows(lm, [row], 1, "window")[0][-new:].sum())
        assert math.isclose(found, expected, rel_tol=1e-5)
