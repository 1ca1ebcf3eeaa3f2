import pytest

from debias_sparsegpt import codedigest


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "solver.py").write_text(
        '"""Doc."""\nfrom .masks import cut\n\ndef run(x):\n    return cut(x)\n'
    )
    (tmp_path / "masks.py").write_text("def cut(x):\n    return x + 1\n")
    (tmp_path / "tables.py").write_text("A = 1\n")
    monkeypatch.setattr(codedigest, "ROOT", tmp_path)
    clear()
    yield tmp_path
    clear()


def clear():
    codedigest._parse.cache_clear()
    codedigest.code_digest.cache_clear()


def digest():
    clear()
    return codedigest.code_digest("debias_sparsegpt.solver")


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


def test_unknown_module_is_an_error(package):
    with pytest.raises(ValueError, match="no module"):
        codedigest.code_digest("debias_sparsegpt.nothing")


def test_every_step_of_the_command_line_has_a_digest():
    from debias_sparsegpt.cli import COMMANDS

    clear()
    for module, _ in COMMANDS.values():
        assert len(codedigest.code_digest(f"debias_sparsegpt{module}")) == 16
