"""Prune the linear layers of a model's decoder blocks.

Reads a Hugging Face folder (safetensors) and calibration text, writes a Hugging Face folder
with manifest.json, provenance.json and layers.csv. A killed run continues when it is started again.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.facts import METHODS, PRUNING_METHODS
from ..config.flags import add_flags, given
from ..models.trust import add_trust_argument
from .options import RELEASED_TOKENS, Options

if TYPE_CHECKING:
    from .packing import Text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``prune``."""
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="folder of the base model")
    without = " or ".join(name for name in PRUNING_METHODS if not METHODS[name].calibrated)
    add("--pairs", type=Path, metavar="FILE",
        help=f"sentence pairs, JSON lines or CSV (not for {without})")  # fmt: skip
    add("--calibration", metavar="NAME", help="calibration of the catalogue, in place of --pairs "
        "and --texts; without any of them that of the default configuration")  # fmt: skip
    add("--texts", type=Path, metavar="FILE", help="further calibration texts, JSON lines or CSV")
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the pruned model")
    add_flags(parser, Options)
    add("--check", type=Path, metavar="FILE", help="check the result too; the report (JSON)")
    add("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    add("--work", type=Path, metavar="DIR", help="for unfinished results, kept if killed")
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Check the options, read and tokenise the text, prune."""
    from ..io.checksums import sealed, source_folder
    from ..io.errors import UserError
    from ..io.files import write_json
    from ..io.gpu import claim_device
    from ..io.marks import PRUNED
    from ..io.outputs import check_folder
    from ..models.identity import identify
    from ..models.loading import limit_threads, pick_device
    from .check import check_model, check_report
    from .engine import prune_model
    from .workspace import check_work

    options = given(Options, args)
    options.check()
    options.refuse_unused()
    record, args.model = args.model, source_folder(args.model)
    inputs = [args.model, record, args.pairs, args.texts]
    check_folder(args.out, PRUNED, inputs)
    check_work(args.work, args.out, inputs)
    if args.check:
        check_report(args.check, inputs, "--check")
        if args.out.resolve() in args.check.resolve().parents:
            raise UserError(
                f"--check {args.check} is in --out {args.out}, which the model has for itself; "
                "choose another place"
            )
    identify(args.model)
    text = calibration_text(args, options)
    limit_threads()
    source = base_source(record, args.model)
    report: dict[str, Any] = {}

    def inspect(folder: Path) -> None:
        if args.check:
            report.update(check_model(folder, args.model))

    with claim_device(pick_device(args.device)) as device:
        manifest = prune_model(
            args.model, options, text, args.out, device, args.work, source, inspect
        )
    if args.check:
        write_json(args.check, sealed(report))
    print(f"wrote {args.out}: {manifest['sparsity']:.2%} zeros; its README.md is the model card")
    both = shlex.join([str(args.model), str(args.out)])
    print(f"next: evenprune compare {both} --benchmark crows_pairs --limit 200")


def calibration_text(args: argparse.Namespace, options: Options) -> "Text":
    """Read and tokenise the calibration text that ``args`` name; the tokenizer is freed here."""
    from ..data.calibration import pair_notes, tokenize_pairs, tokenize_texts
    from ..data.defaults import default_calibration
    from ..data.readers.own_rows import read_pairs, read_texts
    from ..io.checksums import check_calibration_file
    from ..io.errors import UserError
    from ..models.architecture import max_positions
    from ..models.bos import fixed_rows, puts_bos
    from ..models.loading import load_tokenizer
    from .packing import Text

    tokenizer = load_tokenizer(args.model)
    if not options.calibrated:
        unused = [name for name in ("pairs", "texts", "calibration") if getattr(args, name)]
        if unused:
            ignored = " and ".join(f"--{name}" for name in unused)
            print(f"{args.method} uses no text: {ignored} ignored", file=sys.stderr)
        return Text()
    if args.pairs is None:
        if args.texts:
            raise UserError("expected --pairs FILE with --texts; give it")
        named = (args.calibration, args.alignment, args.seed, args.bos)
        args.pairs, args.texts = default_calibration(args.model, *named)
    elif args.calibration:
        raise UserError("expected --calibration or --pairs, got both; leave one of them out")
    cut = RELEASED_TOKENS if options.cuts_pairs else None
    read = read_pairs(args.pairs)
    pairs = tokenize_pairs(read, tokenizer, args.alignment, cut, args.bos)
    for note in pair_notes(read, pairs, "--alignment"):
        print(note, file=sys.stderr)
    print(f"calibration: {len(pairs.pairs)} pairs, {pairs.dropped} dropped", file=sys.stderr)
    texts, limit = [], max_positions(args.model)
    if args.texts:
        rows = read_texts(args.texts)
        ids = tokenize_texts([row["text"] for row in rows], tokenizer, bos=args.bos)
        long = sum(len(tokens) > limit for tokens in ids)
        if long:
            print(f"{long} texts cut to the model's {limit} positions", file=sys.stderr)
        texts = [(row["id"], tokens[:limit]) for row, tokens in zip(rows, ids, strict=True)]
    return Text(
        pairs,
        texts,
        check_calibration_file(args.pairs),
        check_calibration_file(args.texts) if args.texts else None,
        hub_datasets([path for path in (args.pairs, args.texts) if path]),
        fixed_rows(tokenizer, limit) if args.bos == "auto" else (),
        puts_bos(tokenizer),
    )


def base_source(record: Path, folder: Path) -> dict[str, str]:
    """Return where a base model is from: ``hub`` and ``revision`` of one that its record has from
    the hub, and what its ``weights`` were stored as where they came out of another form."""
    from ..data.packages import source_facts
    from ..io.files import read_json

    content = read_json(record) if record.is_file() else {}
    found = {name: str(content[name]) for name in ("hub", "revision") if content.get("hub")}
    return found | {key: str(v) for key, v in source_facts(folder).items() if key == "weights"}


def hub_datasets(files: list[Path]) -> tuple[str, ...]:
    """Return the hub repositories that calibration files are from, as their manifests say."""
    from ..io.files import read_json

    manifests = {file.parent / "manifest.json" for file in files}
    found = [read_json(path) for path in manifests if path.is_file()]
    named = [one.get("hub") for one in found if isinstance(one, dict)]
    return tuple(sorted({str(name) for names in named if names for name in names}))
