"""Mutated input for every command: it may end in right output or in a refusal."""

import sys
from pathlib import Path

# Helpers that the scenarios use, also where pytest has not set the path.
for folder in ("support", "controls"):
    sys.path.append(str(Path(__file__).parents[1] / folder))
