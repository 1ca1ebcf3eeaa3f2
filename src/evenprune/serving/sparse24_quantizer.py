"""transformers reads exported 2:4 checkpoints: a quantization method named sparse24.

``import evenprune.serving.sparse24_quantizer`` registers it; then
``AutoModelForCausalLM.from_pretrained(folder)`` loads an export, whose config.json names the
method. Every weight is restored bit for bit. Where all of the model lies on one CUDA device the
linear layers become torch's semi-structured tensors, as with `load_sparse24`; elsewhere they
stay dense.
"""

from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from ..models.architecture import rows_of
from .sparse24 import METHOD, check_format, decompress
from .sparse24_model import all_linears, sparsify


@register_quantization_config(METHOD)
class Sparse24Config(QuantizationConfigMixin):
    """``quantization_config`` of an export: its format and the stored names of its layers."""

    def __init__(self, layers: list[str] | None = None, format: int | None = None, **_: Any):
        check_format(format)
        self.quant_method = METHOD  # type: ignore[assignment]  # an enum of the library's own
        self.format = format
        self.layers = list(layers or ())


@register_quantizer(METHOD)
class Sparse24Quantizer(HfQuantizer):
    """Loads kept values and places into the block linears, then restores their weights."""

    def _process_model_before_weight_loading(
        self, model: PreTrainedModel, **kwargs: Any
    ) -> PreTrainedModel:
        """Give each compressed layer the parameters that the export's tensors are loaded into."""
        self.dtypes = {name: tensor.dtype for name, tensor in model.named_parameters()}
        for linear in all_linears(model):
            rows, width = rows_of(linear, linear.weight).shape
            values = torch.empty(rows, width // 2, dtype=linear.weight.dtype, device="meta")
            places = torch.empty(rows, (width // 4 + 1) // 2, dtype=torch.uint8, device="meta")
            linear.weight = torch.nn.Parameter(values, requires_grad=False)
            linear.register_parameter(
                "weight_metadata", torch.nn.Parameter(places, requires_grad=False)
            )
        return model

    def _process_model_after_weight_loading(
        self, model: PreTrainedModel, **kwargs: Any
    ) -> PreTrainedModel:
        """Restore the weights, and take the device's 2:4 kernels where it has them."""
        for linear in all_linears(model):
            dense = linear.weight
            if not dense.is_meta:  # as it is where only names and shapes are looked at
                dense = decompress(linear.weight.data, linear.weight_metadata.data)
                dense = rows_of(linear, dense).contiguous()
            del linear.weight_metadata
            linear.weight = torch.nn.Parameter(dense, requires_grad=False)
        for name, parameter in model.named_parameters():
            # transformers leaves what it renames in the checkpoint's dtype, whatever was asked for.
            parameter.data = parameter.data.to(self.dtypes[name])
        devices = {parameter.device for parameter in model.parameters()}
        if len(devices) == 1 and devices.pop().type == "cuda":
            sparsify(model)
        return model

    def is_serializable(self) -> bool:
        """Return False: save the checkpoint that was exported, or export it again."""
        return False

    @property
    def is_trainable(self) -> bool:
        """Return False: an update would fill the zeros."""
        return False
