"""HellaSwag, MMLU and WikiText through lm-evaluation-harness.

The tasks are lm-eval's own: each starts from the configuration file that lm-eval ships and
only gets its documents from our readers instead of the hub. So prompts, requests and metrics
are the harness's; what a continuation scores is computed by ``LanguageModel.continuations``, which
needs the logits of the continuation alone (a test compares it with lm-eval's own computation).
Nothing is downloaded and no data set cache is written.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.readers.choice import ChoiceItem
from ..io.errors import UserError
from ..language_models.templates import require_whole, template_errors
from ..models.bos import tokens_of
from ..stats.finite import CURE
from ..stats.metrics import Metric, Record, mean
from .protocol import DIGITS, Protocol, Records
from .task import ItemTask

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel

Documents = list[dict[str, Any]]
# Where the journal keeps rolling windows; how many batches a part of other requests has.
STAGE, PART_BATCHES = "lm-eval windows", 8
TEMPLATES = 256  # compiled ones that are kept
NAMING = 12  # tokens of a rolling window that name it in a message


def wikitext_pages(rows: Sequence[str]) -> list[str]:
    """Return the articles of WikiText: a page begins at each line of the form `` = Title = ``.

    ``rows`` as ``read_wikitext`` gives them. The rule is that of the hub data set
    EleutherAI/wikitext_document_level, which lm-eval's task reads (62 pages in the test set).
    """
    pages: list[list[str]] = [[]]
    for row in rows:
        line = row.rstrip("\n") if row else " "
        title = line.replace("= = =", "===").replace("= =", "==").strip()
        if title.startswith("= ") and title.endswith(" ="):
            pages.append([])
        pages[-1].append(line)
    return [page for page in ("\n".join(lines) for lines in pages) if page.strip()]


def request_parts(requests: Sequence[tuple], batch_size: int) -> list[list[int]]:
    """Return the indices of lm-eval's requests in parts of ``PART_BATCHES`` batches.

    Requests are (texts, context tokens, continuation tokens). Those that share all tokens but the
    last go through the model together and stay in one part. Continuations of one context stand
    together, so that it is computed once; contexts are sorted by length, as those of one length
    are computed together.
    """
    heads: dict[tuple, list[int]] = {}
    longest: dict[tuple, int] = {}
    for k, (_, context, continuation) in enumerate(requests):
        heads.setdefault((*context, *continuation)[:-1], []).append(k)
    contexts = {head: tuple(requests[members[0]][1]) for head, members in heads.items()}
    for head, context in contexts.items():
        longest[context] = max(longest.get(context, 0), len(head))
    ordered = sorted((-len(c), -longest[c], c, head) for head, c in contexts.items())
    rows = [heads[head] for *_, head in ordered]
    size = PART_BATCHES * batch_size
    return [list(chain(*rows[start : start + size])) for start in range(0, len(rows), size)]


@cache
def _compile_once() -> None:
    """Keep the compiled templates: lm-eval compiles a task's again for every document."""
    from lm_eval.utils import env

    setattr(env, "from_string", lru_cache(TEMPLATES)(env.from_string))  # noqa: B010


def _model_class() -> type:
    """Return lm-eval's model class with our progress lines, our BOS switch and our journal."""
    from lm_eval.models.huggingface import HFLM

    class QuietModel(HFLM):
        language_model: "LanguageModel"
        # Rolling windows begin with the prefix token: their text must not bring another BOS.
        rolling = False
        windows = 0  # batches of them that are finished or kept
        names: Sequence[object] = ()  # of the documents' items
        asked: Sequence[object] = ()  # the items of the requests at hand

        def apply_chat_template(self, chat_history: list, *args: Any, **kw: Any) -> str:
            with template_errors("this tokenizer"):
                shown = super().apply_chat_template(chat_history, *args, **kw)
            require_whole(chat_history, shown)
            return shown

        def tok_encode(self, string: str, add_special_tokens: Any = None, **kw: Any) -> list[int]:
            # HFLM's own switch, add_bos_token, only asks the tokenizer for special tokens: it
            # adds no BOS to those that never put one.
            lm = self.language_model
            bos = "never" if self.rolling and lm.bos != "auto" else lm.bos
            start = lm.tokenizer.bos_token
            special = add_special_tokens is not False and not (start and string.startswith(start))
            bos = "auto" if add_special_tokens is False else bos
            return lm.with_bos(bos).encode([string], special)[0]

        def tok_batch_encode(self, strings: list[str], *args: Any, **kw: Any) -> Any:
            tokens_of(self.language_model.tokenizer, strings, special=False)  # its checks alone
            return super().tok_batch_encode(strings, *args, **kw)

        def loglikelihood(self, requests: list, disable_tqdm: bool = False) -> list:
            self.label = f"{requests[0].task_name} requests"
            self.asked = [self.names[request.doc_id] for request in requests if self.names]
            return super().loglikelihood(requests, disable_tqdm=True)

        def loglikelihood_rolling(self, requests: list, disable_tqdm: bool = False) -> list:
            self.rolling, self.asked = True, ()
            try:
                return super().loglikelihood_rolling(requests, disable_tqdm=True)
            finally:
                self.rolling = False

        def _loglikelihood_tokens(self, requests: list, *args: Any, **kw: Any) -> list:
            lm, size = self.language_model, self.batch_size
            # A rolling window is a piece of a document: its text has to name it.
            names = self.asked or [self.tok_decode(answer[:NAMING]) for *_, answer in requests]
            for k, (*_, answer) in enumerate(requests):
                if not 0 < len(answer) <= self.max_length:
                    raise UserError(
                        f"an answer of item {self.asked[k] if self.asked else k} has {len(answer)} "
                        f"tokens, but the model takes 1 to {self.max_length}; change or remove "
                        "that item"
                    )
            # lm-eval calls this once a batch of rolling windows, but once for all other
            # requests: those are cut, so that the parts that are finished can be kept.
            if self.rolling:
                self.windows += 1
                compute = partial(lm.continuations, requests, size)
                return list(map(tuple, lm.kept(STAGE, self.windows, names, compute)))
            parts = (
                (part, partial(lm.continuations, [requests[k] for k in part], size))
                for part in request_parts(requests, size)
            )
            found = lm.batched(self.label, names, parts)
            return [tuple(found[k]) for k in range(len(requests))]

    return QuietModel


class Harness:
    """lm-eval's model class around a model that is loaded already."""

    def __init__(self, lm: "LanguageModel", spec: Protocol) -> None:
        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        # lm-eval tokenises whole documents before it cuts them; the warning means nothing.
        logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)
        self.spec = spec
        self.model = _model_class()(
            pretrained=lm.model,
            tokenizer=lm.tokenizer,
            batch_size=spec.batch_size,
            max_length=lm.max_length,
            prefix_token_id=lm.prefix("lm-eval"),
        )
        self.model.language_model = lm
        if spec.chat_template:
            lm.chats([])  # shows at once whether the template is any good

    def run(
        self, name: str, file: str, documents: Documents, names: Sequence[object], **changes: Any
    ) -> Documents:
        """Run a shipped task on our documents; return lm-eval's samples in document order.

        ``file`` is the task's configuration below lm-eval's ``tasks``; ``changes`` are made to it.
        ``documents`` have the columns that it names; ``names`` are their items. Raises UserError
        for scores that are not finite.
        """
        import datasets
        from lm_eval.api.task import ConfigurableTask
        from lm_eval.tasks._yaml_loader import load_yaml

        config = load_yaml(Path(str(distribution("lm_eval").locate_file("lm_eval/tasks"))) / file)
        for key in ("dataset_path", "dataset_name", "process_docs", "tag", "fewshot_split"):
            config.pop(key, None)
        config |= {
            "task": name,
            "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(documents)},
            "training_split": None,
            "validation_split": None,
            "test_split": "test",
            "num_fewshot": 0,
            **changes,
        }
        found = self.evaluate({name: ConfigurableTask(config=config)}, name, names)
        return sorted(found["samples"][name], key=lambda sample: sample["doc_id"])

    def evaluate(
        self, tasks: dict[str, Any], said: str, names: Sequence[object] = (), **options: Any
    ) -> dict[str, Any]:
        """Return what lm-eval finds; errors name the tasks (``said``) and the items (``names``)."""
        from lm_eval.evaluator import evaluate

        _compile_once()
        self.model.names = names
        try:
            found = evaluate(
                lm=self.model,
                task_dict=tasks,
                log_samples=True,
                bootstrap_iters=0,
                apply_chat_template=self.spec.chat_template,
                **options,
            )
        except OverflowError:  # of lm-eval's own exp of a mean loss
            raise UserError(f"the loss of {said} is too large for a perplexity; {CURE}") from None
        return dict(found or {})


def loglikelihoods(sample: dict[str, Any]) -> list[float]:
    """Return the summed log-likelihoods of a sample's continuations, in nats."""
    return [float(response[0][0]) for response in sample["resps"]]


def choice_record(item: ChoiceItem, sample: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a multiple-choice item; ``correct`` is lm-eval's own ``acc``."""
    scores = loglikelihoods(sample)
    normed = {"correct_norm": bool(sample["acc_norm"])} if "acc_norm" in sample else {}
    return {
        "item_id": item.id,
        "category": item.category,
        "option_logprobs": [round(score, DIGITS) for score in scores],
        "pred": scores.index(max(scores)),
        "gold": item.gold,
        "correct": bool(sample["acc"]),
        "tie": scores.count(max(scores)) > 1,
        **normed,
    }


class ChoiceTask(ItemTask):
    """A task whose items are questions with choices, asked through lm-eval as HellaSwag's are.

    That is: no word is added to the query, a blank is between it and each choice. ``shipped`` is
    the configuration file of lm-eval's task, ``changes`` are made to it.
    """

    shipped = "hellaswag/hellaswag.yaml"
    # As a column, not as a template: lm-eval takes what a template renders as digits for the
    # number of a choice.
    changes: Mapping[str, str] = {"doc_to_text": "query"}

    def document(self, item: ChoiceItem) -> dict[str, Any]:
        """Return an item with the columns that the configuration names."""
        return {"query": item.query, "choices": list(item.choices), "label": str(item.gold)}

    def ask(self, harness: Harness, items: Sequence[ChoiceItem]) -> Documents:
        """Return lm-eval's samples of the items."""
        documents, names = [self.document(item) for item in items], [item.id for item in items]
        return harness.run(self.name, self.shipped, documents, names, **self.changes)

    def records(self, lm: "LanguageModel", items: Any, spec: Protocol) -> Records:
        """Return a record of each item."""
        samples = self.ask(Harness(lm, spec), items)
        return [choice_record(item, sample) for item, sample in zip(items, samples, strict=True)]

    def metrics(self, records: Sequence[Record]) -> dict[str, Metric]:
        """Return ``acc``, ``acc_norm`` where records have it, and the share of ties."""
        metrics = {"acc": mean(r["correct"] for r in records)}
        if records and "correct_norm" in records[0]:
            metrics["acc_norm"] = mean(r["correct_norm"] for r in records)
        return {**metrics, "ties": mean(r["tie"] for r in records)}
