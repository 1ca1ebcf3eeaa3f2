"""The jobs of a run as a graph: what each waits for, what it asks for, how much it has to do.

The same jobs as Snakemake's (``tests/plan/test_plan.py`` compares them), from the configuration
alone. Work is counted in units that a measured time can be scaled by; the assumptions that
stand in for data that is not there yet are ``ITEMS``, ``ITEM_TOKENS`` and ``PAIR_TOKENS``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path

from ..base.errors import UserError
from ..base.files import read_json
from . import grids, jobs
from .config import Benchmark
from .facts import NO_CALIBRATION, is_calibrated
from .grids import Checkpoint
from .paths import TABLE_FORMS, Paths
from .sizes import ModelSize, model_size
from .tasks import JUDGED, splits_of

# Assumed number of items of a task's split (of its default one under ""), of perplexity tokens.
ITEMS = {
    "perplexity": {"": 300_000},
    "hellaswag": {"": 10_042},
    "mmlu": {"": 14_042, "validation": 1_531, "dev": 285},
    "crows_pairs": {"": 1_677, "anonymized": 1_508},
    "stereoset": {"": 2_106},
    "unqover": {"": 40_008, "sampled": 3_000},
    "bbq": {"": 58_492, "helm1000": 1_000, "groups8864": 8_864},
    "realtoxicityprompts": {"": 1_200},
    "harmbench": {"": 200, "all": 400, "contextual": 100, "copyright": 100},
    "multiple_choice": {"": 1_000},
    "lm_eval": {"": 1_000},
}
# Assumed tokens that a model reads for one item, all its options together.
ITEM_TOKENS = {
    **{"perplexity": 1, "hellaswag": 400, "mmlu": 130, "crows_pairs": 40, "stereoset": 40},
    **{"unqover": 90, "bbq": 100, "realtoxicityprompts": 20, "harmbench": 50},
    **{"multiple_choice": 130, "lm_eval": 200},
}
NEW_TOKENS = 256  # of an answer, where the configuration does not say
PAIR_TOKENS = 24  # of two sentences
PAIRS = {"stereoset": 2_106, "crows_pairs": 1_677, "question_pairs": 1_000}
OWN_ROWS = 100  # of a file of the user's own


@dataclass(frozen=True)
class Part:
    """A benchmark of an evaluation; parts of one ``kind`` have the same items.

    ``items`` is their number as it is assumed, ``parameters`` those of the model.
    """

    slug: str
    kind: str
    items: float
    parameters: float
    flops: float

    @property
    def task(self) -> str:
        """What is done with each item."""
        return self.kind.partition("/")[0]


@dataclass
class Job:
    """One job. ``out`` names it: its output below the results, as its command is given it.

    ``kind`` is what its time can be compared with: jobs of one kind take time in proportion to
    ``work``. ``flops``: the products of its forward passes alone. ``makes``: bytes that it leaves
    on disk, negative where it deletes.
    """

    rule: str
    out: str
    files: list[str]
    needs: list[str] = field(default_factory=list)
    kind: str = ""
    work: float = 1.0
    flops: float = 0.0
    threads: int = 1
    gpus: int = 0
    makes: float = 0.0
    parts: list[Part] = field(default_factory=list)
    on_device: bool = False
    priority: int = 0


class Graph:
    """The jobs of the target ``all`` of a configuration, by name, in an order that can be run.

    ``runs`` are the results of other runs: what they counted stands in for what this one has not
    yet, before anything is assumed.
    """

    def __init__(
        self,
        paths: Paths,
        given: Mapping[str, float] | None = None,
        pdf: bool = False,
        runs: Sequence[Path] = (),
    ) -> None:
        self.paths, self.config, self.pdf = paths, paths.config, pdf
        self.runs = [Path(self.config.results), *runs]
        self.sizes = {
            name: model_size(paths, name, given) for name in grids.needed_models(self.config)
        }
        self.jobs: dict[str, Job] = {job.out: job for job in self._all()}

    def inside(self, path: str) -> str:
        """Return a path of the run relative to its results."""
        return path.removeprefix(f"{self.config.results}/")

    def unknown_sizes(self) -> list[str]:
        """Return the models whose size nothing tells."""
        return [name for name, size in self.sizes.items() if size.basis == "unknown"]

    def is_done(self, job: Job) -> bool:
        """Return whether all files of a job are there; whether they are current only Snakemake
        knows."""
        return all(Path(self.config.results, file).exists() for file in job.files)

    def left(self) -> dict[str, Job]:
        """Return the jobs that are still to be done, in order.

        As in Snakemake, what only stands between others that are done is not made again.
        """
        followed = {need for job in self.jobs.values() for need in job.needs}
        done = {name: self.is_done(job) for name, job in self.jobs.items()}
        needed: set[str] = set()
        for name, job in reversed(self.jobs.items()):
            if not done[name] and (name in needed or name not in followed):
                needed |= {name, *job.needs}
        return {name: job for name, job in self.jobs.items() if name in needed and not done[name]}

    def making(self, files: Collection[str]) -> dict[str, Job]:
        """Return the jobs that make some of ``files``, in order; their paths as the run's."""
        results = self.config.results
        return {
            name: job
            for name, job in self.jobs.items()
            if any(f"{results}/{file}" in files for file in job.files)
        }

    # Jobs, stage by stage

    def _all(self) -> Iterator[Job]:
        yield from self._sources()
        for point in self.paths.checkpoints:
            yield from self._pruning(point)
        for point in self.paths.checkpoints:
            yield self._evaluation(point)
        yield from self._serving()
        yield from self._tables()

    def _sources(self) -> Iterator[Job]:
        config, world = self.config, self.config.source == "world"
        if world:
            yield Job("generate_world", "world", ["world/world.json"], kind="generate_world")
        for name in grids.needed_datasets(config):
            out = self.inside(self.paths.dataset(name))
            yield Job("fetch_dataset", out, [out], ["world"] if world else [], f"fetch {name}")
        for name, size in self.sizes.items():
            made = f"world/models/{name}"
            if world:
                kind = "train_world" if config.world.retrain else "world_model"
                yield Job("world_model", made, [made], ["world"], kind, size.bytes or 1.0)
            out = self.inside(self.paths.model(name))
            entry = config.models[name]
            hub = entry.hub is not None and not config.mirror and not entry.path
            yield Job(
                *("fetch_model", out, [out], [made] if world else [], "fetch_model"),
                *(size.bytes or 1.0,),
                makes=0.0 if world or not hub else size.bytes,
            )
        for model, name, seed in grids.calibrated(self.paths.checkpoints):
            out = self.inside(self.paths.calibration(model, name, seed))
            needs = [self.inside(path) for path in jobs.calibration_sources(self.paths, name)]
            needs.append(self.inside(self.paths.model(model)))
            yield Job(
                "build_calibration", out, [f"{out}/manifest.json"], needs, "build_calibration"
            )

    def _pruning(self, point: Checkpoint) -> Iterator[Job]:
        if point.is_base:
            return
        size, folder = self.sizes[point.model], f"pruned/{point.key}"
        base = grids.base_method(self.config, point.method)
        needs = [self.inside(self.paths.model(point.model))]
        tokens = 0.0
        calibrated = point.calibration != NO_CALIBRATION
        if calibrated:
            own = self.paths.calibration(point.model, point.calibration, point.seed)
            needs.append(self.inside(own))
            tokens = self.calibration_tokens(point)
        assert calibrated == is_calibrated(base, grids.method_options(self.config, point.method))
        yield Job(
            "prune_model" if calibrated else "prune_uncalibrated",
            f"{folder}/model",
            [f"{folder}/model"],
            needs,
            f"prune {base}/{point.regime}",
            work=(size.parameters or 1.0) * max(tokens, 1.0),
            flops=2 * size.parameters * tokens,
            threads=self.config.threads,
            gpus=jobs.gpus_per_job(self.config),
            makes=size.bytes,
            on_device=True,
        )
        yield Job(
            *("check_pruned", f"{folder}/check.json", [f"{folder}/check.json"]),
            *([f"{folder}/model"], "check_pruned", size.bytes or 1.0),
            priority=1,
        )
        if point in self.paths.mask_references:
            reference = self.inside(self.paths.mask_reference(point))
            yield Job(
                *("compare_masks", f"{folder}/masks.csv", [f"{folder}/masks.csv"]),
                *([f"{folder}/check.json", reference], "compare_masks", size.bytes or 1.0),
                priority=1,
            )

    def _evaluation(self, point: Checkpoint) -> Job:
        size = self.sizes[point.model]
        parts = [
            self._part(slug, entry, size)
            for slug, entry in grids.benchmarks_of(self.config, point).items()
        ]
        sources = [
            *(self.paths.ready(point), *jobs.benchmark_sources(self.paths, point)),
            *jobs.judge_sources(self.paths, point),
        ]
        return Job(
            *("evaluate_checkpoint", f"evals/{point.key}", [f"evals/{point.key}/summary.json"]),
            *([self.inside(path) for path in sources], "evaluate_checkpoint"),
            work=size.parameters or 1.0,
            flops=sum(part.flops for part in parts),
            threads=self.config.threads,
            gpus=jobs.gpus_per_job(self.config),
            parts=parts,
            on_device=True,
            priority=1,
        )

    def _part(self, slug: str, entry: Benchmark, size: ModelSize) -> Part:
        split = entry.split or splits_of(entry.task, entry.dataset)[0]
        counts = ITEMS[entry.task]
        items = counts.get(split, counts[""])
        items = min(items, entry.limit or items) * (entry.orders or 1)
        tokens = ITEM_TOKENS[entry.task]
        if entry.task in JUDGED:
            tokens += entry.max_new_tokens or NEW_TOKENS
        data = f"{self.config.source}/{entry.name or entry.dataset}/{split}/{entry.limit}"
        kind = f"{entry.task}/{data}/{entry.orders}/{entry.max_new_tokens}"
        flops = 2 * size.parameters * items * tokens
        return Part(slug, kind, items, size.parameters or 1.0, flops)

    def _serving(self) -> Iterator[Job]:
        config, options, paths = self.config, self.config.serving, self.paths
        for model in dict.fromkeys(point.model for point in grids.serving_checkpoints(config)):
            size, points = self.sizes[model], paths.served(model)
            for point in points:
                if paths.is_compressed(point):
                    out = self.inside(paths.exported(point))
                    needs = [self.inside(paths.ready(point))]
                    # Values of half the weights and two bits a place: 9/16 in half precision.
                    yield Job(
                        *("export_sparse24", out, [out], needs, "export_sparse24"),
                        *(size.bytes or 1.0,),
                        makes=size.bytes * 9 / 16,
                    )
            out = self.inside(paths.efficiency(model))
            steps = options.new_tokens * (options.rounds + 1) * len(points)
            sequences = sum(options.batch_sizes)
            needs = [self.inside(paths.served_ready(point)) for point in points]
            yield Job(
                *("benchmark_serving", out, [out]),
                [*needs, self.inside(paths.dataset(config.serving.dataset))],
                kind="benchmark_serving",
                work=(size.parameters or 1.0) * sequences * steps,
                flops=2 * size.parameters * sequences * steps,
                threads=0,  # all cores
                gpus=jobs.gpus_per_job(config),
                on_device=True,
            )

    def _tables(self) -> Iterator[Job]:
        paths, config = self.paths, self.config
        yield Job("write_run_sheet", "run_sheet.json", ["run_sheet.json"], [], "write_run_sheet")
        evals = [f"evals/{point.key}" for point in paths.checkpoints]
        read = [*paths.pruned_files(), *paths.mask_files(), *paths.serving_files()]
        calibrated = grids.calibrated(paths.checkpoints)
        needs = [
            *("run_sheet.json", *evals, *map(self.inside, read)),
            *(self.inside(paths.calibration(*key)) for key in calibrated),
        ]
        yield Job("collect_results", "results.csv", ["results.csv"], needs, "collect_results")
        shown = []
        for table in config.tables:
            out = f"tables/{table}"
            files = [f"{out}.{form}" for form in TABLE_FORMS]
            measured = map(self.inside, paths.measurements_of(table))
            yield Job("make_table", out, files, ["results.csv", *measured], f"table {table}")
            shown.append(out)
        for figure in config.figures:
            out = f"figures/{figure}"
            yield Job("make_figure", out, [f"{out}.pdf"], ["results.csv"], f"figure {figure}")
            shown.append(out)
        for out in map(self.inside, paths.item_files()):
            data = map(self.inside, paths.item_sources())
            yield Job("make_items", out, [out], ["run_sheet.json", *evals, *data], "make_items")
            shown.append(out)
        if paths.world_files():
            dense = [f"evals/{point.key}" for point in paths.dense_points().values()]
            files = ["report/world.html", "report/world.csv"]
            yield Job("report_world", "report", files, dense, "report_world")
            shown.append("report")
        page, *pdf = map(self.inside, paths.paper_files(self.pdf))
        yield Job("make_page", page, [page], shown, "make_page")
        if pdf:
            yield Job("make_paper", "paper.pdf", pdf, shown, "make_paper")

    # What is known of the calibration text

    def calibration_tokens(self, point: Checkpoint) -> float:
        """Return the tokens that a checkpoint is calibrated on: counted, else assumed."""
        key = (point.model, point.calibration, point.seed)
        return self._tokens.get(key) or self._assumed_tokens(point.calibration)

    @cached_property
    def _tokens(self) -> dict[tuple[str, str, int], float]:
        """Tokens of the calibrations that are built, by model, calibration and seed."""
        found: dict[tuple[str, str, int], float] = {}
        for run, key in product(self.runs, grids.calibrated(self.paths.checkpoints)):
            manifest = run / self.inside(self.paths.calibration(*key)) / "manifest.json"
            try:
                tokens = read_json(manifest)["tokens"]
                count = float(sum(tokens.values()) if isinstance(tokens, dict) else tokens)
            except (UserError, KeyError, TypeError, ValueError):
                continue
            found.setdefault(key, count)
        return found

    def _assumed_tokens(self, calibration: str) -> float:
        entry = self.config.calibrations[calibration]
        pairs = sum(PAIRS.get(name, OWN_ROWS) for name in entry.pairs)
        texts = entry.n_texts or (OWN_ROWS if entry.texts else 0)
        return float(pairs * PAIR_TOKENS + texts * entry.max_tokens)
