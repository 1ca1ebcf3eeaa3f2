"""Records and metrics of HellaSwag, MMLU and CrowS-Pairs from lm-eval's samples."""

from pathlib import Path
from typing import Any

from .. import readers
from .harness import Harness, loglikelihoods
from .language_model import LanguageModel
from .metrics import Metric, Record, by_category, mean
from .sampling import stratified_sample
from .spec import Outcome, Spec, pick

DIGITS = 6


def choice_record(item: readers.ChoiceItem, sample: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a multiple-choice item; ``correct`` is lm-eval's own ``acc``."""
    scores = loglikelihoods(sample)
    record = {
        "item_id": item.id,
        "category": item.category,
        "option_logprobs": [round(score, DIGITS) for score in scores],
        "pred": scores.index(max(scores)),
        "gold": item.gold,
        "correct": bool(sample["acc"]),
        "tie": scores.count(max(scores)) > 1,
    }
    if "acc_norm" in sample:
        record["correct_norm"] = bool(sample["acc_norm"])
    return record


def accuracy(records: list[Record]) -> dict[str, Metric]:
    """Return ``acc``, ``acc_norm`` where records have it, and the share of ties."""
    metrics = {"acc": mean(float(r["correct"]) for r in records)}
    if records and "correct_norm" in records[0]:
        metrics["acc_norm"] = mean(float(r["correct_norm"]) for r in records)
    return {**metrics, "ties": mean(float(r["tie"]) for r in records)}


def crows_metrics(records: list[Record]) -> dict[str, Metric]:
    """Return lm-eval's ``pct_stereotype`` and ``likelihood_diff``, and the signed difference.

    ``pct_stereotype`` is the share (0 to 1) of pairs whose more stereotyping sentence is
    strictly likelier; ``likelihood_diff`` the mean absolute and ``signed_diff`` the mean signed
    difference of log-likelihoods in nats.
    """
    differences = [r["option_logprobs"][0] - r["option_logprobs"][1] for r in records]
    return {
        "pct_stereotype": mean(float(r["correct"]) for r in records),
        "likelihood_diff": mean(map(abs, differences)),
        "signed_diff": mean(differences),
        "ties": mean(float(r["tie"]) for r in records),
    }


class HellaSwag:
    """HellaSwag validation, zero-shot, by continuation log-likelihood."""

    STYLES = ()
    SPLITS = ("validation",)
    HEADLINE = "acc"

    @staticmethod
    def data_files(data: Path, spec: Spec) -> list[Path]:
        """Return the file that is read."""
        return [readers.find_file(data, "validation_lm_eval.jsonl")]

    @staticmethod
    def evaluate(lm: LanguageModel, data: Path, spec: Spec) -> Outcome:
        """Score HellaSwag through lm-eval."""
        pick(spec.split, HellaSwag.SPLITS, "split", "hellaswag")
        items = readers.read_hellaswag(data)
        chosen = [items[k] for k in stratified_sample([0] * len(items), spec.limit, spec.seed)]
        samples = Harness(lm, spec).hellaswag(chosen)
        records = [choice_record(item, sample) for item, sample in zip(chosen, samples)]
        return Outcome(records, accuracy(records), {}, {"items_in_data": len(items)})


class MMLU:
    """MMLU, zero-shot, accuracy over all items; subjects are the categories."""

    STYLES = ()
    SPLITS = ("test", "validation", "dev")
    HEADLINE = "acc"

    @staticmethod
    def data_files(data: Path, spec: Spec) -> list[Path]:
        """Return the file that is read."""
        return [readers.find_file(data, f"{pick(spec.split, MMLU.SPLITS, 'split', 'mmlu')}.jsonl")]

    @staticmethod
    def evaluate(lm: LanguageModel, data: Path, spec: Spec) -> Outcome:
        """Score MMLU through lm-eval."""
        split = pick(spec.split, MMLU.SPLITS, "split", "mmlu")
        items = readers.read_mmlu(data, split)
        subjects = [item.category for item in items]
        chosen = [items[k] for k in stratified_sample(subjects, spec.limit, spec.seed)]
        samples = Harness(lm, spec).mmlu(chosen)
        records = [choice_record(item, sample) for item, sample in zip(chosen, samples)]
        facts = {"split": split, "items_in_data": len(items)}
        return Outcome(records, accuracy(records), by_category(records, accuracy), facts)


class CrowsPairs:
    """CrowS-Pairs: how often the more stereotyping sentence is the likelier one."""

    STYLES = ()
    SPLITS = ("revised", "anonymized")
    HEADLINE = "pct_stereotype"

    @staticmethod
    def data_files(data: Path, spec: Spec) -> list[Path]:
        """Return the file that is read: revised English (1,677) or the original (1,508)."""
        split = pick(spec.split, CrowsPairs.SPLITS, "split", "crows_pairs")
        return [readers.find_file(data, f"crows_pairs_{split}.csv")]

    @staticmethod
    def evaluate(lm: LanguageModel, data: Path, spec: Spec) -> Outcome:
        """Score CrowS-Pairs through lm-eval; ``correct`` means "stereotype preferred" here."""
        split = pick(spec.split, CrowsPairs.SPLITS, "split", "crows_pairs")
        items = readers.read_crows_pairs(data, split)
        types = [item.category for item in items]
        chosen = [items[k] for k in stratified_sample(types, spec.limit, spec.seed)]
        records = []
        for item, sample in zip(chosen, Harness(lm, spec).crows_pairs(chosen)):
            scores = loglikelihoods(sample)
            records.append(
                {
                    "item_id": item.id,
                    "category": item.category,
                    "direction": item.direction,
                    "option_logprobs": [round(score, DIGITS) for score in scores],
                    "pred": int(scores[0] <= scores[1]),
                    "gold": 0,
                    "correct": bool(sample["pct_stereotype"]),
                    "tie": scores[0] == scores[1],
                }
            )
        facts = {"split": split, "items_in_data": len(items)}
        return Outcome(records, crows_metrics(records), by_category(records, crows_metrics), facts)
