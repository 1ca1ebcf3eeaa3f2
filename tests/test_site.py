"""The documentation: links, the site's navigation, generated pages, and the site itself."""

import os
import posixpath
import re
import shutil
import subprocess
from html.parser import HTMLParser

import commands
import pytest
import site_pages
import stages

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def pages(repo):
    """Return the Markdown pages that link to each other, by their place in the repository."""
    outside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md"]
    return [*(repo / name for name in outside), *sorted((repo / "docs").rglob("*.md"))]


def anchors(page):
    """Return the anchors of a page's headings, as GitHub and mkdocs name them."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", head.lower().strip())) for head in heads}


def test_relative_links_of_all_pages_lead_somewhere(repo):
    broken, count = [], 0
    for page in pages(repo):
        text = CODE.sub("", FENCE.sub("", page.read_text()))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if ":" in target:
                continue
            count += 1
            path, _, anchor = target.partition("#")
            other = page.parent / path if path else page
            if not other.exists() or (anchor and anchor not in anchors(other)):
                broken.append(f"{page.relative_to(repo)}: {target}")
    assert broken == []
    assert count > 60
    # Files that CONTRIBUTING.md names in its text, or makes as an example.
    rooms = r"(?:src|tests|config|docs|workflow)/[\w./-]+\.(?:py|yaml|md|smk)"
    named = set(re.findall(rooms, (repo / "CONTRIBUTING.md").read_text()))
    assert {name for name in named if not (repo / name).is_file()} == {
        "src/evenprune/methods/random.py"
    }


def test_every_page_is_in_the_navigation_and_exists(repo):
    nav = re.findall(r"[\w/-]+\.md", (repo / "mkdocs.yml").read_text())
    assert len(nav) == len(set(nav))
    assert all((repo / path).is_file() for path in site_pages.OUTSIDE)
    found = {str(page.relative_to(repo / "docs")) for page in (repo / "docs").rglob("*.md")}
    assert set(nav) == found | set(site_pages.OUTSIDE.values())


@pytest.mark.slow
def test_the_reference_of_commands_is_current():
    assert commands.page() == commands.PAGE.read_text(), "run `make docs`"


@pytest.mark.slow
@pytest.mark.workflow
def test_the_drawn_stages_are_the_present_rules():
    page = stages.PAGE.read_text()
    assert stages.drawn(page) == page, "run `make docs`"


class References(HTMLParser):
    """Collects what a browser fetches by itself, and the tables of a page."""

    FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}

    def __init__(self):
        super().__init__()
        self.found, self.tables = [], 0

    def handle_starttag(self, tag, attrs):
        value = dict(attrs).get(self.FETCHED.get(tag, ""))
        self.tables += tag == "table"
        if value:
            self.found.append(value)


@pytest.mark.slow
def test_the_site_is_built_strictly_and_asks_no_other_host(repo, tmp_path):
    path = f"{repo / '.venv-docs/bin'}{os.pathsep}{os.environ['PATH']}"
    mkdocs = os.environ.get("EVENPRUNE_MKDOCS") or shutil.which("mkdocs", path=path)
    if not mkdocs:
        pytest.skip("no mkdocs (run `make site`, or set EVENPRUNE_MKDOCS)")
    site = tmp_path / "site"
    words, quiet = [mkdocs, "build", "--strict", "--site-dir", site], {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        words, cwd=repo, env={**os.environ, **quiet}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(site.rglob("*.py"))
    made = {str(page.relative_to(site)): page.read_text() for page in site.rglob("*.html")}
    assert {"index.html", "reference/configuration.html", "contributing.html"} <= {*made}
    for name, text in made.items():
        page = References()
        page.feed(text)
        assert not [one for one in page.found if re.match(r"(?:https?:)?//", one)], name
        # A browser draws Mermaid by a script from elsewhere, so that none may be left.
        assert "mermaid" not in re.sub(r"<(code|p|li)\b.*?</\1>", "", text, flags=re.DOTALL), name
        for one in page.found:
            if name != "404.html" and not one.startswith("data:"):
                here = posixpath.join(posixpath.dirname(name), one.partition("?")[0])
                assert (site / posixpath.normpath(here)).exists(), (name, one)
        if name == "reference/configuration.html":
            assert page.tables >= 14
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()), style


# Words that a page may have; the reference of commands and keys is generated and has no limit.
MOST = {
    "benchmarks": 900,
    "reliability": 420,
    "evaluation": 1500,
    "pruning": 1200,
    "architectures": 500,
    "cluster": 700,
    "architecture": 700,
    "world": 500,
}


def test_pages_stay_short(repo):
    """People stop early at long pages: words of a page, the generated ones left out."""
    words = {page.stem: len(page.read_text().split()) for page in (repo / "docs").glob("*.md")}
    assert not {name: words[name] for name, most in MOST.items() if words[name] > most}
    assert words["gpu"] + words["scaling"] <= 500
    assert sum(words.values()) < 18_000
