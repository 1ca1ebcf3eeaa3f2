"""What the readers share: finding a data set's files, rows as typed items, ids that come once.

An item is a pydantic dataclass, whose fields say what a row must have. A broken or missing row
raises UserError with file and line.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from ...io.errors import UserError, shown
from ...io.reading import iter_csv, iter_jsonl

NAMED = 4  # files of a folder in a message
Item = TypeVar("Item")
Added = Callable[[dict[str, Any], int], dict[str, Any]]
Rows = Callable[[Path, Sequence[str]], Iterator[tuple[int, dict[str, Any]]]]


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("a non-empty text")
    return text


def _identifier(value: Any) -> str:
    if type(value) not in (int, str) or value == "":
        raise ValueError("a number or a text")
    return str(value)


Text = Annotated[str, AfterValidator(_filled)]
Identifier = Annotated[str, BeforeValidator(_identifier)]
OneOfThree = Annotated[int, Field(strict=True, ge=0, le=2)]
OneOfFour = Annotated[int, Field(strict=True, ge=0, le=3)]
tab_rows = partial(iter_csv, delimiter="\t")
FourTexts = tuple[Text, Text, Text, Text]


@dataclass(frozen=True)
class ThreeOptions:
    """A question on a context with three answers; ``label`` is the index of the right one."""

    context: Text
    question: Text
    ans0: Text
    ans1: Text
    ans2: Text
    label: OneOfThree

    @property
    def answers(self) -> tuple[str, str, str]:
        """The answers in the data's own order."""
        return self.ans0, self.ans1, self.ans2


def find_file(folder: Path | str, name: str) -> Path:
    """Return ``folder/name`` or ``folder/name.gz``; raise UserError when there is neither.

    Where a file is given in place of a folder, it is that file, whatever its name.
    """
    folder = Path(folder)
    if folder.is_file():
        return folder
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    alike = sorted(path.name for path in folder.glob(f"*{Path(name).suffix}*"))[:NAMED]
    only = f", only {', '.join(alike)}; choose a split that is there, or" if alike else ";"
    raise UserError(
        f"expected {name} (or {name}.gz) in {folder}, found neither{only} check the folder"
    )


def data_files(folder: Path | str, suffixes: Sequence[str] = (".jsonl",)) -> list[Path]:
    """Return a folder's files with these endings, plain or gzipped, by name; UserError if none.

    What is no folder is that file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return [folder]
    found = {
        path.name.removesuffix(".gz"): path
        for suffix in suffixes
        for pattern in (f"*{suffix}.gz", f"*{suffix}")
        for path in folder.glob(pattern)
    }
    if not found:
        raise UserError(
            f"expected files {', '.join(f'*{suffix}' for suffix in suffixes)} in {folder}, found "
            "none; check the folder or fetch the data set again"
        )
    return [found[name] for name in sorted(found)]


def table_files(folder: Path | str) -> list[Path]:
    """Return a folder's files that ``iter_table`` reads, likewise."""
    return data_files(folder, (".jsonl", ".csv", ".tsv"))


def _fault(error: ValueError, row: Any) -> tuple[str, Any]:
    """Return what was expected of a row, and what came."""
    if not isinstance(error, ValidationError):
        return str(error), row
    first = error.errors()[0]
    said = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    said = {"missing": "a value", "dataclass_type": "an object"}.get(first["type"], said)
    where = ".".join(map(str, first["loc"]))
    return f"{said[0].lower()}{said[1:]}{f' in field {where}' if where else ''}", first["input"]


def _column(name: str, field: Any) -> str:
    """Return the column that a field of an item is read from."""
    return str(getattr(field.validation_alias, "path", [field.alias or name])[0])


def read_items(
    kind: type[Item],
    *paths: Path,
    rows: Rows = iter_jsonl,
    added: Added | None = None,
    without: Sequence[str] = (),
    **fields: str,
) -> list[Item]:
    """Return the rows of files as items of a pydantic dataclass, each with an ``id`` of its own.

    Beside its own a row has ``fields``, in which ``{stem}`` is the file's name without endings and
    ``{number}`` the row's in it. ``added`` makes further ones of a row and its line (or raises
    ValueError with what was expected); a file may be ``without`` columns for these. Raises
    UserError when there is no row, or an id comes twice.
    """
    adapter, known = TypeAdapter(kind), kind.__pydantic_fields__  # type: ignore[attr-defined]
    needed = [_column(name, one) for name, one in known.items() if one.is_required()]
    asked = [name for name in needed if name not in {*without, *fields}]
    items: dict[str, Item] = {}
    place = paths[0] if len(paths) == 1 else paths[0].parent
    for path in paths:
        stem = path.name.split(".")[0]
        for number, (line, row) in enumerate(rows(path, asked)):
            made = {name: form.format(stem=stem, number=number) for name, form in fields.items()}
            try:
                item: Any = adapter.validate_python(
                    row | made | (added(row, line) if added else {})
                )
            except ValueError as error:
                what, got = _fault(error, row)
                raise UserError(
                    f"expected {what} on line {line} of {path}, got {shown(got)}; mend or remove "
                    "that row"
                ) from None
            if items.setdefault(item.id, item) is not item:
                raise UserError(
                    f"expected every row of {place} to have an id of its own, but {item.id!r} "
                    "comes twice; remove one of the rows"
                )
    if not items:
        raise UserError(f"expected at least one row in {place}, but it is empty; fetch it again")
    return list(items.values())
