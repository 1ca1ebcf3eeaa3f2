"""Everything the rules need that is Python: configuration, run sheet, input functions."""

import dataclasses
import functools
import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

REPO = Path(str(workflow.current_basedir)).resolve().parents[1]
if (REPO / "src").is_dir():
    sys.path.insert(0, str(REPO / "src"))

try:
    from evenprune.data import sources
    from evenprune.plan import facts, grids
    from evenprune.base.codedigest import (
        code_digest as package_digest,
        package_versions,
    )
    from evenprune.plan.config import (
        FIGURES,
        METHODS,
        REGIMES,
        TABLES,
        load_config,
        read_yaml,
    )
    from evenprune.base.errors import UserError
    from evenprune.base.files import canonical_json, digest as text_digest
    from evenprune.pruning.methods import FACTS, module_of
    from evenprune.reporting.make_paper import latex_available
    from evenprune.reporting.plausibility import printed_anomaly
    from evenprune.serving.environment import OWN, serving_python
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"this Snakemake runs on {sys.executable}, which lacks the Python package {error.name}; "
        "build the workflow's environment with `make env` and use its snakemake "
        "(`source .venv/bin/activate`)"
    ) from None

DEFAULT = Path("config/config.yaml")
try:
    # Snakemake has merged these into `config` and let the last of equal keys win.
    for given in workflow.overwrite_configfiles:
        read_yaml(given)
    CONFIG = load_config(
        config,
        default=DEFAULT if DEFAULT.is_file() else REPO / DEFAULT,
        catalogue=REPO / "config/catalogue.yaml",
    )
except UserError as error:
    raise WorkflowError(str(error)) from None

# The package is used from the checkout, without installing it.
shell.prefix(f"set -euo pipefail; export PYTHONPATH={shlex.quote(str(REPO / 'src'))}; ")

RESULTS = CONFIG.results
CHECKPOINTS = grids.all_checkpoints(CONFIG)
POINTS = {point.key: point for point in CHECKPOINTS}
MASK_REFERENCES = grids.mask_references(CONFIG)
WORLD = CONFIG.source == "world"
MIRROR = f"{RESULTS}/world" if WORLD else CONFIG.mirror
DEVICE = CONFIG.device
GPUS_PER_JOB = (
    1 if DEVICE == "cuda" or (DEVICE == "auto" and grids.gpu_present()) else 0
)

# The Python of benchmark-serving, and that of benchmarks whose backend is vLLM: one that was asked
# for and is missing stops the run at once.
BY_CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
try:
    SERVING_PYTHON = (
        serving_python(
            CONFIG.serving.python, CONFIG.serving.backend, [Path(), REPO], BY_CONDA
        )
        if CONFIG.serving.experiment
        else ""
    )
    VLLM_BENCHMARKS = [
        name for name, entry in CONFIG.benchmarks.items() if entry.backend == "vllm"
    ]
    VLLM_PYTHON = (
        serving_python(
            CONFIG.serving.python,
            "vllm",
            [Path(), REPO],
            BY_CONDA,
            key=f"benchmarks.{VLLM_BENCHMARKS[0]}.backend",
        )
        if VLLM_BENCHMARKS
        else OWN
    )
except UserError as error:
    raise WorkflowError(str(error)) from None


def code_digest(*modules):
    """A parameter that changes when the code of a step changes, not when a comment does."""
    return ",".join(package_digest(f"evenprune.{module}") for module in modules)


def flags(**options):
    """Command line flags from keyword arguments, quoted; None and "" are left out."""
    words = []
    for name, value in options.items():
        if value is not None and value != "":
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def parameters(rule_name, *names):
    """The input that says what a job's result depends on, see parameters.smk."""

    def found(wildcards):
        values = [wildcards.get(name) for name in names] or ["all"]
        return PARAMETERS.get((rule_name, Path(*values).as_posix()), [])

    return found


def any_of(names):
    """A regular expression of exactly these names."""
    return "|".join(map(re.escape, names))


DEVICE_FLAGS = flags(device=None if DEVICE == "auto" else DEVICE)
VLLM_FLAGS = flags(serving_python=None if VLLM_PYTHON == OWN else VLLM_PYTHON)


# The code of steps that more than one rule file needs.
EVALUATION_CODE = code_digest(
    "evaluation.evaluate_checkpoint",
    "evaluation.perplexity",
    "evaluation.choices",
    "evaluation.stereoset",
    "evaluation.unqover",
    "evaluation.bbq",
    "evaluation.safety",
)
WORLD_MODEL_CODE = code_digest(
    "world.train_world" if CONFIG.world.retrain else "world.shipped_world_model"
)


# Files by stage


def checkpoint_ready(point):
    """The file that says a checkpoint exists and may be evaluated."""
    if point.regime == "dense":
        return f"{RESULTS}/sources/models/{point.model}.json"
    return f"{RESULTS}/pruned/{point.key}/check.json"


def exported_folder(point):
    return f"{RESULTS}/exported/{point.key}"


def served_compressed(point):
    """Whether a checkpoint is served from its 2:4 export: only those have 2:4 kernels."""
    wanted = CONFIG.serving.sparse24
    if wanted is None:
        wanted = bool(GPUS_PER_JOB)
    return wanted and point.regime == "2of4"


def checkpoint_folder(point):
    """What --model is given: the record of a dense model, or a pruned folder."""
    if point.regime == "dense":
        return checkpoint_ready(point)
    return f"{RESULTS}/pruned/{point.key}/model"


def calibration_folder(model, calibration, seed):
    return f"{RESULTS}/calibration/{model}/{calibration}/s{seed}"


def calibration_manifest(model, calibration, seed):
    return f"{calibration_folder(model, calibration, seed)}/manifest.json"


def data_files():
    return [
        *(
            f"{RESULTS}/sources/data/{name}.json"
            for name in grids.needed_datasets(CONFIG)
        ),
        *(
            f"{RESULTS}/sources/models/{name}.json"
            for name in grids.needed_models(CONFIG)
        ),
        *(
            f"{calibration_folder(*key)}/manifest.json"
            for key in grids.calibrated(CHECKPOINTS)
        ),
    ]


def pruned_files():
    return [checkpoint_ready(point) for point in CHECKPOINTS if point.regime != "dense"]


def masks_file(point):
    return f"{RESULTS}/pruned/{point.key}/masks.csv"


def mask_files():
    return [masks_file(point) for point in MASK_REFERENCES]


def eval_files():
    return [f"{RESULTS}/evals/{point.key}/summary.json" for point in CHECKPOINTS]


def serving_files():
    return [
        f"{RESULTS}/serving/{point.key}/efficiency.json"
        for point in grids.serving_checkpoints(CONFIG)
    ]


def table_files():
    return [
        f"{RESULTS}/results.csv",
        *(
            f"{RESULTS}/tables/{table}.{ext}"
            for table in CONFIG.tables
            for ext in ("tex", "csv", "md")
        ),
    ]


def figure_files():
    return [f"{RESULTS}/figures/{figure}.pdf" for figure in CONFIG.figures]


def paper_files():
    if latex_available():
        return [f"{RESULTS}/paper.pdf"]
    print(
        "no LaTeX here (latexmk and pdflatex): everything but paper.pdf is made",
        file=sys.stderr,
    )
    return []


# Parameters of the rules: strings and numbers only, so that Snakemake can compare them


def point_of(wildcards):
    return grids.Checkpoint(
        wildcards.model,
        wildcards.method,
        wildcards.regime,
        wildcards.calibration,
        int(wildcards.seed),
    )


def ready(wildcards):
    return checkpoint_ready(point_of(wildcards))


def folder(wildcards):
    return checkpoint_folder(point_of(wildcards))


def mask_reference(wildcards):
    """The check of the SparseGPT checkpoint that a checkpoint's zeros are compared with."""
    point = point_of(wildcards)
    if point not in MASK_REFERENCES:
        raise WorkflowError(
            f"{masks_file(point)} compares with SparseGPT, but this run has no such counterpart "
            f"of {point.key}; add sparsegpt to the methods of its experiment"
        )
    return checkpoint_ready(MASK_REFERENCES[point])


@functools.cache
def source_spec(kind, name):
    entries = CONFIG.datasets if kind == "data" else CONFIG.models
    entry = entries[name].model_dump(include={"mirror", "hub"})
    if kind == "models" and entries[name].trust_remote_code:
        entry["trust_remote_code"] = True
    found = "" if WORLD else sources.fingerprint(kind, name, entry, MIRROR, CONFIG.lock)
    return canonical_json({"entry": entry, "fingerprint": found})


def source_params(kind):
    """What decides the outcome of fetching: the entry, the lock's revision, the mirror's bytes."""

    def params(wildcards):
        return source_spec(
            kind, wildcards.dataset if kind == "data" else wildcards.model
        )

    return params


def world_input(wildcards):
    """The invented world is made by rules; a mirror or the hub is just there."""
    return f"{RESULTS}/world/world.json" if WORLD else []


def world_model_input(wildcards):
    return f"{RESULTS}/world/models/{wildcards.model}" if WORLD else []


def world_command():
    """The subcommand that makes the world's model."""
    if CONFIG.world.retrain:
        return f"train-world {flags(seed=CONFIG.world.seed)}"
    return "shipped-world-model"


def trust_flag(wildcards):
    """--trust-remote-code for the models whose own code the configuration allows."""
    allowed = CONFIG.models[wildcards.model].trust_remote_code
    return "--trust-remote-code" if allowed else ""


def calibration_inputs(wildcards):
    calibration = CONFIG.calibrations[wildcards.calibration]
    names = [name for name in (calibration.pairs, calibration.texts) if name]
    return [f"{RESULTS}/sources/data/{name}.json" for name in names]


def calibration_flags(wildcards):
    entry = CONFIG.calibrations[wildcards.calibration]
    return flags(
        pairs_source=entry.pairs,
        pairs_data=f"{RESULTS}/sources/data/{entry.pairs}.json",
        categories=",".join(entry.categories),
        texts_data=(
            f"{RESULTS}/sources/data/{entry.texts}.json" if entry.texts else None
        ),
        n_texts=entry.n_texts if entry.texts else None,
        max_tokens=entry.max_tokens if entry.texts else None,
        alignment=grids.alignment(CONFIG, wildcards.calibration),
        control=entry.control,
    )


def prune_flags(wildcards):
    options = grids.method_options(CONFIG, wildcards.method)
    calibration = wildcards.get("calibration", "none")
    if calibration != "none":
        options["alignment"] = grids.alignment(CONFIG, calibration)
    return flags(
        method=grids.base_method(CONFIG, wildcards.method),
        regime=wildcards.regime,
        **options,
    )


def method_code(step):
    """A parameter that changes with a step's code, the job's own method and its regime."""

    def found(wildcards):
        method = module_of(grids.base_method(CONFIG, wildcards.method))
        regime = dataclasses.astuple(facts.REGIMES[wildcards.regime])
        codes = [package_digest(name, FACTS) for name in (f"evenprune.{step}", method)]
        return ",".join([*codes, *map(str, regime)])

    return found


def texts_flag(wildcards):
    """--texts only where the calibration has texts."""
    if not CONFIG.calibrations[wildcards.calibration].texts:
        return ""
    key = (wildcards.model, wildcards.calibration, wildcards.seed)
    return flags(texts=f"{calibration_folder(*key)}/texts.jsonl")


def benchmarks_of(wildcards):
    return grids.benchmarks_of(CONFIG, point_of(wildcards))


def benchmark_inputs(wildcards):
    names = {entry.dataset for entry in benchmarks_of(wildcards).values()}
    return [f"{RESULTS}/sources/data/{name}.json" for name in sorted(names)]


def judge_record(name):
    return f"{RESULTS}/sources/models/{name}.json"


def judge_inputs(wildcards):
    names = {entry.judge for entry in benchmarks_of(wildcards).values() if entry.judge}
    return [judge_record(name) for name in sorted(names)]


def benchmarks_json(wildcards):
    """The benchmarks of the configuration as canonical JSON, as evaluate-checkpoint takes them."""
    model = CONFIG.models[wildcards.model]
    specs = {}
    for slug, benchmark in benchmarks_of(wildcards).items():
        own = {"dataset", "experiments"}
        spec = benchmark.model_dump(exclude=own, exclude_none=True)
        spec["data"] = f"{RESULTS}/sources/data/{benchmark.dataset}.json"
        spec["dtype"] = model.dtype
        spec.setdefault("chat_template", model.chat_template)
        if benchmark.judge:
            spec["judge"] = judge_record(benchmark.judge)
        specs[slug] = spec
    return canonical_json(specs)


def served_input(wildcards):
    """What a measurement waits for: the export where that is served, else the checkpoint."""
    point = point_of(wildcards)
    return (
        exported_folder(point) if served_compressed(point) else checkpoint_ready(point)
    )


def served_folder(wildcards):
    point = point_of(wildcards)
    return (
        exported_folder(point) if served_compressed(point) else checkpoint_folder(point)
    )


def serving_flags(wildcards):
    options = CONFIG.serving
    return flags(
        backend=options.backend,
        dtype=CONFIG.models[wildcards.model].dtype,
        batch_sizes=",".join(map(str, options.batch_sizes)),
        new_tokens=options.new_tokens,
        prompt_tokens=options.prompt_tokens,
        repetitions=options.repetitions,
        carbon_intensity=options.carbon_intensity,
    )


def run_spec():
    """What the tables need to know: the checkpoints, their files and the configuration."""
    served = {point.key for point in grids.serving_checkpoints(CONFIG)}
    # Where something lies or runs on this machine changes no table.
    local = {"mirror": True, "lock": True, "device": True, "threads": True}
    dumped = CONFIG.model_dump(mode="json", exclude=local | {"serving": {"python"}})
    dumped["models"] = {
        name: dumped["models"][name] for name in grids.needed_models(CONFIG)
    }
    return {
        "config": dumped,
        "experiments": {
            name: [point.key for point in grids.experiment_checkpoints(CONFIG, name)]
            for name in CONFIG.experiments
        },
        "checkpoints": [
            {
                "model": point.model,
                "method": point.method,
                "regime": point.regime,
                "calibration": point.calibration,
                "seed": point.seed,
                "evals": f"{RESULTS}/evals/{point.key}",
                "check": None if point.regime == "dense" else checkpoint_ready(point),
                "masks": masks_file(point) if point in MASK_REFERENCES else None,
                "calibration_manifest": (
                    None
                    if point.calibration == "none"
                    else calibration_manifest(
                        point.model, point.calibration, point.seed
                    )
                ),
                "serving": (
                    f"{RESULTS}/serving/{point.key}/efficiency.json"
                    if point.key in served
                    else None
                ),
            }
            for point in CHECKPOINTS
        ],
    }


def table_note(wildcards):
    """A paragraph for the table's caption in the report."""
    return printed_anomaly() if wildcards.table == "efficiency" else ""


def table_code(wildcards):
    """The code of one table: what all tables share, and its own module."""
    return code_digest("reporting.make_table", f"reporting.tables.{wildcards.table}")


def figure_code(wildcards):
    """The code of one figure: what all figures share, and its own module."""
    return code_digest("reporting.make_figure", f"reporting.figures.{wildcards.figure}")


def tables_folder(wildcards):
    return f"{RESULTS}/tables"


def figures_folder(wildcards):
    return f"{RESULTS}/figures"


# Resources: memory in MB and run time in minutes for a job, raised on a retry


def memory_mb(base):
    def amount(wildcards, attempt):
        return base * attempt

    return amount
