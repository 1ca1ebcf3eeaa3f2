"""The workflow's configuration as a whole: read, validated, all errors at once.

``config/catalogue.yaml`` holds what can be named (models, data sets, calibrations); a
configuration file selects from it and may add entries of its own. No torch here: this
module is imported while Snakemake builds its graph.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ..io.errors import UserError
from ..io.yamlfile import merge, read_yaml
from . import table_registry
from .benchmark_keys import Benchmark
from .calibration_keys import Calibration
from .catalogue import PACKAGED
from .checks import all_errors
from .field_errors import field_errors
from .own_files import with_own_files
from .pruning_keys import Pruning
from .section import Place, Section, Slug, Words, each_once, listed, short_names
from .sections import Controls, DatasetEntry, Experiment, MethodVariant, ModelEntry, World
from .serving_keys import Serving
from .tasks import splits_of

CATALOGUE, DEFAULT = Path("config/catalogue.yaml"), Path("config/config.yaml")
TABLES, FIGURES = tuple(sorted(table_registry.TABLES)), tuple(sorted(table_registry.FIGURES))


class Config(Section):
    """The whole configuration."""

    results: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_./][A-Za-z0-9_./-]*$"),
        AfterValidator(short_names),
    ] = Field(
        "results",
        description="folder for everything that is made; may be a link to scratch space",
    )
    title: Words = Field("", description="one line on the first page of the PDF")
    source: Literal["world", "external"] = Field(
        description="where data and models come from: `world` (made by the workflow), `external` "
        "(mirror, then hub)"
    )
    mirror: (
        Annotated[
            list[Place],
            Field(min_length=1),
            BeforeValidator(listed, json_schema_input_type=str | list[str]),
            AfterValidator(each_once),
        ]
        | None
    ) = Field(
        None,
        description="folder with `data/<name>/…` and `models/<name>/…`, tried before the hub, or "
        "a list of several, tried in this order",
    )
    lock: Place = Field(
        "config/sources.lock.json",
        description="file with the hub's revisions and checksums, written by `snakemake prefetch`",
    )
    device: Literal["cpu", "cuda"] = Field(
        "cpu",
        description="where pruning, evaluation and serving run; a job that is to use `cuda` and "
        "finds no GPU stops, another one asks Snakemake or the cluster for one GPU",
    )
    keep: Literal["checkpoints", "evals"] = Field(
        "checkpoints",
        description="what a run leaves: `checkpoints` (everything), `evals` (a pruned checkpoint "
        "is deleted after its last use, as Snakemake's `temp()`, and made again when it is needed)",
    )
    check_disk: bool = Field(
        True,
        description="stop before the first job where the checkpoints do not fit on the disk; false "
        "where the system does not know how much there is",
    )
    threads: int = Field(1, ge=1, description="CPU threads of one pruning or evaluation job")
    world: World = Field(World(), description="the invented world")
    controls: Controls = Field(
        Controls(), description="the worlds of the target `controls`, which compares them"
    )
    models: dict[Slug, ModelEntry] = Field(description="catalogue of models, by name")
    datasets: dict[Slug, DatasetEntry] = Field(description="catalogue of data sets, by name")
    calibrations: dict[Slug, Calibration] = Field(description="catalogue of calibrations, by name")
    pruning: Pruning = Field(Pruning(), description="options of all methods")
    methods: dict[Slug, MethodVariant] = Field(
        {},
        description="further methods: a built-in one with other options, under its own name",
    )
    benchmarks: dict[Slug, Benchmark] = Field(
        min_length=1, description="evaluations of every checkpoint"
    )
    experiments: dict[Slug, Experiment] = Field(min_length=1, description="grids, one a table")
    tables: list[Literal[TABLES]] = Field(  # type: ignore[valid-type]
        min_length=1, description="which tables to make"
    )
    figures: list[Literal[FIGURES]] = Field(  # type: ignore[valid-type]
        [], description="which figures to draw"
    )
    pdf: bool | Literal["auto"] = Field(
        "auto",
        description="make `paper.pdf` of all tables and figures; `auto`: where LaTeX is installed; "
        "false where only the tables are wanted",
    )
    serving: Serving = Field(Serving(), description="throughput, energy, CO2")

    @model_validator(mode="after")
    def _whole_sources(self) -> "Config":
        """Take no data set from a Python package that lacks the split of a benchmark."""
        for entry in self.benchmarks.values() if self.source == "external" else ():
            name, split = entry.dataset, entry.split or splits_of(entry.task, entry.dataset)[0]
            if name in self.datasets and split not in PACKAGED.get(name, (split,)):
                without = {"package": None}
                self.datasets[name] = self.datasets[name].model_copy(update=without)
        return self


def validate_config(raw: Mapping[str, Any], origin: str = "the configuration") -> Config:
    """Return the validated configuration, or raise one UserError that lists every error.

    Each line of the message gives the path of the key, the value found, the allowed
    values and the nearest match.
    """
    if not isinstance(raw, Mapping):
        raise UserError(f"expected a mapping as {origin}, got {type(raw).__name__}; name its keys")
    raw = with_own_files(raw)
    config, lines = None, []
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        hint = "; see config/README.md for what it means"
        for _, line in field_errors(error, Config):
            lines.append(line + (hint if line.endswith("is missing") else ""))
    lines += all_errors(raw)
    if lines or config is None:
        count = f"{len(lines)} error{'s' if len(lines) > 1 else ''}"
        raise UserError(f"{origin} has {count}:\n" + "\n".join(f"  {line}" for line in lines))
    return config


def default_config() -> Config:
    """Return the default configuration: that of the working directory, else the shipped one."""
    return load_config({}, DEFAULT, CATALOGUE)


def _shipped(file: Path | str) -> Path:
    """Return the package's own file for a default one that the working directory lacks."""
    if Path(file) in (DEFAULT, CATALOGUE) and not Path(file).is_file():
        return Path(__file__).parents[1] / "shipped" / file
    return Path(file)


def load_config(given: Mapping[str, Any], default: Path | str, catalogue: Path | str) -> Config:
    """Return the configuration of a run.

    ``given`` is what Snakemake was handed (``--configfile`` and ``--config``). Without
    experiments in it, the file ``default`` is the base. The catalogue always comes first,
    so a configuration selects by name and may add or change entries.
    """
    raw = dict(given)
    if "experiments" not in raw:
        raw = merge(read_yaml(_shipped(default)), raw)
    return validate_config(merge(read_yaml(_shipped(catalogue)), raw))
