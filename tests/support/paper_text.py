"""The paper's text, as far as quotes of it need it."""

import re

import pytest


def plain(tex):
    """Return LaTeX as running text on one line."""
    tex = re.sub(r"\\benchbg\{\w+\}\{([^}]*)\}", r"\1", tex)
    for _ in range(3):
        tex = re.sub(r"\\(?:textbf|textit|texttt|textsc|emph|autoref)\{([^{}]*)\}", r"\1", tex)
    tex = tex.replace(r"\%", "%").replace("$", "").replace(r"\,", "").replace("\\ ", " ")
    tex = tex.replace(r"\_", "_").replace(r"\strut ", "").replace("~", " ")
    tex = re.sub(r"\\\(|\\\)", "", tex).replace(r"\sim", "~")
    return " ".join(tex.split())


def paper_text(shared):
    """Return the paper's text beside the mirror of the data sets; skip without it."""
    path = shared / "paper/paper.tex"
    if not path.is_file():
        pytest.skip(f"no text of the paper at {path}")
    return plain(path.read_text(encoding="utf-8"))


def missing(quotes, text):
    """Return the pieces of quotes (split at …) that are not in a text."""
    pieces = {piece.strip() for quote in quotes for piece in quote.split("…")}
    return sorted(piece for piece in pieces if piece not in text)
