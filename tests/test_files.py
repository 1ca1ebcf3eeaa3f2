import errno
import gzip
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debias_sparsegpt import files
from debias_sparsegpt.errors import UserError

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


def test_a_full_disk_is_one_sentence(tmp_path):
    with (
        pytest.raises(UserError, match="the disk is full: free some space"),
        files.atomic_path(tmp_path / "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1, "text": "a"}\n{"id": 2\n', "line 2 does not parse"),
        ('{"id": 1, "text": "a"}\n\n[1]\n', "line 3 of .* got list"),
        ('{"id": 1}\n', "line 1 lacks text"),
    ],
)
def test_broken_rows_are_named_by_line(tmp_path, text, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        files.read_jsonl(path, ["id", "text"])


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1}\n' * 500)[:-20])
    with pytest.raises(UserError, match=r"rows\.jsonl\.gz is damaged"):
        files.read_jsonl(path)
