"""Loading a Hugging Face model folder, with clear errors for damaged or incomplete ones."""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UserError, shown

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

M_MMAP_THRESHOLD = -3  # mallopt's number of that parameter, from malloc.h
HEAP_TENSOR = 16 << 20  # bytes; larger tensors are mapped by themselves and leave no holes
DTYPES = ("auto", "float32", "bfloat16", "float16")


def check_dtype(dtype: str) -> None:
    """Raise UserError for a dtype that is none of ``DTYPES``."""
    if dtype not in DTYPES:
        raise UserError(f"--dtype got {dtype!r}, expected one of {', '.join(DTYPES)}")


def own_dtype(dtype: str, config: Any) -> str:
    """Return ``dtype``, for ``auto`` the checkpoint's own where its configuration names one.

    vLLM's own ``auto`` would turn float32 into a half precision, other than transformers'.
    """
    named = str(getattr(config, "dtype", None)).removeprefix("torch.")
    return named if dtype == "auto" and named in DTYPES else dtype


def weight_files(folder: Path | str) -> list[Path]:
    """Return a model folder's safetensors files, single or sharded, in sorted order.

    Every file's header is checked against its size, so a truncated download is found
    before anything is computed. Raises UserError naming the file otherwise.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"expected a Hugging Face model folder at {folder}, but it has no config.json; "
            "check the path"
        )
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        files = [folder / name for name in names]
    else:
        files = [folder / "model.safetensors"]
    for file in files:
        if not file.is_file():
            raise UserError(
                f"expected safetensors weights at {file}, found none; "
                "convert the checkpoint to safetensors or fetch it again "
                "(pickled weights are not read)"
            )
        check_safetensors(file)
    return files


def check_safetensors(file: Path) -> None:
    """Raise UserError if a safetensors file is shorter or longer than its header says."""
    size = file.stat().st_size
    with open(file, "rb") as handle:
        head = handle.read(8)
        length = int.from_bytes(head, "little")
        try:
            if len(head) < 8 or length > size - 8:
                raise ValueError
            header = json.loads(handle.read(length))
        except ValueError:
            raise UserError(
                f"{file} is not a whole safetensors file ({size} bytes, its header does not fit); "
                "fetch it again"
            ) from None
    header.pop("__metadata__", None)
    expected = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if size != expected:
        raise UserError(
            f"{file} is truncated or damaged: expected {expected} bytes, got {size}; fetch it again"
        )


def load_tokenizer(folder: Path | str) -> "PreTrainedTokenizerBase":
    """Load a tokenizer from a local folder only; raise UserError when there is none."""
    from transformers import AutoTokenizer

    folder = Path(folder)
    names = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
    if not any((folder / name).is_file() for name in names):
        raise UserError(
            f"expected a tokenizer in {folder} (one of {', '.join(names)}), found none; "
            "copy the tokenizer files of the base model there"
        )
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UserError(f"the tokenizer in {folder} does not load: {error}") from None


def load_model(
    folder: Path | str, device: str = "cpu", dtype: "torch.dtype | str" = "auto", **kwargs: Any
) -> "PreTrainedModel":
    """Load a causal LM from a local folder in evaluation mode (safetensors only).

    ``dtype`` "auto" keeps the checkpoint's own. Raises UserError for a folder that is
    incomplete, truncated or of an unknown architecture.
    """
    from transformers import AutoModelForCausalLM

    weight_files(folder)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True, **kwargs
        )
    except (OSError, ValueError) as error:
        raise UserError(f"the model in {folder} does not load: {error}") from None
    return model.to(device).eval()


def pick_device(device: str | None = None) -> str:
    """Return ``device``, or "cuda" where there is a GPU and "cpu" elsewhere.

    Raises UserError when "cuda" is asked for and there is none.
    """
    import torch

    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UserError("--device cuda was asked for, but torch sees no GPU here; use --device cpu")
    return device or ("cuda" if available else "cpu")


def tame_heap() -> None:
    """Keep large tensors out of the C library's heap, where that library is glibc.

    glibc moves its own limit up to 32 MB as memory is freed. Below it, tensors share a heap
    with small objects, which keep it from shrinking: peaks then depend on what lies where.
    """
    if glibc := _glibc():
        glibc.mallopt(M_MMAP_THRESHOLD, HEAP_TENSOR)


def release_memory() -> None:
    """Give freed memory back to the system, where the C library is glibc."""
    if glibc := _glibc():
        glibc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None


def limit_threads() -> int:
    """Let torch use the threads Snakemake granted (OMP_NUM_THREADS), return their number.

    Of a list of numbers, one a level of nested threads, the first counts, as in OpenMP. Raises
    UserError for what is no such number.
    """
    import torch

    given = os.environ.get("OMP_NUM_THREADS", "")
    first = given.split(",")[0].strip() or "0"
    if not (first.isascii() and first.isdigit() and len(first) < 5):
        raise UserError(
            f"expected OMP_NUM_THREADS to be a number of threads from 1 to 9999, got "
            f"{shown(given)}; set it anew or unset it"
        )
    threads = int(first)
    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()
