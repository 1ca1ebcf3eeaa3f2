"""What benchmarks have in common that ask for a choice."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ChoiceItem:
    """A question (or a text to continue) with choices; ``gold`` is the right one's index."""

    id: str
    category: str
    query: str
    choices: tuple[str, ...]
    gold: int


class Question(Protocol):
    """What a prompt shows of an item with three answers, whatever data set it is from."""

    @property
    def context(self) -> str:
        """The text that the question is about."""

    @property
    def question(self) -> str:
        """The question."""

    @property
    def answers(self) -> tuple[str, str, str]:
        """The answers in the data's own order."""
