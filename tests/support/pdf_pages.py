"""What the pages of a PDF look like, measured with poppler's programs."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

PROGRAMS = ("pdftoppm", "pdftotext", "pdftohtml")
DPI = 30
ZOOM = 3  # the most that pdftohtml takes; it writes whole numbers
MARGIN, FOOT = 22 / 25.4, 16 / 25.4  # inches: above the text, and beneath it with the page number
INK = 200  # a grey value below which something is printed


def poppler() -> bool:
    """Return whether all programs are installed."""
    return all(map(shutil.which, PROGRAMS))


def _said(*command: object) -> bytes:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True).stdout


def filled(pdf: Path) -> list[float]:
    """Return the share of each page's text area above its lowest printed row."""
    found, data = [], _said("pdftoppm", "-gray", "-r", DPI, pdf)
    while data:
        head = re.match(rb"P5\s+(\d+)\s+(\d+)\s+255\s", data)
        width, height = int(head[1]), int(head[2])
        size = width * height
        page = np.frombuffer(data, np.uint8, size, head.end()).reshape(height, width)
        data = data[head.end() + size :]
        end = height - round(FOOT * DPI)
        rows = np.flatnonzero((page[:end] < INK).any(axis=1))
        start = MARGIN * DPI
        found.append(max(0.0, float((rows[-1] - start) / (end - start))) if rows.size else 0.0)
    return found


def text(pdf: Path, page: int) -> str:
    """Return the words of one page, counted from 1, on one line."""
    return " ".join(_said("pdftotext", "-f", page, "-l", page, pdf, "-").decode().split())


def letters(pdf: Path) -> dict[float, str]:
    """Return the sizes of all letters in points, each with some text of that size."""
    page = _said("pdftohtml", "-xml", "-stdout", "-i", "-nodrm", "-zoom", ZOOM, pdf).decode()
    sizes = dict(re.findall(r'<fontspec id="(\d+)" size="(\d+)"', page))
    found: dict[float, str] = {}
    for font, inside in re.findall(r'<text [^>]*font="(\d+)">(.*?)</text>', page):
        words = re.sub("<[^>]*>", "", inside).strip()
        if words:
            found.setdefault(int(sizes[font]) / ZOOM, words)
    return dict(sorted(found.items()))
