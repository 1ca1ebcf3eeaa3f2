"""Rounds in turn: what a machine does that changes its speed, memory, kills and other hosts."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_serving import arguments, texts, tiny  # noqa: F401  # fixtures

from evenprune.cli import main
from evenprune.serving import benchmark_serving, memory
from evenprune.serving.energy import Reading
from evenprune.serving.interleave import Engines, measure_rounds, orders, slots
from evenprune.serving.measure import Workload
from evenprune.serving.rounds import Rounds
from evenprune.stats.inference import paired_ratio

ROUNDS = 8


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


def measured(machine, gains, together=True, rounds=ROUNDS, order=None):
    """Measure engines with these gains on a machine; return (records, loads)."""
    Engine.open_now, Engine.most = set(), 0
    loads, records = [], []

    def load(name):
        loads.append(name)
        return Engine(machine, name, gains[name]), 1.0

    engines = Engines(load, together)
    workload = Workload(20, 1, 1.0, 0.033)
    wanted = dict(enumerate(order or orders(list(gains), rounds, 0), 1))
    measure_rounds(
        engines, machine, [[1, 2]] * 4, [1, 4], wanted, workload, None,
        lambda number, found: records.extend(found),
    )  # fmt: skip
    engines.close()
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

    # the same, but each engine with all its rounds at once and the change between them
    machine = Machine(lambda now: 1.0, 0.01)
    first = speeds(measured(machine, {"dense": 1.0})[0], "dense")
    machine.speed = lambda now: 0.5
    second = speeds(measured(machine, {"one": 1.0})[0], "one")
    assert np.median(second) / np.median(first) == pytest.approx(0.5, rel=0.05)


def test_what_slows_between_two_rounds_leaves_engines_the_same():
    """Where no round is cut by the change, equal engines are the same within the margin."""
    gains = {"dense": 1.0, "one": 1.0}
    machine = Machine(lambda now: 1.0, 0.01)
    fast, _ = measured(machine, gains, rounds=4)
    machine.speed = lambda now: 0.5
    slow, _ = measured(machine, gains, rounds=4)
    records = fast + [one | {"round": one["round"] + 4} for one in slow]
    found = ratio(records, "one")
    assert found.p_same < 0.05
    assert found.value == pytest.approx(1.0, abs=0.02)


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


def test_orders_differ_between_seeds_and_pairs_of_rounds():
    names = list("abcdef")
    assert orders(names, 8, 0) != orders(names, 8, 1)
    assert len(set(map(tuple, orders(names, 8, 0)))) > 4


def test_engines_that_take_turns_are_never_two():
    gains = dict.fromkeys(("dense", "one", "two"), 1.0)
    records, loads = measured(Machine(lambda now: 1.0), gains, together=False, rounds=4)
    assert Engine.most == 1
    # the last one of a round is the first of the next, which goes backwards
    assert 4 * 3 - 3 <= len(loads) <= 4 * 3
    _, once = measured(Machine(lambda now: 1.0), gains, together=True, rounds=4)
    assert (Engine.most, sorted(once)) == (3, sorted(gains))
    assert [one["place"] for one in records if one["round"] == 2] == list(range(6))


def test_a_region_is_as_long_in_every_round():
    records, _ = measured(Machine(lambda now: 1.0 if now < 50 else 0.3), {"dense": 1.0, "a": 2.0})
    for name, part in itertools.product(("dense", "a"), ("prefill", "generate")):
        calls = {one[part]["calls"] for one in records if one["checkpoint"] == name}
        assert len(calls) <= 2  # one a batch size


# Memory


@pytest.mark.parametrize(
    ("asked", "free", "together"),
    [
        ("auto", 10**12, True),
        ("auto", 10, False),
        ("together", 10, True),
        ("in-turn", 10**12, False),
    ],
)
def test_memory_or_the_configuration_decides(tmp_path, monkeypatch, asked, free, together):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"\0" * 1000)
    monkeypatch.setattr(memory, "free_bytes", lambda device, gpus: free)
    found = memory.decide(asked, folders, "cpu")
    assert found.together is together
    assert found.needed_bytes == (2 * (1250 + 2**30) if asked == "auto" else None)
    assert memory.decide(asked, folders[:1], "cpu").together


def test_a_jobs_memory_limit_counts(tmp_path):
    for place, limit, used in (("", "max", "5"), ("job", "5000", "1000"), ("job/step", "max", "7")):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "memory.max").write_text(f"{limit}\n")
        (tmp_path / place / "memory.current").write_text(f"{used}\n")
    own = tmp_path / "own"
    own.write_text("0::/job/step\n")
    assert min(memory._limits(own, tmp_path)) == 4000
    assert min(memory._limits(tmp_path / "none", tmp_path)) > 10**15
    assert memory.free_bytes("cpu") > 10**6


# Kills and hosts


def test_whole_rounds_survive_and_nothing_of_another_key_does(tmp_path, capsys):
    path = tmp_path / "out.partial.jsonl"
    rounds = Rounds(path, "host-a 1")
    rounds.put(1, {"host": "host-a", "records": [0.1]})
    rounds.put(2, {"host": "host-a", "records": [1 / 3]})
    with open(path, "ab") as torn:
        torn.write(b'{"round": 3, "rec')
    again = Rounds(path, "host-a 1")
    assert [again.done[number]["records"] for number in (1, 2)] == [[0.1], [1 / 3]]
    out = capsys.readouterr().out
    assert "line 4 is not whole" in out
    assert "2 rounds of this measurement are finished" in out
    again.put(3, {"records": []})
    assert list(Rounds(path, "host-a 1").done) == [1, 2, 3]
    capsys.readouterr()
    other = Rounds(path, "host-b 1")
    assert not other.done
    assert "3 rounds of another job or machine (host-a)" in capsys.readouterr().out
    other.put(1, {"records": ["b"]})
    assert list(Rounds(path, "host-b 1").done) == [1]
    other.remove()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def pair(tiny, tmp_path):  # noqa: F811
    """A dense folder and one that stands for a pruned one."""
    import shutil

    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    return [tiny, other]


def together(pair, texts, out, *more):  # noqa: F811
    given = ("--names", "dense", "pruned", "--rounds", "3", "--batch-sizes", "1")
    words = arguments(pair[0], texts, out, *given, *more)
    place = words.index("--model") + 2
    return [*words[:place], str(pair[1]), *words[place:]]


def interrupt(monkeypatch, after):
    """Stop the command in the round behind ``after`` finished ones."""
    real, count = Rounds.put, itertools.count(1)

    def put(self, number, content):
        real(self, number, content)
        if next(count) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(Rounds, "put", put)


def test_a_killed_job_goes_on_behind_its_rounds(pair, texts, tmp_path, monkeypatch, capsys):  # noqa: F811
    out = tmp_path / "out" / "efficiency.json"
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, SystemExit)):
        interrupt(patch, 2)
        assert main(together(pair, texts, out)) == 0
        raise SystemExit
    kept = out.with_name("efficiency.partial.jsonl").read_text().splitlines()
    assert len(kept) == 3
    assert not out.exists()
    assert main(together(pair, texts, out)) == 0
    assert "2 rounds of this measurement are finished" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["rounds"][:4] == [one for line in kept[1:] for one in json.loads(line)["records"]]
    assert [one["rounds"] for one in found["sessions"]] == [[1, 2], [3]]
    assert {one["host"] for one in found["sessions"]} == {found["host"]}
    for part in found["checkpoints"].values():
        assert part["metrics"]["decode_tok_per_s"]["n"] == 3
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "efficiency.json", "provenance.json",
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["host", "rounds", "engines"])
def test_rounds_of_another_machine_or_job_are_dropped(
    pair, texts, tmp_path, monkeypatch, capsys, change  # noqa: F811
):  # fmt: skip
    out = tmp_path / "out" / "efficiency.json"
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, SystemExit)):
        interrupt(patch, 1)
        assert main(together(pair, texts, out)) == 0
        raise SystemExit
    more = []
    if change == "host":
        machine = SimpleNamespace(node=lambda: "elsewhere")
        monkeypatch.setattr(benchmark_serving, "platform", machine)
    elif change == "rounds":
        more = ["--new-tokens", "20"]
    else:
        more = ["--engines", "in-turn"]
    assert main(together(pair, texts, out, *more)) == 0
    assert "1 round of another job or machine" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert [one["rounds"] for one in found["sessions"]] == [[1, 2, 3]]
    assert found["host"] == ("elsewhere" if change == "host" else found["host"])
    assert found["engines"]["together"] == (change != "engines")
