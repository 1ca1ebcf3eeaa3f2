"""What one benchmark run is: its options, its outcome, and the identity of both."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..base.errors import UserError, nearest, shown
from ..plan.checks import JUDGE_KEYS
from ..plan.tasks import FACTS, LM_EVAL, metrics_of
from .metrics import Metric

# pr: the guard sees prompt and response and judges the response. paper: the author's form, the
# response alone as if a user had said it.
JUDGE_FORMS = ("pr", "paper")
LEXICONS = ("english", "world")
AUTO = "auto"
# BOS at the start of every text: as the tokenizer does, always exactly one, or never one.
BOS = ("auto", "always", "never")
# What computes scores and answers.
BACKENDS = ("transformers", "vllm")


@dataclass(frozen=True)
class Protocol:
    """All options of one benchmark that can change its numbers.

    ``backend`` is one of ``BACKENDS``. ``style`` is a prompt style, ``split`` a part or variant
    of the task, ``orders`` the number of option orders (1: the data's own, 6: all). ``limit``
    None takes all items. ``bos`` is one of ``BOS``, see ``CausalModel.with_bos``.
    ``chat_template`` "auto" applies one where the tokenizer has it. Generating tasks only:
    ``name`` is that of a task of lm-eval.
    ``judge`` is a guard model's folder or record (None: the lexical judge with ``lexicon``),
    ``judge_forms`` what the guard is shown, the first one makes the headline.
    """

    task: str
    backend: str = "transformers"
    limit: int | None = None
    seed: int = 0
    style: str | None = None
    split: str | None = None
    batch_size: int = 32
    dtype: str = "auto"
    chat_template: bool | str = False
    bos: str = "auto"
    orders: int = 1
    headline: str | None = None
    judge: str | None = None
    judge_forms: tuple[str, ...] = ("pr",)
    lexicon: str = "english"
    max_new_tokens: int = 256
    store_generations: bool = False
    name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the options as plain values, ``name`` only where there is one."""
        found = asdict(self)
        return found if self.name is not None else {k: v for k, v in found.items() if k != "name"}


@dataclass(frozen=True)
class Outcome:
    """Records of all items, metrics computed from them, and facts about the protocol."""

    items: list[dict[str, Any]]
    metrics: dict[str, Metric]
    categories: dict[str, dict[str, Metric]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def make_protocol(options: Mapping[str, Any], where: str = "the benchmark") -> Protocol:
    """Return a Protocol from options as JSON or the command line gives them; null means default.

    Raises UserError for an unknown option or a value of the wrong kind.
    """
    known = Protocol.__dataclass_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UserError(
            f"{where} has the unknown option {unknown[0]!r}; known are {', '.join(known)}"
        )
    given = {key: value for key, value in options.items() if value is not None}
    if "task" not in given:
        raise UserError(f"{where} does not name its task; add the key task")
    for key, least in (("limit", 1), ("seed", 0), ("batch_size", 1), ("max_new_tokens", 1)):
        value = given.get(key, least)
        if type(value) is not int or value < least:
            raise UserError(
                f"{where}: expected {key} to be a whole number from {least}, got {value!r}"
            )
    if given.get("orders", 1) not in (1, 6):
        raise UserError(f"{where}: expected orders to be 1 or 6, got {given['orders']!r}")
    if given.get("chat_template", False) not in (True, False, AUTO):
        raise UserError(
            f"{where}: expected chat_template to be true, false or {AUTO}, got "
            f"{given['chat_template']!r}"
        )
    if type(given.get("store_generations", False)) is not bool:
        raise UserError(
            f"{where}: expected store_generations to be true or false, got "
            f"{given['store_generations']!r}"
        )
    if given.get("lexicon", LEXICONS[0]) not in LEXICONS:
        raise UserError(
            f"{where}: expected lexicon to be one of {', '.join(LEXICONS)}, got "
            f"{given['lexicon']!r}"
        )
    if given.get("backend", BACKENDS[0]) not in BACKENDS:
        raise UserError(
            f"{where}: expected backend to be one of {', '.join(BACKENDS)}, got "
            f"{given['backend']!r}"
        )
    if "judge_forms" in given:
        given["judge_forms"] = _judge_forms(given["judge_forms"], where)
    if given.get("bos", "auto") not in BOS:
        raise UserError(f"{where}: expected bos to be {', '.join(BOS)}, got {given['bos']!r}")
    _check_use(given, where)
    if "headline" in given and given["task"] in tuple(name for name in FACTS if name != LM_EVAL):
        allowed = metrics_of(given["task"], given)
        if given["headline"] not in allowed:
            raise UserError(
                f"{where} has no metric {given['headline']!r} for its headline; it has "
                f"{', '.join(sorted(allowed))}"
            )
    return Protocol(**given)


def _check_use(given: Mapping[str, Any], where: str) -> None:
    """Raise UserError for an option that the task does not have, and for one that it needs."""
    task = given["task"]
    if task not in tuple(FACTS):
        return
    facts = FACTS[task]
    name = given.get("name")
    if (task == LM_EVAL) != (name is not None) or not isinstance(name, str | None) or name == "":
        raise UserError(
            f"{where}: expected name, that of one of lm-eval's tasks, with the task {LM_EVAL} and "
            f"no other, got {shown(name)} with {task}"
        )
    unused = {
        "style": None if facts.styles else given.get("style"),
        "orders": None if facts.orders else given.get("orders", 1) > 1 or None,
        **({} if facts.judged else {key: given.get(key) or None for key in JUDGE_KEYS}),
    }
    for key, value in unused.items():
        if value is not None:
            fitting = [
                other
                for other, one in FACTS.items()
                if (one.styles if key == "style" else one.orders if key == "orders" else one.judged)
            ]
            raise UserError(
                f"{where}: the task {task} has no {key.replace('_', ' ')}, only "
                f"{', '.join(fitting)} have; leave {key} out"
            )


def _judge_forms(value: Any, where: str) -> tuple[str, ...]:
    """Return the conversation forms as a tuple; they are distinct and at least one."""
    forms = tuple(value) if isinstance(value, list | tuple) else ()
    if (
        not forms
        or len(forms) > len(set(map(str, forms)))
        or any(form not in JUDGE_FORMS for form in forms)
    ):
        raise UserError(
            f"{where}: expected judge_forms to be a list of {' and '.join(JUDGE_FORMS)}, each at "
            f"most once, got {value!r}"
        )
    return forms


def pick(value: str | None, allowed: tuple[str, ...], what: str, task: str) -> str:
    """Return ``value``, or the first of ``allowed`` for None; raise UserError for anything else."""
    if value is None:
        return allowed[0]
    if value not in allowed:
        raise UserError(
            f"{task} knows no {what} {value!r}{nearest(value, allowed)}"
            f"{'; allowed are' if allowed else ', it has none'} {', '.join(allowed)}".rstrip()
        )
    return value
