"""Quantised model folders: whether they can be loaded here, and how.

transformers loads them as the ``quantization_config`` of config.json says, with a package for each
method. Weights that it can turn back into real numbers are (compressed-tensors); activations are
rounded as that configuration asks for.
"""

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.codedigest import package_versions
from ..io.errors import UserError, shown

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

CONFIG = "quantization_config"
COMPRESSED, TORCHAO = "compressed-tensors", "torchao"
# What transformers needs for a method, as package indexes name it.
PACKAGES = {
    COMPRESSED: ("compressed-tensors",),
    TORCHAO: ("torchao",),
    "bitsandbytes": ("bitsandbytes",),
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel",),
    "auto-round": ("auto-round",),
    "aqlm": ("aqlm",),
    "hqq": ("hqq",),
    "quanto": ("optimum-quanto",),
}
# Of these a model can be made without its weights, which shows what is missing or too much.
ON_META = (COMPRESSED, TORCHAO)


def quantised_by(config: "PreTrainedConfig") -> str:
    """Return the method by which a folder's weights are quantised, "" where they are not."""
    parts = (config, config.get_text_config())
    given: Any = next((found for one in parts if (found := getattr(one, CONFIG, None))), None)
    if given is None:
        return ""
    said = given if isinstance(given, dict) else given.to_dict()
    if said.get("load_in_4bit") or said.get("load_in_8bit"):
        return "bitsandbytes"
    method = said.get("quant_method")
    return str(getattr(method, "value", method))


def require_backend(folder: Path, method: str) -> None:
    """Raise UserError where transformers does not know a method, or its package is missing."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as KNOWN

    if method != "bitsandbytes" and method not in KNOWN:
        raise UserError(
            f"the weights in {folder} are quantised by {shown(method)}, which transformers "
            f"{importlib.metadata.version('transformers')} does not load; give the model in one "
            f"of the forms that it does ({', '.join(PACKAGES)}) or unquantised"
        )
    versions = package_versions(*PACKAGES.get(method, ()))
    missing = [name for name, version in versions.items() if version == "absent"]
    if missing:
        raise UserError(
            f"the weights in {folder} are quantised by {method}, which needs the package "
            f"{' and '.join(missing)}; install it (pip install {' '.join(missing)}), or give the "
            "model unquantised"
        )


def backend_versions(config: "PreTrainedConfig") -> dict[str, str]:
    """Return the versions of the packages that a quantised model is loaded with."""
    return package_versions(*PACKAGES.get(quantised_by(config), ()))


def loading_options(method: str, device: str) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for a quantised model on one device."""
    options: dict[str, Any] = {"device_map": {"": device}}
    if method == COMPRESSED:
        from transformers import CompressedTensorsConfig

        # Else it would be at the first call of the whole model, and we call its parts.
        options[CONFIG] = CompressedTensorsConfig(dequantize=True)
    return options


def settle(model: "PreTrainedModel", method: str, folder: Path) -> None:
    """Leave a quantised model that was loaded its weights alone, in memory.

    Raises UserError for matrices of another shape than their layers ask for: versions of
    compressed-tensors pack three bits differently, and read one another's weights as fewer.
    """
    if method != COMPRESSED:
        return
    from compressed_tensors.offload import remove_dispatch

    remove_dispatch(model, onload_tensors=True)
    for name, module in model.named_modules():
        asked = getattr(module, "out_features", None), getattr(module, "in_features", None)
        weight: Any = getattr(module, "weight", None)
        if None not in asked and weight is not None and tuple(weight.shape) != asked:
            raise UserError(
                f"{name} of {folder} comes out as {tuple(weight.shape)}, expected {asked}; install "
                "the version of compressed-tensors that wrote it (version in its config.json; here "
                f"is {importlib.metadata.version(COMPRESSED)})"
            )


def drop(model: "PreTrainedModel") -> None:
    """Give back the memory of a model's weights, whose classes may know no device meta."""
    for module in model.modules():
        module._parameters.clear()
        module._buffers.clear()
