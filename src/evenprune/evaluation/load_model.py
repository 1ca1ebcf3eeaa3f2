"""Loading one model folder for the backend and dtype that a benchmark names."""

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ..io.gpu import claim_devices, numbers
from ..language_models.causal_model import CausalModel
from ..models.loading import load_config
from ..models.quantised import backend_versions
from ..tasks.protocol import Protocol


class Loader:
    """Hands out the model of a folder, one at a time: consecutive benchmarks share a load.

    ``device`` None takes CUDA where there is a GPU; ``python`` is the interpreter asked for
    with ``serving.python``, None to look for one; ``gpus``: over how many GPUs the model is spread.
    A context manager: with the first model it claims its GPUs from the node's other jobs, at its
    end the model is closed.
    """

    def __init__(self, folder: Path, device: str | None, python: str | None, gpus: int = 1) -> None:
        self.folder, self.device, self._asked, self.gpus = folder, device, python, gpus
        self._held = contextlib.ExitStack()
        self._key: tuple[str, str] | None = None
        self._model: CausalModel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._held.close()

    def close(self) -> None:
        """Close the model that is loaded."""
        if self._model is not None:
            self._model.close()
        self._key = self._model = None

    @cached_property
    def stored(self) -> dict[str, Any]:
        """What the folder's weights take, as it is recorded; see ``models.stored``."""
        from ..models.stored import stored_form

        return stored_form(self.folder).as_dict()

    @cached_property
    def vllm(self) -> tuple[str, str]:
        """The interpreter that has vLLM, and vLLM's version; UserError where there is none."""
        from ..language_models.vllm_model import vllm_python, vllm_version

        python = vllm_python(self._asked)
        return python, vllm_version(python)

    def versions(self, spec: Protocol) -> dict[str, str]:
        """Return the versions that only the benchmark's backend has, or a quantised model needs.

        No model is loaded. Raises UserError when the backend is vllm and there is none.
        """
        if spec.backend == "vllm":
            return {"vllm": self.vllm[1]}
        return backend_versions(load_config(self.folder))

    @cached_property
    def devices(self) -> list[str]:
        """The devices of this job: claimed GPUs, the first of which is torch's current one.

        Raises UserError where there are too few GPUs.
        """
        import torch

        from ..models.loading import pick_device

        found = self._held.enter_context(claim_devices(pick_device(self.device), self.gpus))
        if found[0].startswith("cuda"):
            torch.cuda.set_device(found[0])
        return found

    def load(self, spec: Protocol) -> CausalModel:
        """Return the model for a benchmark, the one that is loaded where it fits."""
        key = (spec.backend, spec.dtype)
        if self._model is None or key != self._key:
            self.close()
            self._model = self._new(spec)
            self._key = key
        return self._model

    def _new(self, spec: Protocol) -> CausalModel:
        import torch

        if spec.backend == "vllm":
            from ..language_models.vllm_model import load_vllm_model

            # This environment's torch may have no CUDA where vLLM's has: nothing is claimed then.
            claims = self.device != "cpu" and torch.cuda.is_available()
            visible = numbers(self.devices) if claims else None
            return load_vllm_model(
                self.folder, self.device, spec.dtype, self.vllm[0], self.gpus, visible
            )
        from ..language_models.language_model import load_language_model

        kind = self.devices[0].partition(":")[0]
        return load_language_model(self.folder, kind, spec.dtype, self.devices)
