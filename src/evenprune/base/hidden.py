"""Packages that are there, but not for everybody: what would be imported for nothing."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Let packages that were not imported before seem not installed, until ``unhide``."""
    for package in packages:
        # What Python itself takes for "there is no such module".
        sys.modules.setdefault(package, None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        unhide(*packages)


def unhide(*packages: str) -> None:
    """End the hiding of packages, for code that needs them."""
    for package in packages:
        if sys.modules.get(package, sys) is None:
            del sys.modules[package]
