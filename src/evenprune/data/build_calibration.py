"""Select, align and count the calibration pairs and texts for one tokenizer.

Writes pairs.jsonl (the pairs that the alignment keeps), texts.jsonl (unpaired texts, empty
without --texts-data) and manifest.json (counts per category, tokens, checksums of the
sources). The same input gives the same bytes.
"""

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..config.calibration_keys import Calibration, Tokens
from ..config.flags import add_flags, checked
from ..config.pair_sources import TEXT_SOURCES
from ..config.pruning_keys import Pruning
from ..io.checksums import recorded_checksums, sealed, sha256_cached, source_files, source_folder
from ..io.errors import UserError, printable
from ..io.files import digest, read_json, sha256_file, write_json, write_jsonl
from ..io.marks import CALIBRATION
from ..io.outputs import atomic_folder, check_folder
from ..io.progress import track
from ..models.bos import check_bos, with_bos
from ..models.loading import load_tokenizer
from ..models.trust import add_trust_argument
from .calibration import counted, pair_notes, tokenize_pairs, tokenize_texts
from .counterfactuals import add_counterfactuals, exchanged
from .hub_models import located
from .readers.crows_pairs import read_crows_pairs
from .readers.own_rows import read_pairs, read_texts
from .readers.stereoset import read_stereoset
from .readers.ultrachat import read_ultrachat
from .source_files import split_ref

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Text = TypeVar("Text")
PAIR = ("id", "category", "stereotype", "anti_stereotype")
# Negative control -> which sentence of another pair becomes the partner.
PARTNERS = {"shuffled-pairs": "anti_stereotype", "random-delta": "stereotype"}
TOKENIZER_FILES = (
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model"),
)


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


def read_source_pairs(source: str, folder: Path, unrelated: bool = False) -> list[dict[str, str]]:
    """Return a data set's pairs with id, category, stereotype and anti_stereotype.

    With ``unrelated`` those of StereoSet also have the sentence that makes no sense.
    CrowS-Pairs are the original 1,508 (the paper's table counts 3,016 = 2 x 1,508 sentences);
    their stereotype is sent_more, whatever stereo_antistereo says.
    """
    if source == "crows_pairs":
        pairs = read_crows_pairs(folder, "anonymized")
        rows = [(pair.id, pair.category, pair.sent_more, pair.sent_less) for pair in pairs]
    elif source == "stereoset":
        names = (*PAIR, "unrelated") if unrelated else PAIR
        return [{name: getattr(item, name) for name in names} for item in read_stereoset(folder)]
    else:
        return read_pairs(folder)
    return [dict(zip(PAIR, row, strict=True)) for row in rows]


def with_counterfactuals(
    pairs: list[dict[str, Any]], source: str, folder: Path, count: int, control: str, seed: int
) -> list[dict[str, Any]]:
    """Return a data set's pairs with counterfactuals, under a control those of another pair.

    Raises UserError for a data set that does not name the pairs' groups.
    """
    if source != "stereoset":
        raise UserError(
            f"expected counterfactuals: 0 for pairs of {printable(source)}, got "
            f"{count}; only stereoset names the group that a pair is about; your "
            "own pairs may bring the fields target and counterfactuals"
        )
    targets = {item.id: item.target for item in read_stereoset(folder)}
    found = add_counterfactuals(pairs, targets, count, seed)
    return found if control == "none" else exchanged(found, seed)


def select_categories(pairs: list[dict[str, str]], wanted: Sequence[str]) -> list[dict[str, str]]:
    """Return the pairs of the wanted categories ([]: all); raise UserError for an unknown one."""
    known = sorted({pair["category"] for pair in pairs})
    for name in wanted:
        if name not in known:
            raise UserError(
                f"expected categories among {', '.join(known)}, got {name!r}; correct "
                "categories in the configuration (or --categories)"
            )
    return [pair for pair in pairs if not wanted or pair["category"] in wanted]


def shuffle_partners(
    pairs: Sequence[dict[str, str]],
    lengths: Sequence[int],
    seed: int,
    control: str = "shuffled-pairs",
) -> list[dict[str, str] | None]:
    """Return the pairs with partners exchanged among those of equal token count.

    ``lengths`` are the token counts of the sentences that become partners: with the control
    ``shuffled-pairs`` the anti-stereotypes, so that the two sentences of a pair no longer
    belong together; with ``random-delta`` the stereotypes, so that the difference of the two
    contrasts no stereotype with its opposite. Within a length the partners form one seeded
    cycle, so none keeps its own; None stands for a pair that is alone with its length.
    """
    generator = random.Random(f"{control} {seed}")
    groups: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        groups.setdefault(length, []).append(index)
    shuffled: list[dict[str, str] | None] = [None] * len(pairs)
    for length in sorted(groups):
        cycle = groups[length]
        generator.shuffle(cycle)
        for index, partner in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            if index != partner:
                sentence = pairs[partner][PARTNERS[control]]
                shuffled[index] = {**pairs[index], "anti_stereotype": sentence}
    return shuffled


def choose_texts(texts: Sequence[Text], count: int, seed: int) -> list[Text]:
    """Return the first ``count`` of a seeded permutation: a smaller set is part of a larger."""
    order = list(texts)
    random.Random(f"texts {seed}").shuffle(order)
    return order[:count]


def truncate_text(
    text: str,
    tokenizer: "PreTrainedTokenizerBase",
    max_tokens: int,
    flag: str = "--max-tokens",
    bos: str = "auto",
) -> str:
    """Return the longest beginning of a text, at a token's end, of at most ``max_tokens`` tokens.

    Special tokens count, with ``bos`` as in ``tokenize_texts``. The result is tokenised again,
    since a cut text need not split into the tokens it was cut from. Raises UserError when nothing
    is left.
    """
    encoded = tokenizer(text, return_offsets_mapping=tokenizer.is_fast, verbose=False)
    ids = encoded["input_ids"]
    room = max_tokens + len(ids) - len(with_bos([ids], tokenizer, bos)[0])
    if len(ids) <= room:
        return text
    for kept in range(room, 0, -1):
        if tokenizer.is_fast:
            cut = text[: max(end for _, end in encoded["offset_mapping"][:kept])]
        else:
            cut = str(tokenizer.decode(ids[:kept], skip_special_tokens=True))
        if cut.strip() and len(tokenizer(cut, verbose=False)["input_ids"]) <= room:
            return cut
    raise UserError(
        f"expected {flag} to leave some text, but {max_tokens} tokens hold none of "
        f"{text[:40]!r}; raise it"
    )


def tokenizer_digest(folder: Path) -> str:
    """Return a digest of a model folder's tokenizer files."""
    names = {path.name for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    return digest({name: sha256_cached(folder / name) for name in sorted(names)})


def _source_checksums(given: Path | str) -> dict[str, str]:
    """Return the SHA-256 of a source's files, from its record or, for a folder, computed."""
    folder = source_folder(given)
    if folder != Path(given):
        return recorded_checksums(read_json(given), given)
    base = folder.parent if folder.is_file() else folder
    return {name: sha256_cached(base / name) for name in source_files("data", folder)}


@dataclass(frozen=True)
class Chosen:
    """The pairs of one data set that are used (pairs.jsonl), and how many there are of what.

    ``numbers`` are the counts as the manifest has them, ``tokens`` that of both texts of all used
    pairs; ``notes`` are what a user should know of them.
    """

    pairs: list[dict[str, str]]
    numbers: dict[str, Any]
    tokens: int
    notes: Sequence[str] = ()


def choose_pairs(
    pairs: list[dict[str, str]],
    tokenizer: Any,
    alignment: str,
    control: str,
    seed: int,
    bos: str = "auto",
) -> Chosen:
    """Return what alignment and control leave of one data set; UserError where that is nothing."""
    tokenized = tokenize_pairs(pairs, tokenizer, alignment, bos=bos)
    notes = pair_notes(pairs, tokenized, "alignment:")
    kept_ids = {pair.id for pair in tokenized.pairs}
    aligned = kept = [pair for pair in pairs if pair["id"] in kept_ids]
    if control != "none":
        partner = PARTNERS[control]
        lengths = [len(ids) for ids in tokenize_texts([p[partner] for p in kept], tokenizer)]
        kept = [p for p in shuffle_partners(kept, lengths, seed, control) if p]
        if not kept:
            raise UserError(
                f"expected at least two pairs with a sentence {partner} of equal token count for "
                f"the control {control}, got none; use more pairs"
            )
        tokenized = tokenize_pairs(kept, tokenizer, alignment, bos=bos)
    categories = counted(pairs, tokenized.pairs)
    numbers = {
        "total": len(pairs),  # of the wanted categories
        "kept": len(kept),
        "dropped": len(pairs) - len(tokenized.pairs),
        "without_partner": len(aligned) - len(kept),
        "categories": categories,
    }
    tokens = sum(len(pair.ids0) + len(pair.ids1) for pair in tokenized.pairs)
    return Chosen(kept, numbers, tokens, notes)


def together(parts: Mapping[str, Chosen]) -> Chosen:
    """Return the pairs of several data sets as one, ids with the data set's name before them."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    categories: dict[str, Counter[str]] = {}
    for part in parts.values():
        for name, count in part.numbers["categories"].items():
            categories.setdefault(name, Counter()).update(count)
    numbers: dict[str, Any] = {
        key: sum(part.numbers[key] for part in parts.values())
        for key in ("total", "kept", "dropped", "without_partner")
    }
    numbers["categories"] = {name: dict(categories[name]) for name in sorted(categories)}
    numbers["sources"] = {name: part.numbers for name, part in parts.items()}
    pairs = [
        {**pair, "id": f"{source}:{pair['id']}"}
        for source, part in parts.items()
        for pair in part.pairs
    ]
    return Chosen(pairs, numbers, sum(part.tokens for part in parts.values()))


def _hub_names(given: Iterable[Path | str]) -> list[str]:
    """Return the hub repositories that recorded data sets came from; none of mirror or world."""
    records = [read_json(path) for path in given if source_folder(path) != Path(path)]
    revisions = [record["revision"] for record in records if record.get("origin") == "hub"]
    return sorted({split_ref(one)[0] for text in revisions for one in str(text).split(", ")})


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
    own_texts = entry.texts not in TEXT_SOURCES
    number = entry.n_texts or (entry.texts and own_texts)
    if len({bool(one) for one in (entry.texts, texts_data, number)}) > 1:
        raise UserError(
            "expected --texts, --texts-data and --n-texts (above 0) together, got "
            f"{entry.texts}, {texts_data} and {entry.n_texts}"
        )
    if len(entry.pairs) != len(pairs_data):
        raise UserError(
            "expected as many folders or records in --pairs-data as data sets in --pairs, got "
            f"{len(pairs_data)} and {' '.join(entry.pairs)}; correct the flags"
        )
    alignment, control = entry.alignment or Pruning().alignment, entry.control
    folder, asked = source_folder(model), dict(zip(entry.pairs, pairs_data))
    given = [path for path in (model, *asked.values(), texts_data) if path]
    inputs = [*given, *map(source_folder, given)]
    check_folder(out, CALIBRATION, inputs)
    tokenizer = load_tokenizer(folder)
    check_bos(tokenizer, bos)
    parts = {}
    for source, path in asked.items():
        read = read_source_pairs(source, source_folder(path), entry.counterfactuals > 0)
        pairs = select_categories(read, entry.categories)
        for pair, side in itertools.product(pairs, (*PAIR[2:], "unrelated")):
            if side in pair and entry.pair_tokens is not None:
                how = (entry.pair_tokens, "--pair-tokens", bos)
                pair[side] = truncate_text(pair[side], tokenizer, *how)
        if entry.counterfactuals:
            told = (entry.counterfactuals, control, seed)
            pairs = with_counterfactuals(pairs, source, source_folder(path), *told)
        parts[source] = choose_pairs(pairs, tokenizer, alignment, control, seed, bos)
        for note in parts[source].notes:
            print(printable(note), file=sys.stderr)
    chosen_pairs = together(parts)
    sources = {source: _source_checksums(path) for source, path in asked.items()}

    texts: list[dict[str, str]] = []
    if entry.texts and texts_data:
        place = source_folder(texts_data)
        if own_texts:
            found = read_texts(place)
        else:
            found = [{"id": one.id, "text": one.text} for one in read_ultrachat(place)]
        sources[entry.texts] = _source_checksums(texts_data)
        chosen = choose_texts(found, entry.n_texts or len(found), seed)
        for one in track(chosen, len(chosen), "texts"):
            text = truncate_text(one["text"], tokenizer, entry.max_tokens, bos=bos)
            texts.append({"id": one["id"], "text": text})
        if len(texts) < entry.n_texts:
            print(
                f"note: {entry.n_texts} texts were asked for, the source has {len(texts)}; "
                "all of them are used",
                file=sys.stderr,
            )
    text_tokens = sum(map(len, tokenize_texts([row["text"] for row in texts], tokenizer, bos=bos)))
    several = len(parts) > 1
    optional = entry.model_dump(include={"pair_tokens", "counterfactuals"})
    optional["bos"] = None if bos == "auto" else bos
    hub = _hub_names([*asked.values(), *([texts_data] if texts_data else [])])
    manifest: dict[str, Any] = {
        "calibration": name or out.parent.name,
        "seed": seed,
        "alignment": alignment,
        "tokenizer_sha256": tokenizer_digest(folder),
        "sources": sources,
        **({"hub": hub} if hub else {}),
        "pairs": chosen_pairs.numbers,
        "texts": {"asked": entry.n_texts, "kept": len(texts), "tokens": text_tokens},
        "tokens": {"pairs": chosen_pairs.tokens, "texts": text_tokens},
        "spec": {
            **entry.model_dump(include={"categories", "texts", "n_texts", "control"}),
            "pairs": list(parts) if several else next(iter(parts)),
            "max_tokens": entry.max_tokens if entry.texts else None,
            **{name: value for name, value in optional.items() if value},
        },
    }
    with atomic_folder(out, CALIBRATION, inputs) as place:
        write_jsonl(place / "pairs.jsonl", chosen_pairs.pairs)
        write_jsonl(place / "texts.jsonl", texts)
        files = ("pairs.jsonl", "texts.jsonl")
        manifest["files"] = {one: sha256_file(place / one) for one in files}
        write_json(place / "manifest.json", sealed(manifest))
    shares = ", ".join(
        f"{f'{source} ' if several else ''}{category} {count['kept']}/{count['total']}"
        for source, part in parts.items()
        for category, count in part.numbers["categories"].items()
    )
    numbers = chosen_pairs.numbers
    print(
        f"{numbers['kept']} of {numbers['total']} pairs kept ({alignment}), "
        f"{numbers['dropped']} dropped: {printable(shares)}; {len(texts)} texts; "
        f"{chosen_pairs.tokens + text_tokens} tokens",
        file=sys.stderr,
    )
