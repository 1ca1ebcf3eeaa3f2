"""GPUs for each job of a node, through lock files.

Jobs that run side by side on one node see the same GPUs. Each takes the first ones whose lock
files nobody holds and waits while there are too few. The kernel drops a lock with the process that
holds it, however that ends, so nothing has to be cleaned up after a dead job.
"""

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import UserError


def lock_folder() -> Path:
    """Return the folder of this user's lock files on this node."""
    return Path(tempfile.gettempdir()) / f"evenprune-gpus-{os.getuid()}"


def visible_gpus() -> list[str]:
    """Return a name for each GPU that torch sees, the same in every process of the node.

    Torch sees what CUDA_VISIBLE_DEVICES allows. The name is the hardware's UUID, because
    number 0 of two jobs that see different GPUs is not the same GPU.
    """
    import torch

    numbers = range(torch.cuda.device_count())
    return [str(torch.cuda.get_device_properties(index).uuid) for index in numbers]


@contextlib.contextmanager
def claim_several(
    names: Sequence[str], folder: Path, count: int, interval: float = 1.0
) -> Iterator[list[int]]:
    """Yield the indices of ``count`` devices that no other process has claimed, until the end.

    Waits while fewer are free, holding none meanwhile, looks again every ``interval`` seconds,
    and says so once. Raises UserError where no lock file can be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            open(folder / f"{name}.lock", "a").close()
    except OSError as error:
        raise UserError(
            f"could not write lock files in {folder} ({error.strerror}); set TMPDIR to a folder "
            "that you may write to"
        ) from None
    waiting = f"fewer than {count} of {len(names)} GPUs are free of other jobs: waiting\n"
    while True:
        with contextlib.ExitStack() as held:
            taken: list[int] = []
            for index, name in enumerate(names):
                lock = held.enter_context(open(folder / f"{name}.lock", "a"))
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    taken.append(index)
                if len(taken) == count:
                    yield taken
                    return
        sys.stderr.write(waiting)
        waiting = ""
        time.sleep(interval)


@contextlib.contextmanager
def claim_devices(device: str, count: int) -> Iterator[list[str]]:
    """Yield ``[device]`` itself, or for "cuda" as many free GPUs of those that torch sees.

    Raises UserError where it sees fewer, and for less than one.
    """
    if count < 1:
        raise UserError(f"expected --gpus to be at least 1, got {count}; one is the default")
    if device != "cuda":
        yield [device]
        return
    names = visible_gpus()
    if count > len(names):
        raise UserError(
            f"the model needs {count} GPUs (models.<name>.gpus, --gpus), but this job sees "
            f"{len(names)}; run with `--resources gpu={count}` where there are as many"
        )
    with claim_several(names, lock_folder(), count) as indices:
        yield [f"cuda:{index}" for index in indices]


def first_visible(count: int) -> list[str]:
    """Return the first GPUs that this process sees, by the node's numbers or their UUIDs.

    CUDA_VISIBLE_DEVICES names those where it is set.
    """
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return [seen[index] if index < len(seen) else str(index) for index in range(count)]
