"""The weights of a Llama-like decoder by shape, and those of the paper's efficiency model."""

from dataclasses import dataclass

from .formulas import sparse24_bytes


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
    def linear_weights(self) -> int:
        """The number of weights in the linear layers of all blocks."""
        return self.layers * sum(rows * width for rows, width in self.linears().values())

    @property
    def other_weights(self) -> int:
        """All other weights that one decode step reads: output head, norms and biases."""
        linears = self.linears()
        biases = sum(linears[name][0] for name in ("q_proj", "k_proj", "v_proj"))
        norms = self.hidden * (2 * self.layers + 1)
        return self.vocabulary * self.hidden + norms + self.layers * biases

    def step_bytes(self, bits: int, sparse: bool = False) -> int:
        """Return the bytes of the weights that one decode step reads, dense or 2:4."""
        linear = self.linear_weights
        linear_bytes = sparse24_bytes(linear, bits) if sparse else linear * bits // 8
        return linear_bytes + self.other_weights * bits // 8


# config.json of Qwen/Qwen2.5-7B-Instruct on the Hugging Face hub.
QWEN25_7B = Decoder(
    hidden=3584, intermediate=18944, layers=28, heads=28, kv_heads=4, vocabulary=152064
)
