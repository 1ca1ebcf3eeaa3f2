"""Hook of mkdocs: pages of the site from outside of docs/, links to them, the steps as a list."""

import posixpath
import re
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
# file of the repository -> page of the site
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "config/README.md": "reference/configuration.md",
}
STAGES = re.compile(r"<!-- stages -->\n.*?<!-- end of stages -->", re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside."""
    from mkdocs.structure.files import File  # only mkdocs, which calls this, needs to have it

    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(REPO / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page as the site shows it."""
    return shown(markdown, page.file.src_uri)


def _listed(drawing: re.Match[str]) -> str:
    files = re.findall(r"subgraph (\S+)\n(.*?)\n  end", drawing[0], re.DOTALL)
    return "\n".join(f"- `{name}`: {', '.join(rules.split())}" for name, rules in files)


def shown(markdown: str, page: str) -> str:
    """Return the text of ``page``, as it is named in the site, with links that hold there.

    The drawing of the steps becomes a list: a browser draws Mermaid only by a foreign script.
    Marks of generated parts go, and nested items are indented as Python's Markdown has them.
    """
    inside = {site: path for path, site in OUTSIDE.items()}
    origin = inside.get(page, f"docs/{page}")
    text = STAGES.sub(_listed, markdown)
    text = re.sub(r"^<!-- .* -->$", "", text, flags=re.MULTILINE)
    if page in inside:
        text = re.sub(r"^ {3}(?=\S)", "    ", text, flags=re.MULTILINE)

    def link(found: re.Match[str]) -> str:
        target, mark, anchor = found[1].partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        site = OUTSIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not target or ":" in target or not site:  # what is nowhere, the strict build names
            return found[0]
        return f"]({posixpath.relpath(site, posixpath.dirname(page) or '.')}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)
