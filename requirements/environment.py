"""Print environment.yml, made from cuda.lock and vllm-cuda.lock; ``make lock`` writes it.

Where the two differ the lower version is taken: each lock holds the newest that its packages
admit. Conda takes no hashes, so that this file has the versions only.
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = """\
# Made by `make lock` from requirements/cuda.lock and requirements/vllm-cuda.lock: not to be edited.
# The versions of both, with vLLM for the serving stage, for conda users:
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


def locked(name: str) -> dict[str, str]:
    """Return package -> version of a lock file."""
    text = (HERE / f"{name}.lock").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))


def order(version: str) -> list[int]:
    """Return the numbers of a version, to compare it."""
    return [int(number) for number in re.findall(r"\d+", version)]


def environment() -> str:
    """Return the text of environment.yml."""
    found = locked("cuda")
    for package, version in locked("vllm-cuda").items():
        found[package] = min(found.get(package, version), version, key=order)
    lines = [f"      - {package}=={found[package]}\n" for package in sorted(found)]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(environment(), end="")
