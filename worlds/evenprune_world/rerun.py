"""What the results of the world's own jobs depend on, see ``evenprune.config.job_options``."""

from functools import partial

from evenprune.config.job_options import ALL, Dependencies, code, flags, packages
from evenprune.config.paths import Paths


def dependencies(paths: Paths) -> Dependencies:
    """Return (rule, job) -> name -> what the job's result depends on."""
    config, of = paths.config, partial(code, package=__package__)
    found: Dependencies = {}
    if config.source == "world":
        seed = config.world.seed
        found["generate_world", ALL] = flags({"seed": seed}) | of("generate_world")
        found["world_model", ALL] = (
            {"command": f"train-world --seed {seed}"}
            | of("train_world")
            | packages("torch", "transformers", "tokenizers")
            if config.world.retrain
            else {"command": "shipped-world-model"} | of("shipped_world_model")
        )
    if paths.world_files():
        found["report_world", ALL] = of("report_world") | packages("numpy", "pandas")
    return found
