"""A GGUF file as a source of a model: what it holds, and its conversion to a model folder.

transformers reads the weights and the tokenizer. It believes what a header says and drops what it
does not know, so the header is read here first: counts and ranges must fit the file, and the
values must be as many as the model asks for.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from ..io.errors import UserError, printable
from ..io.files import sha256_file
from .gguf_header import Header, key_faults, read_header, read_once, token_faults
from .gguf_tokenizer import FOLDER, asked_faults, asked_of, carried, carried_faults, ends, refuse
from .loading import check_depth, check_finite_weights, library_errors, pretrained, quiet
from .stored import Stored
from .tensors import write_tensors

ALONE, NAMED = 0.99, 5  # share of a form that is named alone, % of one that is named at all


def stored_as(path: Path, header: Header) -> tuple[str, Stored]:
    """Return what the matrices of a file's blocks are stored as, in words, and what the file takes.

    Of a file without blocks all matrices count. Of several forms the words name the shares of the
    values, and the most frequent one's bits. Raises UserError for a file that holds no matrix.
    """
    matrices = {name: one for name, one in header.tensors.items() if len(one.shape) > 1}
    inside = [one for name, one in matrices.items() if name.startswith("blk.")]
    counts: Counter[GGMLQuantizationType] = Counter()
    size = 0
    for tensor in inside or matrices.values():
        counts[tensor.tensor_type] += tensor.n_elements
        size += tensor.n_bytes
    most = counts.most_common(1)[0][0] if counts else None
    if most is None:
        raise UserError(
            f"expected a model's weights in {path}, found no matrix; fetch another file"
        )
    named, values, bits = most.name, counts.total(), re.findall(r"\d+", most.name)[0]
    if counts[most] < ALONE * values:
        shares = ((kind.name, 100 * count / values) for kind, count in counts.most_common())
        named = ", ".join(f"{kind} {share:.0f} %" for kind, share in shares if share >= NAMED)
    unpacked = ", de-quantised" if GGML_QUANT_SIZES[most][0] > 1 else ""
    return (
        f"{bits}-bit weights ({named}){unpacked}",
        Stored(8 * size / values, path.stat().st_size, f"GGUF {named}{unpacked}"),
    )


def convert_gguf(path: Path, new: Path, dtype: str = "bfloat16") -> dict[str, Any]:
    """Convert a GGUF file to a Hugging Face model folder in the empty folder ``new``.

    The same file gives the same bytes, whatever its name and place are. Returns what the
    ``weights`` are stored as, the ``file``, its ``sha256`` and what is ``stored``.
    Raises UserError for a file that is damaged, no
    GGUF, or of another model than transformers can read completely.
    """
    header = read_header(path)
    weights, stored = stored_as(path, header)
    refuse(token_faults(path, header))
    asked = asked_of(header.keys)
    refuse(asked_faults(path, header.keys, asked))
    source = {"weights": weights, "file": path.name, "sha256": sha256_file(path)}
    said = f"converting {printable(path.name)} ({weights}) to a model folder in {dtype}"
    print(said, file=sys.stderr, flush=True)
    # Alone in a folder, so that no file next to it is taken for a part of the tokenizer.
    link = new / "model.gguf"
    link.symlink_to(path.resolve())
    place: Any = {"gguf_file": link.name, "local_files_only": True}
    with read_once(header), quiet(), library_errors(path, "configuration"):
        config: Any = AutoConfig.from_pretrained(new, **place)
    _check_size(path, header, config)
    refuse(key_faults(path, header, config))
    with read_once(header), quiet(), library_errors(path, "tokenizer"):
        read = AutoTokenizer.from_pretrained(new, **place)
        tokenizer = carried(read, path, header.keys, asked)
    with read_once(header), quiet(), library_errors(path, "model"):
        # In float32, in which the blocks are unpacked, so that nothing is rounded twice.
        how = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
        model, found = pretrained(new, config=config, gguf_file=link.name, **how)
        if found["missing_keys"]:  # they were drawn at random
            raise ValueError(f"no tensor is {min(found['missing_keys'])}")
        model.to(getattr(torch, dtype))
    check_finite_weights(model, path)
    link.unlink()
    # The model's own configuration still says that it is quantised.
    config.architectures, config.dtype = [type(model).__name__], dtype
    config.save_pretrained(new)
    if further := ends(header.keys):
        eos = [asked.special["eos_token"]] if "eos_token" in asked.special else []
        model.generation_config.eos_token_id = sorted({*eos, *further})
    model.generation_config.save_pretrained(new)
    tokenizer.save_pretrained(new)
    refuse(carried_faults(tokenizer, new, path, asked))
    write_tensors(new / "model.safetensors", _state(model))
    return {**source, "stored": stored.as_dict()}


def _state(model: Any) -> dict[str, Any]:
    """Return a model's tensors by name; a tied one under the first of its names alone."""
    state = model.state_dict(keep_vars=True)
    first = {id(value): name for name, value in reversed(state.items())}
    return {name: state[name].detach() for name in first.values()}


def _check_size(path: Path, header: Header, config: Any) -> None:
    """Raise UserError unless the model of ``config`` has as many values as the file holds."""
    check_depth(config, f"the header of {path}")
    with quiet(), library_errors(path, "model"), torch.device("meta"):
        asked = sum(map(torch.numel, _state(AutoModelForCausalLM.from_config(config)).values()))
    held = sum(tensor.n_elements for tensor in header.tensors.values())
    if held != asked:
        raise UserError(
            f"expected {asked} weights in {path} for the model that its header describes, found "
            f"{held}; transformers would drop some or draw some at random, so {FOLDER}"
        )
