"""Each fault of a configuration is one line with its key; all of values, then all of names."""

import copy

import pytest

from evenprune.config.config import validate_config
from evenprune.config.pair_sources import BIAS_TYPES
from evenprune.config.tasks import FACTS, metrics_of
from evenprune.io.errors import UserError
from evenprune.io.yamlfile import merge, read_yaml


@pytest.fixture(scope="module")
def shipped(repo):
    return merge(read_yaml(repo / "config/catalogue.yaml"), read_yaml(repo / "config/world.yaml"))


@pytest.fixture
def raw(shipped):
    return copy.deepcopy(shipped)


def put(raw, path, value):
    """Set the value at a dotted path; a name with a dot in it stands between slashes."""
    *parents, last = path.split("/") if "/" in path else path.split(".")
    for part in parents:
        raw = raw.setdefault(part, {})
    raw[last] = value


CASES = [
    # names that something else has
    ("calibrations.none", {"pairs": "stereoset"}, "the name 'none' is reserved"),
    ("methods.dense", {"method": "wanda"}, "the name 'dense' is reserved"),
    ("benchmarks/summary.json", {"task": "mmlu", "dataset": "mmlu"}, "'summary.json' is reserved"),
    ("world.seed", 3, "the shipped model belongs to the world with seed 0"),
    # what a task knows
    ("benchmarks.bbq.split", "helm100", "did you mean 'helm1000'?"),
    ("benchmarks.unqover.style", "helmet", "got 'helmet', allowed are fairsteer, cal0"),
    ("benchmarks.mmlu.orders", 6, "only the tasks unqover and bbq have it"),
    ("benchmarks.harmbench.headline", "says_unsafe_pr", "allowed are unsafe_rate"),
    ("benchmarks.wikitext2.dataset", "bbq", "not of the form that the task perplexity reads"),
    ("benchmarks.harmbench.judge_forms", ["pr"], "but there is no judge"),
    ("models.world.protocol", {"mmlu": {"split": "tset"}}, "world.protocol.mmlu.split: got 'tset'"),
    # what experiments name
    ("experiments.main.models", ["wrld"], "models.0: got 'wrld', which is no model; did you mean"),
    ("experiments.main.regimes", ["2:4"], "got '2:4', allowed are u25, u50, 1of4, 2of4"),
    ("prunning", {}, "prunning: unknown key; did you mean 'pruning'?"),
    # calibrations and pruning
    ("calibrations.ss.categories", ["gendr"], "no bias type of stereoset; did you mean 'gender'?"),
    ("calibrations.ss.pairs", ["stereset"], "no data set of pairs; did you mean 'stereoset'"),
    ("calibrations.ss.pairs", ["stereoset", "stereoset"], "expected each one once"),
    ("calibrations.ss.n_texts", 4, "got 4 texts of None; set both"),
    ("calibrations.ss.texts", "ultrachat", "got 0 texts of ultrachat; set both"),
    ("pruning", {"block_size": 30}, "got 30, expected a multiple of 4 for 1of4 (experiments.main"),
    # values
    ("pruning", {"damping": float("inf")}, "got inf, expected a finite number"),
    ("benchmarks.mmlu.limit", 2**70, "expected a number of at most 9223372036854775807"),
    ("results", "x" * 300, "expected names of at most 200 bytes"),
    ("models.world.label", "  ", "at least 1 character"),
    ("title", "two\nlines", "without control characters, has U+000A"),
    ("models.world.path", "my/model", "the workflow makes this model"),
    ("models.world.label", "\ud800", "without control characters, has U+D800"),
    # where things come from
    ("models.qwen3-8b.mirror", "../../victim", "expected a folder below the mirror's"),
    ("models.qwen3-8b.hub", "Qwen3", "expected a repository org/name"),
]


@pytest.mark.parametrize(("path", "value", "text"), CASES)
def test_a_fault_is_one_line_with_its_key(raw, path, value, text):
    put(raw, path, value)
    with pytest.raises(UserError) as caught:
        validate_config(raw)
    lines = [line for line in str(caught.value).splitlines() if text in line]
    assert lines, str(caught.value)
    assert lines[0].strip().startswith(path.replace("/", ".").rpartition(".")[0])
    assert "1 error:" in str(caught.value)


def test_all_of_them_come_at_once(raw):
    """Of values, whose kinds are looked at first; then of names."""
    by_path = {path: (value, text) for path, value, text in CASES}
    for paths in (
        ("prunning", "results", "benchmarks.mmlu.limit", "models.world.label"),
        ("methods.dense", "benchmarks.mmlu.orders", "experiments.main.models"),
    ):
        wrong = copy.deepcopy(raw)
        for path in paths:
            put(wrong, path, by_path[path][0])
        with pytest.raises(UserError) as caught:
            validate_config(wrong)
        assert [path for path in paths if by_path[path][1] not in str(caught.value)] == []


def test_the_home_folder_is_written_out_in_every_path(raw, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    raw["models"]["mine"] = {"label": "Mine", "path": "~/model"}
    raw["calibrations"]["mine"] = {"pairs": "~/pairs.csv"}
    raw |= {"mirror": ["~/a", "b"], "lock": "~"}
    raw["serving"]["python"] = "~/bin/python"
    config = validate_config(raw)
    paths = config.models["mine"].path, config.datasets["mine.pairs"].path
    assert paths == ("/home/me/model", "/home/me/pairs.csv")
    assert (config.mirror, config.lock) == (["/home/me/a", "b"], "/home/me")
    assert config.serving.python == "/home/me/bin/python"


@pytest.mark.parametrize("table", ["association", "groups"])
def test_a_table_of_what_is_not_there_is_told_before_the_run(raw, table):
    raw["tables"] = ["calib_size", table]
    with pytest.raises(UserError, match=rf"calib_size shows[\s\S]*{table} shows association.* add"):
        validate_config(raw)
    raw["benchmarks"]["stereoset"]["counterfactuals"], raw["tables"] = 2, [table]
    validate_config(raw)


def test_bias_types_of_the_world_are_known():
    from evenprune_world.society import CATEGORIES

    assert {c.bias_type for c in CATEGORIES if c.bias_type} <= set(BIAS_TYPES["stereoset"])
    assert {c.crows for c in CATEGORIES if c.crows} <= set(BIAS_TYPES["crows_pairs"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", r"run\.yaml .* the key 'a' on line 3 is already on line 1"),
        ("a:\n  b: {c: 1, d: 2, c: 3}\n", r"the key 'c' on line 2"),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2, b: 3}\n", r"the key 'b' on line 2"),
        ("[" * 20000, "nested too deeply"),
    ],
)
def test_broken_files_are_refused_in_a_sentence(tmp_path, text, message):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_yaml(path)


def test_facts_agree_with_the_modules_that_evaluate():
    from evenprune.evaluation.benchmarks import find

    for name, facts in FACTS.items():
        assert find(name).name == name
        assert facts.headline in facts.metrics
        given = dict.fromkeys(facts.options, True) | {"judge_forms": ["pr"]}
        optional = metrics_of(name, given)
        assert set(facts.means) <= {*facts.metrics, *optional}
