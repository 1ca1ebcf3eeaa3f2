"""What tables and figures call things, with which colours, and in which order.

Nothing here changes a number: steps that compute do not import this module, so another word
renders tables and figures again and nothing else.
"""

import itertools
from typing import TYPE_CHECKING

from ..config.benchmark_keys import Benchmark
from ..config.facts import METHODS, NO_CALIBRATION, REGIMES
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS, JUDGED, OWN_TASKS
from ..stats.verdicts import metrics_of

if TYPE_CHECKING:  # pandas is not needed to call things by their names
    from .frames import Place
    from .results import Group

# Of parts of names that are not just written with a capital.
_WORDS = {"sparsegpt": "SparseGPT", "lora": "LoRA"}
METHOD_LABELS = {
    name: "-".join(_WORDS.get(part, part.capitalize()) for part in name.split("-"))
    for name in METHODS
}
# By the order of the methods; the last ones are for methods to come.
_COLORS = ("0.4", "#E69F00", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D31", "k")
COLORS = dict(zip(METHODS, itertools.cycle(_COLORS), strict=False))
MARKERS = dict(zip(METHODS, itertools.cycle("Dv^soPX*<"), strict=False))
# In the order in which figures show them.
REGIME_LABELS = {"dense": "dense"} | {
    name: f"{one.zeros}:{one.of}" if one.structured else f"{one.zeros / one.of:.0%}"
    for name, one in REGIMES.items()
}
# Columns of the tables in the paper's order, then those that it does not have.
_PAPER = ("perplexity", "hellaswag", "mmlu", "unqover", "bbq", "crows_pairs", "stereoset")
TASK_LABELS = {task: FACTS[task].label for task in dict.fromkeys((*_PAPER, *FACTS))}
# Tasks whose headline is no fraction, and the decimals with which it is shown as it is.
TASK_DIGITS = {"perplexity": 2, "lm_eval": 4}
NATS = {metric for facts in FACTS.values() for metric in facts.nats}  # shown as they are
IN_FULL = {"PPL": "Perplexity", "CP": "CrowS-Pairs"}
GROUP_WORDS = {
    "perplexity": "perplexity",
    "performance": "accuracy",
    "fairness": "bias",
    "dto": "DTO",
}
# UnQover's categories in the paper's order.
CATEGORY_LABELS = {
    "religion": "Religion",
    "country": "Nationality",
    "ethnicity": "Race",
    "mixedgender": "Gender",
}
# Data sets of calibration pairs and texts.
DATA_LABELS = {
    "stereoset": "StereoSet",
    "crows_pairs": "CrowS-Pairs",
    "question_pairs": "question pairs",
    "ultrachat": "UltraChat",
}
DTO_LABEL, THROUGHPUT_LABEL = "DTO", "throughput"


def number_text(value: float, digits: int, signed: bool = False) -> str:
    """Return a number with so many decimals; what is 0 after rounding has no minus."""
    rounded = round(value, digits) + 0.0  # adding 0 makes a positive zero of a negative one
    comma = "" if digits else ","  # counts have thousands apart
    return f"{rounded:{'+' if signed else ''}{comma}.{digits}f}".replace("-", "−")


def column_order(run_sheet: RunSheet) -> dict[str, Benchmark]:
    """Return all benchmarks in column order: by task, the one of the paper's data set first."""
    return {slug: one for task in TASK_LABELS for slug, one in run_sheet.benchmarks(task).items()}


def model_label(run_sheet: RunSheet, model: str) -> str:
    """Return a model's name in tables; one that the run does not know is called as it is."""
    entry = run_sheet.config.models.get(model)
    return entry.label if entry else model


def method_label(run_sheet: RunSheet, method: str) -> str:
    """Return a method's name in tables."""
    if method in METHODS:
        return METHOD_LABELS[method]
    return run_sheet.config.methods[method].label or method


def benchmark_label(run_sheet: RunSheet, slug: str) -> str:
    """Return a benchmark's column head: its task, with its slug where a task has several.

    Questions of the user's own, and lm-eval's tasks, are called as the configuration does.
    """
    task = run_sheet.config.benchmarks[slug].task
    if task in OWN_TASKS:
        return slug
    return TASK_LABELS[task] if slug == run_sheet.primary(task) else f"{TASK_LABELS[task]} ({slug})"


def measure_label(run_sheet: RunSheet, slug: str, metric: str) -> str:
    """Return what a compared metric is called in words: its benchmark, and which of several."""
    entry = run_sheet.config.benchmarks[slug]
    word, *rest = benchmark_label(run_sheet, slug).split(" ")
    label = " ".join([IN_FULL.get(word, word), *rest])
    several = len(metrics_of(entry.task, entry.headline)) > 1
    usual = not several and metric == FACTS[entry.task].headline
    return label if usual else f"{label} {FACTS[entry.task].words.get(metric, metric)}"


def judge_label(run_sheet: RunSheet, slug: str) -> str | None:
    """Return who judges a benchmark's answers; None for a benchmark without a judge."""
    entry = run_sheet.config.benchmarks[slug]
    if entry.judge:
        return model_label(run_sheet, entry.judge)
    words = f"word list “{entry.lexicon or 'english'}”, no guard model"
    return words if entry.task in JUDGED else None


def calibration_label(run_sheet: RunSheet, calibration: str) -> str:
    """Return a calibration set's name in tables, such as ``StereoSet + UltraChat (256)``.

    One that the run does not know is called as it is.
    """
    if calibration == NO_CALIBRATION:
        return "–"
    entry = run_sheet.config.calibrations.get(calibration)
    if entry is None:
        return calibration
    label = " + ".join(DATA_LABELS.get(name, name) for name in entry.pairs)
    if entry.categories:
        label += f" ({', '.join(name.capitalize() for name in entry.categories)})"
    if entry.texts:
        label += f" + {DATA_LABELS.get(entry.texts, entry.texts)}"
        label += f" ({entry.n_texts})" if entry.n_texts else ""
    return label + (f", {entry.control.replace('-', ' ')}" if entry.control != "none" else "")


def words_of(run_sheet: RunSheet, point: "Checkpoint | Group | Place", *parts: str) -> str:
    """Return parts of a checkpoint or grid point in words, its calibration where it has one."""
    words = {
        "model": model_label(run_sheet, point.model),
        "method": method_label(run_sheet, point.method),
        "regime": REGIME_LABELS[point.regime],
        "calibration": calibration_label(run_sheet, point.calibration),
    }
    hidden = {"calibration"} if point.calibration == NO_CALIBRATION else ()
    return ", ".join(words[one] for one in parts if one not in hidden)


def point_label(run_sheet: RunSheet, point: "Checkpoint | Group") -> str:
    """Return model, method and sparsity of a checkpoint; its calibration if the run has several."""
    several = len({one.calibration for one in run_sheet.checkpoints} - {NO_CALIBRATION}) > 1
    own = () if point.is_base else ("regime", *["calibration"] * several)
    return words_of(run_sheet, point, "model", "method", *own)


def pair_label(run_sheet: RunSheet, group: "Group") -> str:
    """Return a grid point whose masks are compared: model, regime, calibration, a variant."""
    variant = ["method"] * (group.method != "debias-sparsegpt")
    return words_of(run_sheet, group, "model", "regime", "calibration", *variant)


def own_protocol(run_sheet: RunSheet, model: str) -> str:
    """Return in words what a model's entry decides where benchmarks leave it open; "" nothing."""
    entry = run_sheet.config.models[model]
    words = [f"BOS {entry.bos}"] if entry.bos != "auto" else []
    words += ["chat template"] if entry.chat_template else []
    for task, own in entry.protocol.items():
        chosen = own.model_dump(exclude_none=True).items()
        words += [f"{task} {', '.join(f'{key} {value}' for key, value in chosen)}"] * bool(chosen)
    return "; ".join(words)


def protocol_words(entry: Benchmark) -> list[str]:
    """Return in words where a benchmark's protocol is not its task's default; how it generates."""
    words = [f"split {entry.split}"] if entry.split else []
    words += [f"style {entry.style}"] if entry.style else []
    words += [f"BOS {entry.bos}"] if entry.bos not in (None, "auto") else []
    if entry.chat_template == "auto":
        words.append("chat template where the tokenizer has one")
    elif entry.chat_template is not None:
        words.append(f"{'with' if entry.chat_template else 'without'} chat template")
    if entry.task in JUDGED:
        words.append(f"greedy, at most {entry.max_new_tokens or 256} new tokens")
    return words
