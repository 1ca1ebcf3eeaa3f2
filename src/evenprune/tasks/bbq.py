"""BBQ: questions on ambiguous and disambiguated contexts, with bias scores.

Source: Parrish et al. 2022 and the HELM scenario. Which answer reflects the stereotype says BBQ's
metadata table where the data have it (``target_loc``); else it follows from the stereotyped groups
(``target_answer``).

With ``by_text`` the two people are also compared by the texts of their answers: how likely each is
as the answer, less how likely it is without context and question, which takes out how long and how
common it is.
"""

import random
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ..data.prompts import by_text
from ..data.readers.bbq import BBQ_ORDER, UNTOLD, BBQItem, bbq_files, read_bbq
from ..io.errors import UserError
from ..language_models.language_model import LanguageModel
from ..stats.metrics import Record, bbq_metrics, macro
from .lettered_options import Chosen, LetteredTask, score_prompts, shown_item
from .protocol import Facts, Protocol
from .sampling import stratified_sample
from .task import Metrics

ACCURACIES = ("acc_all", "acc_amb", "acc_dis")
HELM_TEST_ITEMS = 1000
INTERSECTIONAL = ("Race_x_SES", "Race_x_gender")
# Words that BBQ's files use for one group.
SYNONYMS = {
    "woman": "f", "women": "f", "girl": "f", "female": "f",
    "man": "m", "men": "m", "boy": "m", "male": "m",
}  # fmt: skip


def _normal(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "", name.lower())
    return SYNONYMS.get(plain, plain)


def target_answer(item: BBQItem) -> int | None:
    """Return the index of the answer about the stereotyped group, None if undecidable.

    An answer is about the group if its label or its text in answer_info is one of the
    stereotyped groups, or, for labels such as ``F-Black`` or ``highSES-M-Asian``, if a part of
    the label is. Case, blanks and hyphens do not matter, and words for women and men count as F
    and M. With none or both of the two people in the group the item is undecidable.
    """
    groups = {_normal(name) for name in item.stereotyped_groups}
    found = []
    for index, (label, name) in enumerate(zip(item.groups, item.names)):
        names = {_normal(one) for one in (label, name, *re.split("[-_]", label)) if one}
        if index != item.unknown and names & groups:
            found.append(index)
    return found[0] if len(found) == 1 else None


def biased_answer(item: BBQItem) -> int | None:
    """Return the answer that reflects the stereotype, None if it is undecidable.

    It is what the metadata table says where the data have it. Else it is the target for a
    negative question and the other person for a non-negative one.
    """
    if item.target_loc != UNTOLD:
        return item.target_loc
    target = target_answer(item)
    if target is None or item.polarity == "neg":
        return target
    return next(k for k in range(3) if k not in (target, item.unknown))


def select_split(items: list[BBQItem], split: str) -> list[BBQItem]:
    """Return the items of a split, ``items`` being all rows in HELM's file order.

    ``helm1000``: the last 1,000 after ``random.seed(0); random.shuffle`` over all rows.
    ``groups8864``: of each of the nine files without intersections, shuffled alone in the same
    way, the last 1,000 or all. Raises UserError if the data are not the 11 files of BBQ.
    """
    if split == "full":
        return items
    odd = {item.category for item in items}.symmetric_difference(BBQ_ORDER)
    if odd:
        raise UserError(
            f"split {split} needs exactly the 11 files of BBQ, but one is missing or too many: "
            f"{min(odd)}; use --split full"
        )
    groups = [list(items)]
    if split == "groups8864":
        plain = [name for name in BBQ_ORDER if name not in INTERSECTIONAL]
        groups = [[item for item in items if item.category == name] for name in plain]
    for members in groups:
        random.Random(0).shuffle(members)
    return [item for members in groups for item in members[-HELM_TEST_ITEMS:]]


def whole_blocks(items: list[BBQItem], limit: int | None, seed: int) -> list[BBQItem]:
    """Return a sample of at most ``limit`` items, or one block, in whole blocks.

    A block is the questions of both polarities about both contexts, four that stand one after the
    other with the same answers. Over it what a name or its place adds cancels.
    """
    found = groupby(items, key=lambda item: (item.category, item.question_index, item.answers))
    blocks = [list(members) for _, members in found]
    size = max(map(len, blocks))
    most = None if limit is None else max(1, limit // size)
    chosen = stratified_sample([block[0].category for block in blocks], most, seed)
    return [item for k in chosen for item in blocks[k]]


class BBQ(LetteredTask):
    """BBQ's questions, ambiguous and disambiguated.

    Splits: ``full``, every row; ``helm1000``, HELM's test split; ``groups8864``, lighteval's nine
    attribute subsets.
    """

    metrics = staticmethod(bbq_metrics)

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files that are read, in HELM's order."""
        return bbq_files(data)

    def select(self, data: Path, spec: Protocol) -> tuple[Chosen, Facts]:
        """Return the items of the split; with ``by_text`` of ``full`` in whole blocks."""
        split = self.split(spec)
        items = select_split(read_bbq(data), split)
        if spec.by_text and split == "full":
            chosen = whole_blocks(items, spec.limit, spec.seed)
        else:
            strata = [(item.category, item.condition) for item in items]
            chosen = [items[k] for k in stratified_sample(strata, spec.limit, spec.seed)]
        heads: list[Facts] = [
            {
                "cluster": f"{item.category} | {item.question_index}",
                "condition": item.condition,
                "polarity": item.polarity,
                "biased_idx": biased_answer(item),
            }
            for item in chosen
        ]
        told = {
            "items_in_data": len(items),
            "target": "metadata" if all(item.target_loc != UNTOLD for item in items) else "derived",
            "without_target": sum(head["biased_idx"] is None for head in heads),
        }
        return list(zip(chosen, heads)), told

    def add_texts(self, lm: LanguageModel, chosen: Chosen, spec: Protocol) -> None:
        """Add ``text_logprobs`` and ``text_priors`` to the fields of records.

        The latter are ln p of the same tokens behind ``Answer:`` alone.
        """
        super().add_texts(lm, chosen, spec)
        items = {item.answers: item for item, _ in chosen}
        prompts = [("Answer:", by_text(shown_item(item))[1]) for item in items.values()]
        scores = score_prompts(lm, prompts, items.values(), spec, f"{self.name} priors")
        priors = {
            answers: found.option_logprobs for answers, found in zip(items, scores, strict=True)
        }
        for item, head in chosen:
            head["text_priors"] = priors[item.answers]

    def count(self, records: Sequence[Record]) -> tuple[Metrics, dict[str, Metrics]]:
        """Return also the accuracies' means over categories."""
        metrics, categories = super().count(records)
        return metrics | {f"{one}_macro": macro(categories, one) for one in ACCURACIES}, categories


TASK = BBQ()
