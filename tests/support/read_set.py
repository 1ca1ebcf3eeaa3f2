"""Any data set by its name, read as an evaluation reads it."""

from importlib import import_module


def read(name, folder, *part):
    return getattr(import_module(f"evenprune.data.readers.{name}"), f"read_{name}")(folder, *part)
