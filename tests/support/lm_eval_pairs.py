"""CrowS-Pairs by lm-eval's own task and computation, to compare ours with."""

from evenprune.evaluation.harness import Harness
from evenprune.evaluation.protocol import Protocol


def crows_pairs_samples(lm, items):
    """Return lm-eval's samples of ``crows_pairs_english`` for our items."""
    documents = [{"sent_more": item.sent_more, "sent_less": item.sent_less} for item in items]
    names = [item.id for item in items]
    file = "crows_pairs/crows_pairs_english.yaml"
    return Harness(lm, Protocol("crows_pairs")).run("crows_pairs_english", file, documents, names)
