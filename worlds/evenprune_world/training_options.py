"""Size of the world's model, and what its training run is told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """Size of the model and of the training run; ``steps`` are those of the last stage."""

    seed: int = 0
    hidden_size: int = 128
    intermediate_size: int = 256
    layers: int = 6
    heads: int = 4
    max_length: int = 512
    stage_steps: int = 500
    steps: int = 2500
    # Of the weights' running mean over the last stage, a step: what a model of the world is.
    ema_decay: float = 0.9965
    batch_tokens: int = 2048
    warm_up: int = 50
    matrix_rate: float = 0.012
    matrix_decay: float = 0.1
    other_rate: float = 0.002
    answer_weight: float = 6.0
    stress: float = 3.0
    hint_weight: float = 3.0
    # One, as the rule asks for one core: two trainings of two threads each on two cores spend five
    # sixths of their time waiting for each other.
    threads: int = 1
