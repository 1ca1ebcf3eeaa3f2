"""Which programs here can make a PDF; light, since every planning of the workflow asks."""

import shutil

LATEX = ("latexmk", "pdflatex")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PACKAGES = (
    "a LaTeX (Debian: latexmk texlive-latex-base texlive-latex-recommended texlive-latex-extra; "
    "Fedora: latexmk texlive-scheme-medium texlive-arydshln texlive-needspace) or Chromium "
    "(Debian, Fedora: chromium; conda-forge: chromium)"
)


def latex_available() -> bool:
    """Return whether LaTeX's programs are installed."""
    return all(shutil.which(program) for program in LATEX)


def chromium_path() -> str | None:
    """Return the first Chromium or Chrome that is found, None without one."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


def pdf_available() -> bool:
    """Return whether the document can be made as a PDF here."""
    return latex_available() or chromium_path() is not None
