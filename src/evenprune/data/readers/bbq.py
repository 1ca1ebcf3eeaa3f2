"""BBQ: questions about two people, with and without what decides them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasPath, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from .rows import Identifier, OneOfThree, ThreeOptions, data_files, read_items

UNTOLD = -1  # in place of the answer that reflects the stereotype, where the data do not say
# HELM reads the BBQ files in this order, and its seeded shuffle depends on it.
BBQ_ORDER = (
    *("Age", "Disability_status", "Gender_identity", "Nationality", "Physical_appearance"),
    *("Race_ethnicity", "Race_x_SES", "Race_x_gender", "Religion", "SES", "Sexual_orientation"),
)
Group = Annotated[str, BeforeValidator(str)]
METADATA = "additional_metadata"


@dataclass(frozen=True)
class AnswerInfo:
    """A name and a group for each answer."""

    ans0: tuple[str, str]
    ans1: tuple[str, str]
    ans2: tuple[str, str]

    def column(self, index: int) -> tuple[str, str, str]:
        """Return the names (0) or the groups (1) of the three answers."""
        return self.ans0[index], self.ans1[index], self.ans2[index]


def _one_unknown(info: AnswerInfo) -> AnswerInfo:
    if info.column(1).count("unknown") != 1:
        raise ValueError('exactly one answer whose answer_info says "unknown"')
    return info


@dataclass(frozen=True)
class BBQItem(ThreeOptions):
    """One BBQ row. ``condition`` is ambig or disambig, ``polarity`` neg or nonneg.

    ``stereotyped_groups`` are whom the stereotype is about. ``target_loc`` is the answer that
    reflects it by BBQ's table, None where it is left open, ``UNTOLD`` where the data do not say.
    """

    example_id: Identifier
    category: str
    question_index: Identifier
    polarity: Annotated[Literal["neg", "nonneg"], Field(alias="question_polarity")]
    condition: Annotated[Literal["ambig", "disambig"], Field(alias="context_condition")]
    info: Annotated[AnswerInfo, AfterValidator(_one_unknown), Field(alias="answer_info")]
    stereotyped_groups: Annotated[
        tuple[Group, ...], Field(validation_alias=AliasPath(METADATA, "stereotyped_groups"))
    ]
    target_loc: Annotated[
        OneOfThree | None, Field(validation_alias=AliasPath(METADATA, "target_loc"))
    ] = UNTOLD

    @property
    def id(self) -> str:
        """Category and example_id, which alone restarts in every file."""
        return f"{self.category}-{self.example_id}"

    @property
    def names(self) -> tuple[str, str, str]:
        """The name of each answer's person, as in answer_info."""
        return self.info.column(0)

    @property
    def groups(self) -> tuple[str, str, str]:
        """The group of each answer: "unknown" for that option, "" where the source has none."""
        return self.info.column(1)

    @property
    def unknown(self) -> int:
        """The index of the option "unknown"."""
        return self.groups.index("unknown")


def bbq_files(folder: Path | str) -> list[Path]:
    """Return the BBQ files of a folder in HELM's order, others behind them by name."""
    stems = {path: path.name.split(".")[0] for path in data_files(folder)}
    return sorted(stems, key=lambda path: [*BBQ_ORDER, stems[path]].index(stems[path]))


def read_bbq(folder: Path | str) -> list[BBQItem]:
    """Read BBQ, all categories (58,492 rows), in HELM's order.

    The unknown option is the one whose answer_info says "unknown".
    """
    return read_items(BBQItem, *bbq_files(folder), category="{stem}")
