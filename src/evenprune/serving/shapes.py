"""The weights of a Llama-like decoder by shape, and those of the paper's efficiency model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """How many weights one decode step uses: block linears, and all others but embeddings."""

    linear: int
    other: int

    def bytes(self, bits: int, sparse: bool = False) -> int:
        """Return the bytes read in a step with weights of ``bits`` bits, dense or 2:4.

        In 2:4 form two of every four weights are kept, each with a 2-bit index: 9/16 of the dense
        bytes for 16-bit weights, 17/32 for 32-bit ones.
        """
        linear = self.linear // 4 * (2 * bits + 4) // 8 if sparse else self.linear * bits // 8
        return linear + self.other * bits // 8


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder with grouped-query attention and a gated feed-forward part.

    Queries, keys and values have biases (Qwen2); the output head is a matrix of its own.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int

    def linears(self) -> dict[str, tuple[int, int]]:
        """Return the prunable linear layers of one block as name -> (outputs, inputs)."""
        keys = self.hidden // self.heads * self.kv_heads
        return {
            "q_proj": (self.hidden, self.hidden),
            "k_proj": (keys, self.hidden),
            "v_proj": (keys, self.hidden),
            "o_proj": (self.hidden, self.hidden),
            "gate_proj": (self.intermediate, self.hidden),
            "up_proj": (self.intermediate, self.hidden),
            "down_proj": (self.hidden, self.intermediate),
        }

    @property
    def weights(self) -> Weights:
        """The weights that one decode step reads; others: output head, norms and biases."""
        linears = self.linears()
        biases = sum(linears[name][0] for name in ("q_proj", "k_proj", "v_proj"))
        norms = self.hidden * (2 * self.layers + 1)
        return Weights(
            self.layers * sum(rows * width for rows, width in linears.values()),
            self.vocabulary * self.hidden + norms + self.layers * biases,
        )


# config.json of Qwen/Qwen2.5-7B-Instruct on the Hugging Face hub.
QWEN25_7B = Decoder(
    hidden=3584, intermediate=18944, layers=28, heads=28, kv_heads=4, vocabulary=152064
)
