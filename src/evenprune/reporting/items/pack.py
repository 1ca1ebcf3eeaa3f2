"""Items as compressed blocks that the page unpacks when they are asked for, and their limit."""

import base64
import random
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...base.files import canonical_json
from .join import ItemSet, changed

SEED = 0  # of the sample of items that a limit leaves
LEAST = 20  # items that every benchmark keeps, whatever the limit


@dataclass(frozen=True)
class Packed:
    """What the page knows of the items at once (``sets``) and the blocks that it unpacks later."""

    sets: list[dict[str, Any]]
    blocks: list[str]

    def size(self) -> int:
        """Return the number of characters of all blocks."""
        return sum(map(len, self.blocks))


def block(content: Any) -> str:
    """Return JSON, deflated (RFC 1950), in base 64: no character of it ends a script element."""
    return base64.b64encode(zlib.compress(canonical_json(content).encode(), 9)).decode()


def texts_block(items: ItemSet, chosen: Sequence[int], names: Sequence[str]) -> str:
    """Return the block of the items' texts and roles; ``names`` are all categories."""
    place = {name: number for number, name in enumerate(names)}
    return block(
        {
            "ids": [items.ids[k] for k in chosen],
            "categories": [place[items.categories[k]] for k in chosen],
            "fields": [list(items.texts[k].fields) for k in chosen],
            "options": [list(items.texts[k].options) for k in chosen],
            "gold": [items.gold[k] for k in chosen],
            "unknown": [items.unknown[k] for k in chosen],
            "stereotyped": [items.stereotyped[k] for k in chosen],
        }
    )


def pack(sets: Sequence[ItemSet], counts: Sequence[int | None]) -> Packed:
    """Return the items of all sets in blocks: one of texts and one a checkpoint.

    ``counts`` are the numbers of items to take, None for all.
    """
    blocks: list[str] = []
    described = []

    def keep(content: str) -> int:
        blocks.append(content)
        return len(blocks) - 1

    for items, count in zip(sets, counts, strict=True):
        flags = changed(items)
        chosen = sample(flags.tolist(), count, SEED)
        names = sorted({items.categories[k] for k in chosen})
        described.append(
            {
                "benchmark": items.benchmark,
                "task": items.task,
                **items.about,
                "categories": names,
                "shown": len(chosen),
                "of": len(items.ids),
                "changed": int(flags.sum()),
                "texts": keep(texts_block(items, chosen, names)),
                "answers": [
                    {
                        **asdict(one.point),
                        "dense": one.point.is_base,
                        "block": keep(
                            block(
                                {
                                    "chosen": one.chosen[chosen].tolist(),
                                    "logprobs": one.logprobs[chosen].ravel().tolist(),
                                }
                            )
                        ),
                    }
                    for one in items.answers
                ],
            }
        )
    return Packed(described, blocks)


def sample(flags: Sequence[bool], count: int | None, seed: int) -> list[int]:
    """Return ``count`` items in their own order: changed ones first, then others, each drawn."""
    if count is None or count >= len(flags):
        return list(range(len(flags)))
    drawn = random.Random(seed)
    some = [k for k, flag in enumerate(flags) if flag]
    rest = [k for k, flag in enumerate(flags) if not flag]
    if len(some) >= count:
        return sorted(drawn.sample(some, count))
    return sorted([*some, *drawn.sample(rest, count - len(some))])


def shares(needs: Sequence[float], budget: float) -> list[float]:
    """Return what each gets of a budget: an equal share, or less where it needs less."""
    found = [0.0] * len(needs)
    left, order = budget, sorted(range(len(needs)), key=lambda k: needs[k])
    for done, k in enumerate(order):
        found[k] = min(needs[k], left / (len(order) - done))
        left -= found[k]
    return found


def fit(sets: Sequence[ItemSet], limit: int) -> Packed:
    """Return the items in blocks of at most ``limit`` characters together, all if they fit.

    Otherwise every set gets an equal share of the limit, and fills it with a sample; a few items
    of each (``LEAST``) remain whatever the limit.
    """
    packed = pack(sets, [None] * len(sets))
    if packed.size() <= limit:
        return packed
    needs = [float(sum(len(packed.blocks[k]) for k in _numbers(one))) for one in packed.sets]
    budget = float(limit)
    for _ in range(20):
        counts = [
            max(LEAST, int(len(one.ids) * share / need))
            for one, share, need in zip(sets, shares(needs, budget), needs, strict=True)
        ]
        packed = pack(sets, counts)
        least = all(count == LEAST for count in counts)
        if packed.size() <= limit or least:
            return packed
        budget *= 0.95 * limit / packed.size()
    return packed


def _numbers(described: dict[str, Any]) -> list[int]:
    return [described["texts"], *(one["block"] for one in described["answers"])]
