"""The runs behind ``snakemake controls``: one configuration for every world, equal else."""

from collections.abc import Mapping
from typing import Any

from evenprune.config.checks import SHIPPED_SEED
from evenprune.config.config import Config
from evenprune.io.errors import UserError


def world_configs(given: Mapping[str, Any], config: Config) -> dict[str, dict[str, Any]]:
    """Return what the run in each world is given, by its name.

    That is ``w<seed>`` for each of ``controls.worlds``. ``given`` is what Snakemake was handed and
    ``config`` what it means. A run has ``<results>/<name>`` as results, its own ``world.seed`` and
    no worlds to compare; its models are trained unless they are shipped. Empty where the
    configuration names no worlds. Raises UserError where the source is not the world.
    """
    if config.controls.worlds and config.source != "world":
        raise UserError(
            "controls.worlds: runs are compared across invented worlds, but source is "
            f"{config.source!r}; set source to 'world' or leave controls out"
        )
    own = {key: value for key, value in given.items() if key != "controls"}
    return {
        f"w{seed}": {
            **own,
            "results": f"{config.results}/w{seed}",
            "world": {"seed": seed, "retrain": config.world.retrain or seed != SHIPPED_SEED},
        }
        for seed in config.controls.worlds
    }
