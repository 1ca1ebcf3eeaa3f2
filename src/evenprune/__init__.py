"""Bias-aware one-shot pruning of causal language models, its evaluation and its tables."""

__version__ = "0.2.0"
