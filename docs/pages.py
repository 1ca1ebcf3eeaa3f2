"""What the programs that write pages share: text between marks, and files written and named."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[1]


def between(page: str, begin: str, end: str, text: str) -> str:
    """Return a page with another text between ``begin``, which it has once, and the next ``end``.

    Raises SystemExit where it lacks one of them.
    """
    before, *after = page.split(begin)
    _, found, rest = "".join(after[:1]).partition(end)
    if len(after) != 1 or not found:
        raise SystemExit(f"expected {begin.strip()!r} once in the page, and {end.strip()!r} after")
    return f"{before}{begin}{text}{end}{rest}"


def write(path: Path, text: str) -> None:
    """Write a file and say its name."""
    path.write_text(text, encoding="utf-8")
    print(path.relative_to(REPO))
