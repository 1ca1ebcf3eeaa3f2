"""Debias-SparseGPT for llm-compressor, out of its tree: a modifier for recipes, and its data.

    from llmcompressor import oneshot
    from evenprune.llmcompressor import DebiasSparseGPTModifier, pair_batches

    oneshot(
        model=model,
        dataset=pair_batches(rows, tokenizer, texts),
        recipe=DebiasSparseGPTModifier(
            bias_weight=1.0, sparsity=0.5, mask_structure="2:4", ignore=["re:.*lm_head"]
        ),
    )

Needs llm-compressor 0.14 (`pip install evenprune[llmcompressor]`, an environment of its own), of
which nothing is patched. A batch of two rows is a pair, every other batch plain text.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from llmcompressor.modifiers.pruning import SparseGPTModifier
from pydantic import Field, PrivateAttr
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from .base.errors import UserError
from .data.calibration import tokenize_pairs, tokenize_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMNS = ("stereotype", "anti_stereotype")
Batch = dict[str, Tensor]


class DebiasSparseGPTModifier(SparseGPTModifier):
    """SparseGPT whose Hessian has the paper's term for the difference of a pair.

    With X0 and X1 (d, T) the inputs of a linear layer at the two sentences of a pair and
    Δ = X0 − X1, each pair adds ``X0 X0ᵀ + X1 X1ᵀ + 2b Δ Δᵀ`` to H, all others ``X Xᵀ`` (paper,
    equation of Debias-SparseGPT; llm-compressor scales the sum by 2/N). The solver is
    llm-compressor's.

    Where the inputs of a layer are tokens without their sentences (experts, to which single
    tokens are routed), no difference can be taken: that is said once, and the term left out there.

    :param bias_weight: b, at least 0; 0 is SparseGPT. By the authors' released code of 2026
        α = 1 is b = 0.5
    """

    bias_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)

    _pairs: dict[torch.nn.Module, int] = PrivateAttr(default_factory=dict)
    _unpaired: bool = PrivateAttr(default=False)

    def calibrate_module(
        self, module: torch.nn.Module, args: tuple[Tensor, ...], _output: Tensor
    ) -> None:
        """Add a batch to the Hessian of a module; inputs (2, T, d) are those of a pair."""
        super().calibrate_module(module, args, _output)
        inputs = args[0]
        if not self.bias_weight:
            return
        if inputs.dim() != 3:
            if not self._unpaired:
                self._unpaired = True
                name = self._module_names[module]
                print(
                    f"{name} sees tokens without their sentences: no difference of pairs is "
                    "taken there and in layers like it",
                    file=sys.stderr,
                )
            return
        if inputs.shape[0] != 2:
            return
        self._pairs[module] = self._pairs.get(module, 0) + 1
        with self._maybe_onload_hessian(module):
            hessian = self._hessians[module]
            delta = (inputs[0] - inputs[1]).to(hessian.device, torch.float32)
            hessian.addmm_(delta.T, delta, alpha=4 * self.bias_weight / self._num_samples[module])

    def compress_modules(self) -> None:
        """Prune what was calibrated.

        Raises UserError where no batch was a pair, and for a Hessian that is not finite, for which
        llm-compressor would take the identity and prune by magnitude.
        """
        for module, hessian in self._hessians.items():
            if not torch.isfinite(hessian).all():
                raise UserError(
                    f"expected finite calibration inputs of {self._module_names[module]}, found "
                    "NaN or infinity; load the model in float32 or bfloat16, and check its weights"
                )
        if self.bias_weight and self._num_samples and not self._pairs and not self._unpaired:
            raise UserError(
                "expected batches of two rows, a pair each, and found none; give oneshot "
                "dataset=pair_batches(…), or bias_weight=0"
            )
        super().compress_modules()
        self._pairs.clear()


class _Batches(Dataset[Batch]):
    """Batches that are made already: pairs as two rows, texts as one."""

    def __init__(self, rows: Sequence[Sequence[Sequence[int]]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Batch:
        ids = torch.tensor(self._rows[index])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _named(rows: Any, columns: tuple[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield rows with the fields that alignment knows."""
    for number, row in enumerate(rows):
        missing = [name for name in columns if not isinstance(row.get(name), str)]
        if missing:
            raise UserError(
                f"expected text in the columns {' and '.join(columns)} of every row, row {number} "
                f"has none in {' and '.join(missing)}; name the columns with columns=(…, …)"
            )
        pair = dict(zip(COLUMNS, (row[name] for name in columns), strict=True))
        yield {"id": str(number), "category": "", **pair}


def pair_batches(
    rows: Any,
    tokenizer: "PreTrainedTokenizerBase",
    texts: Sequence[str] = (),
    columns: tuple[str, str] = COLUMNS,
    max_tokens: int | None = None,
) -> "DataLoader[Batch]":
    """Return the batches of a calibration for ``oneshot(dataset=…)``, in the order given.

    rows: a dataset, or any sequence of mappings, with a column of text for each sentence of a
    pair; texts: unpaired ones, cut at ``max_tokens`` tokens. Pairs whose two sentences have
    different numbers of tokens are left out (alignment ``equal-length``, the paper's; `evenprune
    prune` has others), which is said. No batch is padded, so that no padding enters H.

    Raises UserError for rows without the columns, and where no pair is left.
    """
    ways_out = "reword them to equal length, or use `evenprune prune --alignment suffix`"
    pairs = tokenize_pairs(
        list(_named(rows, columns)), tokenizer, "equal-length", ways_out=ways_out
    )
    print(f"calibration: {len(pairs.pairs)} pairs, {pairs.dropped} dropped", file=sys.stderr)
    batches: list[Sequence[Sequence[int]]] = [(pair.ids0, pair.ids1) for pair in pairs.pairs]
    batches += [(ids,) for ids in tokenize_texts(texts, tokenizer, max_tokens)]
    return DataLoader(_Batches(batches), batch_size=None, shuffle=False)
