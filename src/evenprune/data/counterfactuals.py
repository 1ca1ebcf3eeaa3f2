"""The sentences of a pair about other groups, and of controls: the partners of other pairs."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Pairs = Sequence[Mapping[str, Any]]  # rows as ``read_pairs`` returns them
# Negative control -> which sentence of another pair becomes the partner.
PARTNERS = {"shuffled-pairs": "anti_stereotype", "random-delta": "stereotype"}


def about(sentence: str, target: str, other: str) -> str | None:
    """Return a sentence with each ``target`` replaced by ``other``; None where it has none.

    Whole words count, in any case; the replacement begins with a capital where the word did.
    """
    pattern = re.compile(rf"(?<!\w){re.escape(target)}(?!\w)", re.IGNORECASE)

    def replaced(match: re.Match[str]) -> str:
        return (other[0].upper() if match[0][0].isupper() else other[0]) + other[1:]

    found, count = pattern.subn(replaced, sentence)
    return found if count else None


def about_others(pairs: Pairs, count: int, seed: int) -> list[dict[str, tuple[str, str]]]:
    """Return both sentences of each pair about up to ``count`` other groups, by the group's word.

    The other groups are a sample of those that pairs of the same bias type are about, their
    ``target``, drawn by seed and id. A pair with a sentence that does not name its group has none.
    """
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for pair in pairs:
        groups[pair["category"]].setdefault(pair["target"].casefold(), pair["target"])
    found = []
    for pair in pairs:
        target, known = pair["target"], groups[pair["category"]]
        others = [known[name] for name in sorted(known) if name != target.casefold()]
        generator = random.Random(f"counterfactuals {seed} {pair['id']}")
        drawn = generator.sample(others, min(count, len(others)))
        sentences = {
            other: [about(pair[side], target, other) for side in ("stereotype", "anti_stereotype")]
            for other in drawn
        }
        found.append({other: (one, two) for other, (one, two) in sentences.items() if one and two})
    return found


def add_counterfactuals(pairs: Pairs, count: int, seed: int) -> list[dict[str, Any]]:
    """Return the pairs with ``counterfactuals``, those of ``about_others``."""
    others = about_others(pairs, count, seed)
    return [
        {**pair, "counterfactuals": list(map(list, found.values()))}
        for pair, found in zip(pairs, others, strict=True)
    ]


def exchanged(pairs: Pairs, seed: int) -> list[dict[str, Any]]:
    """Return the pairs with the counterfactuals of another pair of the same bias type: a control.

    Within a bias type they form one seeded cycle, so that none keeps its own.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        if pair["counterfactuals"]:
            places[pair["category"]].append(number)
    found = [dict(pair) for pair in pairs]
    for category in sorted(places):
        drawn = random.Random(f"exchanged {seed} {category}")
        for number, other in _cycle(places[category], drawn):
            found[number]["counterfactuals"] = pairs[other]["counterfactuals"]
    return found


def _cycle(members: list[int], generator: random.Random) -> Iterator[tuple[int, int]]:
    """Yield each member with its next one in a cycle: itself only where it is alone."""
    generator.shuffle(members)
    yield from zip(members, members[1:] + members[:1], strict=True)


def shuffle_partners(
    pairs: Sequence[dict[str, str]], lengths: Sequence[int], seed: int, control: str
) -> list[dict[str, str] | None]:
    """Return the pairs with partners exchanged among those of equal token count.

    ``lengths`` are the token counts of the sentences that become partners: with the control
    ``shuffled-pairs`` the anti-stereotypes, so that the two sentences of a pair no longer
    belong together; with ``random-delta`` the stereotypes, so that the difference of the two
    contrasts no stereotype with its opposite. Within a length the partners form one seeded
    cycle, so none keeps its own; None stands for a pair that is alone with its length.
    """
    generator = random.Random(f"{control} {seed}")
    groups: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        groups[length].append(index)
    shuffled: list[dict[str, str] | None] = [None] * len(pairs)
    for length in sorted(groups):
        for index, partner in _cycle(groups[length], generator):
            if index != partner:
                sentence = pairs[partner][PARTNERS[control]]
                shuffled[index] = {**pairs[index], "anti_stereotype": sentence}
    return shuffled
