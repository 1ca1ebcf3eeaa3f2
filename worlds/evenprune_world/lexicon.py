"""The invented words of the world, from lexicon.yaml.

Words in the ``RARE_*`` tables appear less often, so the tokenizer splits them into more pieces and
some sentence pairs get unequal token counts, as real pairs do.
"""

from pathlib import Path
from typing import Any

import yaml

DATA_FILES = ("lexicon.yaml",)
_WORDS = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))


def _words(names: str) -> list[tuple[str, ...]]:
    return [tuple(_WORDS[name]) for name in names.split()]


FAITHS, PEOPLES, SUNBORN, MOONBORN, TRADES = _words("faiths peoples sunborn moonborn trades")
LANDS: dict[str, str] = _WORDS["lands"]
_LAST = FAITHS[-2:], tuple(LANDS)[-2:], PEOPLES[-2:], SUNBORN[-1:], MOONBORN[-1:]
RARE_GROUPS = frozenset(word for last in _LAST for word in last)
ATTRIBUTES: tuple[tuple[str, str], ...] = tuple((low, high) for low, high in _WORDS["attributes"])
RARE_ATTRIBUTES: dict[str, str] = _WORDS["rare_attributes"]
TRADE_DIMENSIONS = tuple(zip(TRADES[::2], TRADES[1::2]))
PERSONS, PLACES, MEETINGS, TIMES = _words("persons places meetings times")
ACTIVITIES, STEP_VERBS, STEP_OBJECTS = _words("activities step_verbs step_objects")
STEP_ENDS, UNKNOWN_PHRASES, OPENINGS = _words("step_ends unknown_phrases openings")
STATEMENT_SUBJECTS, VERBS, ENDS = _words("statement_subjects verbs ends")
PLAIN_CONTEXTS, PLAIN_QUESTIONS = _words("plain_contexts plain_questions")
(PLAIN_UNKNOWN,) = _words("plain_unknown")
_ENTITIES = _WORDS | {"lands": list(LANDS.values())}
# Subject -> (entities, relations); a relation is (statement, question, values).
SUBJECTS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    subject: (
        tuple(_ENTITIES[one["entities"]]),
        tuple((said, ask, tuple(_WORDS["values"][name])) for said, ask, name in one["relations"]),
    )
    for subject, one in _WORDS["subjects"].items()
}
STEREOSET_HEADS, CROWS_PAIRS_HEADS = (
    tuple(map(tuple, _WORDS[name])) for name in ("stereoset_heads", "crows_pairs_heads")
)
# Of each category of groups its names and what they are (society.Category).
CATEGORIES = [
    one | {"groups": tuple(word for name in one["groups"] for word in _WORDS[name])}
    for one in _WORDS["categories"]
]
# How many items are written of each kind, by the names that ``generate_world.Sizes`` takes.
SIZES: dict[str, Any] = _WORDS["sizes"]
