"""Scores of words, taken some positions and words at a time, against all logits at once."""

import pytest
import torch
from evaluation_fixtures import tiny_llama

from evenprune.io.onednn import pack
from evenprune.language_models.language_model import POSITIONS, WORDS, LanguageModel

VOCABULARY = 2 * WORDS + 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_scores_equal_those_of_all_logits_at_once(dtype, scale):
    torch.manual_seed(0)
    model = tiny_llama(VOCABULARY)
    with torch.no_grad():
        weight = model.get_output_embeddings().weight
        weight[WORDS + 5] = weight[WORDS + 1] = weight[3]  # as likely, in this part and the next
    lm = LanguageModel(model.to(dtype), None, 512, lambda logits: scale * logits)
    hidden = torch.randn(2 * POSITIONS + 9, weight.shape[1]).to(dtype)
    hidden[::3] = 40 * lm.head.weight.detach()[3]  # where these are the likeliest
    hidden[1::3] = 40 * lm.head.weight.detach()[2 * WORDS + 7]
    with torch.inference_mode():
        logits = scale * lm.head(hidden).float()
        wanted = torch.tensor([3, WORDS + 1, WORDS + 5, 2 * WORDS + 7, 50, VOCABULARY - 1])
        of = torch.arange(len(hidden)).repeat_interleave(len(wanted))
        tokens = wanted.repeat(len(hidden))
        pack(model, lm.head, WORDS)
        scores, likeliest, totals = lm.scored(hidden, of, tokens)
    exact = logits.double()
    torch.testing.assert_close(totals.double(), exact.logsumexp(-1), rtol=1e-6, atol=1e-5)
    expected = exact.log_softmax(-1)[of, tokens]
    torch.testing.assert_close(scores.double(), expected, rtol=1e-6, atol=1e-4)
    assert torch.equal(likeliest, logits.argmax(-1)[of] == tokens)
    found = {word: int(likeliest[tokens == word].sum()) for word in wanted.tolist()}
    assert found[3] >= len(hidden) // 3
    assert found[2 * WORDS + 7] >= len(hidden) // 3
    assert found[WORDS + 1] == found[WORDS + 5] == 0
