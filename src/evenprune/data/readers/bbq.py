"""BBQ: questions about two people, with and without what decides them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import UserError
from .rows import collect, json_rows, jsonl_files

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
class BBQItem:
    """One BBQ row. ``id`` is category and example_id, which alone restarts in every file.

    ``groups[k]`` is the group of answer k as in answer_info, "unknown" for the option
    ``unknown`` and "" where the source has none; ``stereotyped_groups`` are those that the
    stereotype is about. ``condition`` is ambig or disambig, ``polarity`` neg or nonneg.
    ``target_loc`` is the answer that reflects the stereotype by BBQ's metadata table, None where
    that leaves it open; ``has_target_loc`` says whether the table is part of the data.
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
    target_loc: int | None = None
    has_target_loc: bool = False


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
    return collect(items, Path(folder))


def _bbq_file(path: Path, category: str) -> Iterator[BBQItem]:
    answers = ("ans0", "ans1", "ans2")
    fields = (
        *("example_id", "question_index", "question_polarity", "context_condition"),
        *("answer_info", "additional_metadata", "context", "question", *answers, "label"),
    )
    for row in json_rows(path, fields):
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
        target = metadata.get("target_loc")
        if target not in (None, 0, 1, 2) or isinstance(target, bool):
            row.fail("a target_loc of 0, 1, 2 or null in additional_metadata", target)
        yield BBQItem(
            id=f"{category}-{row.identifier('example_id')}",
            category=category,
            question_index=row.identifier("question_index"),
            polarity=row.one_of("question_polarity", ("neg", "nonneg")),
            condition=row.one_of("context_condition", ("ambig", "disambig")),
            context=row.text("context"),
            question=row.text("question"),
            answers=tuple(row.text(name) for name in answers),  # type: ignore[arg-type]
            names=tuple(info[name][0] for name in answers),
            groups=groups,
            stereotyped_groups=tuple(map(str, stereotyped)),
            label=row.index("label", 3),
            unknown=groups.index("unknown"),
            target_loc=target,
            has_target_loc="target_loc" in metadata,
        )
