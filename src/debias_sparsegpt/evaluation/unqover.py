"""UnQover: underspecified questions about two people, where only "unknown" is right.

Source of data and prompt: Li et al. 2020 (UnQover), Sun et al. 2024 (CAL), FairSteer. Options
are shown in the data's own order (perm "012"); with ``orders`` 6 every order is scored.
"""

from itertools import permutations
from pathlib import Path
from typing import Any

from .. import readers
from .language_model import LanguageModel
from .metrics import Metric, Record, by_category, mean, unqover_metrics
from .options import make_record, score_prompts
from .prompts import LETTERS, UNQOVER_STYLES, unqover_prompt
from .sampling import stratified_sample
from .spec import Outcome, Spec, pick

STYLES = UNQOVER_STYLES
# File stems: the rebuilt full set of 40,008 questions, and the authors' sample of 3,000.
SPLITS = ("datas_rebuilt", "sampled")
HEADLINE = "acc"
ORDERS = {1: ((0, 1, 2),), 6: tuple(permutations(range(3)))}


def data_files(data: Path, spec: Spec) -> list[Path]:
    """Return the file that is read."""
    return [readers.find_file(data, f"{pick(spec.split, SPLITS, 'split', 'unqover')}.jsonl")]


def clusters(items: list[readers.UnqoverItem]) -> list[str]:
    """Return each question's cluster: its two subjects and its activity.

    Questions come in pairs, an activity (even id) and its negation (odd id); a negation is
    filed under its partner's question, or under its own where the partner is not there.
    """
    partner = {item.id: item for item in items}
    names = []
    for item in items:
        people = sorted(a for k, a in enumerate(item.answers) if k != item.unknown)
        question = item.question
        if item.id.isdigit() and int(item.id) % 2:
            twin = partner.get(str(int(item.id) - 1))
            if twin is not None and twin.context == item.context:
                question = twin.question
        names.append(" | ".join([item.category, *people, question]))
    return names


def order_metrics(records: list[dict[str, Any]]) -> dict[str, Metric]:
    """Return what all six orders tell: the mean accuracy, items right in all six, letter shares.

    ``acc_orders`` is the mean over items of the share of orders that are right,
    ``acc_all_orders`` the share of items right in every order, ``share_A/B/C`` how often each
    letter is chosen (1/3 each without position bias) and ``acc_unknown_A/B/C`` the accuracy
    when "unknown" stands at that letter.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["item_id"], []).append(record)
    shares = [sum(r["correct"] for r in group) / len(group) for group in groups.values()]
    place = [r["perm"].index(str(r["pred"])) for r in records]
    unknown = [r["perm"].index(str(r["unknown_idx"])) for r in records]
    metrics = {
        "acc_orders": mean(shares),
        "acc_all_orders": mean(float(share == 1) for share in shares),
    }
    for k, letter in enumerate(LETTERS):
        metrics[f"share_{letter}"] = mean(float(p == k) for p in place)
        metrics[f"acc_unknown_{letter}"] = mean(
            float(r["correct"]) for r, u in zip(records, unknown) if u == k
        )
    return metrics


def as_prompt_item(item: readers.UnqoverItem | readers.BBQItem, order: tuple[int, ...]) -> dict:
    """Return the fields that prompts read, with the answers in the given order."""
    shown = {f"ans{j}": item.answers[answer] for j, answer in enumerate(order)}
    return {"context": item.context, "question": item.question, **shown}


def evaluate(lm: LanguageModel, data: Path, spec: Spec) -> Outcome:
    """Score UnQover; one record an item and order."""
    style = pick(spec.style, STYLES, "style", "unqover")
    split = pick(spec.split, SPLITS, "split", "unqover")
    items = readers.read_unqover(data, split)
    names = clusters(items)
    chosen = stratified_sample([item.category for item in items], spec.limit, spec.seed)
    jobs = [(items[k], names[k], order) for k in chosen for order in ORDERS[spec.orders]]
    prompts = [unqover_prompt(as_prompt_item(item, order), style) for item, _, order in jobs]
    scores = score_prompts(lm, prompts, spec.batch_size, spec.chat_template, "unqover")
    records = []
    for (item, cluster, order), score in zip(jobs, scores):
        head = {"item_id": item.id, "category": item.category, "cluster": cluster}
        records.append(make_record(head, order, score, item.label, item.unknown))
    own = [record for record in records if record["perm"] == "012"]
    metrics = unqover_metrics(own)
    if spec.orders > 1:
        metrics |= order_metrics(records)
    facts = {"style": style, "split": split, "items_in_data": len(items), **scoring_facts(records)}
    return Outcome(records, metrics, by_category(own, unqover_metrics), facts)


def scoring_facts(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many prompts took which scoring path and how many were cut at the left."""
    paths = [record["path"] for record in records]
    return {
        "paths": {path: paths.count(path) for path in sorted(set(paths))},
        "truncated": sum(record["truncated"] for record in records),
    }
