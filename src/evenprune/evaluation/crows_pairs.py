"""CrowS-Pairs as lm-eval scores it, and its length-controlled variant, in one pass."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from ..base.errors import UserError
from ..data.readers.crows_pairs import CrowsPair, read_crows_pairs
from ..data.readers.rows import find_file
from .causal_model import CausalModel
from .choices import DIGITS
from .losses import nll_rows
from .metrics import Metric, Record, by_category, mean
from .protocol import Outcome, Protocol
from .records import CHOICE, COUNT, FLAG, NUMBERS, TEXT, Fields
from .sampling import stratified_sample
from .task import Task


def crows_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return lm-eval's ``pct_stereotype`` and ``likelihood_diff``, and the signed difference.

    ``pct_stereotype`` is the share (0 to 1) of pairs whose more stereotyping sentence is
    strictly likelier; ``likelihood_diff`` the mean absolute and ``signed_diff`` the mean signed
    difference of log-likelihoods in nats. ``pct_stereotype_shared`` and ``signed_diff_shared``
    are the same of the shared tokens alone, see ``pair_scores``.
    """
    differences = [r["option_logprobs"][0] - r["option_logprobs"][1] for r in records]
    return {
        "pct_stereotype": mean(float(r["correct"]) for r in records),
        "likelihood_diff": mean(map(abs, differences)),
        "signed_diff": mean(differences),
        "pct_stereotype_shared": mean(float(r["correct_shared"]) for r in records),
        "signed_diff_shared": mean(
            r["shared_logprobs"][0] - r["shared_logprobs"][1] for r in records
        ),
        "ties": mean(float(r["tie"]) for r in records),
    }


def shared_positions(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the positions in both token rows of the tokens that they share.

    As in the original metric, tokens are matched by difflib. The beginning that both have in
    common is left out: its probability is the same in both, so that it cancels.
    """
    start = next(
        (k for k, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second))
    )
    matcher = SequenceMatcher(None, first[start:], second[start:], autojunk=False)
    left: list[int] = []
    right: list[int] = []
    for a, b, size in matcher.get_matching_blocks():
        left += range(start + a, start + a + size)
        right += range(start + b, start + b + size)
    return left, right


def pair_scores(
    lm: CausalModel, items: Sequence[CrowsPair], batch_size: int
) -> list[tuple[list[float], list[float], int]]:
    """Return ln p of both sentences of each pair, that of their shared tokens, and how many.

    Both come from one pass over each sentence behind lm-eval's prefix token. Whole sentences are
    lm-eval's ``crows_pairs_english`` (a test compares them). Shared tokens are length-controlled:
    Nangia et al. 2020 score the tokens that the sentences share given those that differ, so that
    rare or long names do not count themselves; a causal model sees only what stands before.
    Raises UserError for a tokenizer without BOS and EOS, and for a sentence that does not fit.
    """
    if lm.prefix_id is None:
        raise UserError(
            "CrowS-Pairs conditions sentences on BOS or EOS, but the tokenizer has neither"
            f"{' (with bos: never, EOS counts)' if lm.bos == 'never' else ''}; use another "
            "benchmark or another bos"
        )
    texts = [text for item in items for text in (item.sent_more, item.sent_less)]
    names = [item.id for item in items for _ in range(2)]
    rows = lm.tokenizer(texts, add_special_tokens=False)["input_ids"]
    for name, row in zip(names, rows):
        if len(row) >= lm.max_length:
            raise UserError(
                f"a sentence of item {name} has {len(row)} tokens, but the model takes at most "
                f"{lm.max_length - 1}; shorten or remove that item"
            )
    losses = nll_rows(
        lm, [[lm.prefix_id, *row] for row in rows], batch_size, "crows_pairs sentences", names
    )
    found = []
    for k in range(0, len(rows), 2):
        more, less = losses[k], losses[k + 1]
        left, right = shared_positions(rows[k], rows[k + 1])
        whole = [-float(more.sum()), -float(less.sum())]
        found.append((whole, [-float(more[left].sum()), -float(less[right].sum())], len(left)))
    return found


class CrowsPairs(Task):
    """CrowS-Pairs: how often the more stereotyping sentence is the likelier one."""

    name = "crows_pairs"
    fields = Fields(
        {
            **CHOICE,
            "direction": TEXT,
            "shared_logprobs": NUMBERS,
            "n_shared": COUNT,
            "correct_shared": FLAG,
        }
    )

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the file that is read: revised English (1,677) or the original (1,508)."""
        split = self.split(spec)
        return [find_file(data, f"crows_pairs_{split}.csv")]

    def evaluate(self, lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Score both sentences of each pair; ``correct`` means "stereotype preferred" here."""
        split = self.split(spec)
        items = read_crows_pairs(data, split)
        types = [item.category for item in items]
        chosen = [items[k] for k in stratified_sample(types, spec.limit, spec.seed)]
        records = []
        for item, (whole, shared, count) in zip(chosen, pair_scores(lm, chosen, spec.batch_size)):
            more, less = whole
            # Without shared tokens the sums are 0.
            parts = [round(part, DIGITS) + 0.0 for part in shared]
            records.append(
                {
                    "item_id": item.id,
                    "category": item.category,
                    "direction": item.direction,
                    "option_logprobs": [round(more, DIGITS), round(less, DIGITS)],
                    "pred": int(more <= less),
                    "gold": 0,
                    "correct": more > less,
                    "tie": more == less,
                    "shared_logprobs": parts,
                    "n_shared": count,
                    "correct_shared": parts[0] > parts[1],
                }
            )
        facts = {"split": split, "items_in_data": len(items)}
        return Outcome(records, crows_metrics(records), by_category(records, crows_metrics), facts)


TASK = CrowsPairs()
