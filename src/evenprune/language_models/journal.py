"""Finished batches of a benchmark that is not finished, so that a killed run can go on.

Batches are the unit because their composition decides about the last bits of their numbers:
a run that goes on computes the missing batches exactly as an uninterrupted one would, and
ends with the same bytes. The file is JSON lines: a head with the key of the run, then one
line a batch, with its checksum. What a kill leaves of the last line is dropped. An edited line
and all after it are computed again.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ..io.files import digest, disk_errors


def _line(entry: Any) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


class Journal:
    """Results of batches by stage and number, kept in ``path``; without a path nothing is kept.

    A file with another ``key`` belongs to another run and is overwritten by the first batch.
    Values are JSON; floats survive unchanged. The file appears with the first batch.
    """

    def __init__(self, path: Path | None = None, key: str = "") -> None:
        self.path = path
        self._key = key
        self._done: dict[tuple[str, int], Any] = {}
        self._length = 0  # bytes of the file that are whole lines of this run
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        with open(path, "rb") as lines:
            head = next(lines, b"")
            if head != _line({"key": self._key}):
                return
            self._length = len(head)
            for number, line in enumerate(lines, 2):
                try:
                    checksum, stage, batch, values = json.loads(line)
                    sound = checksum == digest([self._key, stage, batch, values])
                except (ValueError, TypeError, RecursionError):
                    sound = False
                if not line.endswith(b"\n"):
                    return
                if not sound:
                    print(
                        f"{path}: line {number} is not as it was written; that batch and those "
                        "after it are computed again",
                        file=sys.stderr,
                    )
                    return
                self._done[stage, batch] = values
                self._length += len(line)

    def get(self, stage: str, number: int) -> Any:
        """Return what was kept of a batch, None if nothing was."""
        return self._done.get((stage, number))

    @property
    def count(self) -> int:
        """How many batches are kept."""
        return len(self._done)

    def put(self, stage: str, number: int, values: Any) -> None:
        """Keep the results of a batch; a kill after this call does not lose them.

        Raises UserError when the disk is full.
        """
        if self.path is None:
            return
        head = b"" if self._length else _line({"key": self._key})
        checksum = digest([self._key, stage, number, values])
        rest = memoryview(head + _line([checksum, stage, number, values]))
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk did not take must not be tried again when it is closed.
            with open(self.path, "r+b" if self._length else "wb", buffering=0) as file:
                file.truncate(self._length)
                file.seek(self._length)
                while rest:  # one write may take a part only
                    rest = rest[file.write(rest) :]
                self._length = file.tell()

    def remove(self) -> None:
        """Remove the file: the run is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
