"""What decides each step's result, as files that travel with the results.

REQUIRED INPUTS: none.
OUTPUTS: .parameters/{rule}/{job}/{digest}, an empty file for each job of the run: the digest is
that of the step's options, its code and the versions of the packages that decide its bytes. A
changed one is a new file, hence a newer input. So results are made again where they are stale also
where Snakemake's own record, .snakemake/, was not copied with them.
"""


class Job(dict):
    """Stand-in for the wildcards of a planned job."""

    __getattr__ = dict.__getitem__


def point_job(point):
    return Job({name: str(value) for name, value in dataclasses.asdict(point).items()})


def steps():
    """Rule -> (what its result depends on, its jobs by name)."""
    once = {"all": Job()}
    points = {
        "/".join(point_job(point).values()): point_job(point) for point in CHECKPOINTS
    }
    pruned = [point for point in CHECKPOINTS if point.regime != "dense"]
    by_options = {
        f"{point.method}/{point.regime}/{point.calibration}": point_job(point)
        for point in pruned
    }
    training = package_versions("torch", "transformers", "tokenizers")
    model = package_versions("torch", "transformers")
    arrays = package_versions("numpy", "scipy")
    found = {
        "fetch_dataset": (
            lambda w: [source_params("data")(w), code_digest("data.fetch_dataset")],
            {name: Job(dataset=name) for name in grids.needed_datasets(CONFIG)},
        ),
        "fetch_model": (
            lambda w: [source_params("models")(w), code_digest("data.fetch_model")],
            {name: Job(model=name) for name in grids.needed_models(CONFIG)},
        ),
        "build_calibration": (
            lambda w: [
                calibration_flags(w),
                code_digest("data.build_calibration"),
                package_versions("transformers", "tokenizers"),
            ],
            {
                name: Job(calibration=name)
                for _, name, _ in grids.calibrated(CHECKPOINTS)
            },
        ),
        "prune_model": (
            lambda w: [
                prune_flags(w),
                DEVICE_FLAGS,
                method_code("pruning.prune")(w),
                model,
            ],
            by_options,
        ),
        "check_pruned": (
            lambda w: [method_code("pruning.check")(w)],
            {f"{point.method}/{point.regime}": point_job(point) for point in pruned},
        ),
        "compare_masks": (lambda w: [code_digest("pruning.compare_masks")], once),
        "evaluate_checkpoint": (
            lambda w: [
                benchmarks_json(w),
                DEVICE_FLAGS,
                EVALUATION_CODE,
                package_versions("torch", "transformers", "lm_eval"),
            ],
            points,
        ),
        "export_sparse24": (
            lambda w: [code_digest("serving.export_sparse24"), model],
            once,
        ),
        "benchmark_serving": (
            lambda w: [
                serving_flags(w),
                DEVICE_FLAGS,
                code_digest("serving.benchmark_serving"),
            ],
            {
                "/".join(point_job(point).values()): point_job(point)
                for point in grids.serving_checkpoints(CONFIG)
            },
        ),
        "write_run_spec": (lambda w: [run_spec()], once),
        "collect_results": (
            lambda w: [code_digest("reporting.collect_results"), arrays],
            once,
        ),
        "make_table": (
            lambda w: [table_note(w), table_code(w)],
            {table: Job(table=table) for table in CONFIG.tables},
        ),
        "make_figure": (
            lambda w: [
                figure_code(w),
                package_versions("matplotlib"),
            ],
            {figure: Job(figure=figure) for figure in CONFIG.figures},
        ),
        "make_paper": (lambda w: [code_digest("reporting.make_paper")], once),
    }
    if WORLD:
        found["generate_world"] = (
            lambda w: [CONFIG.world.seed, code_digest("world.generate_world")],
            once,
        )
        found["world_model"] = (
            lambda w: [
                world_command(),
                WORLD_MODEL_CODE,
                training if CONFIG.world.retrain else {},
            ],
            once,
        )
    return found


def parameter_files():
    """(Rule, job) -> the file that stands for what the job's result depends on."""
    files = {}
    for rule_name, (depends_on, jobs) in steps().items():
        for name, wildcards in jobs.items():
            # Where the results lie changes none of them.
            text = canonical_json(depends_on(wildcards)).replace(f"{RESULTS}/", "")
            folder = f"{RESULTS}/.parameters/{rule_name}/{name}"
            files[rule_name, name] = f"{folder}/{text_digest(text)}"
    return files


PARAMETERS = parameter_files()
NEW_PARAMETERS = [name for name in PARAMETERS.values() if not Path(name).exists()]


def superseded():
    """Files of what jobs of this run depended on before, to be removed."""
    folders = {Path(name).parent for name in NEW_PARAMETERS}
    return sorted(
        str(old) for folder in folders if folder.is_dir() for old in folder.iterdir()
    )
