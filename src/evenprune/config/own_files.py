"""Files of one's own in the place of a data set's name: what the configuration makes of them.

Where ``calibrations`` and ``benchmarks`` name a data set, the path of a file or folder may stand.
It becomes an entry of ``datasets`` with a ``path``, under a name made from where it stands, so
that everything behind knows data sets only.
"""

from collections.abc import Mapping
from typing import Any

from .checks import mapping, section

# What the name of a file ends with; anything with a slash is a path too.
ENDINGS = (".jsonl", ".csv", ".tsv", ".json", ".jsonl.gz", ".csv.gz", ".tsv.gz", ".yaml", ".yml")


def is_path(value: Any, datasets: Mapping[str, Any]) -> bool:
    """Return whether a value is the path of a file or folder, and no data set of that name."""
    return (
        isinstance(value, str)
        and value not in datasets
        and ("/" in value or value in ("~", ".", "..") or value.lower().endswith(ENDINGS))
    )


def with_own_files(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unvalidated configuration in which all data sets have names.

    A file of the calibration ``mine`` is then the data set ``mine.pairs`` (``mine.pairs2`` … for
    further ones) or ``mine.texts``, one of the benchmark ``mine`` is ``mine.data``; where there is
    one of that name, a ``-file`` is added.
    """
    datasets = section(raw, "datasets")
    found: dict[str, dict[str, str]] = {}

    def named(value: Any, name: str) -> Any:
        if not is_path(value, datasets):
            return value
        while name in datasets or name in found:
            name += "-file"
        found[name] = {"path": value}
        return name

    def calibration(slug: str, entry: dict[str, Any]) -> dict[str, Any]:
        pairs = entry.get("pairs")
        if isinstance(pairs, list):
            names = [f"{slug}.pairs{number or ''}" for number in (0, *range(2, len(pairs) + 1))]
            entry["pairs"] = [named(*one) for one in zip(pairs, names, strict=False)]
        elif pairs is not None:
            entry["pairs"] = named(pairs, f"{slug}.pairs")
        if "texts" in entry:
            entry["texts"] = named(entry["texts"], f"{slug}.texts")
        return entry

    def benchmark(slug: str, entry: dict[str, Any]) -> dict[str, Any]:
        if "dataset" in entry:
            entry["dataset"] = named(entry["dataset"], f"{slug}.data")
        return entry

    changed = dict(raw)
    for key, change in (("calibrations", calibration), ("benchmarks", benchmark)):
        if isinstance(raw.get(key), Mapping):
            changed[key] = {
                slug: change(str(slug), dict(entry)) if isinstance(entry, Mapping) else entry
                for slug, entry in raw[key].items()
            }
    if found:
        changed["datasets"] = {**mapping(raw.get("datasets")), **found}
    return changed
