"""Attacks on files, drawn by hypothesis: bytes, kinds of files, JSON, CSV, YAML, code that runs."""

import csv
import functools
import io
import json
import operator
import os
import pickle
import struct
from pathlib import Path

import yaml
from hypothesis import strategies as st

# Code in a file makes this file, named in the environment of the attacked command.
CANARY = "EVENPRUNE_CANARY"
CODE = f"import os\nopen(os.environ['{CANARY}'], 'w').close()\n"
TEMPLATE = "{{ cycler.__init__.__globals__.os.system('touch $" + CANARY + "') }}"
# As JSON text, since some are no values that Python would write.
NASTY = (
    *("null", "true", "0", "-1", "1", "0.5", "-0.0", "1e308", "1e400", "NaN", "-Infinity", "1e9"),
    *("9" * 25, "9" * 5000, "1000000000", "[]", "{}", "[[]]", '[null,"x"]', '{"a":{"b":1}}'),
    *("[" * 3000 + "]" * 3000, '"' + "a" * 5000 + '"', '""', '" "', '"x"', '"none"', '"~/x"'),
    *('"\\ud800"', '"\\u0000"', '"\\u202e"', '"\\u001b[2J\\u001b]0;x\\u0007"', '"../victim"'),
    *('"/dev/zero"', '"{% for x in range(999999999) %}{% endfor %}"', json.dumps(TEMPLATE)),
)
KEYS = ("", "x", "none", "__class__", "../x", "\u001b[31m")
CELLS = ("\x1b[2J", "=1+1", "nan", "-1", "\0", "", "1e999", "Z", "x" * 5000)
BILLION = "\n".join(
    [
        "l0: &l0 [x, x, x, x, x, x, x, x, x]",
        *(f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 12)),
    ]
)
YAMLS = (
    BILLION, "a: &a [*a]\n", "a: &a {b: *a}\n<<: *a\n", "x: !!python/name:os.system\n",
    f"x: !!python/object/apply:os.system ['touch ${CANARY}']\n", "? [a, b]\n: c\n", "- " * 2000,
    "a: 1\na: 2\n", "\t", "%YAML 9.9\n---\n", "results: " + "r" * 300 + "\n", "--- 1\n--- 2\n",
)  # fmt: skip
BY_NAME = yaml.safe_load(Path(__file__).with_name("special.yaml").read_text())
BY_NAME["tokenizer.json"]["normalizer"]["content"] *= 10**6


class Evil:
    """What a pickle runs when it is loaded."""

    def __reduce__(self):
        return os.system, (f"touch ${CANARY}",)


def attack(draw, file):
    """Attack a file in a drawn way; return what was done in words."""
    fitting = {
        ".json": _json, ".jsonl": _jsonl, ".csv": _csv, ".yaml": _yaml, ".safetensors": _tensors,
    }  # fmt: skip
    ways = [_bytes, _kind, *[fitting[file.suffix]] * 4] if file.suffix in fitting else [_bytes]
    ways += [_special] * 3 if file.name in BY_NAME else []
    return draw(st.sampled_from(ways))(draw, file)


def _bytes(draw, file):
    raw = file.read_bytes()
    at = draw(st.integers(0, max(0, len(raw) - 1)))
    bit = 1 << draw(st.integers(0, 7))
    ways = {
        "bit": raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :] if raw else b"\0",
        "cut": raw[:at],
        "empty": b"",
        "twice": raw + raw,
        "zeros": raw[:at] + bytes(16) + raw[at + 16 :],
        "insert": raw[:at] + draw(st.binary(min_size=1, max_size=9)) + raw[at:],
        "no UTF-8": raw[:at] + b"\xe9\xff" + raw[at:],
        "mark": b"\xef\xbb\xbf" + raw,
        "returns": raw.replace(b"\n", b"\r\n"),
        "gzip": b"\x1f\x8b\x08" + raw,
        "line": raw + b"a" * 10**6,
    }
    way = draw(st.sampled_from(sorted(ways)))
    file.write_bytes(ways[way])
    return f"{way} at {at}"


def _kind(draw, file):
    way = draw(st.sampled_from(
        ("fifo", "folder", "zero", "loop", "nothing", "gone", "pickle", "named", "beside")
    ))  # fmt: skip
    strange = file.with_name(f"\x1b[2J\n{file.name}")
    if way == "beside":
        strange.write_bytes(file.read_bytes())
        return way
    if way == "named":
        file.rename(strange)
        return way
    file.unlink()
    if way == "fifo":
        os.mkfifo(file)
    elif way == "folder":
        file.mkdir()
    elif way == "pickle":
        file.write_bytes(pickle.dumps(Evil()))
    elif way != "gone":
        file.symlink_to({"zero": "/dev/zero", "loop": file.name, "nothing": "nowhere"}[way])
    return way


def _special(draw, file):
    """Set a key that libraries would obey; beside the file lies the code that it names."""
    values = BY_NAME[file.name]
    key = draw(st.sampled_from(sorted(values)))
    content = json.loads(file.read_text())
    content[key] = values[key]
    file.write_text(json.dumps(content))
    file.with_name("evil.py").write_text(CODE + "def run(*_): return 1\n")
    task = f'task: mine\nprocess_results: !function evil.run\ndoc_to_text: "{TEMPLATE}"\n'
    file.with_name("mine.yaml").write_text(task)
    return f"{key} = {str(values[key])[:40]}"


def _places(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, part in pairs:
        yield from _places(part, (*path, key))


def json_text(draw, text):
    """Attack one JSON document; return it and what was done."""
    document = json.loads(text)
    path = draw(st.sampled_from(list(_places(document))))
    nasty = draw(st.sampled_from(NASTY))
    if not path:
        return nasty, f"is {nasty[:40]}"
    way = draw(st.sampled_from(("set", "set", "set", "drop", "twice", "rename", "add")))
    *above, key = path
    parent = functools.reduce(operator.getitem, above, document)
    if way == "drop":
        del parent[key]
    elif isinstance(parent, list) or way == "set":
        parent[key] = "@HERE@"
    elif way == "rename":
        parent[f"{key}_"] = parent.pop(key)
    else:
        parent["@KEY@" if way == "twice" else draw(st.sampled_from(KEYS))] = "@HERE@"
    text = json.dumps(document).replace('"@KEY@"', json.dumps(key))
    shown = "/".join(map(str, path))
    return text.replace('"@HERE@"', nasty, 1), f"{way} {shown} {nasty[:40]}"


def _json(draw, file):
    text, done = json_text(draw, file.read_text())
    file.write_text(text)
    return done


def _lines(draw, lines):
    """Drop, repeat, halve or move a line, in place; return what was done."""
    at = draw(st.integers(0, len(lines) - 1))
    way = draw(st.sampled_from(("drop", "double", "half", "swap")))
    line = lines[at]
    if way == "swap":
        lines[at], lines[0] = lines[0], line
    else:
        lines[at : at + 1] = {"drop": [], "double": [line] * 2, "half": [line[: len(line) // 2]]}[
            way
        ]
    return f"line {at + 1} {way}"


def _jsonl(draw, file):
    lines = file.read_text().splitlines()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(lines) - 1))
        lines[at], done = json_text(draw, lines[at])
        done = f"line {at + 1} {done}"
    else:
        done = _lines(draw, lines)
    file.write_text("".join(f"{line}\n" for line in lines))
    return done


def _csv(draw, file):
    rows = list(csv.reader(io.StringIO(file.read_text(), newline="")))
    row = draw(st.integers(0, len(rows) - 1))
    column = draw(st.integers(0, len(rows[row]) - 1))
    done = way = draw(st.sampled_from(("cell", "cell", "head", "wide", "gone", "many", "line")))
    if way == "cell":
        rows[row][column] = draw(st.sampled_from(CELLS))
    elif way == "head":
        rows[0][column % len(rows[0])] = rows[0][0]
    elif way == "wide":
        rows[row] += ["x"]
    elif way == "gone":
        rows = [line[:column] + line[column + 1 :] for line in rows]
    elif way == "many":
        rows = [line + [f"option{k}" for k in range(4, 32)] for line in rows]
    else:
        done = _lines(draw, rows)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    file.write_text(text.getvalue())
    return f"{done} at {row}, {column}"


def _yaml(draw, file):
    text = file.read_text()
    if draw(st.booleans()):
        bad = draw(st.sampled_from(YAMLS))
        file.write_text(bad if draw(st.booleans()) else f"{bad}\n{text}")
        return f"YAML {bad[:40]!r}"
    if "!function" in text or draw(st.integers(0, 3)) == 0:
        file.with_name("evil.py").write_text(CODE + "def run(*_): return 1\n")
        own = f"include: {file.name}\n"
        lines = draw(st.sampled_from((own, "process_results: !function evil.run\n",
                                      f'doc_to_text: "{TEMPLATE}"\n')))  # fmt: skip
        file.write_text(f"{text}\n{lines}")
        return f"and {lines[:40]!r}"
    text, done = json_text(draw, json.dumps(yaml.safe_load(text)))
    file.write_text(text)
    return done


def _tensors(draw, file):
    """Attack the header of safetensors."""
    raw = file.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    text, done = json_text(draw, raw[8 : 8 + size].decode())
    length = draw(st.sampled_from((len(text.encode()),) * 4 + (0, 2**40, 2**64 - 1)))
    file.write_bytes(struct.pack("<Q", length) + text.encode() + raw[8 + size :])
    return f"header, {done}"
