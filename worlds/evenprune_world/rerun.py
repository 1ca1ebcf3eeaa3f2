"""What the results of the world's own jobs depend on, see ``evenprune.config.rerun``."""

from evenprune.config import job_options
from evenprune.config.paths import Paths
from evenprune.config.rerun import ALL, Dependencies
from evenprune.io.codedigest import code_digest, package_versions


def dependencies(paths: Paths) -> Dependencies:
    """Return (rule, job) -> what the job's result depends on."""
    config = paths.config
    found: Dependencies = {}
    if config.source == "world":
        found["generate_world", ALL] = [config.world.seed, _code("generate_world")]
        found["world_model", ALL] = [job_options.world_command(config)] + (
            [_code("train_world"), package_versions("torch", "transformers", "tokenizers")]
            if config.world.retrain
            else [_code("shipped_world_model")]
        )
    if paths.world_files():
        versions = package_versions("numpy", "matplotlib")
        found["report_world", ALL] = [_code("controls.report_world"), versions]
    if config.controls.worlds:
        versions = package_versions("numpy", "scipy", "matplotlib")
        found["report_controls", ALL] = [_code("controls.report_controls"), versions]
    return found


def _code(module: str) -> list[str]:
    return [code_digest(f"evenprune_world.{module}")]
