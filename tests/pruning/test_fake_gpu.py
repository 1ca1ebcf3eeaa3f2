"""What the GPU that is not there (tests/support/fake_gpu.py) sees.

The whole prune step on it: test_fake_gpu_methods.py.
"""

import pytest
import torch
from fake_gpu import DEVICE, READ, UPLOAD, fake_gpu

from evenprune.pruning.masks import smallest, smallest_of_group

pytestmark = pytest.mark.usefixtures("torch_products")

# Positive controls: each fault is one that a CPU would not show.


def test_every_kind_of_wait_is_seen():
    with fake_gpu() as record:
        values = torch.arange(6.0).to(DEVICE)
        for look in (
            lambda: values.sum().item(),
            lambda: bool(values.any()),
            values.cpu,
            values.tolist,
            values.nonzero,
            lambda: values[values > 2],
            lambda: torch.equal(values, values),
            lambda: torch.empty(6).copy_(values),
            torch.cuda.synchronize,
        ):
            record.waits.clear()
            look()
            assert [wait.kind for wait in record.waits] == [READ]
        with pytest.raises(TypeError):
            values.numpy()
        record.waits.clear()
        torch.ones(3).to(DEVICE)
        values[torch.tensor([1])]
        assert [wait.kind for wait in record.waits] == [UPLOAD, UPLOAD]
        record.waits.clear()
        values.masked_fill(values > 2, 0.0).add_(1).view(2, 3).T.sum()
        assert record.waits == []


# What decides by position among equal scores has another form on a GPU, which must agree.


@pytest.mark.parametrize("transposed", [False, True])
def test_masks_are_the_same_and_wait_for_nothing(transposed):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (12, 20), generator=generator).float()
    if transposed:
        scores = scores.T
    for count in (0, 1, 97, 239, 240):
        expected = smallest(scores, count)
        with fake_gpu() as record:
            found = smallest(scores.to(DEVICE), count)
            assert record.reads() == {}
            assert torch.equal(found.cpu(), expected)
            assert int(expected.sum()) == count
    groups = scores.reshape(4, -1)
    for zeros in (1, 2):
        with fake_gpu() as record:
            found = smallest_of_group(groups.to(DEVICE), zeros)
            assert record.reads() == {}
            assert torch.equal(found.cpu(), smallest_of_group(groups, zeros))
