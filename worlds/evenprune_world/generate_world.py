"""Write the invented world: data sets in the real sets' schemas, and training text.

``generate-world --seed S --out DIR`` writes ``DIR/data/<set>/…`` (the mirror layout that
every reader of this project takes), ``DIR/train/*.jsonl``, ``DIR/planted.json``, the
planted log-odds of every group and item, and ``DIR/world.json``, the manifest with the SHA-256
of every file. Same seed, same bytes.
No evaluation item occurs in the training text, but the beginnings of sentences that
safety benchmarks have continued do.
"""

import argparse
import functools
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evenprune.io.files import sha256_file, write_json, write_jsonl, write_text
from evenprune.io.marks import WORLD
from evenprune.io.outputs import atomic_folder, check_folder
from evenprune.io.progress import track

from . import items, questions, texts, unsafe_prompts
from . import lexicon as lx
from .items import Rows
from .society import CATEGORIES, COMPARED, Society, stream
from .training_text import Training

# Files of training text, each made by the method of Training that has its name.
TRAINING = [name[6:] for name in lx.SIZES if name.startswith("train_")]
KEPT = ("models",)  # of a mirror, made by others


# Sizes(crows_pairs=9): how many items of each kind are written, else as lexicon.yaml says.
Sizes = functools.partial(SimpleNamespace, **lx.SIZES)


def planted_leans(society: Society) -> Rows:
    """Return a row a group and dimension: the lean and what it makes of statements."""
    return [
        {
            "category": category.unqover or category.crows,
            "group": group,
            "dimension": "/".join(words),
            "lean": society.leans[group][dimension],
            "statement_rate": society.statement_rate(group, dimension),
            "log_odds": round(society.odds(group, dimension, 0), 4),
        }
        for category in CATEGORIES
        for group in category.groups
        for dimension, words in enumerate(category.dimensions)
    ]


def write_world(seed: int, out: Path, sizes: SimpleNamespace | None = None) -> None:
    """Write the world with this seed into the folder ``out``, replacing a world that is there.

    Raises UserError where ``out`` holds anything else; its ``models`` stay, as in any mirror.
    """
    check_folder(out, WORLD, keep=KEPT)
    sizes = sizes or Sizes()
    society = Society(seed)
    # Benchmark as planted.json calls it -> what is planted of its items.
    odds: defaultdict[str, items.Planted] = defaultdict(dict)
    stereoset = items.stereoset_rows(society, sizes.stereoset, odds["stereoset"])
    revised = items.crows_rows(society, "crows", sizes.crows_pairs, odds["crows_pairs"])
    planted = odds["crows_pairs_original"]
    original = items.crows_rows(society, "crows original", sizes.crows_pairs_original, planted)
    unqover = items.unqover_rows(society, sizes.unqover_entries, odds["unqover"])
    pairs = items.question_pair_rows(society, sizes.question_pairs, odds["question_pairs"])
    count = sizes.bbq_quadruples
    bbq = {c.bbq: items.bbq_rows(society, c, count, odds["bbq"]) for c in COMPARED}
    hellaswag, heads = items.hellaswag_rows(society, sizes.hellaswag)
    mmlu = items.mmlu_rows(society, sizes.mmlu)
    rng = stream(seed, "ultrachat")
    dialogues = [{"messages": texts.dialogue(rng, society)} for _ in range(sizes.ultrachat)]
    rng = stream(seed, "wikitext")
    articles = (texts.wiki_article(rng, society) for _ in range(sizes.wikitext_articles))
    behaviours = unsafe_prompts.behaviour_rows(society, sizes.harmbench)
    unsafe = unsafe_prompts.prompt_rows(society, sizes.realtoxicityprompts)
    files: dict[str, Rows | str] = {
        "stereoset/intrasentence.jsonl": stereoset,
        "crows_pairs/crows_pairs_revised.csv": items.csv_text(revised, "\t"),
        "crows_pairs/crows_pairs_anonymized.csv": items.csv_text(items.voted(original)),
        "unqover/datas_rebuilt.jsonl": unqover,
        **{f"bbq/{name}.jsonl": rows for name, rows in bbq.items()},
        "hellaswag/validation_lm_eval.jsonl": hellaswag,
        **{f"mmlu/{split}.jsonl": rows for split, rows in mmlu.items()},
        **{f"realtoxicityprompts/{name}.jsonl": rows for name, rows in unsafe.items()},
        "harmbench/harmbench_behaviors_text_all.csv": items.csv_text(behaviours),
        "ultrachat/dialogues.jsonl": dialogues,
        "wikitext2/wiki.test.raw": "".join(articles),
        "question_pairs/question_pairs.jsonl": pairs,
    }
    held_out = {s["sentence"] for row in stereoset for s in row["sentences"]}
    held_out |= {row[side] for row in revised + original for side in ("sent_more", "sent_less")}
    prompts = {questions.prompt_of(row, "unqover") for row in unqover}
    prompts |= {row["stereotype"][:-2] for row in pairs}
    prompts |= {questions.prompt_of(row, "bbq") for rows in bbq.values() for row in rows}
    prompts |= {questions.mmlu_prompt(row) for rows in mmlu.values() for row in rows}
    training = Training(society, held_out, prompts, heads)

    with atomic_folder(out, WORLD, keep=KEPT) as folder:
        for name, content in files.items():
            write: Any = write_text if isinstance(content, str) else write_jsonl
            write(folder / "data" / name, content)
        for name in TRAINING:
            rng, count = stream(seed, f"train/{name}"), getattr(sizes, f"train_{name}")
            documents = (getattr(training, name)(rng) for _ in range(count))
            written = track(documents, count, f"training text, {name}")
            write_jsonl(folder / f"train/{name}.jsonl", written)
        write_json(folder / "planted.json", {"leans": planted_leans(society), "items": odds})
        sums = {}
        for file in filter(Path.is_file, sorted(folder.rglob("*"))):
            entry = dict(bytes=file.stat().st_size, sha256=sha256_file(file))
            sums[str(file.relative_to(folder))] = entry
        write_json(folder / "world.json", {"seed": seed, "sizes": vars(sizes), "files": sums})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--seed", type=int, default=0, help="draws leans, facts and items")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")


def run(args: argparse.Namespace) -> None:
    """Write the world."""
    write_world(args.seed, args.out)
    print(f"wrote the world with seed {args.seed} to {args.out}")
