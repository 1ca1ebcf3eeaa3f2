"""Packages that are there, but not for everybody: what would be imported for nothing."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """Let a package that was not imported before seem not installed, until ``unhide``."""
    if package not in sys.modules:
        # What Python itself takes for "there is no such module".
        sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        unhide(package)


def unhide(package: str) -> None:
    """End the hiding of a package, for a library that needs it."""
    if package in sys.modules and sys.modules[package] is None:
        del sys.modules[package]
