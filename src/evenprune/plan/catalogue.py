"""The entries of the catalogues of models and data sets: every key, as in ``sections.py``."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    model_serializer,
    model_validator,
)

from .benchmark_keys import Bos
from .section import Dtype, Label, Place, Section
from .tasks import TASKS

_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_FOLDER = re.compile(rf"{_PART}(/{_PART})*")
_REPOSITORY = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9._/-]*)?"
)


_DISTRIBUTION = r"^[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!_-]*$"


def is_repository(name: str) -> bool:
    """Return whether a text has the form of a hub repository, ``org/name`` or ``org/name@ref``."""
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name


def _repository(name: str) -> str:
    if not is_repository(name):
        raise ValueError("expected a repository org/name or org/name@reference")
    return name


def _folder_under(place: str) -> AfterValidator:
    def check(folder: str) -> str:
        if not _FOLDER.fullmatch(folder):
            raise ValueError(
                f"expected a folder under {place}: a relative path of letters, digits, '.', '_', "
                "'+' and '-', without '..'"
            )
        return folder

    return AfterValidator(check)


Repository = Annotated[str, AfterValidator(_repository)]
Pattern = Annotated[str, StringConstraints(min_length=1)]
# Of a file or folder of one's own.
OwnPath = Annotated[Place, StringConstraints(strip_whitespace=True, min_length=1)]


class Sparse(Section):
    """A section that is written as it was given: without the keys that are null."""

    @model_serializer(mode="wrap")
    def _given(self, write: Any) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}


class ModelProtocol(Sparse):
    """How one model is asked in the benchmarks of a task, where these leave it open (null)."""

    bos: Bos | None = Field(None, description="as in `benchmarks`")
    chat_template: bool | Literal["auto"] | None = Field(None, description="as in `benchmarks`")
    split: str | None = Field(None, description="as in `benchmarks`")
    style: str | None = Field(None, description="as in `benchmarks`")


class PackageEntry(Sparse):
    """A Python package whose wheel holds a source; it is read, never installed or imported."""

    name: Annotated[str, StringConstraints(pattern=_DISTRIBUTION)] = Field(
        description="distribution and version, `NAME==VERSION`, that pip can download"
    )
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] = Field(
        description="SHA-256 of its wheel"
    )
    megabytes: int = Field(ge=1, description="size of its wheel")
    licence: str = Field(description="file of the wheel with the source's licence")


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
        description="true for the models that the workflow makes itself, `world` and `world-small`",
    )
    dtype: Dtype = Field("auto", description="dtype of evaluation; `auto`: the checkpoint's")
    chat_template: bool = Field(
        False,
        description="apply the tokenizer's chat template to prompts, for a model that answers only "
        "chats, of benchmarks that leave it open",
    )
    bos: Bos = Field(
        "auto",
        description="BOS token before a text, of benchmarks that leave it open; for a model whose "
        "tokenizer does otherwise than it was trained",
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


class FilePart(Sparse):
    """Some files of a hub repository or package, the rows of which are a part of a data set."""

    files: list[Pattern] = Field(
        min_length=1,
        description="patterns; the first that matches anything is used, on the main branch or "
        "else on the hub's own parquet copy",
    )
    at: str | None = Field(
        None, description="keys that lead to the rows of a JSON file, as in `data.intrasentence`"
    )
    rows: int | None = Field(None, ge=1, description="how many rows there must be; null: any")
    first: int | None = Field(None, ge=1, description="how many rows are taken; null: all")
    columns: Annotated[list[Pattern], Field(min_length=1)] | None = Field(
        None,
        description="which are kept as they are in `PART.jsonl`; only for data sets without a "
        "converter of their own",
    )


class HubPart(FilePart):
    """A part of a data set on the hub."""

    repo: Repository | None = Field(None, description="in place of `hub.repo`")


class PackageData(PackageEntry):
    """A package with a data set."""

    folder: str = Field(description="folder of the wheel that the files lie in")
    parts: dict[str, FilePart] = Field(description="parts of the data set, by name")


class HubEntry(Sparse):
    """Where a data set lies on the hub."""

    repo: Repository | None = Field(
        None, description="repository of all parts, `org/name` or `org/name@reference`"
    )
    parts: dict[str, HubPart] = Field(min_length=1, description="parts of the data set, by name")

    @model_validator(mode="after")
    def _repositories(self) -> "HubEntry":
        for name, part in self.parts.items():
            if part.repo is None and self.repo is None:
                raise ValueError(f"expected a repository as repo here or in parts.{name}")
        return self


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
