"""What the results of the world's own jobs depend on, see ``evenprune.config.job_options``."""

from evenprune.config.job_options import ALL, Dependencies, code_of, flags, packages
from evenprune.config.paths import Paths


def dependencies(paths: Paths) -> Dependencies:
    """Return (rule, job) -> name -> what the job's result depends on."""
    config, package = paths.config, __package__
    found: Dependencies = {}
    if config.source == "world":
        seed = config.world.seed
        found["generate_world", ALL] = flags({"seed": seed}) | code_of(f"{package}.generate_world")
        found["world_model", ALL] = (
            {"command": f"train-world --seed {seed}"}
            | code_of(f"{package}.train_world")
            | packages("torch", "transformers", "tokenizers")
            if config.world.retrain
            else {"command": "shipped-world-model"} | code_of(f"{package}.shipped_world_model")
        )
    if paths.world_files():
        page = code_of(f"{package}.controls.report_world")
        found["report_world", ALL] = page | packages("numpy", "matplotlib")
    if config.controls.worlds:
        page = code_of(f"{package}.controls.report_controls")
        found["report_controls", ALL] = page | packages("numpy", "scipy", "matplotlib")
    return found
