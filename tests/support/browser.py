"""A headless Chromium that opens a page from disk, by the DevTools protocol over a pipe.

No library is needed: with ``--remote-debugging-pipe`` messages are JSON, ended by a zero byte, on
file descriptors 3 (to the browser) and 4 (from it).
"""

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS = 120  # for one answer, on a busy machine
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-quic", "--disable-sync"),
    "--remote-debugging-pipe",
)


def chromium_path():
    """Return the first Chromium or Chrome that is found, None without one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Page:
    """One page: its errors, the addresses that it asked for, and what JavaScript in it says."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read = write, read
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.loaded = False

    def send(self, method: str, **params):
        """Send one command and return its result."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]
            self._note(found)

    def _next(self) -> dict:
        end = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.read, 1 << 20)
            assert part, "the browser has gone"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, found: dict) -> None:
        name, params = found.get("method"), found.get("params", {})
        if name == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", details).get("description", str(details)))
        elif name == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(str(params["args"]))
        elif name == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif name == "Page.loadEventFired":
            self.loaded = True

    def open(self, path: Path, width=1280, height=900, dark=False, address="") -> None:
        """Open a file and wait until it is loaded; ``address`` is added to its own."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        look = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[look])
        self.visit(path, address)

    def visit(self, path: Path, address: str = "") -> None:
        """Load a file anew and wait for it."""
        for url in ("about:blank", path.resolve().as_uri() + address):
            self.send("Page.navigate", url=url)
            while not self.loaded:
                self._note(self._next())
            self.loaded = False

    def run(self, script: str):
        """Return the value of an expression, waited for where it is a promise."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str):
        """Return the value of an expression once it is true."""
        end = time.monotonic() + SECONDS
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)
        return value


@contextlib.contextmanager
def opened(path: Path, **look):
    """Yield a page that is open; see ``Page.open``."""
    to_browser, our_end = os.pipe()
    our_start, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:

        def connect() -> None:
            one, two = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3)
            os.dup2(two, 4)

        words = [str(chromium_path()), *FLAGS, f"--user-data-dir={profile}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        browser = subprocess.Popen(words, preexec_fn=connect, close_fds=False, **quiet)
        os.close(to_browser)
        os.close(from_browser)
        page = Page(our_end, our_start)
        try:
            page.open(path, **look)
            yield page
        finally:
            page.session = None
            with contextlib.suppress(AssertionError, OSError):
                page.send("Browser.close")
            try:
                browser.wait(10)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()
            os.close(our_end)
            os.close(our_start)
