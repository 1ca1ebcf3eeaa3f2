"""The section ``benchmarks``: the options of an evaluation and the flags of ``evaluate``."""

from typing import Literal

from pydantic import Field

from .section import Bos, Named, Once, Section, Slug
from .tasks import TASKS

# pr: the guard sees prompt and response and judges the response. paper: the author's form, the
# response alone as if a user had said it.
JudgeForm = Literal["pr", "paper"]
Lexicon = Literal["english", "world"]


class Asked(Section):
    """The options of a benchmark that can change its numbers; null: left open."""

    task: Literal[TASKS]  # type: ignore[valid-type]
    """what is done"""
    name: str | None = Field(None, min_length=1)
    """`lm_eval`: name of one of its tasks or groups; required"""
    trust_tasks: bool = False
    """`lm_eval`: run the code that a folder of YAML tasks can hold; read it first"""
    limit: int | None = Field(None, ge=1)
    """number of items, a seeded sample, stated in the tables; null: all"""
    seed: int = Field(0, ge=0)
    """seed of that sample, and of what else is drawn"""
    counterfactuals: int = Field(0, ge=0)
    """`stereoset`: other groups that each is compared to, for `association…`; 0: no such metrics"""
    by_text: bool = False
    """`bbq`, `unqover` with `split: balanced`: score texts too, for models at chance by letter"""
    style: str | None = None
    """prompt style of UnQover and BBQ: `fairsteer`, `cal0`, `cal_fs`, `helm`, `lighteval`; null:
    the model's, else the task's"""
    split: str | None = None
    """part or variant of the task, see `docs/evaluation.md`; null: the model's, else the task's"""
    orders: Literal[1, 6] = 1
    """option orders of UnQover and BBQ only: 1 (the data's own) or 6 (all)"""
    bos: Bos | None = None
    """BOS before a text: `auto` (the tokenizer's), `always`, `never`; null: the model's"""
    chat_template: bool | Literal["auto"] | None = None
    """send prompts as a user turn; `auto`: if the tokenizer has a template; null: the model's"""
    batch_size: int = Field(32, ge=1)
    """items scored together, fewer if memory is short; changes half precision slightly"""
    headline: str | None = None
    """the task's metric that the tables show; null: the task's default"""
    judge: Slug | None = None
    """judged tasks: guard model, of `models` or, for a command, its folder; null: a word list"""
    judge_forms: Once[JudgeForm] | None = None
    """judged tasks: the guard sees `pr` (prompt, response), `paper` (response); null: `[pr]`"""
    lexicon: Lexicon | None = None
    """judged tasks: word list without a guard model; null: `english`"""
    max_new_tokens: int | None = Field(None, ge=1)
    """judged tasks: longest answer in tokens; null: 256"""
    store_generations: bool | None = None
    """judged tasks: keep the answers' texts in `items.jsonl`; they can be harmful; null: false"""


class Benchmark(Asked):
    """One evaluation of every checkpoint."""

    dataset: Named | None = None
    """a data set in the task's form, or your own file or folder; `lm_eval`: folder of YAML tasks"""
    experiments: list[Slug] = Field([])
    """evaluate only checkpoints of these; `[]`: all, which one benchmark at least must have"""
