"""Loading one model folder for the backend and dtype that a benchmark names."""

import contextlib
from pathlib import Path
from typing import Self

from ..base.gpu import claim_devices, numbers
from .causal_model import CausalModel
from .protocol import Protocol


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
        self._devices: list[str] = []
        self._python: str | None = None
        self._version: str | None = None
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

    def python(self) -> str:
        """Return the interpreter that has vLLM; raise UserError where there is none."""
        from .vllm_model import vllm_python

        if self._python is None:
            self._python = vllm_python(self._asked)
        return self._python

    def versions(self, spec: Protocol) -> dict[str, str]:
        """Return the versions that only the benchmark's backend has, without loading a model.

        Raises UserError when the backend is vllm and there is none.
        """
        if spec.backend != "vllm":
            return {}
        if self._version is None:
            from .vllm_model import vllm_version

            self._version = vllm_version(self.python())
        return {"vllm": self._version}

    def devices(self) -> list[str]:
        """Return the devices of this job: claimed GPUs, the first of which is torch's current one.

        Raises UserError where there are too few GPUs.
        """
        from ..models.loading import pick_device

        if not self._devices:
            claimed = claim_devices(pick_device(self.device), self.gpus)
            self._devices = self._held.enter_context(claimed)
            if self._devices[0].startswith("cuda"):
                import torch

                torch.cuda.set_device(self._devices[0])
        return self._devices

    def load(self, spec: Protocol) -> CausalModel:
        """Return the model for a benchmark, the one that is loaded where it fits."""
        key = (spec.backend, spec.dtype)
        if self._model is None or key != self._key:
            self.close()
            if spec.backend == "vllm":
                from .vllm_model import load_vllm_model

                model: CausalModel = load_vllm_model(
                    self.folder,
                    self.device,
                    spec.dtype,
                    self.python(),
                    self.gpus,
                    self._visible(),
                )
            else:
                from .language_model import load_language_model

                devices = self.devices()
                kind = devices[0].partition(":")[0]
                model = load_language_model(self.folder, kind, spec.dtype, devices)
            self._key, self._model = key, model
        return self._model

    def _visible(self) -> str | None:
        """Return the GPUs of a vLLM worker as CUDA_VISIBLE_DEVICES; None leaves that as it is.

        This environment's torch may have no CUDA where vLLM's has: then nothing is claimed.
        """
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return None
        return numbers(self.devices())
