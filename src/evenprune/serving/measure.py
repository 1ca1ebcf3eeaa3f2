"""The measurement itself: warm-up, one measurement of one batch, and statistics over rounds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ..config.serving_keys import Measured
from ..io.errors import UserError
from ..models.loading import DTYPES
from .energy import JOULES_PER_KWH, EnergyMeter, Reading

Metric = dict[str, Any]
Prompts = Sequence[Sequence[int]]
Generate = Callable[[Prompts, int], Any]
# How often a batch is measured at most when other work on the machine spoils the timings.
ATTEMPTS = 3


class Settings(Measured):
    """How a measurement is made: keys of ``serving`` and these."""

    warmup: int = Field(1, ge=1)
    """runs before those that count"""
    min_seconds: float = 0.5
    """shortest measured region"""
    device: Literal["cpu", "cuda"] | None = None
    """null: cuda if there is one"""
    dtype: Literal[DTYPES] = "auto"  # type: ignore[valid-type]
    """`auto`: the checkpoint's own"""
    seed: int = 0
    """of the prompts and of the order within a round"""
    gpus: int = Field(1, ge=1)
    """GPUs that hold the model together"""


class NoisyError(UserError):
    """A generation took no longer than its prefill: the timings mean nothing."""


def summarize(values: Sequence[float]) -> Metric:
    """Return the median as ``value``, the quartiles, their distance ``iqr``, and ``n``."""
    low, middle, high = map(float, np.percentile(np.asarray(values, dtype=float), [25, 50, 75]))
    spread = {"q25": low, "q75": high, "iqr": high - low}
    return {"value": middle, "n": len(values), "stderr": None, **spread}


def figures(
    prompts: Prompts, asked: Settings, prefill: Reading, generate: Reading, device: str
) -> dict[str, float]:
    """Turn one measurement into figures.

    ``prefill`` and ``generate`` are of generating one token and ``asked.new_tokens`` tokens for a
    batch of equally long prompts. Energy per token is that of the whole generation divided by the
    new tokens, as in Optimum-Benchmark; decode is generation minus prefill. Raises NoisyError when
    the decode took no measurable time.
    """
    batch, new_tokens = len(prompts), asked.new_tokens
    first, whole = (reading.seconds / reading.calls for reading in (prefill, generate))
    if whole <= first:
        raise NoisyError(
            f"generating {new_tokens} tokens ({whole:.4f} s) took no longer than one token "
            f"({first:.4f} s) at batch {batch}: the timings are lost in noise; raise --new-tokens "
            "or --min-seconds, or wait for a quieter machine"
        )
    joules = generate.total(generate.scope(device))
    per_token = joules / generate.calls / (batch * new_tokens)
    return {
        "ttft_s": first,
        "prefill_tok_per_s": batch * len(prompts[0]) / first,
        # As Optimum-Benchmark defines it: the first new token belongs to the prefill.
        "decode_tok_per_s": batch * (new_tokens - 1) / (whole - first),
        "tok_per_s": batch * new_tokens / whole,
        "power_w": joules / generate.seconds,
        "j_per_token": per_token,
        "kg_co2e_per_mtok": per_token * 1e6 / JOULES_PER_KWH * asked.carbon_intensity,
    }


@dataclass(frozen=True)
class Batch:
    """Some prompts, the engine that continues them, and what its energy is measured with."""

    generate: Generate
    meter: EnergyMeter
    prompts: Prompts
    asked: Settings

    def _repeat(self, tokens: int, calls: int) -> Reading:
        """Return the reading of ``calls`` generations of ``tokens`` tokens."""

        def region() -> None:
            for _ in range(calls):
                self.generate(self.prompts, tokens)

        return replace(self.meter.measure(region), calls=calls)

    def warm_up(self) -> tuple[int, int]:
        """Run unmeasured; return the calls of a prefill and of a generation that fill a region.

        A measured region calls as often as fills ``asked.min_seconds``, because energy readings of
        a few milliseconds mean nothing.
        """
        for _ in range(self.asked.warmup):
            both = [self._repeat(new, 1) for new in (1, self.asked.new_tokens)]
        wanted = self.asked.min_seconds
        one, full = (max(1, math.ceil(wanted / max(x.seconds, 1e-6))) for x in both)
        return one, full

    def measure(self, calls: tuple[int, int], attempt: int = 1) -> dict[str, Any]:
        """Measure once, a prefill and then a generation; return the record.

        Its fields: ``figures`` (see there), both readings with their calls, ``tokens`` of a
        generation, and ``attempts``: it is measured again when the timings are lost in noise.
        Raises NoisyError after ``ATTEMPTS``.
        """
        new = self.asked.new_tokens
        prefill, whole = self._repeat(1, calls[0]), self._repeat(new, calls[1])
        try:
            found = figures(self.prompts, self.asked, prefill, whole, self.meter.device)
        except NoisyError as error:
            if attempt == ATTEMPTS:
                raise
            print(f"attempt {attempt} of {ATTEMPTS}: {error}; measuring again")
            return self.measure(calls, attempt + 1)
        return {
            "attempts": attempt,
            "tokens": len(self.prompts) * new,
            "prefill": asdict(prefill),
            "generate": asdict(whole),
            "figures": found,
        }
