"""The vLLM backend: a causal LM in a process of the vLLM environment, see ``vllm_worker``.

Text is turned into tokens here, with the tokenizer of the model folder, as for every backend;
weights are loaded by the worker alone.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from ..io.errors import UserError
from ..models.loading import (
    check_model_folder,
    library_errors,
    load_config,
    load_tokenizer,
    own_dtype,
)
from ..models.trust import is_trusted
from ..serving.environment import OWN, serving_python
from . import vllm_worker
from .causal_model import (
    Answer,
    Asked,
    Batches,
    CausalModel,
    Position,
    Rows,
    context_length,
    end_tokens,
)
from .generation import finished
from .journal import Journal

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# The folder that holds the package, and the checkout around it.
SOURCE = Path(__file__).resolve().parents[2]
ADVICE = "use --backend transformers (backend: transformers in the configuration)"
# What is shown of a worker's last words, in characters.
TAIL = 400
PATIENCE = 10  # seconds that a worker has to end by itself


def vllm_python(asked: str | None) -> str:
    """Return the interpreter that has vLLM: ``asked``, ``.venv-vllm`` or this one.

    Raises UserError where there is none.
    """
    found = serving_python(asked, "vllm", [Path(), SOURCE.parent], key="backend")
    return sys.executable if found == OWN else found


def _environment(visible: str | None = None) -> dict[str, str]:
    """Return the environment of a worker: this one, with this package in front.

    visible: the GPUs that it may use, as CUDA_VISIBLE_DEVICES; None: as here.
    """
    paths = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
    narrowed = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return {**os.environ, **narrowed, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def vllm_version(python: str) -> str:
    """Return the version of vLLM that an interpreter has; raise UserError if it has none."""
    command = [python, "-m", vllm_worker.__name__, "versions"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["vllm"]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"backend vllm was asked for, but {python} has no vLLM; run `make vllm-env`, name an "
            f"interpreter that has it with serving.python (--serving-python), or {ADVICE}"
        ) from None


class Worker:
    """A worker process. Requests are answered one by one; ``close`` ends it."""

    def __init__(self, python: str, visible: str | None = None) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-m", vllm_worker.__name__],
            env=_environment(visible),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )
        assert self._process.stdin and self._process.stdout  # noqa: PT018
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, do: str, **arguments: Any) -> Any:
        """Return the answer to one request.

        Raises UserError for an error that the worker reports, with what vLLM said; and for a
        worker that ended, with its status and its last words.
        """
        try:
            self._requests.write(json.dumps({"do": do, **arguments}) + "\n")
            self._requests.flush()
            line = self._answers.readline()
        except (BrokenPipeError, ValueError):  # it ended, or was closed
            line = ""
        try:
            answer = json.loads(line)
        except ValueError:
            raise UserError(self._last_words(do)) from None
        if "error" in answer:
            raise UserError(f"vLLM could not {do} here ({answer['error']}); {ADVICE}")
        return answer["ok"]

    def _last_words(self, do: str) -> str:
        self.close()
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")
        said = " | ".join(line.strip() for line in text.splitlines() if line.strip())[-TAIL:]
        return (
            f"the vLLM process ended with status {self._process.returncode} when it was asked to "
            f"{do}; its last words: {said or 'none'}"
        )

    def close(self) -> None:
        """End the process; it ends by itself when its input does."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()


@dataclass
class VllmModel(CausalModel):
    """A causal LM in a worker. Scores are log-probabilities, float32 of logits in its dtype.

    vLLM computes logits in the model's dtype: with bfloat16 those of size 16 to 32 lie on a grid
    of 1/8, where the transformers backend takes the options' logits in float32. ``device_type``
    and ``dtype`` are what the worker found, ``ends`` the tokens that end an answer.
    """

    worker: Worker = field(repr=False)
    config: Any = field(repr=False)
    tokenizer: "PreTrainedTokenizerBase"
    max_length: int
    ends: tuple[int, ...]
    device_type: str
    dtype: str
    trusted: bool = False  # whether the model folder's own code may run
    bos: str = "auto"
    journal: Journal = field(default_factory=Journal, repr=False)
    # vLLM fills its own batches and shares prefixes among the rows of one call.
    batches_at_once: ClassVar[int] = 8

    def score_rows(self, rows: Sequence[Asked], batch_size: int = 0) -> list[Any]:
        """Return the scores of rows; see ``CausalModel``. The worker makes its own batches."""
        asked = [(tokens, ends, count > 0) for tokens, ends, count in rows]
        return self.worker.ask("score", rows=asked) if asked else []

    def position_scores(self, rows: Rows, wanted: Sequence[Rows], batch_size: int) -> Batches:
        """Yield what computes log-probabilities, and 0 as ln of the sum of their exp.

        Neighbours in the order of the tokens share their beginnings and go together. Only the
        last position of a row may ask for more than its own next token.
        """

        def score(batch: list[int]) -> list[Position]:
            found = self.score_rows([(rows[k], wanted[k][-1], len(wanted[k]) - 1) for k in batch])
            positions: list[Position] = []
            for k, (own, last, _) in zip(batch, found, strict=True):
                inner = len(wanted[k]) - 1
                positions += [([score], 0.0) for score, _ in own[len(own) - inner :]]
                positions.append((last, 0.0))
            return positions

        order = sorted(range(len(rows)), key=lambda k: (tuple(rows[k]), k))
        count = batch_size * self.batches_at_once
        for start in range(0, len(order), count):
            batch = order[start : start + count]
            yield batch, partial(score, batch)

    def row_losses(self, rows: Rows) -> list[list[float]]:
        """Return the losses of one batch; see ``CausalModel``."""
        scored = [row for row in rows if len(row) > 1]
        found = iter(self.score_rows([(row[:-1], row[-1:], len(row)) for row in scored]))
        losses: list[list[float]] = []
        for row in rows:
            own, last, _ = next(found) if len(row) > 1 else ([], [], None)
            losses.append([-score for score, _ in own] + [-score for score in last])
        return losses

    def generate(
        self, prompts: Rows, new_tokens: int, stop: str | None, keep_logits: bool = False
    ) -> tuple[list[Answer], Sequence[Any]]:
        """Return the greedy answers of one batch; see ``CausalModel``. No logits come along."""
        if keep_logits:
            raise NotImplementedError("vLLM hands out no logits of whole steps")
        made = self.worker.ask(
            "generate", prompts=prompts, new_tokens=new_tokens, ends=self.ends, stop=stop
        )
        answers = [
            (*finished(tokens, self.ends, len(tokens) if stopped else None), total)
            for tokens, stopped, total in made
        ]
        return answers, ()

    @property
    def model(self) -> "PreTrainedModel":  # type: ignore[override]  # read only here
        """A model of the same configuration on device meta, without weights."""
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(self.config, trust_remote_code=self.trusted)

    def close(self) -> None:
        """End the worker."""
        self.worker.close()


def load_vllm_model(
    folder: Path | str,
    device: str | None,
    dtype: str,
    python: str,
    gpus: int = 1,
    visible: str | None = None,
) -> VllmModel:
    """Start a worker with a model folder; tokenizer and configuration alone are loaded here.

    ``python`` has vLLM, which spreads every matrix over ``gpus`` GPUs (tensor parallelism), those
    of ``visible`` as CUDA_VISIBLE_DEVICES has them; ``dtype`` ``auto`` means the checkpoint's own.
    Raises UserError for incomplete folders, for a checkpoint that does not name its dtype and for
    what vLLM does not load.
    """
    from transformers import GenerationConfig

    from ..models.tensors import check_stored

    tokenizer = load_tokenizer(folder)
    check_model_folder(folder, quantised=True)
    check_stored(Path(folder))
    config = load_config(folder)
    with library_errors(folder, "generation configuration"):
        if (Path(folder) / "generation_config.json").is_file():
            generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
        else:
            generation_config = GenerationConfig.from_model_config(config)
    named = own_dtype(dtype, config)
    if named == "auto":
        raise UserError(
            f"the config.json in {folder} names no dtype, which vLLM would then choose; name one "
            "with --dtype (dtype of the model in the configuration)"
        )
    max_length = context_length(config)
    worker = Worker(python, visible)
    try:
        found = worker.ask(
            "load",
            model=str(folder),
            dtype=named,
            max_length=max_length,
            device=device,
            trust_remote_code=is_trusted(folder),
            gpus=gpus,
        )
    except BaseException:
        worker.close()
        raise
    return VllmModel(
        worker=worker,
        config=config,
        tokenizer=tokenizer,
        max_length=max_length,
        ends=tuple(end_tokens(generation_config, tokenizer)),
        trusted=is_trusted(folder),
        **found,
    )
