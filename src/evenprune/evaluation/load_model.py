"""Loading one model folder in the dtype that a benchmark names."""

import contextlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..io.gpu import claim_devices
from ..models.identity import Identity, identify
from ..models.loading import load_config
from ..models.quantised import backend_versions
from ..models.stored import stored_form
from ..tasks.protocol import Protocol

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel


class Loader:
    """Hands out the model of a folder, one at a time: consecutive benchmarks share a load.

    ``device`` None takes CUDA where there is a GPU; ``gpus``: over how many GPUs the model is
    spread. A context manager: with the first model it claims its GPUs from the node's other jobs,
    at its end the model is closed.
    """

    def __init__(self, folder: Path, device: str | None, gpus: int = 1) -> None:
        self.folder, self.device, self.gpus = folder, device, gpus
        self._held = contextlib.ExitStack()
        self._dtype: str | None = None
        self._model: LanguageModel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._held.close()

    def close(self) -> None:
        """Close the model that is loaded."""
        if self._model is not None:
            self._model.close()
        self._dtype = self._model = None

    @cached_property
    def identity(self) -> Identity:
        """What the folder is; see ``models.identity.identify``."""
        return identify(self.folder)

    @cached_property
    def stored(self) -> dict[str, Any]:
        """What the folder's weights take, as it is recorded; see ``models.stored.stored_form``."""
        return stored_form(self.folder).as_dict()

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of packages that only a quantised model needs; no model is loaded."""
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

    def load(self, spec: Protocol) -> "LanguageModel":
        """Return the model for a benchmark, the one that is loaded where it fits."""
        from ..language_models.language_model import load_language_model

        if self._model is None or spec.dtype != self._dtype:
            self.close()
            kind = self.devices[0].partition(":")[0]
            self._model = load_language_model(self.folder, kind, spec.dtype, self.devices)
            self._dtype = spec.dtype
        return self._model
