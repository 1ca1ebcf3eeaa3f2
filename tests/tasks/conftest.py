"""A tiny model and small data sets of every form, where a file has none of its own."""

from evaluation_fixtures import data, model, ran

__all__ = ["data", "model", "ran"]
