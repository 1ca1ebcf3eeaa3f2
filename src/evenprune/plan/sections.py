"""The smaller sections of a configuration; every key is said once, here or in ``*_keys.py``.

The tables of ``config/README.md``, ``config/schema.json`` and the commands' flags are made from
these (``plan/describe_config.py``, ``plan/flags.py``).
"""

from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator

from .facts import DENSE, PRUNING_METHODS, REGIMES
from .pruning_keys import Pruning
from .section import Label, Section, Slug

Regime: Any = Literal[(*REGIMES, DENSE)]


class World(Section):
    """The invented world of the embedded default."""

    seed: int = Field(0, ge=0, description="seed of the generator and of the training")
    retrain: bool = Field(
        False,
        description="train the models instead of taking the shipped ones, which belong to seed 0: "
        "any other seed needs it",
    )


class Controls(Section):
    """Several invented worlds: the target ``controls`` makes the run in each and compares."""

    worlds: list[Annotated[int, Field(ge=0)]] = Field(
        [],
        description="their seeds, in place of `world.seed`; at least two, each run with "
        "`<results>/w<seed>` as its results, compared on one page in `<results>/report`; also "
        "`--config 'controls={worlds: [3, 4]}'`; `[]`: no such target; models that are not shipped "
        "are trained",
    )

    @field_validator("worlds", mode="before")
    @classmethod
    def _from_text(cls, worlds: Any) -> Any:
        """Take ``--config 'controls={worlds: [0, 1]}'``, which Snakemake hands on as text."""
        if not isinstance(worlds, list):
            return worlds
        return [int(one) if str(one).isdecimal() else one for one in worlds]

    @field_validator("worlds")
    @classmethod
    def _several(cls, worlds: list[int]) -> list[int]:
        if len(worlds) == 1 or len(set(worlds)) < len(worlds):
            raise ValueError("expected at least two seeds, each once, as in [0, 1, 2]")
        return worlds


# Those of Pruning that a variant may have its own way; how pairs are aligned is a calibration's.
_OVERRIDES: dict[str, Any] = {
    name: (
        Annotated[(field.annotation, *field.metadata, Field())] | None,
        Field(None, description=f"in place of `pruning.{name}`"),
    )
    for name, field in Pruning.model_fields.items()
    if name != "alignment"
}
_Overrides: Any = create_model("_Overrides", __base__=Section, **_OVERRIDES)


class MethodVariant(_Overrides):
    """A method of its own name: one of the built-in ones with other options."""

    method: Literal[PRUNING_METHODS] = Field(  # type: ignore[valid-type]
        description="the built-in method"
    )
    label: Label | None = Field(None, description="name in tables; null: the name of the variant")


class Experiment(Section):
    """A grid; each table of the paper is one."""

    models: list[Slug] = Field(min_length=1, description="names under `models`")
    methods: list[Slug] = Field(
        min_length=1, description="built-in methods and names under `methods`"
    )
    regimes: list[Regime] = Field(
        min_length=1,
        description="`u25` `u50` unstructured; `1of4` `2of4` zeros in each group of four",
    )
    calibrations: list[Slug] = Field(min_length=1, description="names under `calibrations`")
    seeds: list[Annotated[int, Field(ge=0)]] = Field(
        [0], min_length=1, description="of the texts' order and of the negative controls"
    )
