"""Seeded damage to files: bytes, JSON, JSON lines, CSV, safetensors. Each returns what it did."""

import json
import shutil
import struct
from pathlib import Path
from random import Random

import numpy as np

# As JSON text, since some are no values that Python would write.
NASTY = (
    "null", "true", "false", "0", "-1", "1", "3", "0.5", "-0.0", "1e308", "1e-320", "1e400", "NaN",
    "Infinity", "-Infinity", "9" * 25, "9" * 5000, '""', '" "', '"x"', '"none"', '"nan"',
    '"\\ud800"', '"\\u0000"', '"\\u202e\\u0301"', '"{{7*7}}"', '"{% endif %}"', '"../victim"',
    '"../../victim"', '"' + "a" * 5000 + '"', "[]", "{}", "[[]]", '[null,"x"]', '{"a":{"b":1}}',
    "[" * 3000 + "]" * 3000,
)  # fmt: skip


def places(value, path=()):
    """Yield the path of every value in a JSON document."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], (*path, index))


def shown(path) -> str:
    return "/".join(str(part) for part in path) or "the whole"


def json_text(text: str, rng: Random) -> tuple[str, str]:
    """Damage one JSON document; return it and what was done."""
    document = json.loads(text)
    path = rng.choice(list(places(document)))
    parent = document
    for part in path[:-1]:
        parent = parent[part]
    kind = rng.choice(("set", "set", "set", "set", "drop", "double", "rename", "add"))
    if not path or kind == "set":
        nasty = rng.choice(NASTY)
        if not path:
            return nasty, f"is {nasty[:40]}"
        parent[path[-1]] = "@HERE@"
        return json.dumps(document).replace('"@HERE@"', nasty, 1), f"{shown(path)} = {nasty[:40]}"
    if kind == "drop":
        del parent[path[-1]]
    elif isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), rng.choice(parent))
    elif kind == "double":
        key = json.dumps(path[-1])
        nasty = rng.choice(NASTY)
        parent["@HERE@"] = 1
        text = json.dumps(document).replace('"@HERE@": 1', f"{key}: {nasty}", 1)
        return text, f"{shown(path)} twice, the second {nasty[:40]}"
    elif kind == "rename":
        parent[f"{path[-1]}_"] = parent.pop(path[-1])
    else:
        parent[rng.choice(("", "x", "none", "__class__", "../x"))] = rng.choice((1, None, "x", []))
    return json.dumps(document), f"{kind} {shown(path)}"


def damage_json(file: Path, rng: Random) -> str:
    text, done = json_text(file.read_text(), rng)
    file.write_text(text)
    return done


def damage_jsonl(file: Path, rng: Random) -> str:
    lines = file.read_text().splitlines()
    index = rng.randrange(len(lines))
    kind = rng.choice(("edit", "edit", "edit", "edit", "drop", "double", "blank", "half", "first"))
    done = f"line {index + 1} {kind}"
    if kind == "edit":
        lines[index], what = json_text(lines[index], rng)
        done += f": {what}"
    elif kind == "drop":
        del lines[index]
    elif kind == "double":
        lines.insert(rng.randrange(len(lines)), lines[index])
    elif kind == "blank":
        lines.insert(index, "")
    elif kind == "half":
        lines[index] = lines[index][: len(lines[index]) // 2]
    else:
        lines = lines[:1]
    file.write_text("".join(line + "\n" for line in lines))
    return done


CELLS = ("", "nan", "inf", "-inf", "x", "1e999", "-1", "0", "1,5", '"', "9" * 400, "\x00", "none",
         "y" * 140_000, "\ud800")  # fmt: skip


def damage_csv(file: Path, rng: Random) -> str:
    lines = file.read_text().splitlines()
    index = rng.randrange(len(lines))
    cells = lines[index].split("\t" if "\t" in lines[0] else ",")
    kind = rng.choice(("cell", "cell", "cell", "line", "double", "more", "fewer", "header"))
    column = rng.randrange(len(cells))
    done = f"line {index + 1} column {column + 1} {kind}"
    if kind == "cell":
        cells[column] = rng.choice(CELLS)
        done += f" {cells[column][:20]!r}"
    elif kind == "more":
        cells.append("z")
    elif kind == "fewer":
        del cells[column]
    lines[index] = ("\t" if "\t" in lines[0] else ",").join(cells)
    if kind == "line":
        del lines[index]
    elif kind == "double":
        lines.insert(index, lines[index])
    elif kind == "header":
        del lines[0]
    file.write_bytes("".join(x + "\n" for x in lines).encode("utf-8", "surrogatepass"))
    return done


def read_tensors(file: Path) -> tuple[dict, bytes]:
    """Return header and payload of a safetensors file, read without any library."""
    raw = file.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def pack(header, payload: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


SPECIAL = {"NaN": np.nan, "Inf": np.inf, "-Inf": -np.inf, "3e38": 3e38, "1e-42": 1e-42, "0": 0.0}


def damage_tensors(file: Path, rng: Random) -> str:
    """Damage a safetensors file of float32: a payload, a name, a shape, a range, the header."""
    header, payload = read_tensors(file)
    names = [name for name in header if name != "__metadata__"]
    name = rng.choice(names)
    entry = header[name]
    start, end = entry["data_offsets"]
    kind = rng.choice(
        ("value", "value", "value", "all", "drop", "extra", "rename", "shape", "dtype", "offsets",
         "overlap", "size", "short", "tail", "header")
    )  # fmt: skip
    done = f"{kind} {name}"
    if kind in ("value", "all"):
        word = rng.choice(tuple(SPECIAL))
        values = np.frombuffer(payload, dtype=np.uint8).copy()
        part = values[start:end].view("<f4")
        part[slice(None) if kind == "all" else rng.randrange(part.size)] = SPECIAL[word]
        payload, done = values.tobytes(), f"{done} = {word}"
    elif kind == "drop":
        payload = payload[:start] + payload[end:]
        del header[name]
        for other in header.values():
            offsets = other.get("data_offsets")
            if offsets and offsets[0] >= end:
                other["data_offsets"] = [offset - (end - start) for offset in offsets]
    elif kind == "extra":
        header["model.extra.weight"] = {
            "dtype": "F32", "shape": [1], "data_offsets": [len(payload), len(payload) + 4],
        }  # fmt: skip
        payload += bytes(4)
    elif kind == "rename":
        header[f"{name}x"] = header.pop(name)
    elif kind == "shape":
        entry["shape"] = rng.choice(
            ([*entry["shape"][::-1], 1], [0], [-1, 4], [2**40, 2**40], [end - start], None, "x")
        )
    elif kind == "dtype":
        entry["dtype"] = rng.choice(("F16", "BF16", "F64", "I8", "F8_E4M3", "X", None, 3))
    elif kind == "offsets":
        entry["data_offsets"] = rng.choice(
            ([end, start], [0, 2**63], [-4, 0], [start], None, ["0", "4"], [start, end + 4])
        )
    elif kind == "overlap":
        entry["data_offsets"] = list(header[rng.choice(names)]["data_offsets"])
    elif kind == "tail":
        payload += bytes(rng.randrange(1, 64))
    raw = pack(header, payload)
    if kind == "size":
        raw = struct.pack("<Q", rng.choice((0, 1, 2**40, 2**64 - 1))) + raw[8:]
    elif kind == "short":
        raw = raw[: rng.randrange(len(raw))]
    elif kind == "header":
        raw = pack(rng.choice((b"{}", b"[]", b"null", b"{", b"\xff\xfe", b'{"a":1}')), payload)
    file.write_bytes(raw)
    return done


def damage_bytes(file: Path, rng: Random) -> str:
    """Damage any file."""
    raw = file.read_bytes()
    kind = rng.choice(
        ("empty", "half", "byte", "insert", "gone", "folder", "link to nothing", "mark", "latin",
         "returns", "twice", "zeros")
    )  # fmt: skip
    at = rng.randrange(max(1, len(raw)))
    if kind in ("gone", "folder", "link to nothing"):
        file.unlink()
        if kind == "folder":
            file.mkdir()
        elif kind != "gone":
            file.symlink_to("nowhere")
        return kind
    changed = {
        "empty": b"",
        "half": raw[:at],
        "byte": raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :],
        "insert": raw[:at] + rng.randbytes(rng.randrange(1, 9)) + raw[at:],
        "mark": b"\xef\xbb\xbf" + raw,
        "latin": raw[:at] + b"\xe9\xff" + raw[at:],
        "returns": raw.replace(b"\n", b"\r\n"),
        "twice": raw + raw,
        "zeros": raw[:at] + bytes(16) + raw[at + 16 :],
    }[kind]
    file.write_bytes(changed)
    return f"{kind} at {at}" if kind in ("half", "byte", "insert", "latin", "zeros") else kind


def damage_file(file: Path, rng: Random) -> str:
    """Damage a file in a way that fits its kind, or as bytes."""
    fitting = {
        ".json": damage_json,
        ".yaml": damage_json,  # ours are JSON, which YAML holds
        ".jsonl": damage_jsonl,
        ".csv": damage_csv,
        ".safetensors": damage_tensors,
    }.get(file.suffix)
    if fitting is None or rng.random() < 0.2:
        return damage_bytes(file, rng)
    return fitting(file, rng)


def bad_outputs(inputs: list[str], rng: Random) -> str:
    """Return a value for --out or --work that should not destroy anything.

    All lie inside the sandbox (two levels up at most), since the code under test may delete.
    """
    return rng.choice(
        (".", "..", "../victim", "../link", "../victim/notes.txt", "../victim/notes.txt/x", "",
         "../in", *inputs, *(f"{name}/new" for name in inputs), "y" * 300,
         "../dangling", "\udcff", "a\nb", "../nowhere/deep/out")
    )  # fmt: skip


NUMBERS = ("nan", "inf", "-1", "0", "1e400", "x", "", "9" * 30, "1.5", "-0", "1_0", "9" * 5000)


def copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=shutil.copyfile)
