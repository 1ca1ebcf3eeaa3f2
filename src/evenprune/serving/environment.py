"""Which Python has vLLM: the interpreter of the serving environment, or the run's own.

vLLM is installed in an environment of its own, ``.venv-vllm``, which ``make vllm-env`` builds
from a lock. The package runs there from the checkout; nothing but the standard library is
imported here, because Snakemake asks while it builds its graph.
"""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from ..io.codedigest import package_versions
from ..io.errors import UserError

FOLDER = ".venv-vllm"
OWN = "python"  # the one on PATH, of the run itself or of Snakemake's conda environment


# vLLM reads these when it is imported. One process, so that energy and memory are ours.
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}


def vllm_version() -> str | None:
    """Return vLLM's version without build tags, None where it is not installed here."""
    found = package_versions("vllm", "vllm-cpu").values()
    return next((version for version in found if version != "absent"), None)


def one_line(error: Exception) -> str:
    """Return an exception as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])


def vllm_device(asked: str | None) -> str:
    """Return what vLLM is built for here, cpu or cuda; UserError where another is asked for."""
    from vllm.platforms import current_platform

    found = "cpu" if current_platform.is_cpu() else "cuda"
    if asked and asked != found:
        raise UserError(
            f"--device {asked} was asked for, but this vLLM is built for {found}; use --device "
            f"{found} or another environment"
        )
    return found


def has_vllm() -> bool:
    """Tell whether vLLM can be imported by this interpreter."""
    return importlib.util.find_spec("vllm") is not None


def built_environment(folders: Sequence[Path]) -> Path | None:
    """Return the interpreter of the first finished ``.venv-vllm`` in ``folders``, None without.

    ``make vllm-env`` leaves the file ``.installed-cpu`` or ``.installed-cuda`` when all is
    installed; an interrupted build has none and does not count.
    """
    for folder in folders:
        python = folder / FOLDER / "bin" / "python"
        if python.is_file() and any((folder / FOLDER).glob(".installed-*")):
            return python
    return None


def serving_python(
    asked: str | None, backend: str, folders: Sequence[Path], conda: bool = False
) -> str:
    """Return the Python that runs benchmark-serving.

    ``asked`` (``serving.python``) comes first, then conda's environment where Snakemake makes
    one, then ``.venv-vllm`` in one of ``folders`` unless ``backend`` is transformers, then the
    run's own. Raises UserError when ``asked`` cannot be run, and when ``backend`` is vllm and
    none of these has vLLM.
    """
    if asked is not None:
        if not os.access(asked, os.X_OK) or Path(asked).is_dir():
            raise UserError(
                f"expected a Python interpreter at serving.python: {asked}, found none; "
                "correct the path, or leave the key out and run `make vllm-env`"
            )
        return asked
    if conda:
        return OWN
    built = None if backend == "transformers" else built_environment(folders)
    if built is not None:
        return str(built)
    if backend == "vllm" and not has_vllm():
        raise UserError(
            "serving.backend is vllm, but there is no vLLM here; run `make vllm-env`, name an "
            "interpreter that has vLLM with serving.python, or set serving.backend: transformers"
        )
    return OWN
