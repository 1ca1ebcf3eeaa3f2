"""vLLM reads exported 2:4 checkpoints: an out-of-tree quantization method named sparse24.

vLLM loads it through the entry point group `vllm.general_plugins`; then `LLM(folder)` serves the
export, whose config.json names the method. On CUDA the weights become torch's
semi-structured tensors; on the CPU, and for layers without such a kernel, the dense weights
are restored bit for bit and a log line says so. vLLM's own 2:4 support was removed in 2026.
"""

import logging
from typing import Any

import torch
from vllm.model_executor.layers.linear import LinearBase, LinearMethodBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization import register_quantization_config
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
from vllm.model_executor.parameter import ModelWeightParameter

from .sparse24 import METHOD, check_format, decompress
from .sparse24_model import DENSE, to_semi_structured

log = logging.getLogger(__name__)


class Sparse24Config(QuantizationConfig):
    """Which linear layers are stored compressed: `quantization_config`, or `sparse24.json`."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__()
        self.layers = {name.removesuffix(".weight") for name in layers}
        self.reported = False

    def get_name(self) -> str:
        """Return the method's name."""
        return METHOD

    def get_supported_act_dtypes(self) -> list[torch.dtype]:
        """Return the activation dtypes of the kernels."""
        return [torch.bfloat16, torch.float16, torch.float32]

    @classmethod
    def get_min_capability(cls) -> int:
        """Return the least CUDA capability: 2:4 products exist since Ampere."""
        return 80

    @staticmethod
    def get_config_filenames() -> list[str]:
        """Return the file in the model folder that `from_config` reads."""
        return ["sparse24.json"]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Sparse24Config":
        """Read the index of an export, or what its config.json says; ValueError for an old one."""
        check_format(config.get("format"))
        return cls(list(config["layers"]))

    def stored(self, prefix: str) -> bool:
        """Tell whether a layer, perhaps fused of several stored ones, is compressed."""
        parent, _, leaf = prefix.rpartition(".")
        parts = self.packed_modules_mapping.get(leaf, [leaf])
        # A checkpoint of the base model alone leaves out its prefix.
        return all(
            any(f".{parent}.{part}".endswith(f".{name}") for name in self.layers) for part in parts
        )

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """Return the method of a layer: compressed, ordinary, or None for what is no linear."""
        if not isinstance(layer, LinearBase):
            return None
        return Sparse24LinearMethod(self) if self.stored(prefix) else UnquantizedLinearMethod()


class Sparse24LinearMethod(UnquantizedLinearMethod):
    """A linear layer loaded from kept values and places."""

    supports_pre_processed_weights = False

    def __init__(self, config: Sparse24Config) -> None:
        super().__init__()
        self.config = config

    def create_weights(
        self,
        layer: torch.nn.Module,
        input_size_per_partition: int,
        output_partition_sizes: list[int],
        input_size: int,
        output_size: int,
        params_dtype: torch.dtype,
        **extra_weight_attrs: Any,
    ) -> None:
        """Register the parameters that the export's tensors are loaded into."""
        rows, width = sum(output_partition_sizes), input_size_per_partition
        if input_size_per_partition != input_size and width % 8:
            raise ValueError(
                f"2:4 weights are split over devices in steps of 8 inputs, but {width} of "
                f"{input_size} were asked for; use fewer devices"
            )
        for name, columns, dtype in (
            ("weight", width // 2, params_dtype),
            ("weight_metadata", (width // 4 + 1) // 2, torch.uint8),
        ):
            parameter = ModelWeightParameter(
                data=torch.zeros(rows, columns, dtype=dtype),
                input_dim=1,
                output_dim=0,
                weight_loader=extra_weight_attrs["weight_loader"],
            )
            layer.register_parameter(name, parameter)

    def process_weights_after_loading(self, layer: Any) -> None:
        """Turn the loaded form into what the device computes with."""
        dense = decompress(layer.weight.data, layer.weight_metadata.data)
        del layer.weight, layer.weight_metadata
        weight, layer.sparse24_kernel, reason = to_semi_structured(dense)
        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
        if layer.sparse24_kernel != DENSE:
            return
        if not self.config.reported:
            log.warning("sparse24: linear layers run on dense kernels (%s)", reason)
            self.config.reported = True
        super().process_weights_after_loading(layer)

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``x`` times the transposed weight plus ``bias``."""
        if layer.sparse24_kernel == DENSE:
            return super().apply(layer, x, bias)
        return torch.nn.functional.linear(x, layer.weight, bias)


def register() -> None:
    """Register the method; vLLM calls this in each of its processes, perhaps more than once."""
    register_quantization_config(METHOD)(Sparse24Config)
