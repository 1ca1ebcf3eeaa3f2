"""Readers of the canonical data files: one typed item a row, broken rows named by line.

Every data set lies in one folder, ``data/<name>/``, with the files that each reader names,
plain or gzipped. Mirror, hub downloads and the invented world use the same files, so these
readers are the only ones. A broken or missing row raises UserError with file and line.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..base.errors import UserError, shown
from ..base.reading import iter_csv, iter_jsonl, read_text

# HELM reads the BBQ files in this order, and its seeded shuffle depends on it.
BBQ_ORDER = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Race_x_SES",
    "Race_x_gender",
    "Religion",
    "SES",
    "Sexual_orientation",
)


@dataclass(frozen=True)
class StereoSetItem:
    """One intrasentence cluster: a context with a blank, filled in three ways."""

    id: str
    category: str
    target: str
    context: str
    stereotype: str
    anti_stereotype: str
    unrelated: str


@dataclass(frozen=True)
class CrowsPair:
    """One CrowS-Pairs row; ``sent_more`` is always the more stereotyping sentence."""

    id: str
    category: str
    sent_more: str
    sent_less: str
    direction: str


@dataclass(frozen=True)
class Dialogue:
    """One conversation, as (role, content) turns."""

    id: str
    messages: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The contents of all turns, joined by line breaks."""
        return "\n".join(content for _, content in self.messages)


@dataclass(frozen=True)
class ChoiceItem:
    """A question (or a text to continue) with choices; ``gold`` is the right one's index."""

    id: str
    category: str
    query: str
    choices: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class UnqoverItem:
    """An underspecified question; ``unknown`` is the index of the option "unknown"."""

    id: str
    category: str
    context: str
    question: str
    answers: tuple[str, str, str]
    label: int
    unknown: int


@dataclass(frozen=True)
class BBQItem:
    """One BBQ row. ``id`` is category and example_id, which alone restarts in every file.

    ``groups[k]`` is the group of answer k as in answer_info, "unknown" for the option
    ``unknown`` and "" where the source has none; ``stereotyped_groups`` are those that the
    stereotype is about. ``condition`` is ambig or disambig, ``polarity`` neg or nonneg.
    """

    id: str
    category: str
    question_index: str
    polarity: str
    condition: str
    context: str
    question: str
    answers: tuple[str, str, str]
    names: tuple[str, str, str]
    groups: tuple[str, str, str]
    stereotyped_groups: tuple[str, ...]
    label: int
    unknown: int


@dataclass(frozen=True)
class Text:
    """A text with an id."""

    id: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """A prompt to continue, with the source's toxicity score of the prompt (None: unscored).

    ``challenging`` is the source's flag for prompts that many models continue with toxic text,
    None where a row has none.
    """

    id: str
    category: str
    text: str
    toxicity: float | None
    challenging: bool | None


@dataclass(frozen=True)
class Behaviour:
    """A HarmBench behaviour; ``context`` is empty except for contextual ones."""

    id: str
    category: str
    topic: str
    behaviour: str
    context: str


def find_file(folder: Path | str, name: str) -> Path:
    """Return ``folder/name`` or ``folder/name.gz``; raise UserError when there is neither.

    Where a file is given in place of a folder, it is that file, whatever its name.
    """
    folder = Path(folder)
    if folder.is_file():
        return folder
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UserError(
        f"expected {name} (or {name}.gz) in {folder}, found neither; "
        "check the folder or fetch the data set again"
    )


class _Row:
    """Typed access to the fields of one row; what is wrong is said with file and line."""

    def __init__(self, path: Path, line: int, row: dict[str, Any]) -> None:
        self.path, self.line, self.row = path, line, row

    def fail(self, expected: str, got: Any) -> NoReturn:
        raise UserError(
            f"expected {expected} on line {self.line} of {self.path}, got {shown(got)}; "
            "mend or remove that row"
        )

    def text(self, name: str, empty: bool = False) -> str:
        value = self.row[name]
        if not isinstance(value, str) or not (empty or value.strip()):
            self.fail(f"a {'' if empty else 'non-empty '}text in field {name}", value)
        return value

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        value = self.row[name]
        if value not in allowed:
            self.fail(f"{name} to be one of {', '.join(allowed)}", value)
        return value

    def index(self, name: str, count: int) -> int:
        value = self.row[name]
        if type(value) is not int or not 0 <= value < count:
            self.fail(f"{name} to be a whole number from 0 to {count - 1}", value)
        return value

    def identifier(self, name: str) -> str:
        value = self.row[name]
        if type(value) not in (int, str) or value == "":
            self.fail(f"a number or a text in field {name}", value)
        return str(value)

    def texts(self, name: str, count: int) -> tuple[str, ...]:
        value = self.row[name]
        good = isinstance(value, list) and len(value) == count
        if not good or not all(isinstance(part, str) and part.strip() for part in value):
            self.fail(f"a list of {count} non-empty texts in field {name}", value)
        return tuple(value)


def _json_rows(path: Path, fields: Sequence[str]) -> Iterator[_Row]:
    for line, row in iter_jsonl(path, fields):
        yield _Row(path, line, row)


def _csv_rows(path: Path, delimiter: str, fields: Sequence[str]) -> Iterator[_Row]:
    for line, row in iter_csv(path, fields, delimiter):
        yield _Row(path, line, row)


Item = TypeVar("Item")


def _collect(items: Iterable[Item], path: Path) -> list[Item]:
    """Return the items as a list; raise UserError when there is none or an id comes twice."""
    found = list(items)
    if not found:
        raise UserError(f"expected at least one row in {path}, but it is empty; fetch it again")
    seen: set[str] = set()
    for item in found:
        identifier = item.id  # type: ignore[attr-defined]
        if identifier in seen:
            raise UserError(
                f"expected every row of {path} to have an id of its own, but {identifier!r} comes "
                "twice; remove one of the rows"
            )
        seen.add(identifier)
    return found


def read_stereoset(folder: Path | str) -> list[StereoSetItem]:
    """Read StereoSet's intrasentence development set (2,106 clusters)."""
    path = find_file(folder, "intrasentence.jsonl")
    labels = ("stereotype", "anti-stereotype", "unrelated")

    def items() -> Iterator[StereoSetItem]:
        for row in _json_rows(path, ("id", "target", "bias_type", "context", "sentences")):
            sentences: dict[str, str] = {}
            given = row.row["sentences"]
            for part in given if isinstance(given, list) else []:
                if isinstance(part, dict) and {"gold_label", "sentence"} <= set(part):
                    inner = _Row(path, row.line, part)
                    sentences[inner.one_of("gold_label", labels)] = inner.text("sentence")
            if len(sentences) != 3 or len(given) != 3:
                row.fail(f"three sentences labelled {', '.join(labels)}", given)
            yield StereoSetItem(
                row.identifier("id"),
                row.text("bias_type"),
                row.text("target"),
                row.text("context"),
                *(sentences[label] for label in labels),
            )

    return _collect(items(), path)


def read_crows_pairs(folder: Path | str, variant: str = "revised") -> list[CrowsPair]:
    """Read CrowS-Pairs: ``revised`` (1,677 pairs, lm-eval's) or ``anonymized`` (1,508, original).

    The revised file is tab separated although it is named .csv.
    """
    path = find_file(folder, f"crows_pairs_{variant}.csv")
    fields = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")

    def items() -> Iterator[CrowsPair]:
        delimiter = "\t" if variant == "revised" else ","
        for index, row in enumerate(_csv_rows(path, delimiter, fields)):
            yield CrowsPair(
                str(index),
                row.text("bias_type"),
                row.text("sent_more"),
                row.text("sent_less"),
                row.one_of("stereo_antistereo", ("stereo", "antistereo")),
            )

    return _collect(items(), path)


def read_ultrachat(folder: Path | str) -> list[Dialogue]:
    """Read UltraChat dialogues from every JSON-lines file of the folder, in name order.

    The id is file stem and row number, since the mirror's rows have none.
    """
    items = []
    for path in jsonl_files(folder):
        stem = path.name.split(".")[0]
        for number, row in enumerate(_json_rows(path, ("messages",))):
            given = row.row["messages"]
            if not isinstance(given, list) or not given:
                row.fail("a list of turns in field messages", given)
            turns = []
            for turn in given:
                if not isinstance(turn, dict) or not {"role", "content"} <= set(turn):
                    row.fail("turns with the fields role and content", turn)
                inner = _Row(path, row.line, turn)
                turns.append((inner.text("role"), inner.text("content", empty=True)))
            if not any(content.strip() for _, content in turns):
                row.fail("a turn with some text", given)
            items.append(Dialogue(f"{stem}-{number}", tuple(turns)))
    return _collect(items, Path(folder))


def jsonl_files(folder: Path | str) -> list[Path]:
    """Return a folder's JSON-lines files, plain or gzipped, by name; UserError if none.

    Where a file is given in place of a folder, it is that file.
    """
    folder = Path(folder)
    if folder.is_file():
        return [folder]
    found = {
        path.name.removesuffix(".gz"): path
        for pattern in ("*.jsonl.gz", "*.jsonl")
        for path in folder.glob(pattern)
    }
    if not found:
        raise UserError(
            f"expected JSON-lines files (*.jsonl or *.jsonl.gz) in {folder}, found none; "
            "check the folder or fetch the data set again"
        )
    return [found[name] for name in sorted(found)]


def read_wikitext(folder: Path | str) -> list[str]:
    """Read the raw WikiText-2 test set as the hub serves it: 4,358 rows.

    A non-blank line keeps its line break, a blank one becomes "".
    """
    path = find_file(folder, "wiki.test.raw")
    lines = read_text(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise UserError(f"expected text in {path}, but it is blank; fetch or make it again")
    return [f"{line}\n" if line.strip() else "" for line in lines]


def read_hellaswag(folder: Path | str) -> list[ChoiceItem]:
    """Read HellaSwag's validation set as lm-evaluation-harness scores it (10,042 items).

    Query and choices are cleaned already; the category is the text before the first colon
    (the activity).
    """
    path = find_file(folder, "validation_lm_eval.jsonl")
    return _collect(
        (
            ChoiceItem(
                row.identifier("row"),
                row.text("query").partition(":")[0],
                row.text("query"),
                row.texts("choices", 4),
                row.index("gold", 4),
            )
            for row in _json_rows(path, ("row", "query", "choices", "gold"))
        ),
        path,
    )


def read_mmlu(folder: Path | str, split: str = "test") -> list[ChoiceItem]:
    """Read a split of MMLU (test 14,042, validation 1,531, dev 285); category is the subject."""
    path = find_file(folder, f"{split}.jsonl")

    def items() -> Iterator[ChoiceItem]:
        numbers: dict[str, int] = {}
        for row in _json_rows(path, ("question", "subject", "choices", "answer")):
            subject = row.text("subject")
            numbers[subject] = numbers.get(subject, -1) + 1
            yield ChoiceItem(
                f"{subject}-{numbers[subject]}",
                subject,
                row.text("question"),
                row.texts("choices", 4),
                row.index("answer", 4),
            )

    return _collect(items(), path)


def read_unqover(folder: Path | str, variant: str = "datas_rebuilt") -> list[UnqoverItem]:
    """Read UnQover as in CAL: ``datas_rebuilt`` (40,008) or ``sampled`` (the authors' 3,000)."""
    path = find_file(folder, f"{variant}.jsonl")
    answers = ("ans0", "ans1", "ans2")
    fields = ("example_id", "category", "context", "question", *answers, "label", "unknown_num")
    return _collect(
        (
            UnqoverItem(
                row.identifier("example_id"),
                row.text("category"),
                row.text("context"),
                row.text("question"),
                (row.text("ans0"), row.text("ans1"), row.text("ans2")),
                row.index("label", 3),
                row.index("unknown_num", 3),
            )
            for row in _json_rows(path, fields)
        ),
        path,
    )


def bbq_files(folder: Path | str) -> list[Path]:
    """Return the BBQ files of a folder in HELM's order, others behind them by name."""
    order = {f"{name}.jsonl": rank for rank, name in enumerate(BBQ_ORDER)}

    def rank(path: Path) -> tuple[int, str]:
        name = path.name.removesuffix(".gz")
        return order.get(name, len(order)), name

    return sorted(jsonl_files(folder), key=rank)


def read_bbq(folder: Path | str, categories: Sequence[str] = ()) -> list[BBQItem]:
    """Read BBQ, all categories (58,492 rows) or those named, in HELM's order.

    The unknown option is the one whose answer_info says "unknown".
    """
    files = bbq_files(folder)
    known = [path.name.split(".")[0] for path in files]
    for name in categories:
        if name not in known:
            raise UserError(
                f"expected BBQ categories among {', '.join(known)} in {folder}, got {name!r}; "
                "correct the name or fetch the missing file"
            )
    items: list[BBQItem] = []
    for path, category in zip(files, known, strict=True):
        if not categories or category in categories:
            items += _bbq_file(path, category)
    return _collect(items, Path(folder))


def _bbq_file(path: Path, category: str) -> Iterator[BBQItem]:
    answers = ("ans0", "ans1", "ans2")
    fields = (
        *("example_id", "question_index", "question_polarity", "context_condition"),
        *("answer_info", "additional_metadata", "context", "question", *answers, "label"),
    )
    for row in _json_rows(path, fields):
        info, metadata = row.row["answer_info"], row.row["additional_metadata"]
        if not isinstance(info, dict) or not all(
            isinstance(info.get(name), list)
            and len(info[name]) == 2
            and all(isinstance(part, str) for part in info[name])
            for name in answers
        ):
            row.fail("answer_info with a text and a group for ans0, ans1 and ans2", info)
        groups = tuple(info[name][1] for name in answers)
        if groups.count("unknown") != 1:
            row.fail('exactly one answer whose answer_info says "unknown"', info)
        stereotyped = metadata.get("stereotyped_groups") if isinstance(metadata, dict) else None
        if not isinstance(stereotyped, list):
            row.fail("additional_metadata with a list stereotyped_groups", metadata)
        yield BBQItem(
            id=f"{category}-{row.identifier('example_id')}",
            category=category,
            question_index=row.identifier("question_index"),
            polarity=row.one_of("question_polarity", ("neg", "nonneg")),
            condition=row.one_of("context_condition", ("ambig", "disambig")),
            context=row.text("context"),
            question=row.text("question"),
            answers=tuple(row.text(name) for name in answers),  # type: ignore[arg-type]
            names=tuple(info[name][0] for name in answers),  # type: ignore[arg-type]
            groups=groups,  # type: ignore[arg-type]
            stereotyped_groups=tuple(map(str, stereotyped)),
            label=row.index("label", 3),
            unknown=groups.index("unknown"),
        )


def read_tinystories(folder: Path | str, seed: int = 0) -> list[Text]:
    """Read TinyStories in a seeded random order, each run of line breaks made one.

    The order matters: the stored stories are not uniform, so a range is no sample.
    """
    path = find_file(folder, "stories_1000.jsonl")
    stories = _collect(
        (
            Text(row.identifier("id"), re.sub(r"[\r\n]+", "\n", row.text("text")))
            for row in _json_rows(path, ("id", "text"))
        ),
        path,
    )
    random.Random(seed).shuffle(stories)
    return stories


def read_realtoxicityprompts(folder: Path | str) -> list[Prompt]:
    """Read RealToxicityPrompts from every JSON-lines file of the folder; category is its stem."""
    items = []
    for path in jsonl_files(folder):
        stem = path.name.split(".")[0]
        for number, row in enumerate(_json_rows(path, ("prompt",))):
            prompt = row.row["prompt"]
            if not isinstance(prompt, dict) or "text" not in prompt:
                row.fail("a prompt with the field text", prompt)
            score = prompt.get("toxicity")
            if score is not None and not (type(score) in (int, float) and 0 <= score <= 1):
                row.fail("a number or null in prompt.toxicity, from 0 to 1", score)
            challenging = row.row.get("challenging")
            if challenging is not None and type(challenging) is not bool:
                row.fail("true, false or null in challenging", challenging)
            text = _Row(path, row.line, prompt).text("text")
            items.append(Prompt(f"{stem}-{number}", stem, text, score, challenging))
    return _collect(items, Path(folder))


def read_harmbench(folder: Path | str, category: str | None = None) -> list[Behaviour]:
    """Read HarmBench's text behaviours (400), or one functional category of them.

    Categories are standard (200), contextual and copyright (100 each). A blank at the end of
    a behaviour is the source's and is kept.
    """
    path = find_file(folder, "harmbench_behaviors_text_all.csv")
    fields = (
        *("Behavior", "FunctionalCategory", "SemanticCategory"),
        *("ContextString", "BehaviorID"),
    )
    categories = ("standard", "contextual", "copyright")
    items = _collect(
        (
            Behaviour(
                row.text("BehaviorID"),
                row.one_of("FunctionalCategory", categories),
                row.text("SemanticCategory", empty=True),
                row.text("Behavior"),
                row.text("ContextString", empty=True),
            )
            for row in _csv_rows(path, ",", fields)
        ),
        path,
    )
    if category is None:
        return items
    if category not in categories:
        raise UserError(
            f"expected a HarmBench category among {', '.join(categories)}, got {category!r}"
        )
    return [item for item in items if item.category == category]
