"""Statistics in closed form, which the tests hold the program's against."""

import math


def dto(performance: float, fairness: float) -> float:
    """Return the distance to the optimum of two fractions: sqrt(((1-M)^2 + (1-U)^2) / 2).

    0 is best and 1 worst. The paper takes MMLU and UnQover accuracy.
    """
    return math.sqrt(((1 - performance) ** 2 + (1 - fairness) ** 2) / 2)


def above_chance(accuracy: float, chance: float) -> float:
    """Return accuracy rescaled so that chance is 0 and all correct is 1; below chance is 0."""
    return max(0.0, (accuracy - chance) / (1 - chance))
