"""Select, align and count the calibration pairs and texts for one tokenizer.

Writes pairs.jsonl (the pairs that the alignment keeps), texts.jsonl (unpaired texts, empty
without --texts-data) and manifest.json (counts per category, tokens, checksums of the
sources). The same input gives the same bytes.
"""

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

from ..config.calibration_keys import Calibration, Tokens
from ..config.flags import add_flags, checked
from ..config.pair_sources import ALIGNMENTS, TEXT_SOURCES
from ..io.checksums import sealed, source_checksums, source_folder, source_record
from ..io.errors import UserError, printable
from ..io.files import sha256_file, write_json, write_jsonl
from ..io.marks import CALIBRATION
from ..io.outputs import atomic_folder, check_folder
from ..io.progress import track
from ..models.identity import tokenizer_digest
from ..models.loading import load_tokenizer
from ..models.trust import add_trust_argument
from .calibration import Chosen, pair_notes, tokenize_pairs, tokenize_texts, truncate_text
from .counterfactuals import PARTNERS, add_counterfactuals, exchanged, shuffle_partners
from .hub import split_ref
from .hub_models import located
from .readers.crows_pairs import read_crows_pairs
from .readers.own import read_pairs, read_texts
from .readers.stereoset import read_stereoset
from .readers.texts import read_ultrachat

PAIR = ("id", "category", "stereotype", "anti_stereotype")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("--model", required=True, help="model folder or record, for its tokenizer")
    add_flags(parser, Calibration)
    add("--pairs-data", required=True, nargs="+", metavar="DATA",
        help="folder, file or record of each of --pairs, in the same order")  # fmt: skip
    add("--texts-data", metavar="DATA", help="folder, file or record of --texts")
    add_flags(parser, Tokens)
    add("--seed", type=int, default=0, help="seed of the texts' order and of the control")
    add("--name", help="name of the calibration; default: the folder above --out")
    add("--out", type=Path, required=True, help="folder to write")
    add_trust_argument(parser)


def read_source_pairs(source: str, folder: Path, counterfactuals: int = 0) -> list[dict[str, str]]:
    """Return a data set's pairs with id, category, stereotype and anti_stereotype.

    With ``counterfactuals`` also their group and the sentence that makes no sense; UserError for a
    data set that does not name these. CrowS-Pairs are the original 1,508 (the paper's table counts
    3,016 = 2 x 1,508 sentences); their stereotype is sent_more, whatever stereo_antistereo says.
    """
    if source == "stereoset":
        names = (*PAIR, "unrelated", "target") if counterfactuals else PAIR
        return [{name: getattr(item, name) for name in names} for item in read_stereoset(folder)]
    if counterfactuals:
        raise UserError(
            f"expected counterfactuals: 0 for pairs of {printable(source)}, got "
            f"{counterfactuals}; only stereoset names the group that a pair is about, and your own "
            "pairs may bring the fields target and counterfactuals"
        )
    if source == "crows_pairs":
        found = read_crows_pairs(folder, "anonymized")
        return [dict(zip(PAIR, (p.id, p.category, p.sent_more, p.sent_less))) for p in found]
    return read_pairs(folder)


def select_categories(pairs: list[dict[str, str]], wanted: Sequence[str]) -> list[dict[str, str]]:
    """Return the pairs of the wanted categories ([]: all); raise UserError for an unknown one."""
    known = sorted({pair["category"] for pair in pairs})
    for name in wanted:
        if name not in known:
            raise UserError(
                f"expected categories among {', '.join(known)}, got {name!r}; correct categories"
            )
    return [pair for pair in pairs if not wanted or pair["category"] in wanted]


def choose_texts(texts: Sequence[dict[str, str]], count: int, seed: int) -> list[dict[str, str]]:
    """Return the first ``count`` of a seeded permutation: a smaller set is part of a larger."""
    order = list(texts)
    random.Random(f"texts {seed}").shuffle(order)
    return order[:count]


def choose_pairs(
    pairs: list[dict[str, str]], tokenizer: Any, alignment: str, control: str, seed: int, bos: str
) -> Chosen:
    """Return what alignment and control leave of one data set; UserError where that is nothing.

    What a user should know of the pairs is printed.
    """
    tokenized = tokenize_pairs(pairs, tokenizer, alignment, bos=bos)
    for note in pair_notes(pairs, tokenized, "alignment:"):
        print(printable(note), file=sys.stderr)
    kept_ids = {pair.id for pair in tokenized.pairs}
    used = aligned = [pair for pair in pairs if pair["id"] in kept_ids]
    if control != "none":
        partner = PARTNERS[control]
        lengths = [len(ids) for ids in tokenize_texts([p[partner] for p in aligned], tokenizer)]
        used = [p for p in shuffle_partners(aligned, lengths, seed, control) if p]
        if not used:
            raise UserError(
                f"expected at least two pairs with a sentence {partner} of equal token count for "
                f"the control {control}, got none; use more pairs"
            )
        tokenized = tokenize_pairs(used, tokenizer, alignment, bos=bos)
    return Chosen(pairs, len(aligned), used, tokenized.pairs)


def together(parts: Mapping[str, Chosen]) -> Chosen:
    """Return several data sets as one, ids of what is used with the data set's name before them."""
    used = [
        {**pair, "id": f"{source}:{pair['id']}"}
        for source, part in parts.items()
        for pair in part.used
    ]
    pairs, aligned, _, kept = zip(*parts.values())
    return Chosen([*chain(*pairs)], sum(aligned), used, [*chain(*kept)])


def choose_texts_of(
    entry: Calibration, place: Path, tokenizer: Any, seed: int, bos: str
) -> list[dict[str, str]]:
    """Return the texts of a calibration, each cut to its number of tokens."""
    if entry.texts in TEXT_SOURCES:
        found = [{"id": one.id, "text": one.text} for one in read_ultrachat(place)]
    else:
        found = read_texts(place)
    chosen = choose_texts(found, entry.n_texts or len(found), seed)
    if len(chosen) < entry.n_texts:
        missing = f"{entry.n_texts} texts were asked for, the source has {len(chosen)}"
        print(f"note: {missing}; all of them are used", file=sys.stderr)
    return [
        {"id": one["id"], "text": truncate_text(one["text"], tokenizer, entry.max_tokens, bos)}
        for one in track(chosen, len(chosen), "texts")
    ]


def run(args: argparse.Namespace) -> None:
    """Write the calibration folder."""
    options = vars(args)
    entry = checked(Calibration, {name: options.pop(name) for name in Calibration.model_fields})
    trust = options.pop("trust_remote_code")
    with located(options.pop("model"), trust=trust) as (model,):
        build_calibration(model, entry, **options)


def build_calibration(
    model: Path,
    entry: Calibration,
    pairs_data: Sequence[Path | str],
    texts_data: Path | str | None,
    out: Path,
    *,
    bos: str,
    seed: int,
    name: str | None,
) -> None:
    """Write the calibration folder; raise UserError when no pair or text is left.

    pairs_data, texts_data: folder, file or record of each data set that ``entry`` names.
    """
    number = entry.n_texts or (entry.texts and entry.texts not in TEXT_SOURCES)
    if len({bool(one) for one in (entry.texts, texts_data, number)}) > 1:
        raise UserError(
            "expected --texts, --texts-data and --n-texts (above 0) together, got "
            f"{entry.texts}, {texts_data} and {entry.n_texts}"
        )
    if len(entry.pairs) != len(pairs_data):
        raise UserError(
            f"expected --pairs-data for each of {' '.join(entry.pairs)}, got {len(pairs_data)}"
        )
    alignment, control = entry.alignment or ALIGNMENTS[0], entry.control
    asked = dict(zip(entry.pairs, pairs_data))
    places = {given: source_folder(given) for given in (model, *pairs_data, texts_data) if given}
    inputs = [*places, *places.values()]
    check_folder(out, CALIBRATION, inputs)
    tokenizer = load_tokenizer(places[model])
    parts = {}
    for source, given in asked.items():
        read = read_source_pairs(source, places[given], entry.counterfactuals)
        pairs = select_categories(read, entry.categories)
        for pair, side in product(pairs, (*PAIR[2:], "unrelated")):
            if side in pair and entry.pair_tokens is not None:
                pair[side] = truncate_text(pair[side], tokenizer, entry.pair_tokens, bos)
        if entry.counterfactuals:
            pairs = add_counterfactuals(pairs, entry.counterfactuals, seed)
            pairs = pairs if control == "none" else exchanged(pairs, seed)
        parts[source] = choose_pairs(pairs, tokenizer, alignment, control, seed, bos)
    chosen = together(parts) if len(parts) > 1 else parts[entry.pairs[0]]
    numbers = chosen.numbers()
    if len(parts) > 1:
        numbers["sources"] = {source: part.numbers() for source, part in parts.items()}
    pair_tokens = sum(len(pair.ids0) + len(pair.ids1) for pair in chosen.kept)
    texts: list[dict[str, str]] = []
    if entry.texts and texts_data:
        texts = choose_texts_of(entry, places[texts_data], tokenizer, seed, bos)
        asked[entry.texts] = texts_data
    text_tokens = sum(map(len, tokenize_texts([row["text"] for row in texts], tokenizer, bos=bos)))
    records = map(source_record, asked.values())
    hub = [one["revision"].split(", ") for one in records if one.get("origin") == "hub"]
    optional = entry.model_dump(include={"pair_tokens", "counterfactuals"})
    optional["bos"] = "" if bos == "auto" else bos
    manifest: dict[str, Any] = {
        "calibration": name or out.parent.name,
        "seed": seed,
        "alignment": alignment,
        "tokenizer_sha256": tokenizer_digest(places[model]),
        "sources": {name: source_checksums("data", places[one]) for name, one in asked.items()},
        **({"hub": sorted({split_ref(one)[0] for one in chain(*hub)})} if hub else {}),
        "pairs": numbers,
        "texts": {"asked": entry.n_texts, "kept": len(texts), "tokens": text_tokens},
        "tokens": {"pairs": pair_tokens, "texts": text_tokens},
        "spec": {
            **entry.model_dump(include={"categories", "texts", "n_texts", "control"}),
            "pairs": entry.pairs if len(parts) > 1 else entry.pairs[0],
            "max_tokens": entry.max_tokens if entry.texts else None,
            **{name: value for name, value in optional.items() if value},
        },
    }
    with atomic_folder(out, CALIBRATION, inputs) as folder:
        written = {"pairs.jsonl": chosen.used, "texts.jsonl": texts}
        for file, rows in written.items():
            write_jsonl(folder / file, rows)
        manifest["files"] = {file: sha256_file(folder / file) for file in written}
        write_json(folder / "manifest.json", sealed(manifest))
    shares = ", ".join(
        f"{f'{source} ' if len(parts) > 1 else ''}{category} {count['kept']}/{count['total']}"
        for source, part in parts.items()
        for category, count in part.numbers()["categories"].items()
    )
    print(
        f"{numbers['kept']} of {numbers['total']} pairs kept ({alignment}), "
        f"{numbers['dropped']} dropped: {printable(shares)}; {len(texts)} texts; "
        f"{pair_tokens + text_tokens} tokens",
        file=sys.stderr,
    )
