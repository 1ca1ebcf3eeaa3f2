"""What the results of the world's own jobs depend on, see ``evenprune.config.job_options``."""

from functools import partial

from evenprune.config.job_options import ALL, Dependencies, code, flags, packages
from evenprune.config.paths import Paths

# Benchmarks whose items have planted log-odds.
PLANTED = ("stereoset", "crows_pairs", "unqover", "bbq")


def dense_evaluations(paths: Paths) -> dict[str, str]:
    """Return the evaluation of each dense model, by the model's name."""
    return {one.model: paths.evaluation(one) for one in paths.checkpoints if one.is_base}


def pages(paths: Paths) -> list[str]:
    """Return the page of the invented world, where the run has what it shows."""
    shown = {*PLANTED} & {*paths.config.benchmarks} and dense_evaluations(paths)
    return [f"{paths.results}/report/world.html"] if shown else []


def dependencies(paths: Paths) -> Dependencies:
    """Return (rule, job) -> name -> what the job's result depends on."""
    config, of = paths.config, partial(code, package=__package__)
    if config.source != "world":
        return {}
    seed = config.world.seed
    found: Dependencies = {
        ("generate_world", ALL): flags({"seed": seed}) | of("generate_world"),
        ("world_model", ALL): (
            {"command": f"train-world --seed {seed}"}
            | of("train_world")
            | packages("torch", "transformers", "tokenizers")
            if config.world.retrain
            else {"command": "shipped-world-model"} | of("shipped_world_model")
        ),
    }
    if pages(paths):
        found["report_world", ALL] = of("report_world") | packages("numpy", "pandas")
    return found
