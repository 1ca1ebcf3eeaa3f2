"""Pruned checkpoints for others: model cards with scores, and upload to the hub."""
