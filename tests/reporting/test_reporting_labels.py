"""Directions of metrics, and words for what only one model needs."""

import pytest

from evenprune.analysis import labels
from evenprune.config.config import load_config
from evenprune.config.run_sheet import RunSheet
from evenprune.config.tasks import FACTS, LM_EVAL, TASKS
from evenprune.io.yamlfile import read_yaml
from evenprune.reporting.forms import ARROWS
from evenprune.stats.directions import direction, gain


@pytest.mark.parametrize("task", TASKS)
def test_every_headline_has_a_direction(task):
    # Which scores of any task of lm-eval are good is not known.
    assert direction(task, FACTS[task].headline) or task == LM_EVAL
    assert {direction(task, metric) for metric in FACTS[task].metrics} <= set(ARROWS)


@pytest.mark.parametrize(
    ("task", "metric", "worse", "good"),
    [
        ("perplexity", "ppl_paper", 12.0, 11.0),
        ("crows_pairs", "pct_stereotype", 0.3, 0.6),
        ("stereoset", "ss_norm", 0.7, 0.4),
        ("bbq", "s_amb", -0.2, 0.1),
        ("bbq", "unk_rate_dis", 0.2, 0.1),
        ("dto", "dto", 0.4, 0.3),
        ("crows_pairs", "likelihood_diff", 0.1, 0.2),  # without a direction none is better
        ("harmbench", "refusal_rate", 0.2, 0.1),
    ],
)
def test_the_better_value_is_the_one_that_the_direction_says(task, metric, worse, good):
    assert (gain(task, metric, good, worse) > 0) == bool(direction(task, metric))
    assert not gain(task, metric, worse, good) > 0
    assert gain(task, metric, good, worse) == pytest.approx(-gain(task, metric, worse, good))


def test_what_only_one_model_needs_is_said(repo):
    raw = read_yaml(repo / "config/world.yaml")
    own = {"perplexity": {"split": "gptq2048+bos"}, "mmlu": {"bos": "never", "chat_template": True}}
    raw["models"] = {"world": {"protocol": own}, "smollm2-135m": {"bos": "always"}}
    sheet = RunSheet(load_config(raw, "c", repo / "config/catalogue.yaml"))
    assert labels.own_protocol(sheet, "world") == (
        "perplexity split gptq2048+bos; mmlu bos never, chat_template True"
    )
    assert labels.own_protocol(sheet, "smollm2-135m") == "BOS always"
    assert labels.own_protocol(sheet, "stories3m") == ""
