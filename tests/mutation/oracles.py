"""What is right about the output of a command, found without the package's own code.

Each returns "kind: words" for output that must not be, "" for right output.
"""

import csv
import hashlib
import json
import math
from pathlib import Path

import numpy as np

from .mutations import read_tensors


def same_tree(one: Path, two: Path, skip=("provenance.json",)) -> bool:
    """Whether two files or folders hold the same bytes, files of times and hosts apart."""
    if one.is_file():
        return two.is_file() and one.read_bytes() == two.read_bytes()
    names = [
        sorted(str(p.relative_to(x)) for p in x.rglob("*") if p.is_file() and p.name not in skip)
        for x in (one, two)
    ]
    return names[0] == names[1] and all(
        (one / name).read_bytes() == (two / name).read_bytes() for name in names[0]
    )


def same_output(scenario, folder: Path) -> bool:
    return all(
        same_tree(scenario.good / name, folder / name)
        for name in scenario.outputs
        if (scenario.good / name).exists()
    )


TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "U8": "u1"}


def tensors(folder: Path) -> dict[str, np.ndarray]:
    """Read all safetensors files of a folder; ValueError where they are not as they must be."""
    index = folder / "model.safetensors.index.json"
    files = sorted(folder.glob("*.safetensors"))
    if index.is_file():
        try:
            named = json.loads(index.read_text())["weight_map"]
            files = sorted({folder / str(name) for name in named.values()})
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError("index does not parse") from error
    found: dict[str, np.ndarray] = {}
    for file in files:
        try:
            header, payload = read_tensors(file)
        except (OSError, ValueError) as error:
            raise ValueError(f"{file.name} does not parse") from error
        header.pop("__metadata__", None)
        at = 0
        for name, entry in sorted(header.items(), key=lambda item: str(item[1])):
            if name in found:
                raise ValueError(f"{name} twice")
            start, end = entry["data_offsets"]
            kind = np.dtype(TYPES[entry["dtype"]])
            found[name] = np.frombuffer(payload[start:end], kind).reshape(entry["shape"])
        for start, end in sorted(entry["data_offsets"] for entry in header.values()):
            if start != at:
                raise ValueError(f"ranges of {file.name} overlap or leave a gap")
            at = end
        if at != len(payload):
            raise ValueError(f"{file.name} is longer or shorter than its header says")
    if index.is_file() and sorted(named) != sorted(found):
        raise ValueError("index and files disagree")
    return found


def model_fault(folder: Path, good: Path) -> str:
    """Say why a model must not be pruned or scored: broken, incomplete or not finite weights."""
    try:
        mine, theirs = tensors(folder), tensors(good)
    except (ValueError, KeyError, TypeError) as error:
        return f"broken weights taken: {error}"
    if sorted(mine) != sorted(theirs):
        odd = sorted(set(mine) ^ set(theirs))
        return f"missing or unexpected tensors taken: {odd[:2]}"
    for name, values in mine.items():
        if values.shape != theirs[name].shape:
            return f"other shape taken: {name} {values.shape}"
        if not np.isfinite(values).all():
            return f"NaN or Inf in weights taken: {name}"
    try:
        layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "broken config taken: config.json"
    stored = {name.split(".")[2] for name in theirs if name.startswith("model.layers.")}
    if layers != len(stored):
        return f"fewer or more layers taken: {layers} in config.json"
    return ""


LINEAR = ("_proj.weight",)


def pruned_fault(pruned: Path, base: Path) -> str:
    """Say what is wrong with a 2:4 checkpoint: mask, kept weights, untouched tensors."""
    try:
        one, two = tensors(pruned), tensors(base)
    except (ValueError, KeyError, TypeError) as error:
        return f"broken weights taken: {error}"
    if sorted(one) != sorted(two):
        return "missing or unexpected tensors taken: names differ"
    for name, values in one.items():
        if not np.isfinite(values).all():
            return f"NaN or Inf in weights taken: {name}"
        if ".layers." in name and name.endswith(LINEAR):
            zeros = (values.reshape(-1, 4) == 0).sum(1)
            if (zeros < 2).any():
                return f"wrong mask: {name}"
            if not values.any() and two[name].any():
                return f"all zeros taken: {name}"
        elif values.tobytes() != two[name].tobytes():
            return f"untouched tensor changed: {name}"
    return ""


def prune_fault(scenario, folder: Path) -> str:
    fault = model_fault(folder / "in/base", scenario.inputs / "base")
    if fault:
        return fault
    if (folder / "out-work").exists() and any((folder / "out-work").iterdir()):
        return "unfinished results left: after success"
    manifest = json.loads((folder / "out/manifest.json").read_text())
    if not manifest:
        return "empty manifest: {}"
    return pruned_fault(folder / "out", folder / "in/base")


def check_fault(scenario, folder: Path) -> str:
    fault = model_fault(folder / "in/base", scenario.inputs / "base")
    if fault:
        return fault
    fault = pruned_fault(folder / "in/pruned", folder / "in/base")
    if fault:
        return fault
    for file in sorted((folder / "in/pruned").glob("*.safetensors")):
        if file.read_bytes() != (scenario.inputs / "pruned" / file.name).read_bytes():
            return f"changed shard passes the check: {file.name}"
    return finite(json.loads((folder / "out.json").read_text()), "out.json")


def finite(value, name: str) -> str:
    """Say where a JSON value holds NaN or an infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"not finite: {name}"
    rows = value.items() if isinstance(value, dict) else ()
    rows = enumerate(value) if isinstance(value, list) else rows
    return next((words for key, one in rows if (words := finite(one, f"{name}/{key}"))), "")


def export_fault(scenario, folder: Path) -> str:
    """The undamaged output, or finite values where the weights were changed in a lawful way."""
    for file in sorted((folder / "out").glob("*.safetensors")):
        header, payload = read_tensors(file)
        header.pop("__metadata__", None)
        for name, entry in header.items():
            if entry["dtype"] in ("F32", "F16"):
                start, end = entry["data_offsets"]
                values = np.frombuffer(payload[start:end], TYPES[entry["dtype"]])
                if not np.isfinite(values).all():
                    return f"NaN or Inf in weights taken: {name}"
    source = folder / "in/pruned"
    if source.exists():
        return model_fault(source, scenario.inputs / "pruned")
    return ""


def evaluation_fault(scenario, folder: Path) -> str:
    """Finite metrics that fit the records, of a model that is whole."""
    fault = model_fault(folder / "in/base", scenario.inputs / "base")
    if fault:
        return fault
    for file in sorted((folder / "out").rglob("metrics.json")):
        content = json.loads(file.read_text())
        fault = finite(content, file.name)
        if fault:
            return fault
        rows = [json.loads(line) for line in (file.parent / "items.jsonl").read_text().splitlines()]
        if not rows or len({row["item_id"] for row in rows}) != len(rows):
            return f"no or repeated records: {len(rows)}"
        fault = finite(rows, "items.jsonl")
        if fault:
            return fault
        total = content["metrics"].get("acc") or content["metrics"].get("acc_all")
        right = [row["correct"] for row in rows if "correct" in row]
        if total and right and (
            total["n"] != len(right) or abs(total["value"] - sum(right) / len(right)) > 1e-9
        ):  # fmt: skip
            return f"metric does not fit the records: {total}"
        if total is None and not any(m["value"] is not None for m in content["metrics"].values()):
            return "no metric at all: metrics.json"
    return ""


def calibration_fault(scenario, folder: Path) -> str:
    """Pairs that stand in the input, and counts that fit."""
    rows = [json.loads(x) for x in (folder / "out/pairs.jsonl").read_text().splitlines()]
    manifest = json.loads((folder / "out/manifest.json").read_text())
    if len(rows) != manifest["pairs"]["kept"] or not rows:
        return f"counts do not fit: {len(rows)}"
    with open(next((folder / "in/crows").iterdir()), encoding="utf-8-sig", newline="") as lines:
        text = lines.read().replace("\r", "")
    for row in rows:
        for name in ("stereotype", "anti_stereotype"):
            if not row[name].strip() or row[name].replace("\r", "") not in text.replace('""', '"'):
                return f"pair not in the input: {row[name][:60]!r}"
    return ""


def record_fault(scenario, folder: Path) -> str:
    """Records whose files are there with the digests they say."""
    record = folder / "record.json"
    if record.exists():
        content = json.loads(record.read_text())
        place = Path(folder / "work", content["folder"])
        if not content["files"]:
            return "record without files: record.json"
        for name, facts in _files(content["files"]):
            digest = facts.get("sha256") if isinstance(facts, dict) else facts
            if digest and hashlib.sha256((place / name).read_bytes()).hexdigest() != digest:
                return f"digest does not fit: {name}"
        if content["folder"].rstrip("/").endswith("/m"):
            mine = folder / "in/mirror/models/m"
            for file in mine.glob("*.safetensors"):
                try:
                    tensors(mine)
                except (ValueError, KeyError, TypeError) as error:
                    return f"broken weights taken: {file.name} {error}"
    out = folder / "out"
    if out.exists():
        for file in sorted(p for p in out.rglob("*") if p.is_file()):
            source = folder / "in/mirror" / file.relative_to(out)
            if source.is_file() and source.read_bytes() != file.read_bytes():
                return f"copy differs: {file.name}"
    return ""


def _files(files):
    if isinstance(files, dict):
        return files.items()
    return [(entry.get("path", entry.get("name")), entry) for entry in files]


def table_fault(scenario, folder: Path) -> str:
    """Files that are not empty, and no NaN or infinity in the values."""
    if same_output(scenario, folder):
        return ""
    for name in scenario.outputs:
        path = folder / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_dir():
                continue
            if not file.stat().st_size:
                return f"empty file: {file.name}"
            if file.suffix in (".csv", ".md", ".tex"):
                words = file.read_text().replace("|", ",").replace("&", ",").replace("$", "")
                cells = {cell.strip(" %\\").lower() for cell in words.replace("\n", ",").split(",")}
                if cells & {"nan", "inf", "-inf"}:
                    return f"not finite: {file.name}"
            if file.suffix == ".json":
                fault = finite(json.loads(file.read_text()), file.name)
                if fault:
                    return fault
    return ""


def collected_fault(scenario, folder: Path) -> str:
    """Rows that are finite and equal what metrics.json says, which equals the records."""
    with open(folder / "results.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        for name in ("value", "n", "stderr"):
            if row[name] and not math.isfinite(float(row[name])):
                return f"not finite: results.csv {row['benchmark']} {name}"
    seen = {}
    for row in rows:
        place = row["method"], row["benchmark"], row["metric"], row["category"]
        if place in seen:
            return f"row twice: {place}"
        seen[place] = row
    with open(folder / "significance.csv", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if any(cell.lower() in ("nan", "inf", "-inf") for cell in row.values()):
                return "not finite: significance.csv"
    for file in sorted((folder / "in/run/evals").rglob("metrics.json")):
        total = json.loads(file.read_text())["metrics"].get("acc")
        path = file.parent / "items.jsonl"
        try:
            right = [json.loads(x)["correct"] for x in path.read_text().splitlines() if x.strip()]
        except (ValueError, KeyError, TypeError, OSError, RecursionError):
            right = None
        good = scenario.inputs / file.relative_to(folder / "in")
        if good.with_name("items.jsonl").read_bytes() == _bytes(path):
            edited = total and right is not None and file.read_bytes() != good.read_bytes()
            if edited and not _fits(total, right):
                return "edited metrics taken: they do not fit the records"
            continue
        if total and (right is None or not _fits(total, right)):
            return "edited or truncated records taken: items.jsonl"
    return ""


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _fits(total, right) -> bool:
    try:
        mean = sum(right) / len(right)
        return total["n"] == len(right) and abs(total["value"] - mean) < 1e-9
    except (TypeError, ZeroDivisionError, KeyError):
        return False
