"""One GPU for each job of a node, through lock files.

Jobs that run side by side on one node see the same GPUs. Each takes the first one whose lock
file nobody holds and waits while there is none. The kernel drops a lock with the process that
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

    return [
        str(torch.cuda.get_device_properties(index).uuid)
        for index in range(torch.cuda.device_count())
    ]


@contextlib.contextmanager
def claim(names: Sequence[str], folder: Path, interval: float = 1.0) -> Iterator[int]:
    """Yield the index of a device that no other process has claimed, held until the end.

    Waits while all are taken, looking again every ``interval`` seconds, and says so once.
    Raises ValueError when there are no names, UserError where no lock file can be written.
    """
    if not names:
        raise ValueError("no device to claim")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            open(folder / f"{name}.lock", "a").close()
    except OSError as error:
        raise UserError(
            f"could not write the GPUs' lock files in {folder} ({error.strerror}); remove what is "
            "there, or set TMPDIR to a folder that you may write to"
        ) from None
    waiting = False
    while True:
        for index, name in enumerate(names):
            with open(folder / f"{name}.lock", "a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield index
                return
        if not waiting:
            print(f"all {len(names)} GPUs are taken by other jobs: waiting", file=sys.stderr)
            waiting = True
        time.sleep(interval)


@contextlib.contextmanager
def claim_device(device: str) -> Iterator[str]:
    """Yield ``device`` itself, or for "cuda" the free GPU that this process may use."""
    if device != "cuda":
        yield device
        return
    with claim(visible_gpus(), lock_folder()) as index:
        yield f"cuda:{index}"
