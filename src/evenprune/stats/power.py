"""How small a difference a test would have seen, at the error that this run has."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .inference import Estimate, t_quantile

POWER, LEVEL = 0.8, 0.05
STEPS = 1200  # of the search, each a fortieth of a standard error
Array = NDArray[np.float64]


def one_sided(shift: Array, df: float | None) -> Array:
    """Return the power of a two-sided test for a mean that is so many errors away."""
    from scipy.special import ndtr

    critical = t_quantile(1 - LEVEL / 2, df)
    # Student's t around a shift, by its mean and spread (Johnson and Welch 1940).
    spread = np.sqrt(1 + critical**2 / (2 * df)) if df else 1.0
    centre = critical * (1 - 1 / (4 * df)) if df else critical
    return np.asarray(ndtr((shift - centre) / spread), float)


def both_sided(first: Array, second: Array, rho: float, df: float | None) -> Array:
    """Return the power of two tests at once, whose statistics have the correlation ``rho``.

    ``first`` and ``second`` (n,) are the means in errors, positive in the direction looked for.
    """
    from scipy.special import ndtr

    critical = t_quantile(1 - LEVEL / 2, df)
    rho = float(np.clip(rho, -0.999, 0.999))
    nodes, weights = np.polynomial.legendre.leggauss(48)
    # Over z of the first statistic from where it is significant to 8 errors above its mean.
    start = np.maximum(critical - first, -8.0)
    half = (8.0 - start) / 2
    z = start[:, None] + half[:, None] * (nodes + 1)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    other = ndtr((second[:, None] + rho * z - critical) / np.sqrt(1 - rho**2))
    found = half * (density * other * weights).sum(axis=1)
    return np.where(half > 0, found, 0.0)


def smallest(power: Callable[[Array], Array], stderr: float) -> float | None:
    """Return the smallest change of this ``power``, None where no size has it.

    ``power`` is of sizes (n,), which need not rise throughout.
    """
    sizes = stderr * np.arange(STEPS + 1) / 40
    enough = np.flatnonzero(power(sizes) >= POWER)
    if not enough.size:
        return None
    place = max(int(enough[0]), 1)
    between = np.linspace(sizes[place - 1], sizes[place], 65)
    return float(between[np.argmax(power(between) >= POWER)])


def detectable(
    effect: Estimate, total: Estimate | None, rho: float, away: float
) -> tuple[float | None, float | None]:
    """Return the smallest changes for the worse and for the better that are called so in 80 % of
    runs, None without an error.

    ``effect`` is the difference. Where a best value lies between, ``total`` is the sum of both
    distances to it, whose errors have the correlation ``rho``; ``away`` is the first model's
    distance, with its sign. Then the second one is None where no change towards the best value
    would be seen: one that ends there makes the sum as small as it can be told apart from 0 only
    if ``away`` can.
    """
    error, df = effect.stderr, effect.df
    if not error:
        return None, None
    if total is None:
        found = smallest(lambda sizes: one_sided(sizes / error, df), error)
        return found, found
    other, distance = total.stderr, abs(away)
    if not other:
        return None, None

    def seen(way: int) -> float | None:
        def power(sizes: Array) -> Array:
            return both_sided(sizes / error, (2 * distance + way * sizes) / other, way * rho, df)

        return smallest(power, error)

    return seen(1), seen(-1)
