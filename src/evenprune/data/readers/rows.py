"""What the readers share: finding a data set's files, rows as typed items, ids that come once.

An item is a pydantic dataclass, whose fields say what a row must have. A broken or missing row
raises UserError with file and line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from ...io.errors import UserError, shown
from ...io.reading import iter_csv, iter_jsonl

NAMED = 4  # files of a folder in a message
Item = TypeVar("Item")
Added = Callable[[dict[str, Any], int, int], dict[str, Any]]
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
FourTexts = tuple[Text, Text, Text, Text]


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

    Where a file is given in place of a folder, it is that file.
    """
    folder = Path(folder)
    if folder.is_file():
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


def bad_row(path: Path | str, line: int, expected: str, got: Any) -> UserError:
    """Return the error that names file and line, what was expected and what came."""
    return UserError(
        f"expected {expected} on line {line} of {path}, got {shown(got)}; mend or remove that row"
    )


def read_items(
    kind: type[Item],
    path: Path,
    rows: Rows = iter_jsonl,
    added: Added | None = None,
    without: Sequence[str] = (),
) -> Iterator[Item]:
    """Yield the rows of a file as items of a pydantic dataclass.

    ``added`` makes further fields of a row, its number and its line (or raises ValueError with
    what was expected); a file may be ``without`` columns for these.
    """
    adapter, fields = TypeAdapter(kind), kind.__pydantic_fields__  # type: ignore[attr-defined]
    needed = [one.alias or name for name, one in fields.items() if one.is_required()]
    asked = [name for name in needed if name not in without]
    for number, (line, row) in enumerate(rows(path, asked)):
        try:
            whole = {**row, **added(row, number, line)} if added else row
            item = adapter.validate_python(whole)
        except ValidationError as error:
            first = error.errors()[0]
            said = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            said = {"missing": "a value", "dataclass_type": "an object"}.get(first["type"], said)
            where = ".".join(map(str, first["loc"]))
            what = f"{said[0].lower()}{said[1:]}{f' in field {where}' if where else ''}"
            raise bad_row(path, line, what, first["input"]) from None
        except ValueError as error:
            raise bad_row(path, line, str(error), row) from None
        yield item


def fixed(**fields: str) -> Added:
    """Return an ``added`` of ``read_items`` that gives every row these fields, filled in.

    ``{number}`` in one is the row's.
    """
    return lambda _row, number, _line: {
        name: value.replace("{number}", str(number)) for name, value in fields.items()
    }


def read_stems(kind: type[Item], folder: Path | str, **fields: str) -> list[Item]:
    """Read the rows of all JSON-lines files of a folder.

    Beside their own they have ``fields``, in which ``{stem}`` is the file's, ``{number}`` the row's
    in it.
    """
    items: list[Item] = []
    for path in data_files(folder):
        stem = path.name.split(".")[0]
        told = {name: text.replace("{stem}", stem) for name, text in fields.items()}
        items += read_items(kind, path, added=fixed(**told), without=tuple(fields))
    return collect(items, folder)


tab_rows = partial(iter_csv, delimiter="\t")


def collect(items: Iterable[Item], path: Path | str) -> list[Item]:
    """Return the items as a list; raise UserError when there is none or an id comes twice."""
    found = list(items)
    if not found:
        raise UserError(f"expected at least one row in {path}, but it is empty; fetch it again")
    seen: set[str] = set()
    for item in found:
        identifier = item.id  # type: ignore[attr-defined]
        if identifier in seen:
            raise UserError(
                f"expected every row of {path} to have an id of its own, but {identifier!r} comes "
                "twice; remove one of the rows"
            )
        seen.add(identifier)
    return found
