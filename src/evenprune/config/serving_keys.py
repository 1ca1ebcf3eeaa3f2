"""The section ``serving``; flags of ``benchmark-serving`` too."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .section import Named, Place, Section, Slug, each_once


class Measured(Section):
    """What decides a measurement, flags of ``benchmark-serving`` in this order."""

    backend: Literal["auto", "vllm", "transformers"] = "auto"
    """`auto` (vLLM where installed, else transformers), `vllm` (an error where there is none, so
    that runs on several machines are alike); the table names it"""
    engines: Literal["auto", "together", "in-turn"] = "auto"
    """checkpoints of a model in memory: all `together`, or one at a time, `in-turn`, each loaded
    again in every round, for memory that others need; `auto`: together where they fit"""
    batch_sizes: Annotated[list[Annotated[int, Field(ge=1)]], AfterValidator(each_once)] = Field(
        [1, 8], min_length=1
    )
    """sequences at a time"""
    new_tokens: int = Field(64, ge=2)
    """tokens that each sequence is continued by"""
    prompt_tokens: int = Field(32, ge=1)
    """tokens of each prompt, cut where the context is shorter; as many as your users' prompts have
    """
    rounds: int = Field(5, ge=1)
    """in each, every checkpoint of a model is measured once, in drawn order; ratios to the dense
    model are taken within a round, their intervals over rounds (from 2), narrower with more"""
    carbon_intensity: float = Field(0.033, gt=0)
    """kg CO2e per kWh where you compute (the paper: 0.033)"""


class Serving(Measured):
    """Throughput, energy and CO2."""

    python: Place | None = None
    """interpreter of the environment that has vLLM; null: `.venv-vllm` where `make vllm-env` has
    built it, else the run's own"""
    sparse24: bool | None = None
    """serve 2of4 checkpoints from their compressed export, on 2:4 kernels where the device has
    them; false: as ordinary weights, for another device; null: where `device` is `cuda`"""
    dataset: Named = "ultrachat"
    """data set whose texts are the prompts"""
    experiment: Slug | None = None
    """its dense and 2of4 checkpoints are measured; null: none"""
    margin: float = Field(0.05, gt=0, lt=1)
    """tables call a checkpoint as fast as the dense model where its ratio lies between 1 / (1 +
    margin) and 1 + margin (two one-sided tests at 5 %): what you would notice"""
