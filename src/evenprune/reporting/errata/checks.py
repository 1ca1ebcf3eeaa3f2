"""All checks of the paper, in the order of the appendix, and what they say together."""

from . import efficiency, fairness, marks, sizes, trade_off, wording
from .paper import IN_ORDER, Check, Paper

CHECKS = (
    *trade_off.CHECKS, *fairness.CHECKS, *marks.CHECKS, *wording.CHECKS, *sizes.CHECKS,
    *efficiency.CHECKS,
)  # fmt: skip


def checked(paper: Paper | None = None) -> list[Check]:
    """Return every check of the paper; by default of the printed one."""
    own = paper or Paper()
    return [check(own) for check in CHECKS]


def errata(paper: Paper | None = None) -> list[Check]:
    """Return the checks whose statement the numbers contradict or do not show."""
    return [one for one in checked(paper) if one.state != IN_ORDER]
