"""What each job is told: the options of every command, from the configuration alone.

A job gets exactly the options that decide its bytes. An option that a method or a benchmark does
not use is handed over with its default, whatever the configuration says, so that changing it
reruns nothing.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ..io.errors import UserError, shown
from ..io.files import canonical_json
from . import grids
from .calibration_keys import Calibration, Tokens
from .config import Config
from .facts import NO_CALIBRATION, used_options
from .grids import Checkpoint
from .paths import Paths
from .pruning_keys import Pruning
from .serving_keys import Measured


def any_of(names: Iterable[str]) -> str:
    """Return a regular expression of exactly these names."""
    return "|".join(map(re.escape, names))


def flags(options: Mapping[str, Any], commas: bool = False) -> str:
    """Return options as flags, text for a shell: a list's values in turn, or joined by ``commas``.

    An option that is "" or empty is left out.
    """
    words = []
    for name, value in options.items():
        if value not in ("", []):
            values = list(map(str, value if isinstance(value, list) else [value]))
            values = [",".join(values)] if commas else values
            words += [f"--{name.replace('_', '-')}", *map(shlex.quote, values)]
    return " ".join(words)


def of_model(config: Config, model: str) -> dict[str, str]:
    """Return what many steps are told of a model: ``trust``, ``bos``, ``device`` and ``gpus``."""
    count, bos = gpus_for(config, model), config.models[model].bos
    return {
        "bos": f"--bos {bos}" if bos != Tokens().bos else "",
        "trust": "--trust-remote-code" if config.models[model].trust_remote_code else "",
        "device": config.device,
        "gpus": f"--gpus {count}" if count > 1 else "",
    }


def gpus_per_job(config: Config) -> int:
    """Return how many GPUs a pruning, evaluation or serving job asks for."""
    return 0 if config.device == "cpu" else 1


def gpus_for(config: Config, model: str) -> int:
    """Return how many GPUs an evaluation or serving job of a model asks for."""
    return gpus_per_job(config) * config.models[model].gpus


def gpus_asked_by(selector: object, count: int) -> dict[str, int | str | None]:
    """Return the resources ``gpu`` and ``gres`` of a job on ``count`` GPUs.

    ``selector``, `gpu_selector` of profiles/site: `gpus` or None for --gpus=N, `gres` for
    --gres=gpu:N, `gres:KIND` for --gres=gpu:KIND:N. Raises UserError for anything else.
    """
    found = re.fullmatch(r"gpus|gres(:\w[\w.]*)?", str(selector or "gpus"))
    if not found:
        raise UserError(
            f"expected gpus, gres or gres:KIND at gpu_selector, got {shown(selector)}; correct "
            "default-resources in profiles/site/config.yaml"
        )
    if found[0] == "gpus":
        return {"gpu": count, "gres": None}
    return {"gpu": 0, "gres": f"gpu{found[1] or ''}:{count}" if count else None}


def mirror(config: Config) -> str | list[str] | None:
    """Return the folders that are asked first: the invented world of the run, or the user's.

    One of them stands alone, as in the file that names it for the records.
    """
    if config.source == "world":
        return f"{config.results}/world"
    return config.mirror[0] if config.mirror and len(config.mirror) == 1 else config.mirror


def fetch_flags(paths: Paths) -> str:
    """Return what fetching steps are told of a run: its lock, and where they ask first.

    That is the file that names the mirror, or the world of the run.
    """
    place = {"mirror_file": paths.mirror_file} if paths.mirror_file else {}
    return flags({"lock": paths.config.lock, **(place or {"mirror": mirror(paths.config)})})


def world_command(config: Config) -> str:
    """Return the subcommand that makes the world's model, with the flags of its own."""
    return (
        f"train-world --seed {config.world.seed}" if config.world.retrain else "shipped-world-model"
    )


def source_entry(config: Config, kind: str, name: str) -> dict[str, Any]:
    """Return where a data set (``data``) or model (``models``) comes from."""
    named = config.datasets[name] if kind == "data" else config.models[name]
    entry = named.model_dump(include={"mirror", "hub", "package"})
    if named.path is not None:
        entry = {"path": named.path}
    if kind == "data":
        return entry
    return entry | ({"trust_remote_code": True} if config.models[name].trust_remote_code else {})


def source_json(config: Config, kind: str, name: str) -> str:
    """Return where a source comes from, as the fetching steps take it."""
    return canonical_json({"entry": source_entry(config, kind, name)})


def needed_sources(config: Config) -> list[tuple[Literal["data", "models"], str, dict[str, Any]]]:
    """Return (kind, name, entry) of each source that the run reads and does not make itself."""
    found: list[tuple[Literal["data", "models"], str, dict[str, Any]]] = []
    found += [("data", n, source_entry(config, "data", n)) for n in grids.needed_datasets(config)]
    found += [("models", n, source_entry(config, "models", n)) for n in grids.needed_models(config)]
    return [one for one in found if config.source != "world" or one[2].get("path")]


def calibration_sources(paths: Paths, calibration: str) -> list[str]:
    """Return the records of the data sets that a calibration reads."""
    entry = paths.config.calibrations[calibration]
    return [paths.dataset(name) for name in (*entry.pairs, entry.texts) if name]


def calibration_options(paths: Paths, calibration: str) -> dict[str, Any]:
    """Return the options of ``build-calibration`` by name; ``texts_*`` are "" without texts,
    ``pair_tokens`` where no sentence is cut.

    ``pairs_source`` and ``pairs_data`` are lists of equal length.
    """
    entry = paths.config.calibrations[calibration]
    unused = Calibration(pairs=entry.pairs)
    return {
        "pairs_source": entry.pairs,
        "pairs_data": [paths.dataset(name) for name in entry.pairs],
        "categories": ",".join(entry.categories),
        "texts_source": entry.texts or "",
        "texts_data": paths.dataset(entry.texts) if entry.texts else "",
        "n_texts": entry.n_texts if entry.texts else unused.n_texts,
        "max_tokens": entry.max_tokens if entry.texts else unused.max_tokens,
        "pair_tokens": entry.pair_tokens or "",
        "alignment": grids.alignment(paths.config, calibration),
        "control": entry.control,
        "counterfactuals": entry.counterfactuals or "",
    }


def calibration_flags(paths: Paths, calibration: str) -> str:
    """Return the flags of ``build-calibration`` that are a calibration's, as text for a shell."""
    return flags(calibration_options(paths, calibration))


def pruned_with(paths: Paths, point: Checkpoint) -> list[str]:
    """Return the files of pairs and texts that a checkpoint is calibrated with."""
    if point.calibration == NO_CALIBRATION:
        return []
    folder = paths.calibration(point.model, point.calibration, point.seed)
    return [f"{folder}/pairs.jsonl", f"{folder}/texts.jsonl"]


def prune_options(config: Config, point: Checkpoint) -> dict[str, Any]:
    """Return the options of ``prune`` by name: the method's own where it uses them."""
    method = grids.base_method(config, point.method)
    wanted = grids.method_options(config, point.method)
    if point.calibration != NO_CALIBRATION:
        wanted["alignment"] = grids.alignment(config, point.calibration)
    used = used_options(method, wanted)
    default = Pruning().model_dump()
    bos = config.models[point.model].bos
    read = point.calibration != NO_CALIBRATION and bos != Tokens().bos
    return {"method": method, **({"bos": bos} if read else {})} | {
        name: wanted[name] if name in used else default[name] for name in default
    }


def prune_flags(paths: Paths, point: Checkpoint) -> str:
    """Return the flags of ``prune`` that are a checkpoint's own, as text for a shell."""
    pairs, texts = pruned_with(paths, point) or ("", "")
    if texts and not paths.config.calibrations[point.calibration].texts:
        texts = ""
    options = prune_options(paths.config, point)
    method = options.pop("method")
    used = used_options(method, options)
    own = {name: options[name] for name in options if name in (*used, "bos")}
    return flags({"pairs": pairs, "texts": texts, "method": method, **own}, commas=True)


def benchmark_sources(paths: Paths, point: Checkpoint) -> list[str]:
    """Return the records of the data sets that a checkpoint's benchmarks read."""
    entries = grids.benchmarks_of(paths.config, point).values()
    return [paths.dataset(name) for name in sorted({e.dataset for e in entries if e.dataset})]


def judge_sources(paths: Paths, point: Checkpoint) -> list[str]:
    """Return the records of the guard models of a checkpoint's benchmarks."""
    entries = grids.benchmarks_of(paths.config, point).values()
    return [paths.model(name) for name in sorted({e.judge for e in entries if e.judge})]


def benchmark_options(paths: Paths, point: Checkpoint) -> dict[str, dict[str, Any]]:
    """Return the options of a checkpoint's benchmarks, as ``evaluate-checkpoint`` takes them."""
    model = paths.config.models[point.model]
    found = {}
    for slug, benchmark in grids.benchmarks_of(paths.config, point).items():
        unused = {"dataset", "experiments"}
        drawn = benchmark.limit is not None or benchmark.counterfactuals
        unused |= set() if drawn else {"seed"}  # of no sample
        unused |= {"lexicon"} if benchmark.judge else set()
        options = benchmark.model_dump(exclude=unused, exclude_none=True)
        options |= {"dtype": model.dtype}
        if benchmark.dataset:
            options["data"] = paths.dataset(benchmark.dataset)
        options |= grids.asked_of(paths.config, benchmark, point.model)
        if benchmark.judge:
            options["judge"] = paths.model(benchmark.judge)
        found[slug] = options
    return found


def benchmarks_json(paths: Paths, point: Checkpoint) -> str:
    """Return a checkpoint's benchmarks as one text, the same for the same options."""
    return canonical_json(benchmark_options(paths, point))


def evaluation_memory_mb(config: Config) -> int:
    """Return the MB of memory of a job that evaluates a checkpoint."""
    if config.device == "cuda":
        return 32_000
    return 6_000 if any(one.backend == "vllm" for one in config.benchmarks.values()) else 3_000


def serving_memory_mb(paths: Paths, model: str) -> int:
    """Return the MB of memory of the job that serves a model's checkpoints, all that it may load.

    On a GPU their weights lie in the GPU's memory.
    """
    at_once = 1 if paths.config.serving.engines == "in-turn" else len(paths.served(model))
    if paths.config.device == "cuda":
        return 24_000 + 8_000 * at_once
    return 6_000 * at_once


def serving_minutes(paths: Paths, model: str) -> int:
    """Return the minutes that a cluster gives the job that serves a model's checkpoints."""
    return 60 + 60 * len(paths.served(model))


def serving_options(config: Config, model: str) -> dict[str, Any]:
    """Return the options of ``benchmark-serving`` by name."""
    own = config.serving.model_dump(include=set(Measured.model_fields))
    first = {name: own.pop(name) for name in ("backend", "engines")}
    return {**first, "dtype": config.models[model].dtype, **own}


def serving_flags(config: Config, model: str) -> str:
    """Return the flags of ``benchmark-serving`` that are a model's options, as text for a shell."""
    return flags(serving_options(config, model), commas=True)
