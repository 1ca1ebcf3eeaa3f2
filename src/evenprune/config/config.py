"""The workflow's configuration: its sections and the whole, read, validated, all errors at once.

Every key is said once, here, in ``*_keys.py`` or in ``catalogue.py``: the tables of
``config/README.md``, ``config/schema.json`` and the commands' flags are made from them
(``docs/configuration.py``, ``config/flags.py``). ``config/catalogue.yaml`` holds what can be named
(models, data sets, calibrations); a configuration file selects from it and may add entries of its
own. No torch here: this module is imported while Snakemake builds its graph.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, create_model

from ..io.errors import UserError
from ..io.yamlfile import merge, read_yaml
from . import table_registry
from .benchmark_keys import Benchmark
from .calibration_keys import Calibration
from .catalogue import PACKAGED, HubEntry, PackageData, PackageEntry, Repository, Sparse
from .checks import all_errors
from .facts import DENSE, PRUNING_METHODS, REGIMES
from .field_errors import field_errors
from .pruning_keys import Pruning
from .section import Bos, Dtype, Label, OneOrMore, Place, Section, Slug, Words, short_names
from .serving_keys import Serving
from .tasks import TASKS, splits_of

CATALOGUE, DEFAULT = Path("config/catalogue.yaml"), Path("config/config.yaml")
# What the name of a file ends with; anything with a slash is a path too.
ENDINGS = (".jsonl", ".csv", ".tsv", ".json", ".jsonl.gz", ".csv.gz", ".tsv.gz", ".yaml", ".yml")
TABLES, FIGURES = tuple(sorted(table_registry.TABLES)), tuple(sorted(table_registry.FIGURES))


Regime: Any = Literal[(*REGIMES, DENSE)]


class World(Section):
    """The invented world of the embedded default."""

    seed: int = Field(0, ge=0)
    """seed of the generator and of the training"""
    retrain: bool = False
    """train the model; false: the shipped one, which belongs to seed 0"""


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

    method: Literal[PRUNING_METHODS]  # type: ignore[valid-type]
    """the built-in method"""
    label: Label | None = None
    """name in tables; null: the name of the variant"""


class Experiment(Section):
    """A grid; each table of the paper is one."""

    models: list[Slug] = Field(min_length=1)
    """names under `models`"""
    methods: list[Slug] = Field(min_length=1)
    """built-in methods and names under `methods`"""
    regimes: list[Regime] = Field(min_length=1)
    """`u25` `u50` unstructured; `1of4` `2of4` zeros in each group of four"""
    calibrations: list[Slug] = Field(min_length=1)
    """names under `calibrations`"""
    seeds: list[Annotated[int, Field(ge=0)]] = Field([0], min_length=1)
    """of the texts' order and of the negative controls"""


# Below a mirror's folder: no part begins with a dot.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"


def _folder(text: str) -> str:
    if not re.fullmatch(rf"{_PART}(/{_PART})*", text):
        raise ValueError(
            "expected a folder below the mirror's: a relative path of letters, digits, '.', '_', "
            "'+' and '-', without '..'"
        )
    return text


Folder = Annotated[str, AfterValidator(_folder)]
# Of a file or folder of one's own.
OwnPath = Annotated[Place, StringConstraints(strip_whitespace=True, min_length=1)]


class ModelProtocol(Sparse):
    """How one model is asked in the benchmarks of a task, where these leave it open (null)."""

    bos: Bos | None = None
    """as in `benchmarks`"""
    chat_template: bool | Literal["auto"] | None = None
    """as in `benchmarks`"""
    split: str | None = None
    """as in `benchmarks`"""
    style: str | None = None
    """as in `benchmarks`"""


class PackageModel(PackageEntry):
    """A package with a model."""

    file: Annotated[str, StringConstraints(pattern=r"\.gguf$")]
    """file of the wheel with the model, in the form GGUF"""


class ModelEntry(Section):
    """A model that experiments can name."""

    mirror: Folder | None = None
    """folder under `MIRROR/models`, without `..`; null: the name"""
    hub: Repository | None = None
    """repository, `org/name` or `org/name@refs/pr/N`; safetensors only; null: mirror only"""
    package: PackageModel | None = None
    """Python package with the model, where no mirror has it and the lock file pins no `hub`"""
    path: OwnPath | None = None
    """your own folder or GGUF file, in place of `mirror`, `hub` and `package`"""
    label: Label
    """name in tables"""
    dtype: Dtype = "auto"
    """dtype of evaluation; `auto`: the checkpoint's, float32 where the processor is slow in it"""
    chat_template: bool = False
    """apply the tokenizer's chat template in benchmarks that leave it open"""
    bos: Bos = "auto"
    """BOS before a text, in calibration and in benchmarks that leave it open"""
    protocol: dict[Literal[TASKS], ModelProtocol] = Field({})  # type: ignore[valid-type]
    """task → keys for benchmarks that leave them open, `{perplexity: {split: gptq2048+bos}}`"""
    gpus: int = Field(1, ge=1)
    """GPUs that hold it together in evaluation and serving (pruning needs one)"""
    params: str | None = None
    """size in words, such as 8B, for the table `models`; null: not known"""
    instruction_tuned: bool | None = None
    """for the tables `models` and `more_models`, which has base models apart; null: not known"""
    multilingual: bool | None = None
    """for the table `models`; null: not known"""
    licence: str | None = None
    """its name, for the table `licences`; null: not known"""
    trust_remote_code: bool = False
    """fetch, pin and run the Python files (`*.py`) of the model's repository; read them first"""


class DatasetEntry(Section):
    """A data set that benchmarks and calibrations can name."""

    mirror: Folder | None = None
    """folder under `MIRROR/data` where yours calls it otherwise, without `..`; null: the name"""
    hub: HubEntry | None = None
    """repository and parts; null: mirror only"""
    package: PackageData | None = None
    """Python package with it, where no mirror has it and the lock file pins no `hub`"""
    path: OwnPath | None = None
    """your own file or folder, in place of `mirror`, `hub` and `package`"""
    licence: str | None = None
    """its name, for the table `licences`; null: not known"""
    groups: str | None = None
    """whom its items are about, for the table `benchmarks`; null: the measured categories"""


class Config(Section):
    """The whole configuration."""

    results: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_./][A-Za-z0-9_./-]*$"),
        AfterValidator(short_names),
    ] = "results"
    """folder for everything that is made; may be a link to scratch space"""
    title: Words = ""
    """one line on the first page of the PDF"""
    source: Literal["world", "external"]
    """of data and models: `world` (made by the workflow), `external` (mirror, then hub)"""
    mirror: OneOrMore[Place] | None = None
    """folder with `data/<name>/…` and `models/<name>/…`, or several, tried before the hub"""
    lock: Place = "config/sources.lock.json"
    """file with the hub's revisions and checksums, written by `snakemake prefetch`"""
    device: Literal["cpu", "cuda"] = "cpu"
    """where pruning, evaluation and serving run; `cuda`: each job asks for a GPU"""
    keep: Literal["checkpoints", "evals"] = "checkpoints"
    """`evals`: a pruned checkpoint is deleted after its last use, and made again when needed"""
    check_disk: bool = True
    """stop before the first job where the checkpoints do not fit on the disk"""
    threads: int = Field(1, ge=1)
    """CPU threads of one pruning or evaluation job"""
    world: World = World()
    """the invented world"""
    models: dict[Slug, ModelEntry]
    """catalogue of models, by name"""
    datasets: dict[Slug, DatasetEntry]
    """catalogue of data sets, by name"""
    calibrations: dict[Slug, Calibration]
    """catalogue of calibrations, by name"""
    pruning: Pruning = Pruning()
    """options of all methods"""
    methods: dict[Slug, MethodVariant] = Field({})
    """further methods: a built-in one with other options, under its own name"""
    benchmarks: dict[Slug, Benchmark] = Field(min_length=1)
    """evaluations of every checkpoint"""
    experiments: dict[Slug, Experiment] = Field(min_length=1)
    """grids, one a table"""
    tables: list[Literal[TABLES]] = Field(min_length=1)  # type: ignore[valid-type]
    """which tables to make"""
    figures: list[Literal[FIGURES]] = Field([])  # type: ignore[valid-type]
    """which figures to draw"""
    pdf: bool | Literal["auto"] = "auto"
    """make `paper.pdf` of all tables and figures; `auto`: where LaTeX is installed"""
    serving: Serving = Serving()
    """throughput, energy, CO2"""

    __hash__ = object.__hash__  # of a key, see grids.py

    def _named(self, value: str, name: str) -> str:
        """Return the name of a data set for a name, or for the path of a file or folder.

        A path becomes an entry of ``datasets`` under ``name``, or ``name-file`` where there is one,
        so that everything behind knows data sets only.
        """
        is_path = "/" in value or value in ("~", ".", "..") or value.lower().endswith(ENDINGS)
        if value in self.datasets or not is_path:
            return value
        while name in self.datasets:
            name += "-file"
        self.datasets[name] = DatasetEntry(path=value)
        return name

    def model_post_init(self, _: Any) -> None:
        """Take the paths of files that stand for a data set: pairs, texts, a benchmark's data.

        And no data set from a Python package that lacks the split of a benchmark.
        """
        for slug, calibration in self.calibrations.items():
            for index, one in enumerate(calibration.pairs):
                name = f"{slug}.pairs{index + 1 if index else ''}"
                calibration.pairs[index] = self._named(one, name)
            if calibration.texts:
                calibration.texts = self._named(calibration.texts, f"{slug}.texts")
        for slug, entry in self.benchmarks.items():
            if entry.dataset:
                entry.dataset = name = self._named(entry.dataset, f"{slug}.data")
                split = entry.split or splits_of(entry.task, name)[0]
                incomplete = split not in PACKAGED.get(name, (split,))
                if incomplete and self.source == "external" and name in self.datasets:
                    self.datasets[name] = self.datasets[name].model_copy(update={"package": None})


def validate_config(raw: Mapping[str, Any], origin: str = "the configuration") -> Config:
    """Return the validated configuration, or raise one UserError that lists every error.

    Those of single values come first; what the keys say of each other is looked at when all
    values are of the right kinds.

    Each line of the message gives the path of the key, the value found, the allowed
    values and the nearest match.
    """
    if not isinstance(raw, Mapping):
        raise UserError(f"expected a mapping as {origin}, got {type(raw).__name__}; name its keys")
    try:
        config = Config.model_validate(raw)
        lines = all_errors(config)
    except ValidationError as error:
        lines = [line for _, line in field_errors(error, Config)]
    if lines:
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
