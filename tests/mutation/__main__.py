"""``python -m mutation --seed 0 --cases 2000`` from tests/; ``--case N`` runs one again
(with the same --seed and --only)."""

import argparse
import sys
import time
from pathlib import Path

from .harness import Session


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--case", type=int, action="append", help="run this case alone")
    parser.add_argument("--only", help="commands whose names begin so")
    parser.add_argument("--out", type=Path, help="write the report to this file as well")
    args = parser.parse_args()
    start = time.monotonic()
    session = Session(args.seed, args.only)
    try:
        print(f"set-up {time.monotonic() - start:.0f} s", file=sys.stderr)
        for scenario in session.scenarios:
            print(f"  {scenario.name} {scenario.seconds:.2f} s", file=sys.stderr)
        report = session.run(args.case or range(args.cases), progress=True)
    finally:
        session.close()
    print(report.text())
    if args.out:
        args.out.write_text(report.text())
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
