"""Lines of methods at matched perplexity."""

import math

import numpy as np
import pytest
from reporting_run import small_config

from evenprune.plan import grids
from evenprune_world.controls import frontier
from evenprune_world.controls.contrasts import contrasts, is_control
from evenprune_world.controls.frontier import least, lines


def one(costs, bias, budget):
    return float(least(np.array(costs, float), np.array(bias, float), budget))


@pytest.mark.parametrize(
    ("costs", "bias", "budget", "reached"),
    [
        ([0, 0.02], [0.8, 0.4], 0.01, 0.6),  # half-way
        ([0, 0.02], [0.8, 0.4], 0.02, 0.4),
        ([0, 0.02], [0.8, 0.4], 0.05, 0.4),  # no further than the line
        ([0, 0.02], [0.8, -0.8], 0.02, 0.0),  # through 0 within the budget
        ([0, 0.02], [0.8, -0.8], 0.005, 0.4),
        ([0, 0.02], [0.4, 0.8], 0.01, 0.4),  # worse: the start
        ([0, -0.01, 0.03], [0.8, 0.6, 0.2], 0.01, 0.4),
        ([0, 0.05, 0.01], [0.8, 0.1, 0.5], 0.01, 0.5),  # back within the budget
        ([0], [-0.7], 0.01, 0.7),
    ],
)
def test_least_by_hand(costs, bias, budget, reached):
    assert one(costs, bias, budget) == pytest.approx(reached)


def test_least_is_that_of_a_fine_walk():
    generator = np.random.default_rng(1)
    for _ in range(50):
        costs = np.r_[0.0, generator.normal(0.01, 0.02, 3)]
        bias = generator.normal(0.2, 0.5, 4)
        at = np.linspace(0, 3, 30_001)
        walk = np.interp(at, range(4), costs), np.abs(np.interp(at, range(4), bias))
        expected = walk[1][walk[0] <= 0.01 + 1e-12].min()
        assert one(costs, bias, 0.01) == pytest.approx(expected, abs=5e-4)


def test_least_of_undefined_numbers_is_undefined():
    assert math.isnan(one([0, math.nan], [0.8, 0.1], 0.01))
    assert math.isnan(one([0, 0.01], [0.8, math.nan], 0.01))


@pytest.fixture(scope="module")
def config(repo, tmp_path_factory):
    return small_config(repo, tmp_path_factory.mktemp("x"), "controls.yaml")


def test_lines_start_at_what_a_method_is_without(config):
    found = lines(config, grids.all_checkpoints(config))

    def line_of(*methods):
        (one,) = [
            line
            for line in found
            if [point.method for point in line.points[1:]] == list(methods)
            and (line.points[1].regime, line.calibration) == ("2of4", "ss-uc256")
        ]
        return one

    line = line_of("refit.e0.003", "refit.e0.01")
    assert line.points[0].method == "sparsegpt.refit"
    assert line.weights == (0.0, 0.003, 0.01)
    assert line_of("gradient.e0.003").points[0].method == "sparsegpt"
    # Another loss is a line of its own, not a stronger step.
    assert line_of("refit.augmentation").control == ""
    assert line_of("debias.b0.5", "debias-sparsegpt", "debias.b16").weights == (0.0, 0.5, 1.0, 16.0)
    (unpruned,) = [line for line in found if line.points[1].regime == "dense"]
    assert unpruned.points[0].is_base
    controls = frontier.controls_of_line(config, line, found)
    assert sorted(other.control for other in controls) == [
        "random-delta", "reversed", "shuffled-pairs", "text",
    ]  # fmt: skip
    assert all(other.points[0] == line.points[0] for other in controls)


def test_controls_of_the_shipped_configuration(config):
    points = grids.all_checkpoints(config)
    found = contrasts(config, points)
    against = {
        (one.reference.method, one.reference.calibration)
        for one in found
        if one.kind == "control"
        and (one.candidate.method, one.candidate.regime) == ("refit.e0.003", "2of4")
        and one.candidate.calibration == "ss-uc256"
    }
    assert against == {
        ("refit.reversed", "ss-uc256"),
        ("refit.text", "ss-uc256"),
        ("refit.e0.003", "ss-uc256-shuffled"),
        ("refit.e0.003", "ss-uc256-random"),
    }
    # Another strength has no control of its own, a control none at all.
    assert not any(
        one.kind == "control"
        and (one.candidate.method == "refit.e0.01" or is_control(config, one.candidate))
        for one in found
    )
    plain = {
        one.candidate.key: one.reference.key
        for one in found
        if one.kind == "plain" and one.candidate.calibration == "ss-uc256-random"
    }
    assert set(plain.values()) == {
        "world/sparsegpt/2of4/ss-uc256/s0", "world/sparsegpt.refit/2of4/ss-uc256/s0",
        "world/sparsegpt.refit/u50/ss-uc256/s0",
    }  # fmt: skip
