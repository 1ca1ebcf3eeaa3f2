"""Scores of words, taken some positions and words at a time, against all logits at once."""

import pytest
import torch
from evaluation_fixtures import tiny_llama

from evenprune.io.onednn import Packed, pack
from evenprune.language_models.language_model import POSITIONS, WORDS, LanguageModel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_scores_equal_those_of_all_logits_at_once(dtype, scale):
    model = tiny_llama(2 * WORDS + 100).to(dtype)
    lm = LanguageModel(model, None, 512, lambda logits: scale * logits)
    weight = lm.head.weight.detach()
    weight[WORDS + 5] = weight[WORDS + 1] = weight[3]  # as likely, in this part and the next
    hidden = torch.randn(2 * POSITIONS + 9, weight.shape[1]).to(dtype)
    hidden[::3] = 40 * weight[3]  # these are likeliest, and 50 in its part
    hidden[1::3] = 40 * weight[2 * WORDS + 7] + 20 * weight[50]
    words = torch.tensor([3, WORDS + 1, WORDS + 5, 2 * WORDS + 7, 50, WORDS])
    of = torch.arange(len(hidden)).repeat_interleave(len(words))
    tokens = words.repeat(len(hidden))
    with torch.inference_mode():
        logits = scale * lm.head(hidden).float()
        scores, likeliest, totals = lm.scored(hidden, of, tokens)
    exact = logits.double()
    torch.testing.assert_close(totals.double(), exact.logsumexp(-1), rtol=1e-6, atol=1e-5)
    expected = exact.log_softmax(-1)[of, tokens]
    torch.testing.assert_close(scores.double(), expected, rtol=1e-6, atol=1e-4)
    assert torch.equal(likeliest, logits.argmax(-1)[of] == tokens)
    times = likeliest.reshape(-1, len(words)).sum(0).tolist()
    assert min(times[0], times[3]) >= len(hidden) // 3
    assert times[1:3] == [0, 0]


def test_packed_weights_give_the_same_losses():
    model = tiny_llama(2 * WORDS + 100).to(torch.bfloat16)
    lm = LanguageModel(model, None, 512, lambda logits: logits)
    rows = torch.arange(2, 42).reshape(2, 20).tolist()
    before = lm.row_losses(rows)
    pack(model, lm.head, WORDS)
    block = model.base_model.layers[0].mlp.down_proj
    if type(block) is not Packed:
        pytest.skip("oneDNN has no bfloat16 products on this processor")
    assert (block.weight.device.type, lm.head.weight.device.type) == ("meta", "cpu")
    assert len(lm.head.packed) == 3
    assert lm.row_losses(rows) == before
    lm.close()
