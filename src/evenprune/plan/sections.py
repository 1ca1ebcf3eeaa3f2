"""The sections of a configuration: every key with its kind, default and meaning, said here only.

The tables of ``config/README.md``, ``config/schema.json`` and the help of the commands' options
are made from these (``plan/describe_config.py``).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)

from .facts import BIAS_SCALINGS, DENSE, PRUNING_METHODS, REGIMES, SOLVERS
from .tasks import TASKS

# A name that becomes part of a path: no slash, blank, quote or shell sign can get in.
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
# The same where a file of one's own may stand, which is given a name before (own_files.py).
Named = Annotated[Slug, WithJsonSchema({"type": "string"})]
Regime: Any = Literal[(*REGIMES, DENSE)]
# The end of a module's name, such as o_proj or attention.dense.
Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.]*$", max_length=100)]


class Section(BaseModel):
    """A part of the configuration; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", validate_default=True, strict=True)


def listed(value: Any) -> Any:
    """Take one name for a list of it."""
    return [value] if isinstance(value, str) else value


def each_once(names: list[str]) -> list[str]:
    """Return a list; raise ValueError where one of it comes twice."""
    if len(set(names)) < len(names):
        raise ValueError("expected each one once")
    return names


class World(Section):
    """The invented world of the embedded default."""

    seed: int = Field(0, ge=0, description="seed of the generator and of the training")
    leans: Literal["planted", "none"] = Field(
        "planted", description="`none`: the same items and texts, but no prejudice is planted"
    )
    retrain: bool = Field(
        False,
        description="train the models instead of taking the shipped ones, which belong to seed 0 "
        "with leans: anything else needs it",
    )


class Controls(Section):
    """Several invented worlds: the target ``controls`` makes the run in each and compares."""

    worlds: list[Annotated[int, Field(ge=0)]] = Field(
        [],
        description="their seeds, in place of `world.seed`; at least two, each run with "
        "`<results>/w<seed>` as its results, compared on one page in `<results>/report`; also "
        "`--config 'controls={worlds: [3, 4]}'`; `[]`: no such target; models that are not shipped "
        "are trained",
    )
    without_leans: list[Annotated[int, Field(ge=0)]] = Field(
        [],
        description="seeds of worlds without planted leans beside them, `<results>/none<seed>`: "
        "there is nothing to remove there, only something to lose",
    )

    @field_validator("worlds", "without_leans", mode="before")
    @classmethod
    def _from_text(cls, worlds: Any) -> Any:
        """Take ``--config 'controls={worlds: [0, 1]}'``, which Snakemake hands on as text."""
        if not isinstance(worlds, list):
            return worlds
        return [int(one) if str(one).isdecimal() else one for one in worlds]

    @field_validator("worlds")
    @classmethod
    def _several(cls, worlds: list[int]) -> list[int]:
        if len(worlds) == 1 or len(set(worlds)) < len(worlds):
            raise ValueError("expected at least two seeds, each once, as in [0, 1, 2]")
        return worlds

    @field_validator("without_leans")
    @classmethod
    def _each_once(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("expected each seed once, as in [0, 1]")
        return seeds

    @model_validator(mode="after")
    def _beside_worlds(self) -> Self:
        if self.without_leans and not self.worlds:
            raise ValueError(
                "without_leans is compared beside worlds, of which there are none; expected at "
                "least two seeds under worlds"
            )
        return self


class Calibration(Section):
    """Sentence pairs and texts whose activations make the Hessian."""

    pairs: Annotated[
        list[Named],
        BeforeValidator(listed, json_schema_input_type=str | list[str]),
        AfterValidator(each_once),
    ] = Field(
        min_length=1,
        description="data set of the pairs (`stereoset`, `crows_pairs`, `question_pairs`), a file "
        "of your own (`docs/your-own.md`), or a list of several, as in `[stereoset, my/pairs.csv]`",
    )
    categories: list[str] = Field([], description="bias types to keep, of each data set; `[]`: all")
    texts: Named | None = Field(
        None,
        description="data set of unpaired texts: `ultrachat`, `ultrachat_gen` (the part that the "
        "authors' release takes) or a file of your own; null: none",
    )
    n_texts: int = Field(
        0,
        ge=0,
        description="number of texts, given exactly where `texts` is (of your own file 0: all); a "
        "prefix of one seeded shuffle, so that 4 ⊂ 16 ⊂ 64 …",
    )
    max_tokens: int = Field(
        100, ge=1, description="longest text in tokens (the authors' script: 100)"
    )
    pair_tokens: int | None = Field(
        None,
        ge=1,
        description="longest sentence of a pair in tokens, cut before the pair is aligned (the "
        "authors' release of 2026: 100, or 64 with texts); null: as long as it is",
    )
    alignment: Literal["equal-length", "pad", "suffix"] | None = Field(
        None, description="in place of `pruning.alignment` for this calibration"
    )
    control: Literal["none", "shuffled-pairs", "random-delta"] = Field(
        "none",
        description="negative control, partners of equal token count and of the same data set: "
        "`shuffled-pairs` (the anti-stereotype of another pair), `random-delta` (another "
        "stereotype)",
    )


class Pruning(Section):
    """Options of the pruning engine, the paper's values by default."""

    block_size: int = Field(
        128,
        ge=4,
        description="columns a block of the column loop, a multiple of 4 for `1of4` and `2of4`",
    )
    damping: float = Field(
        0.01, gt=0, description="share of the mean diagonal of H added to the diagonal"
    )
    alignment: Literal["equal-length", "pad", "suffix"] = Field(
        "equal-length",
        description="pairs of unequal token counts: `equal-length` drops and counts them, `pad` "
        "pads as the authors' code, `suffix` matches the tokens behind the difference from the "
        "right",
    )
    bias_weight: float = Field(
        1.0, ge=0, description="weight b of the bias term; 0 gives sparsegpt"
    )
    bias_scaling: Literal[BIAS_SCALINGS] = Field(  # type: ignore[valid-type]
        BIAS_SCALINGS[0],
        description="`equation` (the paper's text) or the authors' code: `released-2025` (the "
        "k-th pair weighs k times as much), `released-2026` (all weigh half; sentences are cut at "
        "100 tokens and padded, so that `alignment` must be `pad`)",
    )
    sequential: Literal["block", "module"] = Field(
        "block", description="statistics once a `block`, or again after each `module` group"
    )
    refit_steps: int = Field(
        0,
        ge=0,
        le=1000,
        description="steps of conjugate gradients on the kept weights after pruning, any method; "
        "10 to 20 are enough, 0: none",
    )
    swaps: int = Field(
        0,
        ge=0,
        le=1000,
        description="rounds in which each group of a row (the regime's, else 16 inputs) may "
        "exchange a kept weight for a pruned one, any method",
    )
    solver: Literal[SOLVERS] = Field(  # type: ignore[valid-type]
        SOLVERS[0], description="what prunes the target of a method that shifts the weights"
    )
    erase_strength: float = Field(
        1.0,
        ge=0,
        description="`debias-erase`: weight λ of the pairs' differences; a difference counts λ "
        "times a token's output",
    )
    erase_keep: float = Field(
        0.0,
        ge=0,
        description="`debias-erase`: share γ of the differences to keep; above 1 they grow",
    )
    erase_modules: list[Module] = Field(
        ["o_proj", "down_proj"],
        min_length=1,
        description="`debias-erase`: linear layers that are changed, by the ends of their names",
    )
    erase_positions: Literal["full", "suffix"] = Field(
        "full",
        description="`debias-erase`: `full` (all matched tokens) or `suffix` (those behind the "
        "words that differ)",
    )
    erase_rank: int = Field(
        0,
        ge=0,
        description="`debias-erase`: how many leading directions of the differences of each bias "
        "type count, the rest is left alone; 0: all",
    )
    gradient_steps: int = Field(
        3, ge=1, le=100, description="`debias-gradient`: steps against the bias loss, at most"
    )
    gradient_step: float = Field(
        0.01,
        ge=-1,
        le=1,
        description="`debias-gradient`: ε, how much a step changes the outputs of the layers, "
        "relatively; negative raises the bias (a control)",
    )
    gradient_loss: Literal["sentence", "token", "augmentation", "text"] = Field(
        "sentence",
        description="`debias-gradient`: gaps between the log-probabilities of whole sentences "
        "(`sentence`) or of their means over tokens (`token`), the loss of both sentences as text "
        "(`augmentation`), or that of the texts beside the pairs (`text`, a control)",
    )
    gradient_holdout: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="`debias-gradient`: share of the pairs that take no part; a step that does not "
        "lower their loss is halved up to five times, else undone and the last; 0: every step is "
        "kept",
    )
    gradient_max_perplexity: float = Field(
        0.0,
        ge=0,
        description="`debias-gradient`: by how many per cent all steps together may raise the "
        "perplexity of that share of the texts (without texts: of the sentences held out); a step "
        "is halved up to five times to keep to it, else undone; 0: no limit",
    )
    gradient_when: Literal["before", "after"] = Field(
        "before",
        description="`debias-gradient`: whether the steps come `before` the solver prunes, or "
        "`after` that, with every zero kept; the same in the regime `dense`",
    )


# Those of Pruning that a variant may have its own way; how pairs are aligned is a calibration's.
_OVERRIDES: dict[str, Any] = {
    name: (
        Annotated[(field.annotation, *field.metadata, Field())] | None,
        Field(None, description=f"in place of `pruning.{name}`"),
    )
    for name, field in Pruning.model_fields.items()
    if name != "alignment"
}
_Overrides: Any = create_model("_Overrides", __base__=Section, **_OVERRIDES)


class MethodVariant(_Overrides):
    """A method of its own name: one of the built-in ones with other options."""

    method: Literal[PRUNING_METHODS] = Field(  # type: ignore[valid-type]
        description="the built-in method"
    )
    label: str | None = Field(None, description="name in tables; null: the name of the variant")


class Benchmark(Section):
    """One evaluation of every checkpoint."""

    task: Literal[TASKS] = Field(description="what is done")  # type: ignore[valid-type]
    dataset: Named | None = Field(
        None,
        description="name of a data set of the task's form (one under a name of your own may have "
        "any), or a file or folder of your own; required but for `lm_eval`, where it is a folder "
        "of YAML tasks",
    )
    name: str | None = Field(
        None, min_length=1, description="`lm_eval`: name of one of its tasks or groups; required"
    )
    experiments: list[Slug] = Field(
        [],
        description="only the checkpoints of these experiments; one benchmark at least is for "
        "all; `[]`: all checkpoints",
    )
    limit: int | None = Field(
        None, ge=1, description="number of items, a seeded sample, stated in the tables; null: all"
    )
    seed: int = Field(0, ge=0, description="seed of that sample")
    style: str | None = Field(
        None,
        description="prompt style of UnQover and BBQ: `fairsteer`, `cal0`, `cal_fs`, `helm`, "
        "`lighteval`; null: the model's, else the task's",
    )
    split: str | None = Field(
        None,
        description="part or variant of the task, see `docs/evaluation.md`; null: the "
        "model's, else the task's",
    )
    orders: Literal[1, 6] = Field(
        1, description="option orders of UnQover and BBQ only: 1 (the data's own) or 6 (all)"
    )
    bos: Literal["auto", "always", "never"] | None = Field(
        None,
        description="BOS token before a text: `auto` (as the tokenizer does), `always` (exactly "
        "one), `never`; null: as the model says, else `auto`",
    )
    chat_template: bool | Literal["auto"] | None = Field(
        None,
        description="prompts as a user turn of the tokenizer's chat template; `auto`: where the "
        "tokenizer has one; null: as the model says",
    )
    backend: Literal["transformers", "vllm"] = Field(
        "transformers",
        description="what computes; `vllm`: in the environment of `serving.python` (see "
        "`docs/evaluation.md`)",
    )
    batch_size: int = Field(
        32, ge=1, description="part of the protocol, scores move with it in half precision"
    )
    headline: str | None = Field(
        None, description="metric that goes to the tables, one that the task has; null: the task's"
    )
    judge: Slug | None = Field(
        None,
        description="judged tasks: name of a guard model under `models` (Llama Guard 3 or one "
        "that answers alike); null: a word list stands in, and the tables say so",
    )
    judge_forms: list[Literal["pr", "paper"]] | None = Field(
        None,
        min_length=1,
        description="judged tasks: what the guard is shown, `pr` (prompt and response) or `paper` "
        "(response alone); the first makes the headline; null: `[pr]`",
    )
    lexicon: Literal["english", "world"] | None = Field(
        None, description="judged tasks: word list without a guard model; null: `english`"
    )
    max_new_tokens: int | None = Field(
        None, ge=1, description="judged tasks: longest answer in tokens; null: 256"
    )
    store_generations: bool | None = Field(
        None,
        description="judged tasks: keep the answers' text in `items.jsonl`, which can be harmful; "
        "null: false",
    )


class Experiment(Section):
    """A grid; each table of the paper is one."""

    models: list[Slug] = Field(min_length=1, description="names under `models`")
    methods: list[Slug] = Field(
        min_length=1, description="built-in methods and names under `methods`"
    )
    regimes: list[Regime] = Field(
        min_length=1,
        description="`u25` `u50` unstructured; `1of4` `2of4` zeros in each group of four",
    )
    calibrations: list[Slug] = Field(min_length=1, description="names under `calibrations`")
    seeds: list[Annotated[int, Field(ge=0)]] = Field(
        [0], min_length=1, description="of the texts' order and of the negative controls"
    )


class Serving(Section):
    """Throughput, energy and CO2."""

    backend: Literal["auto", "vllm", "transformers"] = Field(
        "auto",
        description="`auto` (vLLM where installed, else transformers), `vllm` (an error where "
        "there is none); the table names it",
    )
    python: str | None = Field(
        None,
        description="interpreter of the environment that has vLLM; it measures, and computes "
        "benchmarks with `backend: vllm`; null: `.venv-vllm` where `make vllm-env` has built it, "
        "else the run's own",
    )
    sparse24: bool | None = Field(
        None,
        description="serve 2of4 checkpoints from their compressed export, on 2:4 kernels where "
        "the device has them; false: as ordinary weights; null: where `device` is `cuda`",
    )
    dataset: Named = Field("ultrachat", description="data set whose texts are the prompts")
    experiment: Slug | None = Field(
        None, description="its dense and 2of4 checkpoints are measured; null: none"
    )
    batch_sizes: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 8], min_length=1, description="sequences at a time"
    )
    new_tokens: int = Field(64, ge=2, description="tokens that each sequence is continued by")
    prompt_tokens: int = Field(
        32, ge=1, description="tokens of each prompt, cut where the context is shorter"
    )
    rounds: int = Field(
        5,
        ge=1,
        description="in each, every checkpoint of a model is measured once, in drawn order; ratios "
        "to the dense model are taken within a round, their intervals over rounds (from 2)",
    )
    engines: Literal["auto", "together", "in-turn"] = Field(
        "auto",
        description="checkpoints of a model in memory: all `together`, or one at a time, "
        "`in-turn`, each loaded again in every round; `auto`: together where they fit",
    )
    margin: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="tables call a checkpoint as fast as the dense model where its ratio lies "
        "between 1 / (1 + margin) and 1 + margin (two one-sided tests at 5 %)",
    )
    carbon_intensity: float = Field(0.033, gt=0, description="kg CO2e per kWh (the paper: 0.033)")
