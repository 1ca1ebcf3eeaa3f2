"""Fetch everything a configuration needs, so that the rest can run offline.

For each data set and model that the mirror does not have, the hub repository's commit is
resolved once, its files are downloaded at exactly that commit, and commit and checksums go
into the lock file. Later runs use those and say so when the hub has moved on.

Without --into the files lie in the hub library's cache (HF_HOME), where later runs find them
with HF_HUB_OFFLINE=1. With --into DIR they are laid out as a mirror, which can be carried to
a cluster without network and used there with `--config mirror=DIR`.
"""

import argparse
import sys
from pathlib import Path

from ..base.reading import parse_json
from ..plan.config import load_config, validate_config
from ..plan.config import read_yaml as read_config
from ..plan.grids import needed_datasets, needed_models
from .sources import Entry, Kind, prefetch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--config", help="configuration file, e.g. config/paper.yaml")
    given.add_argument("--config-json", help="a whole configuration as JSON, or - for stdin")
    parser.add_argument(
        "--catalogue", default="config/catalogue.yaml", help="catalogue behind --config"
    )
    parser.add_argument("--mirror", help="mirror to try first; default: the configuration's")
    parser.add_argument("--lock", help="lock file; default: the configuration's")
    parser.add_argument("--into", type=Path, help="lay the files out as a mirror in this folder")
    parser.add_argument(
        "--update", action="store_true", help="pin the newest revisions in place of the old ones"
    )


def run(args: argparse.Namespace) -> None:
    """Fetch; raise UserError that lists everything that could not be fetched."""
    if args.config:
        config = load_config(read_config(args.config), args.config, args.catalogue)
    else:
        text = sys.stdin.read() if args.config_json == "-" else args.config_json
        config = validate_config(parse_json(text, "--config-json"))
    if config.source == "world":
        print("nothing to fetch: this configuration makes its own world", file=sys.stderr)
        return
    items: list[tuple[Kind, str, Entry]] = [
        *(("data", name, config.datasets[name].model_dump()) for name in needed_datasets(config)),
        *(("models", name, config.models[name].model_dump()) for name in needed_models(config)),
    ]
    prefetch(
        items,
        mirror=args.mirror or config.mirror,
        lock_path=args.lock or config.lock,
        into=args.into,
        update=args.update,
    )
