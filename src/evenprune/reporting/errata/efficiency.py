"""Throughput, energy and CO2 of the efficiency table."""

from ...serving.formulas import PAPER_INTENSITY, implied_power, j_per_token_from_kg
from ...serving.shapes import QWEN25_7B
from .paper import BASE, DENSE, OPEN, Check, Paper, state_of

BITS = 16  # the dtype in which the model is published
MODEL = "qwen2.5-7b-it"
SPEED, CARBON = "serving:decode_tok_per_s", "serving:kg_co2e_per_mtok"
SAME = 0.01  # two powers that differ by less are one


def _rows(paper: Paper) -> list[tuple[float, float]]:
    """Return (tokens/s, kg/Mtok) of the dense and the 2:4 model."""
    points = ((MODEL, *DENSE), (MODEL, BASE, "2of4", "ss-uc256"))
    return [(paper.need(point, SPEED), paper.need(point, CARBON)) for point in points]


def power(paper: Paper) -> Check:
    """Compute the power that throughput and CO2 imply together."""
    rows = _rows(paper)
    parts, watts = [], []
    for rate, kg in rows:
        joules, found = j_per_token_from_kg(kg), implied_power(kg, rate)
        watts.append(found)
        parts.append(
            f"{kg:g} / {PAPER_INTENSITY:g} = {kg / PAPER_INTENSITY:.3f} kWh/Mtok = {joules:.3f} "
            f"J/token, × {rate:g} tokens/s = {found:.1f} W"
        )
    same = abs(watts[0] / watts[1] - 1) < SAME
    return paper.check(
        "power",
        state_of(not same, OPEN),
        "; ".join(parts),
        f"One constant power of about {sum(watts) / len(watts):.0f} W: the CO₂ column says nothing "
        "that the throughput does not.",
    )


def speedup(paper: Paper) -> Check:
    """Compare the printed gain in throughput with what 2:4 weights allow."""
    (dense, _), (sparse, _) = _rows(paper)
    whole, half = QWEN25_7B.step_bytes(BITS), QWEN25_7B.step_bytes(BITS, sparse=True)
    bound, gain = whole / half, sparse / dense
    return paper.check(
        "speedup",
        state_of(gain <= bound, OPEN if gain <= 2 else "contradicted"),
        f"{sparse:g} / {dense:g} = {gain:.2f}; decoding one sequence reads {whole / 1e9:.2f} GB "
        f"dense and {half / 1e9:.2f} GB at 2:4 a token, at most {bound:.2f} times as fast, and 2 "
        f"times where arithmetic is the limit. The dense {dense:g} tokens/s read "
        f"{dense * whole / 1e9:.0f} GB/s",
        "Most likely two different programs were compared, not two models.",
    )


def carbon(paper: Paper) -> Check:
    """Compare the stated carbon intensity with the tables of two countries."""
    stated = paper.fact("carbon")
    tables = {"France": paper.fact("carbon_france"), "China": paper.fact("carbon_china")}
    kg = _rows(paper)[0][1]
    listed = ", ".join(
        f"{country} {value:g} kg/kWh ({value / stated:.1f} times; the dense model would have "
        f"{kg * value / stated:.3f} kg/Mtok)"
        for country, value in tables.items()
    )
    fits = [value for value in tables.values() if abs(value / stated - 1) < 0.1]
    return paper.check(
        "carbon",
        state_of(bool(fits), OPEN),
        f"{stated:g} kg/kWh is stated without a country or year; {paper.place('carbon_china')}: "
        f"{listed}. {paper.place('carbon_release')} names the average of "
        f"{paper.words('carbon_release')[0]}",
        "The CO₂ column scales with a number whose source is not named.",
    )


CHECKS = (power, speedup, carbon)
