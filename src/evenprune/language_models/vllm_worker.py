"""vLLM as a process of its own: scores and greedy answers of token rows, over pipes.

``python -m evenprune.language_models.vllm_worker`` runs in the environment that has vLLM and
needs nothing else of this package's dependencies. It reads one JSON object a line from standard
input and answers each with one line on standard output, ``{"ok": ...}`` or ``{"error": one
sentence}``; ``do`` names a method of ``Engine``, the other keys are its arguments. What
libraries print goes to standard error. It ends with its parent: at the end of standard input.

With the argument ``versions`` it prints vLLM's version as JSON, without importing vLLM.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ..serving.environment import VARIABLES, one_line, vllm_device, vllm_version

# vLLM's CPU build takes blocks of 128 tokens, longer than what most prompts share.
CPU_BLOCK = 32
# The model's context is handed in, one token longer than the model's own, which is never fed in;
# hence the permission for long ones.
ENVIRONMENT = {**VARIABLES, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}

# A row to score: its tokens, the tokens wanted behind the last, and whether its own are wanted.
Row = tuple[Sequence[int], Sequence[int], bool]


class Engine:
    """vLLM's offline engine and what the evaluation asks of it.

    Each call starts with an empty prefix cache, so that its results do not depend on the calls
    before: a run that goes on after a kill computes what an uninterrupted one would.
    """

    def load(
        self,
        model: str,
        dtype: str,
        max_length: int,
        device: str | None,
        trust_remote_code: bool = False,
        gpus: int = 1,
    ) -> dict[str, Any]:
        """Load a model folder; return what it runs on and in.

        ``max_length`` is the number of positions that the model was made for. The folder's own
        code runs with ``trust_remote_code`` alone. Every matrix lies on ``gpus`` GPUs.
        """
        for key, value in ENVIRONMENT.items():
            os.environ.setdefault(key, value)
        from vllm import LLM, SamplingParams

        found = vllm_device(device)
        self.sampling = SamplingParams
        self.llm = LLM(
            model=model,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            seed=0,
            # vLLM wants room for a token behind the prompt, also where it is only scored.
            max_model_len=max_length + 1,
            enable_prefix_caching=True,
            # The model folder's own sampling options and end tokens stay out of it.
            generation_config="vllm",
            # Compiling a model takes longer on a CPU than it saves here.
            **({"enforce_eager": True, "block_size": CPU_BLOCK} if found == "cpu" else {}),
            **({"tensor_parallel_size": gpus} if gpus > 1 else {}),
        )
        config = self.llm.llm_engine.vllm_config.model_config
        dtype = str(config.dtype).removeprefix("torch.")
        return {"device_type": found, "dtype": dtype}

    def _run(self, prompts: Sequence[Sequence[int]], sampling: list[Any]) -> list[Any]:
        self.llm.reset_prefix_cache()
        inputs = [{"prompt_token_ids": list(tokens)} for tokens in prompts]
        return self.llm.generate(inputs, sampling, use_tqdm=False)

    def score(self, rows: Sequence[Row]) -> list[tuple[list[tuple[float, bool]], list[float], int]]:
        """Return for each row: its own tokens' scores, those of the wanted ones, the greedy one.

        A row's own tokens' scores are (ln p, whether it is the greedy token) of every token but
        the first, empty where they are not wanted; the wanted tokens' are ln p behind the row's
        last token, where the greedy token stands as well. vLLM's raw log-probabilities: log
        softmax in float32 over the whole vocabulary of logits in the model's dtype.
        """
        sampling = []
        for tokens, wanted, own in rows:
            ids = list(dict.fromkeys(wanted))
            sampling.append(
                self.sampling(
                    temperature=0.0,
                    max_tokens=1,
                    ignore_eos=True,
                    detokenize=False,
                    logprobs=len(ids),
                    logprob_token_ids=ids,
                    prompt_logprobs=0 if own and len(tokens) > 1 else None,
                )
            )
        found = []
        outputs = self._run([tokens for tokens, _, _ in rows], sampling)
        for (tokens, wanted, own), output in zip(rows, outputs, strict=True):
            scores = []
            if own:
                entries = zip(tokens[1:], (output.prompt_logprobs or [])[1:], strict=True)
                scores = [(step[token].logprob, step[token].rank == 1) for token, step in entries]
            (answer,) = output.outputs
            behind = answer.logprobs[0]
            asked = [behind[token].logprob for token in wanted]
            found.append((scores, asked, answer.token_ids[0]))
        return found

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        ends: Sequence[int],
        stop: str | None,
    ) -> list[tuple[list[int], bool, float]]:
        """Return each greedy answer's tokens, whether the stop text ended it, and their ln p.

        The sum of ln p is no finite number where the logits are none.

        Ends with one of ``ends``, which is then its last token, with ``stop`` or after
        ``new_tokens`` tokens.
        """
        sampling = self.sampling(
            temperature=0.0,
            max_tokens=new_tokens,
            logprobs=0,  # of the chosen tokens alone
            ignore_eos=True,
            stop_token_ids=list(ends),
            stop=[stop] if stop else None,
            detokenize=stop is not None,
            skip_special_tokens=False,
        )
        outputs = self._run(prompts, [sampling] * len(prompts))
        answers = [output.outputs[0] for output in outputs]
        found = []
        for answer in answers:
            tokens = list(answer.token_ids)
            total = sum(step[token].logprob for token, step in zip(tokens, answer.logprobs))
            found.append((tokens, isinstance(answer.stop_reason, str), total))
        return found


def _listen(requests: "queue.SimpleQueue[Any]") -> None:
    """Hand on what comes in; end the process, whatever it does, when the parent is gone."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)


def main(arguments: Sequence[str]) -> None:
    """Answer requests until there are no more."""
    if list(arguments) == ["versions"]:
        version = vllm_version()
        print(json.dumps({"vllm": version} if version else {}))
        return
    # The answers have a channel of their own: libraries print what they like.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    engine = Engine()
    while True:
        request = requests.get()
        try:
            reply = {"ok": getattr(engine, request.pop("do"))(**request)}
        except Exception as error:  # vLLM raises many kinds, some of them its own
            reply = {"error": one_line(error)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
