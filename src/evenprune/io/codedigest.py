"""A digest of the code a workflow step runs, so that a changed step reruns and a comment does not.

Snakemake tracks the text of a rule, not the package behind it. Each rule therefore passes
``code_digest(module)`` as a parameter. The digest covers the module and every module of this
package and its own that it imports, directly or not, as written from their syntax trees:
comments, formatting, docstrings, words for people (``SAID``, ``WORDS``), what only type checkers
read, and unrelated modules do not change it. Files of the package
that a module reads belong to its code: it names them in ``DATA_FILES``, paths beside it, where a
folder stands for all files in it.
"""

import ast
import functools
import hashlib
from collections.abc import Collection
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.util import resolve_name
from pathlib import Path

from .files import sha256_file

PACKAGE = "evenprune"
ROOT = Path(__file__).parents[2]
DATA = "DATA_FILES"
# What decides how something is said or where models and data lie, not what is computed: no
# result changes with it.
IGNORED = {PACKAGE} | {
    f"{PACKAGE}.{name}"
    for name in (
        *("cli", "io.codedigest", "io.errors", "io.progress", "io.provenance"),
        *("config.checks", "config.field_errors", "data.hub_models", "models.cards"),
        *("config.pruning_keys", "data.defaults"),  # jobs get all options by name
        *("pruning.card", "pruning.provenance", "serving.export_card"),
    )
}
# Calls and keywords whose arguments are words for people.
SAID = ("print", "UserError", "Progress")
WORDS = ("help", "metavar", "description")


def module_file(module: str) -> Path | None:
    """Return the source file of a module, or None if its package has no such module."""
    package, *names = module.split(".")
    folder = ROOT / package if package == PACKAGE else Path(str(resources.files(package)))
    base = folder.joinpath(*names)
    return next(filter(Path.is_file, (base.with_suffix(".py"), base / "__init__.py")), None)


def _data_files(module: str, file: Path, tree: ast.Module) -> str:
    """Return names and checksums of the files that a module names in ``DATA_FILES``."""
    lines = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or [ast.unparse(t) for t in node.targets] != [DATA]:
            continue
        for name in ast.literal_eval(node.value):
            path = file.parent / name
            files = [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
            if not files:
                raise ValueError(f"{module} names {name} in {DATA}, but there is no such file")
            lines += [f"{one.relative_to(file.parent)} {sha256_file(one)}" for one in files]
    return "\n".join(lines)


def _name(node: ast.AST | None) -> str:
    """Return the name that an expression ends in: ``b`` of ``a.b``, "" of anything else."""
    if isinstance(node, ast.Constant):  # a quoted annotation
        return str(node.value)
    return getattr(node, "id", getattr(node, "attr", ""))


def _is_text(node: ast.AST) -> bool:
    """Return whether a node is a text, or a statement of one: a docstring, also of a key."""
    said = node.value if isinstance(node, ast.Expr) else node
    return isinstance(said, ast.JoinedStr) or isinstance(getattr(said, "value", None), str)


def _drop_words(node: ast.AST) -> None:
    """Take out of a node of a syntax tree what is said and not computed.

    That is docstrings, the arguments of ``SAID``, the keywords ``WORDS``, the text of every
    exception that is raised, the bodies of functions that return a UserError, and blocks
    ``if TYPE_CHECKING``.
    """
    if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
        node.body = [ast.Pass()]
    elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        node.body = [one for one in node.body if not _is_text(one)]
        if _name(getattr(node, "returns", None)) == "UserError":
            node.body = [ast.Pass()]
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in SAID:
            node.args, node.keywords = [], []
        node.keywords = [word for word in node.keywords if word.arg not in WORDS]
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node.exc.args = [one for one in node.exc.args if not _is_text(one)]


@functools.cache
def _parse(module: str) -> tuple[str, frozenset[str]]:
    """Return the module's code and the package modules it imports.

    The code is its source without words, and the checksums of its data files.
    """
    file = module_file(module)
    if file is None:
        raise ValueError(f"there is no module {module}")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    imports: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        _drop_words(node)  # before its parts are looked at
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            imports.add(base)
            imports.update(f"{base}.{alias.name}" for alias in node.names)
    packages = {PACKAGE, module.split(".")[0]}
    own = {name for name in imports if name.split(".")[0] in packages and module_file(name)}
    return f"{ast.unparse(tree)}\n{_data_files(module, file, tree)}", frozenset(own - IGNORED)


def import_closure(module: str, given: Collection[str] = ()) -> list[str]:
    """Return ``module`` and all modules of the package and its own that it imports, sorted.

    Without those of ``given`` and what only they import.
    """
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(_parse(name)[1].difference(given))
    return sorted(seen)


@functools.cache
def code_digest(module: str, given: tuple[str, ...] = ()) -> str:
    """Return 16 hex digits for the code of ``module`` and its import closure.

    ``module`` is the full name, e.g. ``evenprune.pruning.prune``; ``given`` are those of modules
    of which the caller holds what counts, as values of its own. The value depends on the Python
    minor version, whose syntax trees differ.
    """
    total = hashlib.sha256()
    for name in import_closure(module, given):
        total.update(f"{name}\n{_parse(name)[0]}\n".encode())
    return total.hexdigest()[:16]


@functools.cache  # reading a package's metadata takes 2 ms
def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return "absent"


def package_versions(*names: str) -> dict[str, str]:
    """Return the installed versions of packages, without build tags such as ``+cpu``."""
    return {name: _installed(name) for name in names}
