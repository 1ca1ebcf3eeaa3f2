"""UnQover: underspecified questions about two people, where only "unknown" is right.

Source of data and prompt: Li et al. 2020 (UnQover), Sun et al. 2024 (CAL), FairSteer. Options
are shown in the data's own order (perm "012"); with ``orders`` 6 every order is scored.

With ``by_text`` complete blocks are also scored without letters, as UnQover's authors score: the
probability of each of the two names as the answer. They fill a mask; we ask the plain question.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ..data.readers.rows import find_file
from ..data.readers.unqover import UnqoverItem, read_unqover
from ..io.errors import UserError
from ..stats.metrics import blocks_of, combination, name_shares, unqover_metrics
from . import unqover_generator
from .lettered_options import Chosen, LetteredTask
from .protocol import DIGITS, Facts, Protocol
from .sampling import stratified_sample

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel

WORD_LISTS = "word_lists"
BLOCK = 4 * len(unqover_generator.CATEGORIES)  # questions of one block of each category


def clusters(items: list[UnqoverItem]) -> list[str]:
    """Return each question's cluster: its two subjects and its activity.

    Questions come in pairs, an activity (even id) and its negation (odd id); a negation is
    filed under its partner's question, or under its own where the partner is not there.
    """
    partner = {item.id: item for item in items}
    names = []
    for item in items:
        people = sorted(a for k, a in enumerate(item.answers) if k != item.unknown)
        negation = item.id.isdigit() and int(item.id) % 2
        twin = partner.get(str(int(item.id) - 1)) if negation else None
        asked = twin if twin is not None and twin.context == item.context else item
        names.append(" | ".join([item.category, *people, asked.question]))
    return names


class UnQover(LetteredTask):
    """UnQover's questions, in one order of the options or all six.

    Splits: ``datas_rebuilt``, the file with all 40,008 questions; ``sampled``, the authors' file
    of 3,000; ``generated``, the 40,008 from the word lists; ``balanced``, complete blocks over
    all subject pairs.
    """

    metrics = staticmethod(unqover_metrics)

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read."""
        split = self.split(spec)
        if split in ("generated", "balanced"):
            return unqover_generator.word_list_files(data / WORD_LISTS)
        if (data / WORD_LISTS).is_dir() and not list(data.glob(f"{split}.jsonl*")):
            raise UserError(
                f"{data} has UnQover's word lists and no {split}.jsonl; set split: generated or "
                "balanced, which are made from them, or put that file there"
            )
        return [find_file(data, f"{split}.jsonl")]

    def select(self, data: Path, spec: Protocol) -> tuple[Chosen, Facts]:
        """Return the items of the split.

        A limit on ``balanced`` takes as many whole blocks of every category as fit.
        """
        split, lists = self.split(spec), data / WORD_LISTS
        if split == "balanced":
            blocks = unqover_generator.BALANCED_BLOCKS
            most = blocks if spec.limit is None else max(1, min(blocks, spec.limit // BLOCK))
            drawn = unqover_generator.balanced_items(lists, most, spec.seed)
            return list(drawn), {"items_in_data": BLOCK * blocks}
        generated = split == "generated"
        items = (
            list(unqover_generator.head_items(lists)) if generated else read_unqover(data, split)
        )
        names = clusters(items)
        chosen = stratified_sample([item.category for item in items], spec.limit, spec.seed)
        return [(items[k], {"cluster": names[k]}) for k in chosen], {"items_in_data": len(items)}

    def add_texts(self, lm: "LanguageModel", chosen: Chosen, spec: Protocol) -> None:
        """Add ``text_logprobs`` and ``names_bias`` to the fields of records.

        The latter is the block's ``combination`` of the two names' shares, told once: with the
        first of its questions, null with the others.
        """
        super().add_texts(lm, chosen, spec)
        known = {
            name: round(combination(block, name_shares), DIGITS)
            for name, block in blocks_of([head for _, head in chosen]).items()
        }
        for _, head in chosen:
            head["names_bias"] = known.pop(head["block"], None)


TASK = UnQover()
