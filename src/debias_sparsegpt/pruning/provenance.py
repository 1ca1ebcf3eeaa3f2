"""What differs from run to run: times, host, versions. Nothing downstream depends on it."""

import os
import platform
from datetime import UTC, datetime
from typing import Any

import torch
import transformers

from .. import __version__


def provenance(device: str, records: list[dict], seconds: float) -> dict[str, Any]:
    """Return the entry for provenance.json. ``seconds`` is the wall time of this process."""
    gpu = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else None
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "platform": platform.platform(),
        "device": device,
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "seconds": round(seconds, 3),
        "block_seconds": [round(record["seconds"], 3) for record in records[1:]],
        "versions": {
            "debias_sparsegpt": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
