"""Runs of Snakemake, each in a fork of one process that has loaded it.

Loading Snakemake takes longer than planning a small run. Nothing of the project is loaded there: a
run takes it from its own folder.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOADED = multiprocessing.get_context("forkserver")
LOADED.set_forkserver_preload(["numpy", "pandas", "pydantic", "snakemake.cli"])


def run(folder, words, path, out):
    """Run Snakemake in this process, which ends with its status; what it says is for a file."""
    import snakemake.cli

    file = os.open(out, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.chdir(folder)
    os.environ["PATH"] = path
    os.environ.pop("OMP_NUM_THREADS", None)
    snakemake.cli.main(words)


def snakemake(folder, *words, path=""):
    """Run Snakemake in ``folder`` with this Python; return its status and all that it printed.

    ``path`` comes first in the search path of its jobs.
    """
    path = ":".join(filter(None, [path, os.path.dirname(sys.executable), os.environ["PATH"]]))
    with tempfile.NamedTemporaryFile() as out:
        words = [*map(str, words)]
        process = LOADED.Process(target=run, args=(str(folder), words, path, out.name))
        process.start()
        process.join()
        said = Path(out.name).read_text(errors="replace")
    return subprocess.CompletedProcess(words, process.exitcode, said, "")
