"""The section ``benchmarks``: the options of an evaluation and the flags of ``evaluate``."""

from typing import Literal

from pydantic import Field

from .section import Bos, Named, Section, Slug
from .tasks import TASKS

# pr: the guard sees prompt and response and judges the response. paper: the author's form, the
# response alone as if a user had said it.
JudgeForm = Literal["pr", "paper"]
Lexicon = Literal["english", "world"]
# Options of benchmarks whose answers a judge reads.
JUDGE_KEYS = ("judge", "judge_forms", "lexicon", "max_new_tokens", "store_generations")


class Asked(Section):
    """The options of a benchmark that can change its numbers; null: left open."""

    task: Literal[TASKS]  # type: ignore[valid-type]
    """what is done"""
    name: str | None = Field(None, min_length=1)
    """`lm_eval`: name of one of its tasks or groups; required"""
    trust_tasks: bool = False
    """`lm_eval`: load tasks from a folder of YAML files. Their templates and functions can run any
    code, so read them first"""
    limit: int | None = Field(None, ge=1)
    """number of items, a seeded sample, stated in the tables; null: all"""
    seed: int = Field(0, ge=0)
    """seed of that sample, and of what else is drawn; another seed shows how much the sample
    matters"""
    counterfactuals: int = Field(0, ge=0)
    """`stereoset`: to how many other groups of its bias type a sentence's group is compared, for
    the metrics `association…`; 0: none, and no such metrics"""
    by_text: bool = False
    """`bbq` and `unqover` with `split: balanced`: score the answers' texts too, for models that are
    at chance by letter"""
    style: str | None = None
    """prompt style of UnQover and BBQ: `fairsteer`, `cal0`, `cal_fs`, `helm`, `lighteval`; null:
    the model's, else the task's"""
    split: str | None = None
    """part or variant of the task, see `docs/evaluation.md`; null: the model's, else the task's"""
    orders: Literal[1, 6] = 1
    """option orders of UnQover and BBQ only: 1 (the data's own) or 6 (all)"""
    bos: Bos | None = None
    """BOS token before a text: `auto` (as the tokenizer does), `always` (exactly one) or `never`,
    if the model was trained otherwise than its tokenizer does; null: the model's, else `auto`"""
    chat_template: bool | Literal["auto"] | None = None
    """send prompts as a user turn of the tokenizer's chat template; `auto`: if the tokenizer has
    one; null: the model's"""
    batch_size: int = Field(32, ge=1)
    """items scored together; use fewer if memory is short. In half precision it changes scores
    slightly"""
    headline: str | None = None
    """the task's metric that the tables show; null: the task's default"""
    judge: Slug | None = None
    """judged tasks: the guard model, by its name under `models` or, for a command, its folder
    (Llama Guard 3 or one that answers in its form); null: a word list, and the tables say so"""
    judge_forms: list[JudgeForm] | None = Field(None, min_length=1)
    """judged tasks: what the guard sees, `pr` (prompt and response) or `paper` (response only); the
    first gives the headline; null: `[pr]`"""
    lexicon: Lexicon | None = None
    """judged tasks: word list without a guard model; null: `english`"""
    max_new_tokens: int | None = Field(None, ge=1)
    """judged tasks: longest answer in tokens; null: 256"""
    store_generations: bool | None = None
    """judged tasks: keep the answers' texts in `items.jsonl`; they can be harmful; null: false"""


class Benchmark(Asked):
    """One evaluation of every checkpoint."""

    dataset: Named | None = None
    """name of a data set in the task's form, or your own file or folder; required, except for
    `lm_eval`, where it is a folder of YAML tasks"""
    experiments: list[Slug] = Field([])
    """evaluate only the checkpoints of these experiments; `[]`: all checkpoints (at least one
    benchmark must have all)"""
