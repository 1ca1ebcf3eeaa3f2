"""The section ``serving``; flags of ``benchmark-serving`` too."""

from typing import Annotated, Literal

from pydantic import Field

from .section import Named, Once, Place, Section, Slug


class Measured(Section):
    """What decides a measurement, flags of ``benchmark-serving`` in this order."""

    backend: Literal["auto", "vllm", "transformers"] = "auto"
    """`auto`: vLLM where installed, else transformers; `vllm`: an error where there is none"""
    engines: Literal["auto", "together", "in-turn"] = "auto"
    """checkpoints in memory: all, or one, loaded in every round; `auto`: all where they fit"""
    batch_sizes: Once[Annotated[int, Field(ge=1)]] = Field([1, 8])
    """sequences at a time"""
    new_tokens: int = Field(64, ge=2)
    """tokens that each sequence is continued by"""
    prompt_tokens: int = Field(32, ge=1)
    """tokens of each prompt, as many as your users' prompts have"""
    rounds: int = Field(5, ge=1)
    """measurements of each checkpoint, in drawn order; ratios to dense are taken within a round"""
    carbon_intensity: float = Field(0.033, gt=0)
    """kg CO2e per kWh where you compute (the paper: 0.033)"""


class Serving(Measured):
    """Throughput, energy and CO2."""

    python: Place | None = None
    """interpreter of the environment that has vLLM; null: `.venv-vllm` where `make vllm-env` has
    built it, else the run's own"""
    sparse24: bool | None = None
    """serve 2of4 checkpoints from their compressed export; null: where `device` is `cuda`"""
    dataset: Named = "ultrachat"
    """data set whose texts are the prompts"""
    experiment: Slug | None = None
    """its dense and 2of4 checkpoints are measured; null: none"""
    margin: float = Field(0.05, gt=0, lt=1)
    """as fast as dense: a ratio from 1 / (1 + margin) to 1 + margin (two one-sided tests at 5 %)"""
