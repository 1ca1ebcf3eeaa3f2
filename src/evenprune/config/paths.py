"""Where every file of a run lies, and which files each step waits for.

The rules' own outputs name the same places with wildcards; everything else that Snakemake asks
for is decided here, so that it can be tested without Snakemake.
"""

from dataclasses import dataclass
from functools import cached_property

from ..io.errors import UserError
from . import grids
from .config import Config
from .facts import COMPRESSIBLE, NO_CALIBRATION
from .grids import Checkpoint
from .section import listed
from .tasks import ANSWERED


@dataclass(frozen=True)
class Paths:
    """The files of one configuration's run, as strings below ``config.results``."""

    config: Config

    @property
    def results(self) -> str:
        """The folder of everything that the run makes."""
        return self.config.results

    @cached_property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints of the run, each once, sorted."""
        return grids.all_checkpoints(self.config)

    @cached_property
    def mask_references(self) -> dict[Checkpoint, Checkpoint]:
        """The checkpoints whose masks are compared, and with which."""
        return grids.mask_references(self.config)

    # One file or folder

    def dataset(self, name: str) -> str:
        """Return the record of a data set."""
        return f"{self.results}/sources/data/{name}.json"

    @property
    def mirror_file(self) -> str | None:
        """The file that names the mirror; None where a world is made. The records name none."""
        return f"{self.results}/sources/mirror.json" if self.config.source == "external" else None

    def model(self, name: str) -> str:
        """Return the record of a base model."""
        return f"{self.results}/sources/models/{name}.json"

    def calibration(self, model: str, calibration: str, seed: int) -> str:
        """Return the folder of calibration data as a model's tokenizer aligns it."""
        return f"{self.results}/calibration/{model}/{calibration}/s{seed}"

    def calibration_manifest(self, point: Checkpoint) -> str | None:
        """Return the manifest of a checkpoint's calibration data; None where it uses none."""
        if point.calibration == NO_CALIBRATION:
            return None
        return f"{self.calibration(point.model, point.calibration, point.seed)}/manifest.json"

    def calibration_sources(self, calibration: str, kind: str) -> list[str]:
        """Return the records of the data sets of a calibration's ``pairs`` or ``texts``."""
        names = getattr(self.config.calibrations[calibration], kind)
        return [self.dataset(name) for name in listed(names) or []]

    def calibrated_with(self, kind: str, point: Checkpoint) -> list[str]:
        """Return the file of ``pairs`` or ``texts`` that calibrates a checkpoint; none without."""
        used = getattr(self.config.calibrations.get(point.calibration), kind, None)
        folder = self.calibration(point.model, point.calibration, point.seed)
        return [f"{folder}/{kind}.jsonl"] if used else []

    def ready(self, point: Checkpoint) -> str:
        """Return the file that says a checkpoint exists and may be evaluated."""
        if point.is_base:
            return self.model(point.model)
        return f"{self.results}/pruned/{point.key}/check.json"

    def folder(self, point: Checkpoint) -> str:
        """Return what ``--model`` is given: a dense model's record, or a pruned folder."""
        if point.is_base:
            return self.model(point.model)
        return f"{self.results}/pruned/{point.key}/model"

    def masks(self, point: Checkpoint) -> str:
        """Return where a checkpoint's masks are compared with another one's."""
        return f"{self.results}/pruned/{point.key}/masks.csv"

    def mask_reference(self, point: Checkpoint) -> Checkpoint:
        """Return the SparseGPT checkpoint that a checkpoint's masks are compared with.

        Raises UserError where the run has none.
        """
        if point not in self.mask_references:
            raise UserError(
                f"{self.masks(point)} needs SparseGPT's masks; add sparsegpt to its experiment"
            )
        return self.mask_references[point]

    def evaluation(self, point: Checkpoint) -> str:
        """Return the folder of a checkpoint's evaluation."""
        return f"{self.results}/evals/{point.key}"

    def is_compressed(self, point: Checkpoint) -> bool:
        """Return whether a checkpoint is served from its 2:4 export: only that has 2:4 kernels."""
        wanted, on_gpu = self.config.serving.sparse24, self.config.device == "cuda"
        return point.regime == COMPRESSIBLE and (on_gpu if wanted is None else wanted)

    def served_ready(self, point: Checkpoint) -> str:
        """Return what a measurement waits for: the export where that is served."""
        return self.exported(point) if self.is_compressed(point) else self.ready(point)

    def served_folder(self, point: Checkpoint) -> str:
        """Return the folder that is served."""
        return self.exported(point) if self.is_compressed(point) else self.folder(point)

    def exported(self, point: Checkpoint) -> str:
        """Return the folder of a checkpoint's 2:4 export."""
        return f"{self.results}/exported/{point.key}"

    def served(self, model: str) -> list[Checkpoint]:
        """Return the checkpoints of a model that are measured together, the dense one first.

        Raises UserError where the run measures none.
        """
        mine = [one for one in grids.serving_checkpoints(self.config) if one.model == model]
        if not mine:
            raise UserError(
                f"this run measures no checkpoint of {model}; name one of it in serving.experiment"
            )
        return sorted(mine, key=lambda point: not point.is_base)

    def efficiency(self, model: str) -> str:
        """Return the measurement of throughput and energy of a model's checkpoints."""
        return f"{self.results}/serving/{model}/efficiency.json"

    def measurement(self, point: Checkpoint) -> str | None:
        """Return the measurement that a checkpoint is part of; None for one not measured."""
        measured = point in grids.serving_checkpoints(self.config)
        return self.efficiency(point.model) if measured else None

    # All files of a stage

    def calibration_files(self) -> list[str]:
        """Return the manifests of all calibration data."""
        calibrated = grids.calibrated(self.checkpoints)
        return [f"{self.calibration(*key)}/manifest.json" for key in calibrated]

    def data_files(self) -> list[str]:
        """Return the records of data sets and models, and the calibration manifests."""
        return [
            *map(self.dataset, grids.needed_datasets(self.config)),
            *map(self.model, grids.needed_models(self.config)),
            *self.calibration_files(),
        ]

    def pruned_files(self) -> list[str]:
        """Return the checks of all pruned checkpoints."""
        return [self.ready(point) for point in self.checkpoints if not point.is_base]

    def evaluation_files(self) -> list[str]:
        """Return the summaries of all evaluations."""
        return [f"{self.evaluation(point)}/summary.json" for point in self.checkpoints]

    def serving_files(self) -> list[str]:
        """Return the measurements of throughput and energy."""
        models = (point.model for point in grids.serving_checkpoints(self.config))
        return [self.efficiency(model) for model in dict.fromkeys(models)]

    def measured_files(self) -> list[str]:
        """Return all that ``results.csv`` is gathered from."""
        masks = map(self.masks, self.mask_references)
        evaluated = [*self.evaluation_files(), *self.pruned_files(), *masks]
        return [*evaluated, *self.calibration_files(), *self.serving_files()]

    def table_files(self, *forms: str) -> list[str]:
        """Return every table in these forms: tex, csv, md or html."""
        names = self.config.tables
        return [f"{self.results}/tables/{one}.{form}" for one in names for form in forms]

    def figure_files(self, *forms: str) -> list[str]:
        """Return every figure in these forms: pdf, svg, png, or csv of its numbers."""
        names = self.config.figures
        return [f"{self.results}/figures/{one}.{form}" for one in names for form in forms]

    def item_files(self) -> list[str]:
        """Return the items that the page shows one by one, where the run has such benchmarks."""
        return [f"{self.results}/report/items.json"] if self.item_sources() else []

    def item_sources(self) -> list[str]:
        """Return the records of the data sets that the texts of those items are from."""
        entries = self.config.benchmarks.values()
        names = {entry.dataset for entry in entries if entry.task in ANSWERED and entry.dataset}
        return [self.dataset(name) for name in sorted(names)]

    @property
    def page(self) -> str:
        """The page of all tables, figures and items."""
        return f"{self.results}/report/paper.html"

    def shown_files(self, possible: bool) -> list[str]:
        """Return all that a run makes for people; ``possible``: whether a PDF can be made."""
        wanted = possible if self.config.pdf == "auto" else self.config.pdf
        return [
            f"{self.results}/results.csv",
            *self.table_files("html", "tex", "csv", "md"),
            *self.figure_files("pdf"),
            self.page,
            *([f"{self.results}/paper.pdf"] if wanted else []),
        ]
