"""The world stands beside the main package, which knows it by files and commands alone."""

import ast


def test_the_main_package_imports_nothing_of_the_world(repo):
    for file in (repo / "src/evenprune").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [n for n in names if n.split(".")[0] == "evenprune_world"], file
