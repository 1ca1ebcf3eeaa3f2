"""Whether this machine has LaTeX; light, since every planning of the workflow asks."""

import shutil

PROGRAMS = ("latexmk", "pdflatex")


def latex_available() -> bool:
    """Return whether the programs that make-paper runs are installed."""
    return all(shutil.which(program) for program in PROGRAMS)
