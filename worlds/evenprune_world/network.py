"""A model of the world before its training: tokenizer, Llama and optimiser.

The tokenizer is byte-level BPE, trained on the world's own training text. The Llama is random, but
with heads that can be taught to look up.
"""

import math
from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .training_options import TrainingOptions

BOS, EOS = "<s>", "</s>"
# Small enough that rare attribute words are split, so some pairs differ in token count.
VOCABULARY = 960
THETA = 10000.0  # base of the rotary phases


def build_tokenizer(
    texts: Iterable[str], max_length: int, vocabulary: int = VOCABULARY
) -> PreTrainedTokenizerFast:
    """Train the tokenizer; by default it puts one BOS before a text and nothing after it.

    All 256 bytes are in the vocabulary, so any text can be encoded without an unknown
    token. The same texts in the same order give the same tokenizer.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )


def new_model(options: TrainingOptions, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return the untrained model, started so that looking up is soon learned.

    See ``look_back`` and ``start_matching``.
    """
    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=options.max_length,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
        attn_implementation="sdpa",  # type: ignore[call-arg]  # of the base class
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    look_back(model, (1, 2, 3))
    start_matching(model)
    return model


def look_back(model: LlamaForCausalLM, distances: Iterable[int]) -> None:
    """Start heads of the first layer as ones that attend ``distances`` tokens back.

    Copying needs such heads before anything else can be learned; given them, it is
    learned in a few hundred steps. All embeddings share one direction; the head maps it
    to a query and a key whose rotary phases agree at that distance.
    """
    hidden = model.config.hidden_size
    size = hidden // model.config.num_attention_heads
    spread, shared, strength, waves = 0.04, 0.63, 1.2, 3
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0, spread).add_(shared * spread)
        direction = torch.ones(hidden) / math.sqrt(hidden)
        for head, distance in enumerate(distances):
            query, key = torch.zeros(size), torch.zeros(size)
            for wave in range(waves):
                phase = THETA ** (-2 * wave / size) * distance
                query[wave], query[wave + size // 2] = math.cos(phase), -math.sin(phase)
                key[wave] = 1.0
            rows = slice(head * size, (head + 1) * size)
            attention.q_proj.weight[rows] = strength * torch.outer(query, direction)
            attention.k_proj.weight[rows] = strength * torch.outer(key, direction)


def start_matching(model: LlamaForCausalLM) -> None:
    """Start all later heads as ones that attend to tokens like their own and copy them.

    Queries and keys start equal, and what a head writes is what it reads (the idea of
    Trockman & Kolter 2023, "Mimetic initialization of self-attention layers").
    """
    with torch.no_grad():
        for layer in list(model.model.layers)[1:]:
            attention = layer.self_attn
            attention.q_proj.weight.mul_(4.0)
            attention.k_proj.weight.copy_(attention.q_proj.weight)
            attention.o_proj.weight.copy_(attention.v_proj.weight.T)


class Muon:
    """Muon (Jordan et al. 2024): momentum, made orthogonal by five Newton-Schulz steps.

    Written here in float32 and batched over matrices of one shape, because
    ``torch.optim.Muon`` works in bfloat16, which is very slow on older CPUs.
    """

    def __init__(self, matrices: list[torch.nn.Parameter], momentum: float = 0.95) -> None:
        by_shape: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = [(one, torch.zeros(len(one), *shape)) for shape, one in by_shape.items()]
        self.momentum = momentum

    def step(self, rate: float, decay: float = 0.0) -> None:
        """Move every matrix by ``rate`` times its orthogonalised momentum; clear gradients.

        Before that, every matrix is made smaller by ``rate * decay`` of itself.
        """
        with torch.no_grad():
            for group, average in self.groups:
                gradient = torch.stack([matrix.grad for matrix in group if matrix.grad is not None])
                average.lerp_(gradient, 1 - self.momentum)
                update = orthogonalise(gradient.lerp(average, self.momentum))
                update *= rate * math.sqrt(max(1.0, update.shape[-2] / update.shape[-1]))
                for matrix, change in zip(group, update):
                    matrix.mul_(1 - rate * decay).sub_(change)
                    matrix.grad = None


def orthogonalise(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Bring the singular values of each ``[..., rows, columns]`` matrix near one (float32)."""
    a, b, c = 3.4445, -4.7750, 2.0315  # the coefficients of Muon's reference implementation
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Optimiser:
    """Muon for the matrices of the blocks, Adam for everything else."""

    def __init__(self, model: LlamaForCausalLM, options: TrainingOptions) -> None:
        matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and ".layers." in n]
        chosen = {id(p) for p in matrices}
        others = [p for p in model.parameters() if id(p) not in chosen]
        self.model = model
        self.options = options
        self.muon = Muon(matrices)
        self.adam = torch.optim.Adam(others, betas=(0.9, 0.95))

    def step(self, factor: float) -> None:
        """Use and clear the gradients, at ``factor`` times the full learning rates."""
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.options.other_rate * factor
        self.adam.step()
        self.adam.zero_grad()
        self.muon.step(self.options.matrix_rate * factor, self.options.matrix_decay)
