"""A page in a headless Chromium, by playwright; what the tests of pages need of it."""

import contextlib
import functools
import importlib.util
import shutil
from pathlib import Path

import pytest


def chromium_path():
    """Return the first Chromium or Chrome that playwright can open, None without one or it."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    return found if importlib.util.find_spec("playwright") else None


needs_chromium = pytest.mark.skipif(not chromium_path(), reason="no Chromium, or no playwright")


@functools.cache
def _browser():
    from playwright.sync_api import sync_playwright

    chromium = sync_playwright().start().chromium
    return chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])


class Page:
    """One page: its errors, the addresses that it asked for, and what JavaScript in it says.

    ``run`` returns the value of an expression, ``until`` waits until it is true.
    """

    def __init__(self, page) -> None:
        self.page, self.run, self.until = page, page.evaluate, page.wait_for_function
        self.errors, self.requests = list[str](), list[str]()
        page.set_default_timeout(120_000)  # ms: a busy machine
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        page.on("request", lambda request: self.requests.append(request.url))

    def visit(self, path: Path, address: str = "") -> None:
        """Load a file anew and wait for it; ``address`` is added to its own."""
        self.page.goto("about:blank")
        self.page.goto(path.resolve().as_uri() + address)


@contextlib.contextmanager
def opened(path: Path, address="", **look):
    """Yield a file that is open, as ``visit`` and playwright's ``new_page(**look)`` say."""
    with contextlib.closing(_browser().new_page(**look)) as window:
        page = Page(window)
        page.visit(path, address)
        yield page
