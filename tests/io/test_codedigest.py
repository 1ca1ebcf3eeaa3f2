import ast

import pytest

from evenprune.io import codedigest

FILES = {
    "__init__.py": "",
    "solver.py": '"""Doc."""\nfrom .masks import cut\n\ndef run(x):\n    return cut(x)\n',
    "masks.py": "def cut(x):\n    return x + 1\n",
    "tables.py": "A = 1\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "evenprune"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(codedigest, "ROOT", tmp_path)
    yield folder
    monkeypatch.undo()
    digest("evenprune.cli")  # what is remembered is of the real package again


def digest(module="evenprune.solver"):
    codedigest._parse.cache_clear()
    codedigest.code_digest.cache_clear()
    return codedigest.code_digest(module)


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        ("solver.py", FILES["solver.py"].replace("Doc.", "Other words."), False),
        ("solver.py", FILES["solver.py"].replace("cut(x)", "cut(x) + 1"), True),
        ("masks.py", FILES["masks.py"].replace("1", "2"), True),
        ("masks.py", FILES["masks.py"].replace(":", ":  # one more"), False),
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
    folders = [*(repo / "src").rglob("*"), *(repo / "worlds/evenprune_world").rglob("*")]
    inside = [path for path in folders if path.is_file()]
    for file in (path for path in inside if path.suffix == ".py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DATA_FILES":
                named |= {file.parent / name for name in ast.literal_eval(node.value)}
    others = [
        path
        for path in inside
        if path.suffix not in (".py", ".smk")  # rules, which Snakemake compares itself
        and not path.match("*.egg-info/*")
        and "__pycache__" not in path.parts
    ]
    assert [path for path in others if not named & {path, *path.parents}] == []
