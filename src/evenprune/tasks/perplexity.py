"""Perplexity of WikiText-2 in several protocols, and of documents.

``gptq2048``  the pruning literature's: rows joined by blank lines, tokenised in one call,
              non-overlapping windows, all shifted targets, tail dropped; BOS only where the
              tokenizer puts it, at the very start.
``gptq2048+bos``  the same with BOS as the first token of every window.
``paper``     the authors' script in two sibling repositories: rows of at least 512 characters,
              at most 1,024 of them, concatenated; windows of 1,024 tokens whose first is
              overwritten by BOS, the second half scored; the *mean over windows of the running
              perplexity*.
``lmeval``    lm-eval's ``wikitext`` task: documents, detokenised, rolling windows; perplexity
              per word and per byte.
``evaluate``  Hugging Face's ``evaluate`` library, metric ``perplexity``, which an earlier README of
              the authors' release names without saying of which texts: each row that is not empty
              by itself, BOS in front, none of the tokenizer's own; the *arithmetic mean over rows
              of their perplexities*. Rows are cut to the context. Needs a BOS token, as there.
``documents`` each document alone with the tokenizer's own BOS, the first window of it.

The option ``bos`` overrules the tokenizer: ``always`` and ``never`` decide about the start of
every tokenised text, ``never`` also about the windows of ``paper`` and, where lm-eval has no
context, its prefix token.

Windows are cut to the model's context length where that is shorter.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..config.tasks import DOCUMENTS, WIKITEXT_SPLITS
from ..data.readers.rows import find_file
from ..data.readers.texts import Story, documents_file, read_tinystories, read_wikitext
from ..io.errors import UserError
from ..language_models.language_model import LanguageModel
from ..language_models.losses import nll_rows
from ..language_models.prefix_sharing import Rows
from ..stats.finite import exp_loss
from ..stats.metrics import Metric, metric, perplexity
from .harness import Harness, wikitext_pages
from .protocol import DIGITS, Outcome, Protocol, Records
from .sampling import stratified_sample
from .task import Task

GPTQ_WINDOW = 2048
PAPER_WINDOW, PAPER_MIN_CHARACTERS, PAPER_MAX_ROWS = 1024, 512, 1024
Found = tuple[Records, dict[str, Metric]]  # of a protocol; the first metric is ``ppl``
WIKITEXT_FILE = "wiki.test.raw"


def is_documents(data: Path) -> bool:
    """Return True for a folder of documents (or one JSON-lines file), False for WikiText."""
    if data.is_file():
        return ".jsonl" in data.suffixes
    names = {path.name.removesuffix(".gz") for path in data.glob("*")}
    return WIKITEXT_FILE not in names and any(name.endswith(".jsonl") for name in names)


def _windows(tokens: Sequence[int], length: int) -> Rows:
    """Return whole windows without overlap."""
    return [tokens[k : k + length] for k in range(0, len(tokens) - length + 1, length)]


def _bos(lm: LanguageModel, name: str) -> int:
    """Return the BOS token that a split puts before each text; UserError where there is none."""
    bos = None if lm.bos == "never" else lm.tokenizer.bos_token_id
    if bos is None:
        raise UserError(
            f"split {name} needs a tokenizer with a BOS token and no bos: never; use gptq2048"
        )
    return bos


def _total(records: Records, counts: str = "n_tokens") -> Metric:
    return perplexity([r["nll"] for r in records], [r[counts] for r in records])


def _scored(
    lm: LanguageModel,
    windows: Rows,
    spec: Protocol,
    part: str,
    names: Sequence[int | str] | None = None,
    skip: int = 0,
) -> Records:
    """Return a record of each window, of its targets after the first ``skip``.

    Without ``names`` of a sample of the windows, which their numbers then name.
    """
    if names is None:
        chosen = stratified_sample([part] * len(windows), spec.limit, spec.seed)
        windows, names = [windows[k] for k in chosen], chosen
    if not windows:
        raise UserError(
            f"perplexity {part} finds nothing to score: the text is too short, for a context of "
            f"{lm.max_length} tokens; use a longer text or another split"
        )
    nll = nll_rows(lm, windows, spec.batch_size, f"perplexity {part}", names)
    return [
        {
            "item_id": f"{part}-{name}" if isinstance(name, int) else name,
            "category": part,
            "nll": round(float(values[skip:].sum()), DIGITS),
            "n_tokens": len(values[skip:]),
        }
        for name, values in zip(names, nll, strict=True)
    ]


def gptq(lm: LanguageModel, rows: Sequence[str], spec: Protocol, name: str) -> Found:
    """Return window records and the perplexity of ``gptq2048`` or ``gptq2048+bos``."""
    window = min(GPTQ_WINDOW, lm.max_length)
    tokens = lm.encode(["\n\n".join(rows)])[0]
    start = [_bos(lm, name)] if name.endswith("+bos") else []
    if start and tokens[:1] == start:
        tokens = tokens[1:]  # the tokenizer's own: each window gets one
    # With BOS the text gives one token less, so that a window still fits the context.
    windows = [[*start, *part] for part in _windows(tokens, window - len(start))]
    records = _scored(lm, windows, spec, name)
    return records, {f"ppl_{name.replace('2048', '')}": _total(records)}


def paper(lm: LanguageModel, rows: Sequence[str], spec: Protocol, name: str) -> Found:
    """Return window records and the mean running perplexity of ``paper``.

    The running perplexity after window k is exp of the mean loss over windows 1..k; the
    reported value is its arithmetic mean over k.
    """
    window = min(PAPER_WINDOW, lm.max_length)
    kept = [row for row in rows if len(row) >= PAPER_MIN_CHARACTERS][:PAPER_MAX_ROWS]
    tokens = lm.encode(["".join(kept)])[0] if kept else []
    windows = _windows(tokens, window)
    bos = None if lm.bos == "never" else lm.tokenizer.bos_token_id
    if bos is not None:
        windows = [[bos, *part[1:]] for part in windows]
    # Targets at positions window/2 + 1 .. window - 1; loss k belongs to position k + 1.
    records = _scored(lm, windows, spec, name, skip=window // 2)
    nll, counts = (accumulate([record[x] for record in records]) for x in ("nll", "n_tokens"))
    running = [exp_loss(a / b) for a, b in zip(nll, counts)]
    return records, {"ppl_paper": metric(sum(running) / len(running), len(running))}


def evaluate_rows(lm: LanguageModel, rows: Sequence[str], spec: Protocol, name: str) -> Found:
    """Return row records and the mean of the rows' perplexities of ``evaluate``."""
    bos = _bos(lm, name)
    texts = [row for row in rows if row]
    chosen = stratified_sample([name] * len(texts), spec.limit, spec.seed)
    encoded = lm.with_bos("auto").encode([texts[k] for k in chosen], special=False)
    scored = [k for k, ids in zip(chosen, encoded) if ids]
    windows = [[bos, *ids[: lm.max_length - 1]] for ids in encoded if ids]
    records = _scored(lm, windows, spec, name, scored)
    each = [exp_loss(record["nll"] / record["n_tokens"]) for record in records]
    return records, {"ppl_evaluate": metric(sum(each) / len(each), len(each))}


def lmeval(lm: LanguageModel, rows: Sequence[str], spec: Protocol, name: str) -> Found:
    """Return document records, and word and byte perplexity of lm-eval's task."""
    pages = wikitext_pages(rows)
    chosen = stratified_sample(["lmeval"] * len(pages), spec.limit, spec.seed)
    documents, file = [{"page": pages[k]} for k in chosen], "wikitext/wikitext.yaml"
    samples = Harness(lm, spec).run("wikitext", file, documents, range(len(chosen)))
    records: Records = [
        {
            "item_id": f"lmeval-{k}",
            "category": "lmeval",
            "nll": round(-float(sample["word_perplexity"][0]), DIGITS),
            "n_words": int(sample["word_perplexity"][1]),
            "n_bytes": int(sample["byte_perplexity"][1]),
        }
        for k, sample in zip(chosen, samples, strict=True)
    ]
    word, byte = (_total(records, counts) for counts in ("n_words", "n_bytes"))
    bits = metric(None if byte["value"] is None else math.log2(byte["value"]), byte["n"])
    metrics = {"word_ppl_lmeval": word, "byte_ppl_lmeval": byte, "bits_per_byte_lmeval": bits}
    return records, metrics


def documents(lm: LanguageModel, stories: Sequence[Story], spec: Protocol, name: str) -> Found:
    """Return story records, of the first window of each, and their perplexity."""
    stories = sorted(stories, key=lambda story: story.id)
    chosen = stratified_sample([name] * len(stories), spec.limit, spec.seed)
    picked = [stories[k] for k in chosen]
    encoded = lm.encode([story.text for story in picked])
    rows = [ids[: lm.max_length] for ids in encoded]
    if any(len(row) < 2 for row in rows):
        raise UserError("perplexity needs documents of at least two tokens; remove the empty ones")
    records = _scored(lm, rows, spec, name, [story.id for story in picked])
    return records, {"ppl": _total(records)}


PROTOCOLS: dict[str, Callable[[LanguageModel, Any, Protocol, str], Found]] = {
    DOCUMENTS: documents,
    "gptq2048": gptq,
    "gptq2048+bos": gptq,
    "paper": paper,
    "evaluate": evaluate_rows,
    "lmeval": lmeval,
}


class Perplexity(Task):
    """Perplexity of a folder of WikiText-2 or of stories."""

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the file that is read."""
        return [documents_file(data) if is_documents(data) else find_file(data, WIKITEXT_FILE)]

    def evaluate(self, lm: LanguageModel, data: Path, spec: Protocol) -> Outcome:
        """Score a folder of WikiText-2 or of stories; ``ppl`` is the split's own perplexity.

        Raises UserError for a split that the data have not.
        """
        allowed = (DOCUMENTS,) if is_documents(data) else WIKITEXT_SPLITS
        split = spec.split or allowed[0]
        if split not in allowed:
            raise UserError(
                f"expected a split of the data in {data} ({', '.join(allowed)}), got {split!r}; "
                "name one of these, or other data"
            )
        rows = read_tinystories(data) if split == DOCUMENTS else read_wikitext(data)
        records: Records = []
        metrics: dict[str, Metric] = {}
        for name in ("gptq2048", "paper", "lmeval") if split == "all" else (split,):
            part, values = PROTOCOLS[name](lm, rows, spec, name)
            metrics = {"ppl": next(iter(values.values()))} | metrics | values
            records += part
        return Outcome(records, metrics, {}, {"split": split, "bos": lm.bos_id is not None})


TASK = Perplexity()
