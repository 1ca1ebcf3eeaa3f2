"""What the rows of a batch are, whatever the pairs: a tree of their sentences, each token once."""

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenprune.blocks.packing import pack_pairs
from evenprune.data.calibration import TokenPair

sentences = st.lists(st.integers(1, 3), min_size=1, max_size=9).map(tuple)
many_pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=30)


def made(sides):
    pairs = []
    for number, (one, two) in enumerate(sides):
        same = [(t, t) for t in range(min(len(one), len(two))) if one[t] == two[t]]
        pairs.append(TokenPair(f"p{number}", "c", one, two, tuple(same)))
    return pairs


def seen(part, row, token):
    """The ids a token of a row attends to, in the order of their positions."""
    if part.visible is None:
        return tuple(part.ids[row, : token + 1].tolist())
    places = part.visible[row, token].nonzero().flatten().tolist()
    places.sort(key=lambda place: int(part.positions[row, place]))
    assert [int(part.positions[row, place]) for place in places] == list(range(len(places)))
    assert places[-1] == token
    return tuple(part.ids[row, places].tolist())


def beginnings(batch):
    """What each token of a batch sees, in the order of the plan."""
    return [
        seen(part, row, token)
        for part in batch.parts
        for row in range(len(part.ids))
        for token in range(part.ids.shape[1])
    ]


@settings(max_examples=40)
@given(many_pairs, st.booleans(), st.sampled_from([1, 20, 200]))
@example([((1, 2, 3), (1, 2, 3)), ((1, 2), (1, 2, 3)), ((1,), (2,))], True, 200)
def test_every_token_sees_its_own_sentence(sides, shared, tokens):
    pairs = made(sides)
    bias = [1.0 + number for number in range(len(pairs))]
    found, matched = Counter(), Counter()
    for batch in pack_pairs(pairs, bias, shared, tokens):
        heads, plan = beginnings(batch), batch.plan
        assert len(plan.weights) == len(heads) == sum(map(len, batch.items))
        for head, weight in zip(heads, plan.weights.tolist(), strict=True):
            found[head] += weight
        names = [item for items in batch.items for item in items]
        for one, two, weight in zip(plan.first, plan.second, plan.bias, strict=True):
            assert names[one] == names[two] == f"p{int(weight) - 1}"
            matched[heads[one], heads[two], float(weight)] += 1
    wanted, apart = Counter(), Counter()
    for pair, weight in zip(pairs, bias, strict=True):
        for ids in (pair.ids0, pair.ids1):
            wanted.update(ids[: end + 1] for end in range(len(ids)))
        for t0, t1 in pair.matches:
            heads = pair.ids0[: t0 + 1], pair.ids1[: t1 + 1]
            if not shared or heads[0] != heads[1]:
                apart[*heads, weight] += 1
    assert {head: weight for head, weight in found.items() if weight} == wanted
    assert matched == apart
