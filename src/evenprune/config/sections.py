"""The smaller sections of a configuration; every key is said once, here or in ``*_keys.py``.

The tables of ``config/README.md``, ``config/schema.json`` and the commands' flags are made from
these (``docs/configuration.py``, ``plan/flags.py``).
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, create_model, field_validator

from .catalogue import HubEntry, PackageData, PackageEntry, Repository, Sparse
from .facts import DENSE, PRUNING_METHODS, REGIMES
from .pruning_keys import Pruning
from .section import Bos, Dtype, Label, Place, Section, Slug
from .tasks import TASKS

Regime: Any = Literal[(*REGIMES, DENSE)]


class World(Section):
    """The invented world of the embedded default."""

    seed: int = Field(0, ge=0, description="seed of the generator and of the training")
    retrain: bool = Field(
        False,
        description="train the model instead of taking the shipped one, which belongs to seed 0: "
        "any other seed needs it",
    )


class Controls(Section):
    """Several invented worlds: the target ``controls`` makes the run in each and compares."""

    worlds: list[Annotated[int, Field(ge=0)]] = Field(
        [],
        description="their seeds, in place of `world.seed`; at least two, each run with "
        "`<results>/w<seed>` as its results, compared on one page in `<results>/report`; also "
        "`--config 'controls={worlds: [3, 4]}'`; `[]`: no such target; a model that is not shipped "
        "is trained",
    )

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


_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_FOLDER = re.compile(rf"{_PART}(/{_PART})*")


def _folder_under(place: str) -> AfterValidator:
    def check(folder: str) -> str:
        if not _FOLDER.fullmatch(folder):
            raise ValueError(
                f"expected a folder under {place}: a relative path of letters, digits, '.', '_', "
                "'+' and '-', without '..'"
            )
        return folder

    return AfterValidator(check)


# Of a file or folder of one's own.
OwnPath = Annotated[Place, StringConstraints(strip_whitespace=True, min_length=1)]


class ModelProtocol(Sparse):
    """How one model is asked in the benchmarks of a task, where these leave it open (null)."""

    bos: Bos | None = Field(None, description="as in `benchmarks`")
    chat_template: bool | Literal["auto"] | None = Field(None, description="as in `benchmarks`")
    split: str | None = Field(None, description="as in `benchmarks`")
    style: str | None = Field(None, description="as in `benchmarks`")


class PackageModel(PackageEntry):
    """A package with a model."""

    file: Annotated[str, StringConstraints(pattern=r"\.gguf$")] = Field(
        description="file of the wheel with the model, in the form GGUF"
    )


class ModelEntry(Section):
    """A model that experiments can name."""

    mirror: Annotated[str, _folder_under("MIRROR/models")] | None = Field(
        None, description="folder under `MIRROR/models`, without `..`; null: the name"
    )
    hub: Repository | None = Field(
        None,
        description="Hugging Face repository, `org/name` or `org/name@refs/pr/N`; safetensors "
        "only; null: mirror only",
    )
    package: PackageModel | None = Field(
        None,
        description="Python package with the model, taken where no mirror has it and the lock file "
        "pins nothing of `hub`",
    )
    path: OwnPath | None = Field(
        None,
        description="folder of a model of your own, or its GGUF file, relative to the working "
        "directory, in place of `mirror`, `hub` and `package`; see `docs/your-own.md`",
    )
    label: Label = Field(description="name in tables")
    world: bool = Field(
        False,
        description="true for the model that the workflow makes itself, `world`",
    )
    dtype: Dtype = Field(
        "auto",
        description="dtype of evaluation; `auto`: the checkpoint's, "
        "float32 where the processor is slow in it",
    )
    chat_template: bool = Field(
        False,
        description="apply the tokenizer's chat template to prompts, for a model that answers only "
        "chats, of benchmarks that leave it open",
    )
    bos: Bos = Field(
        "auto",
        description="BOS token before a text, in calibration and in benchmarks that leave it open; "
        "for a model whose tokenizer does otherwise than it was trained",
    )
    protocol: dict[Literal[TASKS], ModelProtocol] = Field(  # type: ignore[valid-type]
        {},
        description="task → `bos`, `chat_template`, `split`, `style` of this model, for benchmarks "
        "that leave them open, as in `{perplexity: {split: gptq2048+bos}}`",
    )
    gpus: int = Field(
        1,
        ge=1,
        description="GPUs that hold it together in evaluation and serving, where one is too "
        "small; such jobs ask for as many (pruning needs one)",
    )
    params: str | None = Field(
        None, description="size in words, such as 8B, for the table `models`; null: not known"
    )
    instruction_tuned: bool | None = Field(
        None,
        description="for the tables `models` and `more_models`, which has base models apart; null: "
        "not known",
    )
    multilingual: bool | None = Field(None, description="for the table `models`; null: not known")
    licence: str | None = Field(
        None, description="its name, for the table `licences`; null: not known"
    )
    trust_remote_code: bool = Field(
        False,
        description="fetch, pin and run the Python files (`*.py`) of the model's repository; "
        "read them first",
    )


class DatasetEntry(Section):
    """A data set that benchmarks and calibrations can name."""

    mirror: Annotated[str, _folder_under("MIRROR/data")] | None = Field(
        None,
        description="folder under `MIRROR/data` where yours calls it otherwise, without `..`; "
        "null: the name",
    )
    hub: HubEntry | None = Field(None, description="repository and parts; null: mirror only")
    package: PackageData | None = Field(
        None,
        description="Python package with the data set, taken where no mirror has it and the lock "
        "file pins nothing of `hub`",
    )
    path: OwnPath | None = Field(
        None,
        description="file or folder of your own, relative to the working directory, in place of "
        "`mirror`, `hub` and `package`; see `docs/your-own.md`",
    )
    licence: str | None = Field(
        None, description="its name, for the table `licences`; null: not known"
    )
    groups: str | None = Field(
        None,
        description="whom its items are about, for the table `benchmarks`; null: the categories "
        "that were measured",
    )
