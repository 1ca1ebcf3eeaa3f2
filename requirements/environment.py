"""Split the resolved environment into its locks and print environment.yml; ``make lock`` does both.

    python requirements/environment.py split ALL    core.lock and torch.lock from one resolution
    python requirements/environment.py > environment.yml

torch and the libraries of its default build have a lock of their own: where a CPU build is
installed they stay away. Of a package that both core.lock and vllm-cuda.lock have, environment.yml
takes the lower version: each lock holds the newest that its packages admit. Conda takes no hashes.
"""

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
# Torch, its compiler and CUDA's libraries; nvidia-ml-py is CodeCarbon's.
OF_TORCH = re.compile(r"(torch|triton|cuda-\S+|nvidia-(?!ml-py)\S+)==")
# Where environment.yml is meant for
LINUX = {
    "sys_platform": "linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "python_version": "3.11",
    "python_full_version": "3.11.15",
}
HEAD = """\
# Made by `make lock` from requirements/*.lock: not to be edited.
# The versions of both environments, with vLLM for the serving stage, for conda users:
#   conda env create -f environment.yml && conda activate evenprune
# Only `make env` and `make vllm-env` check hashes. torch is the build for CUDA, which also runs on
# a CPU.
name: evenprune
channels:
  - conda-forge
dependencies:
  - python=3.11
  - make
  - pip
  - pip:
"""


def entries(text: str) -> list[str]:
    """Return the entries of a lock file, each with the lines of its hashes."""
    return [f"{entry}\n" for entry in re.split(r"\n(?=\S)", text.strip())]


def split(resolved: Path) -> None:
    """Write core.lock and torch.lock from one resolution of core.in."""
    for name, wanted in (("core", False), ("torch", True)):
        chosen = [e for e in entries(resolved.read_text()) if bool(OF_TORCH.match(e)) is wanted]
        (HERE / f"{name}.lock").write_text("".join(chosen), encoding="utf-8")


def locked(*names: str) -> dict[str, str]:
    """Return package -> version of lock files, as far as they are meant for Linux on x86-64."""
    found = {}
    for name in names:
        for entry in entries((HERE / f"{name}.lock").read_text(encoding="utf-8")):
            asked = Requirement(entry.partition("\\")[0].strip())
            if asked.marker is None or asked.marker.evaluate(LINUX):
                found[asked.name] = str(asked.specifier).removeprefix("==")
    return found


def order(version: str) -> list[int]:
    """Return the numbers of a version, to compare it."""
    return [int(number) for number in re.findall(r"\d+", version)]


def environment() -> str:
    """Return the text of environment.yml."""
    found = locked("core", "torch")
    for package, version in locked("vllm-cuda").items():
        found[package] = min(found.get(package, version), version, key=order)
    lines = [f"      - {package}=={found[package]}\n" for package in sorted(found)]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["split"]:
        split(Path(sys.argv[2]))
    else:
        print(environment(), end="")
