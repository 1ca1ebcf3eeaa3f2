"""The measurement itself: warm-up, repetitions, phases, and their statistics."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import UserError
from .energy import EnergyMeter, Reading
from .formulas import decode_rate, kg_per_mtok, kwh_per_mtok

Metric = dict[str, Any]
# How often a batch is measured at most when other work on the machine spoils the timings.
ATTEMPTS = 3


class NoisyError(UserError):
    """A generation took no longer than its prefill: the timings mean nothing."""


def summarize(values: Sequence[float]) -> Metric:
    """Return the median as ``value``, the quartiles, their distance ``iqr``, and ``n``."""
    low, middle, high = np.percentile(np.asarray(values, dtype=float), [25, 50, 75])
    return {
        "value": float(middle),
        "n": len(values),
        "stderr": None,
        "q25": float(low),
        "q75": float(high),
        "iqr": float(high - low),
    }


def calls_for(seconds: float, wanted: float) -> int:
    """Return how many calls of ``seconds`` fill ``wanted`` seconds, at least one."""
    return max(1, math.ceil(wanted / max(seconds, 1e-6)))


def figures(
    batch: int,
    prompt_tokens: int,
    new_tokens: int,
    prefill: tuple[Reading, int],
    generate: tuple[Reading, int],
    typical: tuple[Reading, int],
    device: str,
    intensity: float,
    idle_watts: float | None,
) -> dict[str, float]:
    """Turn one repetition into figures.

    ``prefill`` and ``generate`` are (energy reading, calls in it) of generating one token
    and ``new_tokens`` tokens for ``batch`` prompts of ``prompt_tokens`` tokens. Energy per
    token is that of the whole generation divided by the new tokens, as in Optimum-Benchmark;
    decode is generation minus the ``typical`` prefill of all repetitions. Idle-subtracted
    figures only with ``idle_watts``. ``cpus_used`` is the CPU time that a second of the run took
    on the CPU: less than its threads means that other work on the machine slowed it. Raises
    NoisyError when the decode took no measurable time.
    """
    first, whole, usual = (
        reading.seconds / calls for reading, calls in (prefill, generate, typical)
    )
    try:
        decode = decode_rate(batch, new_tokens, whole, usual)
    except ValueError:
        raise NoisyError(
            f"generating {new_tokens} tokens ({whole:.4f} s) took no longer than one token "
            f"({usual:.4f} s) at batch {batch}: the timings are lost in noise; raise --new-tokens "
            "or --min-seconds, or wait for a quieter machine"
        ) from None
    scope = generate[0].scope(device)
    joules = generate[0].total(scope) / generate[1]
    prefill_joules, usual_joules = (
        reading.total(scope) / calls for reading, calls in (prefill, typical)
    )
    per_token = joules / (batch * new_tokens)
    out = {
        "ttft_s": first,
        "prefill_tok_per_s": batch * prompt_tokens / first,
        "decode_tok_per_s": decode,
        "tok_per_s": batch * new_tokens / whole,
        "power_w": generate[0].total(scope) / generate[0].seconds,
        "j_per_token": per_token,
        "kwh_per_mtok": kwh_per_mtok(per_token),
        "kg_co2e_per_mtok": kg_per_mtok(per_token, intensity),
        "prefill_j_per_token": prefill_joules / (batch * prompt_tokens),
        "decode_j_per_token": (joules - usual_joules) / (batch * (new_tokens - 1)),
        "machine_j_per_token": generate[0].total() / generate[1] / (batch * new_tokens),
    }
    if device == "cpu" and generate[0].cpu_seconds is not None:
        out["cpus_used"] = generate[0].cpu_seconds / generate[0].seconds
    if idle_watts is not None:
        net = max(joules - idle_watts * whole, 0.0) / (batch * new_tokens)
        out["j_per_token_net"] = net
        out["kwh_per_mtok_net"] = kwh_per_mtok(net)
        out["kg_co2e_per_mtok_net"] = kg_per_mtok(net, intensity)
    return out


def measure_batch(
    generate: Callable[[Sequence[Sequence[int]], int], Any],
    meter: EnergyMeter,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    warmup: int,
    repetitions: int,
    min_seconds: float,
    intensity: float,
    idle_watts: float | None,
    step: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Metric], Reading]:
    """Measure one batch; return the figures' statistics and the last reading of a generation.

    Each repetition calls as often as fills ``min_seconds``, because energy readings of a
    few milliseconds mean nothing. ``step`` is called after the warm-up and each repetition.
    Measures again when the timings are lost in noise; raises NoisyError after ``ATTEMPTS``.
    """

    def repeat(tokens: int, calls: int) -> tuple[Reading, int]:
        def region() -> None:
            for _ in range(calls):
                generate(prompts, tokens)

        return meter.measure(region), calls

    for _ in range(max(warmup, 1)):
        one, full = repeat(1, 1)[0], repeat(new_tokens, 1)[0]
    step()
    calls = calls_for(one.seconds, min_seconds), calls_for(full.seconds, min_seconds)

    def attempt() -> tuple[dict[str, Metric], Reading]:
        pairs = []
        for _ in range(repetitions):
            pairs.append((repeat(1, calls[0]), repeat(new_tokens, calls[1])))
            step()
        # The prefill of middle duration: one disturbed repetition must not turn decode negative.
        typical = sorted((prefill for prefill, _ in pairs), key=lambda pair: pair[0].seconds)[
            (repetitions - 1) // 2
        ]
        rows = [
            figures(
                len(prompts), len(prompts[0]), new_tokens, prefill, whole, typical, meter.device,
                intensity, idle_watts,
            )
            for prefill, whole in pairs
        ]  # fmt: skip
        return {name: summarize([row[name] for row in rows]) for name in rows[0]}, pairs[-1][1][0]

    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except NoisyError as error:
            print(f"attempt {number} of {ATTEMPTS}: {error}; measuring again")
    return attempt()
