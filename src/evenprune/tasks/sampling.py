"""Seeded samples of a benchmark's items."""

import random
from collections.abc import Hashable, Sequence


def stratified_sample(strata: Sequence[Hashable], limit: int | None, seed: int) -> list[int]:
    """Return the indices of at most ``limit`` items, in their own order.

    ``strata[i]`` is the group of item i (category, subject, condition). Each group gets its
    share of the limit by largest remainders, ties to the group that appears first, and gives a
    uniform sample without replacement from its own generator. None, or a limit that is not
    below the number of items, takes all.
    """
    total = len(strata)
    if limit is None or limit >= total:
        return list(range(total))
    groups: dict[Hashable, list[int]] = {}
    for index, name in enumerate(strata):
        groups.setdefault(name, []).append(index)
    exact = {name: limit * len(members) / total for name, members in groups.items()}
    quota = {name: int(share) for name, share in exact.items()}
    rest = sorted(groups, key=lambda name: quota[name] - exact[name])
    for name in rest[: limit - sum(quota.values())]:
        quota[name] += 1
    chosen: list[int] = []
    for name, members in groups.items():
        # One generator a group: a change of one group leaves the others' samples alone.
        chosen += random.Random(f"{seed}/{name}").sample(members, quota[name])
    return sorted(chosen)
