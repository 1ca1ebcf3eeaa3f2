"""Draw the stages in architecture.md, a Mermaid graph, from the workflow's own graph of rules.

A group is a file of rules; an arrow that follows from others is left out.
`python docs/stages.py` writes the page again.
"""

import re
import subprocess
import tempfile
from collections.abc import Mapping

import networkx
from pages import REPO, between, write

PAGE = REPO / "docs" / "architecture.md"
RULE = re.compile(r"^\s*(?:rule|use rule \w+ as) (\w+)(?: with)?:", re.MULTILINE)
BEGIN, END = "<!-- stages -->\n", "<!-- end of stages -->"


def rule_graph() -> str:
    """Return the graph of rules of config/world.yaml, as Snakemake writes it in Mermaid."""
    with tempfile.TemporaryDirectory() as empty:
        # Whatever the machine has: a PDF is made where LaTeX is.
        words = ["--cores", "1", "--config", "pdf=True", "--rulegraph", "mermaid-js"]
        place = ["--snakefile", str(REPO / "Snakefile"), "--directory", empty]
        place += ["--configfile", str(REPO / "config" / "world.yaml")]
        done = subprocess.run(
            ["snakemake", *place, *words], cwd=REPO, check=True, stdout=subprocess.PIPE, text=True
        )
    return done.stdout


def rule_files() -> dict[str, str]:
    """Return rule -> the file that has it, without suffix."""
    found = {}
    for file in [*REPO.glob("workflow/rules/*.smk"), *REPO.glob("worlds/*/*.smk")]:
        found |= dict.fromkeys(RULE.findall(file.read_text(encoding="utf-8")), file.stem)
    return found


def picture(graph: str, files: Mapping[str, str]) -> str:
    """Return the Mermaid text of the stages, given Snakemake's and where each rule stands."""
    names = dict(re.findall(r"^\s*(id\d+)\[(\w+)\]", graph, re.MULTILINE))
    arrows = re.findall(r"^\s*(id\d+) --> (id\d+)", graph, re.MULTILINE)
    steps = networkx.DiGraph((names[one], names[other]) for one, other in arrows)
    steps.remove_node("default")
    steps = networkx.transitive_reduction(steps)
    order = list(networkx.lexicographical_topological_sort(steps))
    lines = ["```mermaid", "flowchart TB"]
    for file in dict.fromkeys(files[name] for name in order):
        inside = [name for name in order if files[name] == file]
        lines += [f"  subgraph {file}.smk", *(f"    {name}" for name in inside), "  end"]
    arrows = sorted(steps.edges, key=lambda arrow: (order.index(arrow[0]), order.index(arrow[1])))
    lines += [f"  {one} --> {other}" for one, other in arrows]
    return "\n".join([*lines, "```", ""])


def drawn(page: str) -> str:
    """Return the page with the picture of the present workflow."""
    return between(page, BEGIN, END, picture(rule_graph(), rule_files()))


if __name__ == "__main__":
    write(PAGE, drawn(PAGE.read_text(encoding="utf-8")))
