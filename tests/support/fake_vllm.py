"""A package named vllm that computes with transformers: what the evaluation uses of vLLM's API.

``install`` writes it beside a folder of metadata, so that a worker finds and names it. It prints
on standard output as libraries do. The environment variable FAKE_VLLM_LOG names a file that gets a
line for each model load.
"""

from pathlib import Path

PACKAGE = """
import os
from types import SimpleNamespace as Bag

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class SamplingParams:
    def __init__(self, **options):
        self.__dict__.update(options)


class LLM:
    def __init__(self, model, dtype, max_model_len, **options):
        print("INFO loading", model)
        assert options["generation_config"] == "vllm"
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.longest = max_model_len
        config = Bag(dtype=self.model.dtype)
        self.llm_engine = Bag(vllm_config=Bag(model_config=config))
        if "FAKE_VLLM_LOG" in os.environ:
            with open(os.environ["FAKE_VLLM_LOG"], "a") as log:
                log.write(f"{os.getpid()}\\n")

    def reset_prefix_cache(self):
        print("INFO reset")

    def generate(self, inputs, sampling, use_tqdm):
        print("INFO generating")
        with torch.inference_mode():
            return [self.one(i["prompt_token_ids"], s) for i, s in zip(inputs, sampling)]

    def one(self, tokens, sampling):
        assert len(tokens) + sampling.max_tokens <= self.longest
        given, new, text = list(tokens), [], ""
        logprobs, stop_reason = [], None
        own = getattr(sampling, "prompt_logprobs", None)
        for step in range(sampling.max_tokens):
            table = self.model(torch.tensor([given + new])).logits[0].float().log_softmax(-1)
            if step == 0 and own is not None:
                prompt = [None] + [entries(row, [t]) for row, t in zip(table, given[1:])]
            new.append(int(table[-1].argmax()))
            wanted = getattr(sampling, "logprob_token_ids", [])
            logprobs.append(entries(table[-1], [*wanted, new[-1]]))
            if new[-1] in getattr(sampling, "stop_token_ids", []):
                stop_reason = new[-1]
                break
            if getattr(sampling, "stop", None):
                text = self.tokenizer.decode(new)
                if sampling.stop[0] in text:
                    stop_reason = sampling.stop[0]
                    break
        answer = Bag(token_ids=new, logprobs=logprobs, stop_reason=stop_reason)
        return Bag(outputs=[answer], prompt_logprobs=None if own is None else prompt)


def entries(row, tokens):
    return {t: Bag(logprob=float(row[t]), rank=int((row >= row[t]).sum())) for t in tokens}
"""


def install(folder: Path) -> Path:
    """Write the package to ``folder``, to be put on PYTHONPATH; return the folder."""
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm/__init__.py").write_text(PACKAGE)
    (folder / "vllm/platforms.py").write_text(
        "class current_platform:\n    is_cpu = staticmethod(lambda: True)\n"
    )
    (folder / "vllm-0.32.0.dist-info").mkdir()
    (folder / "vllm-0.32.0.dist-info/METADATA").write_text("Name: vllm\nVersion: 0.32.0+cpu\n")
    return folder
