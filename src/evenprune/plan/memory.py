"""How much memory a step needs on one GPU, from the shapes in a model's config.json alone.

Arithmetic, not a measurement: tensors that exist at one time, without the allocator's slack and
the CUDA context. Gated decoder blocks with one set of matrices (Llama, Mistral, Qwen, Gemma 2 …);
of a mixture of experts nothing is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..base.errors import UserError, shown

FLOAT = 4  # bytes of float32, in which statistics are summed and solved
BATCH = 1024  # tokens of a packed batch, or the longest text (pruning/packing.py)
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True)
class Shapes:
    """Sizes of a decoder: widths in numbers, ``bytes`` of one stored weight."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    bytes: int

    @property
    def attention(self) -> int:
        """Width of the input of the attention's output projection."""
        return self.heads * self.head_dim

    @property
    def block(self) -> int:
        """Weights of one decoder block's matrices."""
        attention = 2 * self.attention + 2 * self.kv_heads * self.head_dim
        return self.hidden * (attention + 3 * self.intermediate)

    @property
    def table(self) -> int:
        """Weights of one embedding table."""
        return self.vocabulary * self.hidden

    @property
    def weights(self) -> int:
        """Weights of the whole model, without norms and biases."""
        return self.layers * self.block + (1 if self.tied else 2) * self.table


def shapes(config: Mapping[str, Any], where: str = "config.json") -> Shapes:
    """Return the sizes in a parsed config.json; UserError for one that has others than these."""
    text = config.get("text_config", config)
    experts = next((name for name in EXPERTS if text.get(name)), None)
    if experts:
        raise UserError(
            f"{where} is of a mixture of experts ({experts}), whose memory is not computed here; "
            "take the largest block's weights and Hessians from its shapes"
        )

    def number(name: str, default: Any = None) -> int:
        value = text.get(name)
        value = default if value is None else value
        if type(value) is not int or value < 1:
            raise UserError(
                f"expected a whole number above 0 for {name} in {where}, got {shown(value)}; only "
                "gated decoders that name their sizes as Llama does are computed"
            )
        return value

    heads, hidden = number("num_attention_heads"), number("hidden_size")
    dtype = str(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "")
    return Shapes(
        hidden=hidden,
        intermediate=number("intermediate_size"),
        layers=number("num_hidden_layers"),
        heads=heads,
        kv_heads=number("num_key_value_heads", heads),
        head_dim=number("head_dim", hidden // heads),
        vocabulary=number("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        bytes=FLOAT if dtype.endswith("float32") else 2,
    )


@dataclass(frozen=True)
class Pruning:
    """Bytes on the GPU when the block's largest matrix is solved, or its embeddings are read.

    ``block``: the weights of one block; ``hessians``: of its four inputs; ``factor``: Cholesky
    factor and its flipped copy of the largest; ``solved``: the largest group of matrices, as it
    is stored and in float32 as it is pruned, with the error of one block of columns;
    ``activations``: of the calibration tokens; ``batch``: one batch on its way through the MLP, in
    float32; ``embeddings``: the table, which is read before the blocks and freed.
    """

    block: int
    hessians: int
    factor: int
    solved: int
    activations: int
    batch: int
    embeddings: int

    @property
    def peak(self) -> int:
        """The most at one time."""
        always = self.block + self.activations
        collecting = self.hessians + self.batch
        solving = self.hessians + self.factor + self.solved
        return always + max(collecting, solving, self.embeddings)

    def as_dict(self) -> dict[str, int]:
        """Return all parts and the peak by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"peak": self.peak}


def pruning_memory(model: Shapes, tokens: int, block_size: int = 128) -> Pruning:
    """Return what SparseGPT and Debias-SparseGPT hold, statistics of a block taken in one pass.

    tokens: of the calibration text, both sentences of a pair, counted as they are packed. A
    Hessian is (d, d) float32 of an input of width d: the attention's (which q, k and v share),
    its output projection's, the MLP's (gate and up share it) and its down projection's.
    """
    widths = [model.hidden, model.attention, model.hidden, model.intermediate]
    rows = [
        model.attention + 2 * model.kv_heads * model.head_dim,
        model.hidden,
        2 * model.intermediate,
        model.hidden,
    ]

    def solving(width: int, height: int) -> int:
        size = height * (width * (FLOAT + 2 * model.bytes) + block_size * FLOAT)
        return 2 * FLOAT * width**2 + size

    width, height = max(zip(widths, rows, strict=True), key=lambda group: solving(*group))
    factor = 2 * FLOAT * width**2
    return Pruning(
        block=model.block * model.bytes,
        hessians=FLOAT * sum(one**2 for one in widths),
        factor=factor,
        solved=solving(width, height) - factor,
        activations=tokens * model.hidden * model.bytes,
        batch=3 * FLOAT * BATCH * model.intermediate,
        embeddings=model.table * model.bytes,
    )


def evaluation_gpus(model: Shapes, gpu_bytes: int, room: float = 0.8) -> int:
    """Return how many GPUs of ``gpu_bytes`` the weights fill, of each the share ``room``.

    What is left is for activations, the keys and values of a batch and the logits.
    """
    return max(1, -int(-model.weights * model.bytes // (gpu_bytes * room)))
