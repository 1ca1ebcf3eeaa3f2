"""Prune the linear layers of a model's decoder blocks.

Reads a Hugging Face folder (safetensors) and calibration text, writes a Hugging Face folder
with manifest.json, provenance.json and layers.csv. A killed run continues when it is started again.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.facts import METHODS, PRUNING_METHODS, regime_name
from ..config.flags import add_flags, checked
from ..io.checksums import check_calibration_file, sealed, source_folder
from ..io.errors import UserError, few
from ..io.files import read_json, write_json
from ..io.marks import PRUNED
from ..io.outputs import check_folder
from ..methods.options import RELEASED_TOKENS, Options
from ..models.identity import identify
from ..models.loading import limit_threads, load_tokenizer, pick_device
from ..models.trust import add_trust_argument

if TYPE_CHECKING:
    from ..blocks.packing import Text


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
    """Prune, and say what was written."""
    manifest = prune(**vars(args))
    print(f"wrote {args.out}: {manifest['sparsity']:.2%} zeros; its README.md is the model card")
    both = shlex.join([str(args.model), str(args.out)])
    print(f"next: evenprune compare {both} --benchmark crows_pairs --limit 200")


def prune(
    model: Path | str,
    *,
    pairs: Path | str | None = None,
    texts: Path | str | None = None,
    method: str,
    regime: str,
    out: Path | str,
    calibration: str | None = None,
    check: Path | str | None = None,
    device: str | None = None,
    work: Path | str | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Prune the linear layers of a model's decoder blocks in one shot.

    A killed call resumes after its last finished block when it is made again. The same inputs give
    the same bytes.

    Parameters
    ----------
    model : path or str
        A Hugging Face folder (safetensors), a GGUF file, or a name in the catalogue or on the hub.
    pairs : path, optional
        Sentence pairs, JSON lines or CSV. Without pairs and texts, the calibration of the default
        configuration is taken. `magnitude` uses no text.
    texts : path, optional
        Further calibration texts, JSON lines or CSV.
    method : str
        `magnitude`, `wanda`, `sparsegpt`, `debias-sparsegpt` or `debias-lora`.
    regime : str
        `2of4`, `1of4`, `u25`, `u50` (also `2:4`, `50%`), or `dense` for `debias-lora`.
    out : path
        The folder of the pruned model.
    calibration : str, optional
        A calibration of the catalogue, in place of pairs and texts.
    check : path, optional
        Check the result too and write the report (JSON) there, see `check`.
    device : str, optional
        `cpu` or `cuda`; by default CUDA where there is a GPU.
    work : path, optional
        A folder for unfinished results.
    trust_remote_code : bool
        Run the Python code that the model's folder brings.
    **options
        The keys of the section `pruning` of a configuration, such as ``bias_weight`` (b below),
        ``damping``, ``refit_steps`` and ``seed``, all explained by ``evenprune prune --help``.

    Returns
    -------
    dict
        What ``manifest.json`` in ``out`` holds, such as ``sparsity`` and ``layers``.

    Raises
    ------
    UserError
        If an option, the text or the model cannot be used, before anything is written.

    References
    ----------
    Debias-SparseGPT, arXiv 2609.02496. With the calibration text's Hessian H = Σ X Xᵀ and the
    inputs' differences Δ at matched tokens of a pair, D = Σ Δ Δᵀ, the weights Ŵ keep
    tr((Ŵ − W) H′ (Ŵ − W)ᵀ) small, where H′ = H + 2b·D + δI (docs/pruning.md).

    Examples
    --------
    >>> import evenprune
    >>> manifest = evenprune.prune("dense", pairs="pairs.jsonl", method="debias-sparsegpt",
    ...                            regime="2of4", out="pruned", alignment="suffix")
    >>> manifest["sparsity"]
    0.5
    """
    from ..data.hub_models import located
    from ..io.gpu import claim_devices
    from .check import check_model, check_report
    from .engine import prune_model
    from .workspace import check_work

    chosen = checked(Options, {"method": method, "regime": regime_name(regime), **options})
    chosen.check()
    chosen.refuse_unused()
    out, report = Path(out), Path(check) if check else None
    place = Path(work) if work else None
    files = [Path(one) if one else None for one in (pairs, texts)]
    with located(model, trust=trust_remote_code) as (record,):
        base = source_folder(record)
        inputs = [base, record, *files]
        check_folder(out, PRUNED, inputs)
        check_work(place, out, inputs)
        if report:
            check_report(report, inputs, "--check")
            if out.resolve() in report.resolve().parents:
                raise UserError(
                    f"--check {report} is in --out {out}, the model's own; choose another place"
                )
        identify(base)
        text = calibration_text(base, chosen, files, calibration)
        limit_threads()
        source, found = base_source(record, base), dict[str, Any]()

        def inspect(folder: Path) -> None:
            if report:
                found.update(check_model(folder, base, known_tokenizer=True))

        with claim_devices(pick_device(device), 1) as (claimed,):
            manifest = prune_model(base, chosen, text, out, claimed, place, source, inspect)
        if report:
            write_json(report, sealed(found))
        return manifest


def calibration_text(
    model: Path, options: Options, files: Sequence[Path | None], calibration: str | None
) -> "Text":
    """Read and tokenise the text in the files of pairs and texts, else that of a calibration.

    The tokenizer is freed here.
    """
    from ..blocks.packing import Text
    from ..data.calibration import pair_notes, tokenize_pairs, tokenize_texts
    from ..data.readers.own import read_pairs, read_texts
    from ..models.architecture import max_positions
    from ..models.bos import fixed_rows, puts_bos

    tokenizer = load_tokenizer(model)
    pairs_file, texts_file = files
    if not options.calibrated:
        given = zip(("pairs", "texts", "calibration"), (*files, calibration))
        if unused := [f"--{name}" for name, value in given if value]:
            ignored = " and ".join(unused)
            print(f"{options.method} uses no text: {ignored} ignored", file=sys.stderr)
        return Text()
    if pairs_file is None:
        if texts_file:
            raise UserError("expected --pairs FILE with --texts; give it")
        from ..data.defaults import default_calibration

        named = (calibration, options.alignment, options.seed, options.bos)
        pairs_file, texts_file = default_calibration(model, *named)
    elif calibration:
        raise UserError("expected --calibration or --pairs, got both; leave one of them out")
    most = RELEASED_TOKENS if options.cuts_pairs else None
    read = read_pairs(pairs_file)
    pairs = tokenize_pairs(read, tokenizer, options.alignment, most, options.bos)
    for note in pair_notes(read, pairs, "--alignment"):
        print(note, file=sys.stderr)
    print(f"calibration: {len(pairs.pairs)} pairs, {pairs.dropped} dropped", file=sys.stderr)
    texts, limit = [], max_positions(model)
    # Only methods that change the weights read other groups and the third sentence.
    shifts = METHODS[options.method].shifts
    if long := [one.id for one in pairs.pairs if max(map(len, one.sentences(shifts))) > limit]:
        raise UserError(
            f"pairs of more tokens than the {limit} that {model} takes: {few(long)}; shorten them"
        )
    if texts_file:
        rows = read_texts(texts_file)
        ids = tokenize_texts([row["text"] for row in rows], tokenizer, bos=options.bos)
        if cut := sum(len(tokens) > limit for tokens in ids):
            print(f"{cut} texts cut to the model's {limit} positions", file=sys.stderr)
        texts = [(row["id"], tokens[:limit]) for row, tokens in zip(rows, ids, strict=True)]
    return Text(
        pairs,
        texts,
        check_calibration_file(pairs_file),
        check_calibration_file(texts_file) if texts_file else None,
        hub_datasets([path for path in (pairs_file, texts_file) if path]),
        fixed_rows(tokenizer, limit) if options.bos == "auto" else (),
        puts_bos(tokenizer),
    )


def base_source(record: Path, folder: Path) -> dict[str, str]:
    """Return where a base model is from: ``hub`` and ``revision`` of one that its record has from
    the hub, and what its ``weights`` were stored as where they came out of another form."""
    from ..data.packages import source_facts

    content = read_json(record) if record.is_file() else {}
    found = {name: str(content[name]) for name in ("hub", "revision") if content.get("hub")}
    return found | {key: str(v) for key, v in source_facts(folder).items() if key == "weights"}


def hub_datasets(files: list[Path]) -> tuple[str, ...]:
    """Return the hub repositories that calibration files are from, as their manifests say."""
    manifests = {file.parent / "manifest.json" for file in files}
    named = [read_json(path).get("hub") for path in manifests if path.is_file()]
    # Beside files of the user's own may lie a manifest of anything.
    return tuple(sorted({str(one) for names in named if isinstance(names, list) for one in names}))
