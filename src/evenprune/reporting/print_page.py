"""A page of HTML as a PDF, by a headless Chromium."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from ..base.errors import UserError

SECONDS = 180  # a page that takes longer hangs
# The dates that Chromium writes into a PDF; of equal length, so that no place in the file moves.
DATES = re.compile(rb"(/(?:CreationDate|ModDate) ?\(D:)\d{14}")


# Names of the parts of the page, counted anew in every process.
NODES = re.compile(rb"node\d{8}")


def settled(pdf: bytes) -> bytes:
    """Return a PDF whose dates are the first second of 1970 and whose parts are counted from 0.

    Of equal pages these are equal bytes; the order of the parts stays.
    """
    names = {name: b"node%08d" % k for k, name in enumerate(sorted(set(NODES.findall(pdf))))}
    counted = NODES.sub(lambda found: names[found[0]], pdf)
    return DATES.sub(rb"\g<1>19700101000000", counted)


def print_page(page: Path, chromium: str) -> bytes:
    """Return the PDF that Chromium prints of a self-contained page.

    Its sandbox is off only where it cannot run, for root. Raises UserError when it fails or takes
    longer than ``SECONDS``.
    """
    with tempfile.TemporaryDirectory(prefix="page-") as name:
        out = Path(name) / "page.pdf"
        command = [
            chromium, "--headless", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--disable-dev-shm-usage",
            f"--user-data-dir={name}/profile", "--no-pdf-header-footer", f"--print-to-pdf={out}",
        ]  # fmt: skip
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        environment = os.environ | {"TZ": "UTC", "HOME": name}
        try:
            done = subprocess.run(
                [*command, page.resolve().as_uri()],
                env=environment, capture_output=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{chromium} did not print {page} within {SECONDS} s; open the page in a browser "
                "and print it there"
            ) from None
        if done.returncode or not out.is_file():
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(
                f"{chromium} could not print {page}: {said[-1] if said else 'it said nothing'}; "
                "open the page in a browser and print it there"
            )
        return settled(out.read_bytes())
