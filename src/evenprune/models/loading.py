"""Loading a Hugging Face model folder, with clear errors for damaged or incomplete ones."""

import contextlib
import ctypes
import io
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.errors import UserError, few, shown
from ..io.files import library_cache
from ..io.reading import read_json
from .bos import EMBEDDINGS, tokens_of
from .quantised import ON_META, loading_options, quantised_by, require_backend, settle
from .raw_files import check_config, check_tokenizer
from .trust import FLAG, is_trusted
from .weights import Entry, read_weights

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

M_MMAP_THRESHOLD = -3  # mallopt's number of that parameter, from malloc.h
HEAP_TENSOR = 16 << 20  # bytes; larger tensors are mapped by themselves and leave no holes
DTYPES = ("auto", "float32", "bfloat16", "float16")
ADAPTER = "adapter_config.json"
EXPORT = "sparse24.json"
MAX_DEPTH = 1_000  # layers; a damaged number must not fill the memory with empty modules
TOKENIZER = "tokenizer.json"
SLACK = 64 << 20  # bytes of tables that any model may have, such as masks of positions
PROBE = "The quick brown fox."
SAID = 300  # characters of a library's message that are passed on


def own_dtype(dtype: str, config: Any) -> str:
    """Return ``dtype``, for ``auto`` the checkpoint's own where its configuration names one.

    vLLM's own ``auto`` would turn float32 into a half precision, other than transformers'.
    """
    named = str(getattr(config, "dtype", None)).removeprefix("torch.")
    return named if dtype == "auto" and named in DTYPES else dtype


def weight_files(folder: Path | str) -> list[Path]:
    """Return a model folder's safetensors files in sorted order, after the checks on them."""
    return sorted({entry.file for entry in read_folder(folder).values()})


def read_folder(folder: Path | str) -> dict[str, Entry]:
    """Return the tensors of a model folder's weight files, single or sharded.

    Every file's header is checked against its size and the index against the files, so damage
    is found before anything is computed. Raises UserError naming the file otherwise.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        found = "that is a file" if folder.is_file() else "it has no config.json"
        raise UserError(
            f"expected a Hugging Face model folder at {folder}, but {found}; check the path"
        )
    if (folder / ADAPTER).exists():
        raise UserError(
            f"{folder} holds an adapter ({ADAPTER}), which some libraries add to the weights and "
            "others do not; merge it into the weights, or remove its files"
        )
    if (folder / EXPORT).is_file():
        raise UserError(
            f"{folder} is a 2:4 export, whose weights are compressed; give the pruned checkpoint "
            "that it was made from (benchmark-serving takes either)"
        )
    return read_weights(folder)


@contextlib.contextmanager
def library_errors(folder: Path | str, what: str) -> Iterator[None]:
    """Turn what a library raises on a damaged model folder into one UserError.

    The libraries raise some twenty types; only their own calls belong inside. ``what`` is what
    was to be loaded.
    """
    try:
        with library_cache():
            yield
    except (UserError, MemoryError):
        raise
    except BaseException as error:
        # What tokenizers' Rust code raises when it panics is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        said = " ".join(str(error).split())
        if FLAG in said:
            raise UserError(
                f"the {what} in {folder} needs Python code of its own (auto_map), which is not "
                "run; take another model, or read that code and allow it with "
                f"models.<name>.{FLAG}: true (--trust-remote-code)"
            ) from None
        raise UserError(
            f"the {what} in {folder} does not load ({type(error).__name__}: {said[:SAID]}); "
            "fetch the model again, or check that this version of transformers knows it"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the bars and warnings of the libraries from the terminal and the log."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)


def load_config(folder: Path | str) -> "PreTrainedConfig":
    """Return a model folder's configuration.

    Raises UserError for one that does not parse or that transformers does not know, and for
    one that allows its code but takes it from another repository, where it is not pinned.
    """
    from transformers import AutoConfig

    folder = Path(folder)
    raw = read_json(folder / "config.json", finite=False)
    places = raw.get("auto_map")
    if is_trusted(folder) and "--" in str(places):
        raise UserError(
            f"the auto_map of {folder / 'config.json'} takes code from another repository "
            f"({shown(places)}), which is not pinned; put that file into the folder and name it "
            "there"
        )
    check_config(folder / "config.json", raw)
    with library_errors(folder, "configuration"):
        config = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=is_trusted(folder)
        )
    check_depth(config, f"the config.json in {folder}")
    # How it is computed is not for a model's file to say: numbers would differ without a record.
    config._attn_implementation = config._experts_implementation = None
    for part in (config, config.get_text_config()):
        part.return_dict = True
    return config


def check_depth(config: Any, where: str) -> None:
    """Raise UserError for a number of layers that no model has; ``where`` it stands."""
    depth = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(depth, int) and not 0 < depth <= MAX_DEPTH:
        raise UserError(
            f"{where} has {depth} for the number of layers, expected 1 to {MAX_DEPTH}; fetch the "
            "model again"
        )


def load_tokenizer(folder: Path | str) -> "PreTrainedTokenizerBase":
    """Load a tokenizer from a local folder only; raise UserError when there is none."""
    from transformers import AutoTokenizer

    folder = Path(folder)
    names = (TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt")
    if not any((folder / name).is_file() for name in names):
        raise UserError(
            f"expected a tokenizer in {folder} (one of {', '.join(names)}), found none; "
            "copy the tokenizer files of the base model there"
        )
    if (folder / TOKENIZER).is_file():
        check_tokenizer(folder / TOKENIZER)
    with library_errors(folder, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=is_trusted(folder)
        )
        # What is broken may show only when it is used.
        again = str(tokenizer.decode(tokenizer(PROBE, add_special_tokens=False)["input_ids"]))
    if (folder / "config.json").is_file():
        size = getattr(load_config(folder).get_text_config(), "vocab_size", None)
        setattr(tokenizer, EMBEDDINGS, size or math.inf)
    tokens_of(tokenizer, [PROBE])
    if again.split() != PROBE.split():
        _note_lost(folder, again)
    return tokenizer


@cache
def _note_lost(folder: Path, again: str) -> None:
    print(
        f"note: the tokenizer in {folder} gives {again!r} back for {PROBE!r}; only what it keeps "
        "of a text counts",
        file=sys.stderr,
    )


def check_model_folder(folder: Path | str, quantised: bool = False) -> None:
    """Raise UserError unless a folder's weights are exactly those that its config.json asks for.

    From headers alone, on device meta: what transformers itself would miss, find too much or of
    another shape. Without this it draws what is missing at random and drops the rest. Quantised
    weights only with ``quantised``, and where their method's package is here.
    """
    import torch
    from transformers import AutoModelForCausalLM

    folder = Path(folder)
    stored = read_folder(folder)
    config = load_config(folder)
    method = quantised_by(config)
    if method and not quantised:
        raise UserError(
            f"the weights in {folder} are quantised ({method}), which only evaluate and compare "
            "take; give the model that was quantised, in float32, bfloat16 or float16, and "
            "quantise after pruning"
        )
    if method:
        require_backend(folder, method)
    if method and method not in ON_META:
        return
    with quiet(), library_errors(folder, "model"):  # what it says is said below, in one sentence
        with torch.device("meta"):
            bare = AutoModelForCausalLM.from_config(config, trust_remote_code=is_trusted(folder))
        _check_buffers(folder, bare)
        options = {"config": config, "device_map": "meta", "ignore_mismatched_sizes": True}
        model, found = pretrained(folder, **options)
    check_found(folder, found)
    _check_floating(folder, model, stored)


def pretrained(folder: Path | str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a causal LM as transformers loads it, and what it found missing or too much."""
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, output_loading_info=True,
        trust_remote_code=is_trusted(folder), **options,
    )  # fmt: skip
    model, found = loaded
    return model, found


def check_found(folder: Path, found: dict[str, Any], remedy: str = "fetch the model again") -> None:
    """Raise UserError for what transformers found missing, too much or of another shape."""
    mismatched = [str(item[0]) for item in found["mismatched_keys"]]
    for names, what in (
        (found["missing_keys"], "lack"),
        (found["unexpected_keys"], "hold, beyond what it asks for,"),
        (mismatched, "hold in another shape"),
    ):
        if names:
            raise UserError(
                f"the weights in {folder} do not belong to its config.json: they {what} "
                f"{few(sorted(names), 4)}; {remedy}"
            )
    if found["error_msgs"]:
        said = " ".join(str(found["error_msgs"][0]).split())
        raise UserError(f"the model in {folder} does not load ({said[:SAID]}); {remedy}")


def _check_floating(folder: Path, model: "PreTrainedModel", stored: dict[str, Entry]) -> None:
    """Raise UserError for integers where the model has real numbers: they would be converted."""
    prefix = f"{model.base_model_prefix}."
    real = {n.removeprefix(prefix) for n, p in model.named_parameters() if p.is_floating_point()}
    for name, entry in stored.items():
        if name.removeprefix(prefix) in real and "F" not in entry.dtype:
            raise UserError(
                f"{name} is stored as {entry.dtype} in {folder}, expected floats; fetch it again"
            )


def _check_buffers(folder: Path, model: "PreTrainedModel") -> None:
    """Raise UserError for tables beyond the weights that only config.json asks for."""
    asked, held = (
        sum(one.numel() * one.element_size() for one in found)
        for found in (model.buffers(), model.parameters())
    )
    if asked > held + SLACK:
        raise UserError(
            f"the config.json in {folder} asks for tables of {asked:,} bytes, more than the "
            f"weights' {held:,}; correct its number of positions, or fetch the model again"
        )


def spread(devices: Sequence[str]) -> dict[str, Any]:
    """Return how transformers puts a model's blocks, one after the other, on several GPUs."""
    import torch

    # All of what is free would leave nothing for activations and logits.
    most = {torch.device(one).index: int(0.9 * torch.cuda.mem_get_info(one)[0]) for one in devices}
    return {"device_map": "balanced", "max_memory": most}


def load_model(
    folder: Path | str,
    device: str = "cpu",
    dtype: "torch.dtype | str" = "auto",
    devices: Sequence[str] = (),
    quantised: bool = False,
    **kwargs: Any,
) -> "PreTrainedModel":
    """Load a causal LM from a local folder in evaluation mode (safetensors only).

    With more than one of ``devices`` its blocks are spread over these, in place of ``device``.
    ``dtype`` "auto" keeps the checkpoint's own. Quantised weights are taken with ``quantised``
    only. Raises UserError for a folder that is incomplete, damaged or of an unknown architecture,
    for weights that do not belong to its config.json, and for NaN or infinity in them.
    """
    from ..io.onednn import speed_up

    check_model_folder(folder, quantised)
    config = load_config(folder)
    method = quantised_by(config)
    if method:
        kwargs |= loading_options(method, device)
    if len(devices) > 1:
        kwargs |= spread(devices)
    with library_errors(folder, "model"), quiet() if method else contextlib.nullcontext():
        model, found = pretrained(folder, config=config, dtype=dtype, **kwargs)
    check_found(Path(folder), found)
    settle(model, method, Path(folder))
    if len(devices) <= 1 and not method:
        model = model.to(device)
    model.eval()
    check_finite_weights(model, folder)
    speed_up(model)
    return model


def check_finite_weights(model: "PreTrainedModel", folder: Path | str) -> None:
    """Raise UserError that names the first loaded parameter with NaN or infinity."""
    from ..io.onednn import is_plain

    for name, parameter in model.named_parameters():
        values: Any = parameter.detach()
        if not all_finite(values if is_plain(values) else values.dequantize()):
            raise UserError(
                f"NaN or infinity in {name} of {folder}, as {str(parameter.dtype)[6:]}; "
                "fetch or prune the model again, or choose a dtype with a wider range"
            )


def all_finite(values: "Tensor") -> bool:
    """Return whether a tensor has neither NaN nor infinity.

    Their sum is not finite either, and is found several times faster. A sum of finite values
    may overflow; then all are looked at.
    """
    import torch

    if not values.is_floating_point():
        return True
    if values.dtype.itemsize == 1:
        values = values.float()
    return bool(torch.isfinite(total_of(values))) or bool(torch.isfinite(values).all())


def total_of(values: "Tensor") -> "Tensor":
    """Return the sum () of a tensor, in float32 at least; not finite where one of them is not."""
    import torch

    return values.sum(dtype=torch.promote_types(values.dtype, torch.float32))


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
    found = re.fullmatch(r"\s*(\d{0,4})\s*(,.*)?", given, re.ASCII)
    if not found:
        raise UserError(
            f"expected OMP_NUM_THREADS to be a number of threads from 1 to 9999, got "
            f"{shown(given)}; correct or unset it"
        )
    if threads := int(found[1] or 0):
        torch.set_num_threads(threads)
    return torch.get_num_threads()
