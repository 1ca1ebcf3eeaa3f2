"""A real language model, small enough for a test."""

import os
from pathlib import Path

import pytest

GGUF = "EVENPRUNE_TEST_GGUF"


def smollm2_gguf() -> Path:
    """Return SmolLM2-135M-Instruct.Q4_1.gguf, if this machine has it; else the test is skipped."""
    path = os.environ.get(GGUF)
    if not path:
        pytest.skip(f"no real model (set {GGUF} to the path of SmolLM2-135M-Instruct.Q4_1.gguf)")
    return Path(path)
