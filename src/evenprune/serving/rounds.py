"""Finished rounds of a measurement that is not finished, so that a killed one goes on.

JSON lines: a head with the key of the measurement, which names the host, then one line a round.
Rounds of another key are never mixed with new ones. What a kill leaves of a last line, and of a
round that it cut off, is dropped and said.
"""

import json
import os
from pathlib import Path
from typing import Any

from ..base.files import disk_errors

Round = dict[str, Any]


class Rounds:
    """Whole rounds by number, kept in ``path`` until ``remove``.

    ``key`` names the measurement and the machine, its first word is the host.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self.done: dict[int, Round] = {}
        self._whole = 0  # bytes of the file that are whole lines of this measurement
        head, found = self._read()
        if head == {"key": key}:
            self.done = found
            if found:
                print(f"{path}: {_count(found)} of this measurement are finished; going on")
        else:
            self._whole = 0
            if found:
                print(
                    f"{path}: {_count(found)} of another job or machine "
                    f"({str(head['key']).partition(' ')[0]}) are not mixed with these: dropped"
                )

    def _read(self) -> tuple[dict[str, Any], dict[int, Round]]:
        head: dict[str, Any] = {}
        found: dict[int, Round] = {}
        if not self.path.is_file():
            return head, found
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines):
                try:
                    entry: Any = json.loads(line) if line.endswith(b"\n") else None
                    if number == 0:
                        head = {"key": entry["key"]}
                    else:
                        found[int(entry["round"])] = entry
                except (ValueError, TypeError, KeyError):
                    print(f"{self.path}: line {number + 1} is not whole and is measured again")
                    break
                self._whole += len(line)
        return head, found

    def put(self, number: int, content: Round) -> None:
        """Keep a finished round; a kill after this call does not lose it.

        Raises UserError when the disk is full.
        """
        entry = {"round": number, **content}
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "r+b" if self._whole else "wb") as file:
                file.truncate(self._whole)
                file.seek(self._whole)
                text = "" if self._whole else json.dumps({"key": self.key}) + "\n"
                file.write((text + json.dumps(entry) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
                self._whole = file.tell()
        self.done[number] = entry

    def remove(self) -> None:
        """Remove the file: the measurement is finished."""
        self.path.unlink(missing_ok=True)


def _count(found: dict[int, Round]) -> str:
    return f"{len(found)} round{'s' if len(found) > 1 else ''}"
