"""Rounds in turn, on a machine that changes its speed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenprune.serving.energy import Reading
from evenprune.serving.interleave import measure_rounds, orders, slots
from evenprune.serving.measure import Settings
from evenprune.stats.inference import paired_ratio


class Machine:
    """A machine with a clock of its own, whose speed is a function of the time on it."""

    device = "cpu"

    def __init__(self, speed, noise=0.0, seed=0):
        self.now, self.speed, self.noise = 0.0, speed, noise
        self.generator = np.random.default_rng(seed)

    def work(self, amount):
        self.now += amount * math.exp(self.generator.normal(0, self.noise)) / self.speed(self.now)

    def measure(self, region):
        start = self.now
        region()
        seconds = self.now - start
        return Reading(seconds, {"cpu": 10 * seconds}, {"cpu": "measured"}, {"cpu": "fake"})


class Engine:
    """One that is ``gain`` times as fast as others on the same machine."""

    open_now: set = set()
    most = 0

    def __init__(self, machine, name, gain=1.0):
        self.machine, self.name, self.gain = machine, name, gain
        Engine.open_now.add(self)
        Engine.most = max(Engine.most, len(Engine.open_now))

    def generate(self, prompts, new_tokens):
        self.machine.work((0.2 + 0.1 * new_tokens) * len(prompts) ** 0.5 / self.gain)

    def describe(self):
        return {"name": self.name}

    def close(self):
        Engine.open_now.remove(self)


def measured(machine, gains, together=True, rounds=8):
    """Measure engines with these gains on a machine; return (records, loads)."""
    Engine.open_now, Engine.most = set(), 0
    loads = []

    def load(name):
        loads.append(name)
        return Engine(machine, name, gains[name])

    asked = Settings(new_tokens=20, min_seconds=1.0, rounds=rounds, batch_sizes=[1, 4])
    records, _ = measure_rounds(load, together, machine, [[1, 2]] * 4, list(gains), asked)
    assert not Engine.open_now
    return records, loads


def speeds(records, name, size=1):
    """Return decode tokens/s of a checkpoint by round."""
    return np.array([
        one["figures"]["decode_tok_per_s"]
        for one in sorted(records, key=lambda one: one["round"])
        if (one["checkpoint"], one["batch"]) == (name, size)
    ])  # fmt: skip


def ratio(records, name, size=1, margin=0.05):
    """Return the paired ratio to the engine ``dense``."""
    return paired_ratio(
        np.log(speeds(records, name, size) / speeds(records, "dense", size)), margin
    )


# Positive controls


@pytest.mark.parametrize("together", [True, False])
def test_a_machine_that_slows_in_the_middle_does_no_harm(together):
    """Measured one after the other the same engines would differ by a factor of two."""
    gains = dict.fromkeys(("dense", "one", "two"), 1.0)
    whole = measured(Machine(lambda now: 1.0, 0.01), gains, together)[0]
    middle = 0.5 * sum(one[part]["seconds"] for one in whole for part in ("prefill", "generate"))

    def halved(now):
        return 1.0 if now < middle else 0.5

    records, _ = measured(Machine(halved, 0.01), gains, together)
    for size in (1, 4):
        rates = speeds(records, "one", size)
        assert rates.max() / rates.min() > 1.8  # it did slow
        for name in ("one", "two"):
            found = ratio(records, name, size)
            assert found.value == pytest.approx(1.0, abs=0.15)
            assert found.low < 1 < found.high


@pytest.mark.parametrize("together", [True, False])
def test_an_engine_that_is_faster_is_found_faster(together):
    gains = {"dense": 1.0, "fast": 1.2, "same": 1.0}
    drift = lambda now: 1.0 / (1.0 + now / 2000)  # noqa: E731
    records, _ = measured(Machine(drift, 0.02), gains, together)
    found = ratio(records, "fast")
    assert found.low > 1.1
    assert found.value == pytest.approx(1.2, rel=0.05)
    assert found.p_same > 0.5
    assert ratio(records, "same").p_same < 0.05


# The order


@given(
    count=st.integers(1, 5), rounds=st.integers(1, 9), seed=st.integers(0, 99), both=st.booleans()
)
def test_a_round_has_every_slot_once_and_its_order_follows_the_seed(count, rounds, seed, both):
    names, sizes = [f"c{index}" for index in range(count)], [1, 8]
    found = orders(names, rounds, seed)
    assert found == orders(names, rounds, seed)
    assert len(found) == rounds
    for number, order in enumerate(found):
        assert sorted(order) == names
        assert sorted(slots(order, sizes, both)) == sorted(itertools.product(names, sizes))
        if number % 2:
            assert order == found[number - 1][::-1]


def test_engines_that_take_turns_are_never_two():
    gains = dict.fromkeys(("dense", "one", "two"), 1.0)
    records, loads = measured(Machine(lambda now: 1.0), gains, together=False, rounds=4)
    assert Engine.most == 1
    # the last one of a round is the first of the next, which goes backwards
    assert 4 * 3 - 3 <= len(loads) <= 4 * 3
    _, once = measured(Machine(lambda now: 1.0), gains, together=True, rounds=4)
    assert (Engine.most, sorted(once)) == (3, sorted(gains))
    assert [one["place"] for one in records if one["round"] == 2] == list(range(6))
