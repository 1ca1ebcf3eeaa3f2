"""Measure throughput, energy and CO2 of a model's checkpoints together; write efficiency.json.

One job measures all of them in turn, round by round (``interleave.py``), so that other work on the
machine slows all alike: ratios within a round mean something where the speeds themselves do not.
Checkpoints are loaded together where they fit into memory, else one at a time; the output says
which. The same stack serves dense and sparse checkpoints. Prompts have one fixed length, every run
makes a fixed number of new tokens greedily. Per batch size: time to first token, prefill and
decode tokens/s, J/token, kWh/Mtok and kg CO2e/Mtok, each as median and quartiles over rounds, and
the records of all rounds. A pruned checkpoint saved as ordinary weights runs on dense kernels and
the output says so. The file is a measurement: only its fields spec, digest, prompts and
the digests of the checkpoints are the same from run to run.
"""

import argparse
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ..config.flags import add_flags, checked
from ..data.hub_models import located
from ..data.readers.rows import table_files
from ..io.checksums import sealed, sha256_cached, source_folder
from ..io.codedigest import package_versions
from ..io.errors import UserError
from ..io.files import digest, write_json
from ..io.outputs import check_file
from ..io.progress import Progress
from ..io.provenance import machine
from ..models.architecture import max_positions
from ..models.identity import identify
from ..models.loading import limit_threads, load_config, load_tokenizer, own_dtype, pick_device
from ..models.trust import add_trust_argument, trust_record
from . import workload as prompting
from .backends import BACKENDS, Backend, choose
from .energy import EnergyMeter, Reading
from .interleave import Record, decide, measure_rounds
from .measure import Settings, summarize

# Options that decide the figures as they are given
SPEC = ("batch_sizes", "new_tokens", "rounds", "warmup", "min_seconds", "carbon_intensity", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``benchmark-serving``."""
    add = parser.add_argument
    add("--model", type=Path, nargs="+", required=True, help="model folders, dense or pruned")
    add("--names", nargs="+", metavar="NAME", help="of them, in order; default: the folders")
    add("--prompts", type=Path, required=True, help="texts.jsonl, UltraChat folder or its record")
    add("--out", type=Path, required=True, help="JSON file")
    add_flags(parser, Settings)
    add_trust_argument(parser)


def make_job(
    asked: Settings, folders: dict[str, Path], prompts_file: Path, backend: str
) -> tuple[dict[str, Any], list[list[int]]]:
    """Return what is the same from run to run, and the prompts.

    The former are ``spec``, all that decides the figures, and the digests of ``models`` and
    ``prompts``. Raises UserError for folders and prompts that do not do.
    """
    place = source_folder(prompts_file)
    texts = prompting.prompt_texts(place)
    models = {name: identify(folder).as_dict() for name, folder in folders.items()}
    configs = {name: load_config(folder) for name, folder in folders.items()}
    context = min(map(max_positions, folders.values()))
    length = prompting.prompt_length(context, asked.prompt_tokens, asked.new_tokens)
    if length < asked.prompt_tokens:
        print(f"prompts cut to {length} tokens: the model's context is {context}")
    tokenizer, most = load_tokenizer(next(iter(folders.values()))), max(asked.batch_sizes)
    prompts = prompting.make_prompts(texts, tokenizer, most, length, asked.seed)
    spec = {
        "backend": backend,
        "device": pick_device(asked.device),
        "dtypes": {name: own_dtype(asked.dtype, config) for name, config in configs.items()},
        **{name: getattr(asked, name) for name in SPEC},
        "prompt_tokens": length,
        **trust_record(),
    }
    files = {file.name: sha256_cached(file) for file in table_files(place)}
    told = {"files": files, "tokens_sha256": digest(prompts)}
    return {"spec": spec, "models": models, "prompts": told}, prompts


def energy_of(reading: Reading, device: str) -> dict[str, Any]:
    """Return what the energy of a generation is made of, and how it was read."""
    scope = reading.scope(device)
    components = {
        name: {"source": reading.sources[name], "method": reading.methods[name]}
        | {"watts": joules / reading.seconds}
        for name, joules in reading.joules.items()
    }
    version = package_versions("codecarbon")["codecarbon"]
    return {
        "source": reading.source(scope),
        "scope": list(scope),
        "components": components,
        "tracker": {"name": "codecarbon offline", "version": version},
    }


def checkpoint_part(own: Sequence[Record], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the output says of one checkpoint's ``own`` records: figures and energy."""
    categories = {}
    for size in spec["batch_sizes"]:
        rows = [one["figures"] for one in own if one["batch"] == size]
        found = {figure: summarize([row[figure] for row in rows]) for figure in rows[0]}
        categories[f"batch {size}"] = found
    return {
        "headline": "decode_tok_per_s",
        "metrics": next(iter(categories.values())),
        "categories": categories,
        "energy": energy_of(Reading(**own[-1]["generate"]), spec["device"]),
    }


def run(args: argparse.Namespace) -> None:
    """Run ``benchmark-serving``."""
    asked = checked(Settings, {name: getattr(args, name) for name in Settings.model_fields})
    names = args.names or list(map(str, args.model))
    if len(names) != len(args.model) or len(set(names)) != len(names):
        raise UserError(
            f"expected one name of its own for each of the {len(args.model)} models, got "
            f"{', '.join(names)}; name every --model once"
        )
    with located(*args.model, trust=args.trust_remote_code) as models:
        folders = dict(zip(names, map(source_folder, models), strict=True))
        inputs = [*models, *folders.values(), args.prompts, source_folder(args.prompts)]
        benchmark(asked, folders, args.prompts, args.out, inputs)


def benchmark(
    asked: Settings, folders: dict[str, Path], prompts: Path, out: Path, inputs: Sequence[Path]
) -> None:
    """Measure the models of ``folders`` by their names, and write what was found to ``out``."""
    limit_threads()
    check_file(out, inputs, keys=("benchmark", "digest"))
    chosen = choose(asked.backend)
    job, tokens = make_job(asked, folders, prompts, chosen)
    spec, models, device = job["spec"], job["models"], job["spec"]["device"]
    if chosen != asked.backend:
        found = "vLLM is installed here" if chosen == "vllm" else "no vLLM in this environment"
        print(f"--backend {asked.backend}: {found}, measuring with {chosen}")
    together, why = decide(asked.engines, list(folders.values()), device, asked.gpus)
    print(f"engines {'together' if together else 'in turn'}: {why}")

    def load(name: str) -> Backend:
        longest, engines = spec["prompt_tokens"] + asked.new_tokens, len(folders) if together else 1
        return BACKENDS[chosen](folders[name], asked, spec["dtypes"][name], longest, engines)

    names = list(folders)
    progress = Progress(asked.rounds * len(names) * len(asked.batch_sizes), "benchmark-serving")
    with closing(EnergyMeter(device, asked.carbon_intensity, asked.gpus)) as meter:
        records, descriptions = measure_rounds(
            load, together, meter, tokens, names, asked, progress.update
        )
    own = {name: [one for one in records if one["checkpoint"] == name] for name in names}
    dense = [name for name, model in models.items() if model["base_sha256"] is None]
    result = {
        "benchmark": "serving",
        "task": "serving",
        **job,
        "digest": digest(job),
        # What the others are compared with: the model that was pruned from none, if it is one.
        "dense": dense[0] if len(dense) == 1 else None,
        "engines": {"asked": asked.engines, "together": together, "why": why},
        "host": platform.node(),
        "system": {**machine(device), **package_versions("torch")},
        "checkpoints": {
            name: {**model, "backend": descriptions[name], **checkpoint_part(own[name], spec)}
            for name, model in models.items()
        },
        "rounds": records,
    }
    write_json(out, sealed(result))
    for name, part in result["checkpoints"].items():
        described, headline = part["backend"], part["metrics"]
        print(
            f"{name}: {described['name']} {described['version']}, {described['kernel']}, batch "
            f"{asked.batch_sizes[0]}: {headline['decode_tok_per_s']['value']:.1f} tok/s decode, "
            f"{headline['j_per_token']['value']:.4g} J/token, "
            f"{headline['kg_co2e_per_mtok']['value']:.3g} kg CO2e/Mtok "
            f"({part['energy']['source']})"
        )
