import ast

import pytest

from evenprune.io import codedigest


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = tmp_path
    tmp_path = root / "evenprune"
    tmp_path.mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "solver.py").write_text(
        '"""Doc."""\nfrom .masks import cut\n\ndef run(x):\n    return cut(x)\n'
    )
    (tmp_path / "masks.py").write_text("def cut(x):\n    return x + 1\n")
    (tmp_path / "tables.py").write_text("A = 1\n")
    monkeypatch.setattr(codedigest, "ROOT", root)
    clear()
    yield tmp_path
    clear()


def clear():
    codedigest._parse.cache_clear()
    codedigest.code_digest.cache_clear()


def digest():
    clear()
    return codedigest.code_digest("evenprune.solver")


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        (
            "solver.py",
            '"""Other words."""\n# why\nfrom .masks import cut\ndef run(x):\n    return cut(x)\n',
            False,
        ),
        ("solver.py", "from .masks import cut\ndef run(x):\n    return cut(x) + 1\n", True),
        ("masks.py", "def cut(x):\n    return x + 2\n", True),
        ("masks.py", "def cut(x):  # one more\n    return x + 1\n", False),
        ("tables.py", "A = 2\n", False),
    ],
)
def test_digest_follows_the_code_of_the_import_closure(package, file, text, changes):
    before = digest()
    (package / file).write_text(text)
    assert (digest() != before) is changes


WORDS = """
from typing import TYPE_CHECKING
from .masks import cut
{check}
def missing(x) -> UserError:
    what = "{word}"
    return UserError(what)

class Keys:
    key: int = 1
    "{word}"

def run(x, add):
    add("--x", type=int, help="{word}", metavar="{word}")
    print("{word}", x)
    progress = Progress(3, "{word}")
    if x < 0:
        raise ValueError(f"{word} {{x}}")
    if x == {number}:
        raise UserError("{word}")
    return cut(x)
"""


def test_words_for_people_are_no_code(package):
    def words(**changes):
        given = {"word": "one", "check": "", "number": 0, **changes}
        (package / "solver.py").write_text(WORDS.format(**given))
        return digest()

    before = words()
    assert words(word="two") == before
    assert words(number=1) != before
    # What only a type checker reads is not imported.
    typed = "if TYPE_CHECKING:\n    from .{} import A\n"
    assert words(check=typed.format("masks")) == words(check=typed.format("tables"))
    (package / "tables.py").write_text("A = 3\n")
    assert words(check=typed.format("masks")) == words(check=typed.format("tables"))


def test_every_file_of_the_package_that_is_no_code_belongs_to_a_module(repo):
    named = set()
    inside = [*(repo / "src").rglob("*"), *(repo / "worlds/evenprune_world").rglob("*")]
    for file in (path for path in inside if path.suffix == ".py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DATA_FILES":
                named |= {file.parent / name for name in ast.literal_eval(node.value)}
    others = [
        path
        for path in inside
        if path.is_file()
        and path.suffix not in (".py", ".smk")  # rules, which Snakemake compares itself
        and not path.match("*.egg-info/*")
        and "__pycache__" not in path.parts
    ]
    assert [path for path in others if not named & {path, *path.parents}] == []
