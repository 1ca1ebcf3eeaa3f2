import errno
import itertools
import json
import os
import shutil
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenprune.io import files, progress, reading
from evenprune.io.errors import UserError
from evenprune.io.files import disk_errors
from evenprune.io.provenance import read_record
from snakemake_logger_plugin_evenprune import LogHandler

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON))
def test_canonical_json_ignores_the_order_of_keys(obj):
    turned = dict(reversed(obj.items()))
    assert files.canonical_json(obj) == files.canonical_json(turned)
    assert files.digest(obj) == files.digest(turned)
    assert json.loads(files.canonical_json(obj)) == obj


def test_canonical_json_refuses_nan():
    with pytest.raises(ValueError, match="Out of range"):
        files.canonical_json({"loss": float("nan")})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.json"
    files.write_json(target, {"a": 1})
    before = target.read_bytes()
    with pytest.raises(RuntimeError), files.atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_row_of_another_form_is_named_by_its_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n\n[1]\n')
    with pytest.raises(UserError, match=r"line 3 of .* got list"):
        files.read_jsonl(path)


DEEP = "[" * 100_000 + "]" * 100_000
BAD_JSON = [
    ('{"\\uDEAD": 1, "id": 1, "text": "a"}', "hex escape"),
    ('{"id": 1, "text": ' + DEEP + "}", "recursion limit"),
    ('{"id": ' + "9" * 5000 + ', "text": "a"}', "number out of range"),
    ('{"id": 1, "id" : 2, "text": "a"}', "the key 'id' twice"),
    ('{"id": NaN, "text": "a"}', "expected value"),
    ('{"id": [0.5, 1e999], "text": "a"}', "Out of range"),
]


@pytest.mark.parametrize(("text", "message"), BAD_JSON)
def test_json_that_no_step_can_use_is_named(text, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n' + text + "\n")
    with pytest.raises(UserError, match=rf"rows\.jsonl, but line 2 does not parse.*{message}"):
        files.read_jsonl(path, ["id", "text"])
    path.write_text(text)
    with pytest.raises(UserError, match=rf"expected JSON in .*rows\.jsonl, .*{message}"):
        files.read_json(path)
    with pytest.raises(UserError, match=rf"expected JSON in --spec, .*{message}"):
        reading.parse_json(text, "--spec")
    path.write_text("[1]")
    with pytest.raises(UserError, match=r"expected a JSON object in .*rows\.jsonl, got"):
        files.read_json(path)


@pytest.mark.parametrize("read", [files.read_json, files.read_jsonl, files.sha256_file])
def test_what_is_no_readable_file_is_named(read, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("{}")
    os.mkfifo(tmp_path / "pipe")  # which can be read once only
    for path, message in (
        (tmp_path / "pipe", "got a pipe or device; write it to a file"),
        (tmp_path / "none", "found none; check the path"),
        (tmp_path, "got a folder"),
        (tmp_path / "file/a", "a part of that path is a file"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ):
        with pytest.raises(UserError, match=message):
            read(path)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UserError, match="permission denied"):
        read(tmp_path / "file")


@pytest.mark.parametrize("read", [files.read_json, files.read_jsonl])
def test_text_that_is_not_utf_8_is_named(read, tmp_path):
    for text in ('{"id": 1}\n'.encode("utf-16"), b"\xff\x00\x80" * 1000):
        (tmp_path / "a").write_bytes(text)
        with pytest.raises(UserError, match=r"not UTF-8 text .*save it as UTF-8"):
            read(tmp_path / "a")


def test_no_name_from_a_file_steers_the_terminal():
    error = UserError("expected one of \x1b[2J\u202e, got\n two")
    assert str(error) == "expected one of \\x1b[2J\\u202e, got\n two"


FULL = OSError(errno.ENOSPC, "No space left on device")
COPIED = shutil.Error([("a", "b", str(FULL))])


@pytest.mark.parametrize("error", [FULL, COPIED, Exception("of Rust (os error 28)")])
def test_a_full_disk_is_one_sentence(error, tmp_path):
    for writing in (disk_errors, files.atomic_path):
        with pytest.raises(UserError, match="the disk is full"), writing(tmp_path / "x"):
            raise error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text", ['{"seconds": "ten"}', '{"seconds": -1}', '{"device": 3}', "[]", "{", "\udcff"]
)
def test_a_record_of_another_form_counts_as_none(text, tmp_path):
    path = tmp_path / "provenance.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert read_record(path) is None
    path.write_text('{"seconds": 1.5, "more": 0}')
    assert read_record(path).seconds == 1.5
    path.unlink()
    os.mkfifo(path)  # which nobody writes to
    assert read_record(path) is None


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_cache_of_a_library_that_cannot_be_written_is_one_sentence(code):
    from huggingface_hub.constants import HF_HOME

    kind = OSError if code == errno.ENOSPC else UserError
    for place in (HF_HOME, os.path.join(HF_HOME, "modules", "x")):
        with pytest.raises(kind) as caught, files.library_cache():
            raise OSError(code, os.strerror(code), place)
        assert ("set HF_HOME" in str(caught.value)) == (kind is UserError)
    with pytest.raises(OSError, match="elsewhere"), files.library_cache():
        raise OSError(code, os.strerror(code), "/elsewhere")


# Progress in a log: lines, at most one every few seconds


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by four seconds whenever it is asked."""
    ticks = itertools.count(0, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))


def test_a_log_has_lines_with_the_time_left(clock, capsys):
    assert list(progress.track("abcd", 4, "items")) == list("abcd")
    assert capsys.readouterr().err == ("items 2/4  8 s  eta 8 s\nitems 4/4  16 s  eta 0 s\n")


def test_of_a_run_the_time_left_is_a_lower_bound_while_most_steps_are_of_new_rules():
    handler = object.__new__(LogHandler)
    handler.planned, handler.busy = Counter(fetch=2, prune=2, evaluate=3), 70.0
    handler.began, handler.took = time.monotonic() - 35.0, {"fetch": [10.0], "prune": [60.0]}
    assert handler.left() == (pytest.approx((10 + 60 + 3 * 10) / 2, rel=0.01), False)
    handler.took = {"fetch": [10.0, 10.0], "evaluate": [50.0]}
    assert handler.left() == (pytest.approx((2 * 10 + 2 * 50) / 2, rel=0.01), True)
