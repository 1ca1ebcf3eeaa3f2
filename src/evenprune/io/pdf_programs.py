"""Whether LaTeX can make a PDF here; light, since every planning of the workflow asks."""

import shutil

LATEX = ("latexmk", "pdflatex")
PACKAGES = (
    "a LaTeX (Debian: latexmk texlive-latex-base texlive-latex-recommended texlive-latex-extra; "
    "Fedora: latexmk texlive-scheme-medium texlive-arydshln texlive-ltablex texlive-makecell "
    "texlive-needspace)"
)


def latex_available() -> bool:
    """Return whether LaTeX's programs are installed."""
    return all(shutil.which(program) for program in LATEX)
