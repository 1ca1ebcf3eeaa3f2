"""What one benchmark run is: its options, its outcome, and the identity of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict, Field

from ..config.benchmark_keys import Asked, JudgeForm, Lexicon
from ..config.checks import benchmark_faults
from ..config.flags import checked
from ..config.section import Bos, Dtype
from ..io.errors import UserError
from ..stats.metrics import Metric

AUTO = "auto"
DIGITS = 6  # decimals kept of logits, log-probabilities and probabilities: float32 has about 7
Records = list[dict[str, Any]]  # of items, one in each order of its options
Facts = dict[str, Any]  # what is told about the data and the scoring


class Protocol(Asked):
    """All options of one benchmark that can change its numbers, none of them left open.

    ``judge`` is a guard model's folder or record (None: the lexical judge with ``lexicon``).
    ``bos``: see ``LanguageModel.with_bos``.
    """

    model_config = ConfigDict(frozen=True)

    dtype: Dtype = "auto"
    """`auto`: the checkpoint's own, float32 where the processor is slow in it"""
    bos: Bos = "auto"
    chat_template: bool | Literal["auto"] = False
    judge: str | None = None
    judge_forms: list[JudgeForm] = Field(["pr"], min_length=1)
    lexicon: Lexicon = "english"
    max_new_tokens: int = Field(256, ge=1)
    store_generations: bool = False

    def __init__(self, task: str, **options: Any) -> None:
        super().__init__(task=task, **options)

    def as_dict(self) -> dict[str, Any]:
        """Return the options as plain values, those of single tasks only where they are set."""
        single = ("name", "trust_tasks", "counterfactuals", "by_text")
        return self.model_dump(exclude={key for key in single if not getattr(self, key)})


@dataclass(frozen=True)
class Outcome:
    """Records of all items, metrics computed from them, and facts about the protocol."""

    items: Records
    metrics: dict[str, Metric]
    categories: dict[str, dict[str, Metric]] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


def make_protocol(options: Mapping[str, Any], where: str = "the benchmark") -> Protocol:
    """Return a Protocol from options as JSON or the command line gives them; null means default.

    Raises UserError for an unknown option, a value of the wrong kind and one that the task has not.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if "task" not in given:
        raise UserError(f"{where} does not name its task; add the key task")
    spec = checked(Protocol, given, lambda key: f"{where}: {key}")
    for key, what in benchmark_faults(given):
        raise UserError(f"{where}: {key}: {what}")
    return spec
