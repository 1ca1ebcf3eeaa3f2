"""Run the command line and kill this process after the n-th batch, with half a line behind it."""

import os
import signal
import sys

from evenprune import cli
from evenprune.evaluation.journal import Journal


def main() -> int:
    left = int(sys.argv[1])
    put = Journal.put

    def put_and_die(journal, stage, number, values):
        nonlocal left
        put(journal, stage, number, values)
        left -= 1
        if left == 0:
            with open(journal.path, "ab") as torn:
                torn.write(b'["' + stage.encode() + b'",99,[[[1.0,')
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.put = put_and_die
    return cli.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
