"""The linear layers of a Llama-like decoder by shape, and those of the paper's main model."""

from dataclasses import dataclass


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


# config.json of Qwen/Qwen2.5-7B-Instruct on the Hugging Face hub.
QWEN25_7B = Decoder(
    hidden=3584, intermediate=18944, layers=28, heads=28, kv_heads=4, vocabulary=152064
)
