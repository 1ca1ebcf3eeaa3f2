"""Finding the decoder blocks and their linear layers in any Hugging Face causal LM.

Nothing is known by name: the blocks are the ``nn.ModuleList`` of equal modules that hold
linear layers, as long as the config says; the linears are ``nn.Linear`` and the ``Conv1D`` of
GPT-2, whose weight is stored transposed. Those of experts are made by ``experts.unpack_experts``;
what routes tokens to them is none.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.pytorch_utils import Conv1D

from ..io.errors import Unsupported, UserError
from .experts import routers_of
from .loading import library_errors, load_config
from .tensors import read_tensor
from .trust import is_trusted
from .weights import Entry

PRUNABLE = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@contextlib.contextmanager
def unsupported_named(folder: Path, advice: str) -> Iterator[None]:
    """Turn an Unsupported of what is done inside into a UserError with the model's type.

    advice: what can be done, behind the reason.
    """
    try:
        yield
    except Unsupported as error:
        kind = load_config(folder).model_type
        raise UserError(
            f"a model of type {kind!r} cannot be pruned: {error.reason}; {advice}"
        ) from error


def max_positions(folder: Path) -> int:
    """Return the longest sequence that a model's config allows."""
    config = load_config(folder).get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    return limit if limit and limit > 0 else sys.maxsize  # XLNet says -1


def load_skeleton(
    folder: Path, stored: Mapping[str, Entry] | None = None, dtype: torch.dtype | None = None
) -> PreTrainedModel:
    """Return the model with every parameter on the meta device and real buffers.

    ``dtype`` is that of the config where it is None. With the ``stored`` tensors its output
    embeddings are those that transformers loads: tied to the input's where the config says so and
    no others are stored. Raises UserError for a folder whose config names no causal LM that
    transformers knows.
    """
    from accelerate import init_empty_weights

    config = load_config(folder)
    # Only the eager path of transformers computes soft-capped attention scores.
    eager = getattr(config, "attn_logit_softcapping", None) is not None
    how = {"attn_implementation": "eager" if eager else None, "dtype": dtype or config.dtype}

    def built() -> PreTrainedModel:
        with init_empty_weights(include_buffers=False):
            trust = is_trusted(folder)
            return AutoModelForCausalLM.from_config(config, trust_remote_code=trust, **how)

    with library_errors(folder, "causal language model"):
        model = built()
        if stored and _has_other_head(model, stored):
            config.get_text_config().tie_word_embeddings = False
            config.tie_word_embeddings = False
            model = built()
    return model.eval().requires_grad_(False)


def _has_other_head(model: PreTrainedModel, stored: Mapping[str, Entry]) -> bool:
    """Return whether tensors that the config ties are both stored, with different values."""
    for pair in model.all_tied_weights_keys.items():
        if all(is_stored(model, name, stored) for name in pair):
            one, other = (read_tensor(stored[stored_name(model, name, stored)]) for name in pair)
            if not torch.equal(one, other):
                return True
    return False


def find_blocks(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """Return the name and the list of decoder blocks.

    Raises UserError that says what was looked for when there is none.
    """
    depth = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == depth
        and len({type(block) for block in module}) == 1
        and find_linears(module[0])
    ]
    if len(found) != 1:
        raise Unsupported(
            f"{type(model).__name__}: expected exactly one nn.ModuleList of "
            f"{depth} decoder blocks of one class that hold nn.Linear or Conv1D layers (the "
            f"config's num_hidden_layers), found {len(found)}"
        )
    name, blocks = found[0]
    owners: dict[int, int] = {}
    for index, block in enumerate(blocks):
        for parameter in block.parameters():
            if owners.setdefault(id(parameter), index) != index:
                raise Unsupported(
                    f"{type(model).__name__}: decoder blocks {owners[id(parameter)]} and {index} "
                    "share parameters and cannot be pruned one after the other"
                )
    return name, blocks


def find_linears(block: nn.Module) -> dict[str, nn.Linear | Conv1D]:
    """Return the linear layers of one block by their name within it, without routers."""
    routers = routers_of(block)
    return {
        name: module
        for name, module in block.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and f"{name}.weight" not in routers
    }


def check_block(name: str, block: nn.Module) -> None:
    """Raise UserError for large parameters of no linear layer: they would stay dense unnoticed.

    Small ones, such as the two-dimensional norms of Cohere, are no weights to prune. Routers stay
    as they are, and so do depthwise convolutions, which multiply each channel with itself only.
    """
    linears = find_linears(block)
    exempt = routers_of(block) | {
        f"{one}.weight"
        for one, module in block.named_modules()
        if isinstance(module, nn.Conv1d) and module.weight.shape[1] == 1
    }
    smallest = min(linear.weight.numel() for linear in linears.values())
    for parameter, value in block.named_parameters():
        inside = parameter.rpartition(".")[0] in linears or parameter in exempt
        if not inside and value.ndim > 1 and value.numel() >= smallest:
            raise Unsupported(
                f"{name}.{parameter} {tuple(value.shape)} is a matrix, but not the weight of an "
                "nn.Linear or Conv1D layer, and would stay dense"
            )


def rows_of(linear: nn.Module, weight: Tensor) -> Tensor:
    """Return W (n, d) for a weight as stored, or the stored form for W: one transposition."""
    return weight.T if isinstance(linear, Conv1D) else weight


def stored_name(model: PreTrainedModel, name: str, stored: Mapping[str, Entry]) -> str:
    """Return the name under which a parameter is stored in the checkpoint.

    Checkpoints of the base model alone leave out its prefix (GPT-2 on the hub does). Raises
    UserError when the parameter is stored under neither name.
    """
    prefix = model.base_model_prefix + "."
    candidates = (name, name.removeprefix(prefix), prefix + name)
    for candidate in candidates:
        if candidate in stored:
            return candidate
    missing = (
        f"expected a tensor {name} in the checkpoint, found none under that name or without "
        f"{prefix!r}"
    )
    if get_model_conversion_mapping(model, add_legacy=False):
        raise Unsupported(
            f"{missing}: the library renames or joins tensors of this type as it loads them, which "
            "is not done here for these, or the weights do not belong to this config.json"
        )
    raise UserError(f"{missing}; the weights do not belong to this config.json")


def is_stored(model: PreTrainedModel, name: str, stored: Mapping[str, Entry]) -> bool:
    """Return whether a tensor that need not be in a checkpoint is stored in it."""
    with contextlib.suppress(UserError):
        return bool(stored_name(model, name, stored))
    return False


def set_parameter(module: nn.Module, name: str, value: Tensor) -> None:
    """Replace a parameter of a module by a tensor of any device and dtype."""
    owner, _, leaf = name.rpartition(".")
    module.get_submodule(owner)._parameters[leaf] = nn.Parameter(value, requires_grad=False)


def unload(module: nn.Module) -> None:
    """Put all parameters of a module back on the meta device, freeing their memory."""
    for name, parameter in list(module.named_parameters()):
        set_parameter(module, name, parameter.to("meta"))
