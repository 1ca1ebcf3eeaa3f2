"""Fidelity on text: KL divergence of models from the dense one, agreement, ratio of perplexities.

Errors are the jackknife's over documents. Of the quantile the interval is Woodruff's (Journal of
the American Statistical Association 47, 1952): the quantiles at the ends of the interval of the
share of tokens below it.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter

from ..data.defaults import default_benchmark
from ..evaluation.benchmarks import run_digest
from ..io.checksums import source_folder
from ..io.codedigest import code_digest
from ..io.errors import UserError
from ..io.files import digest, write_json
from ..io.reading import expected_form, read_json
from ..models.identity import identify
from ..models.loading import load_config, load_tokenizer
from ..models.trust import trusting_folders
from ..stats.inference import Estimate
from ..stats.measures import Measure
from ..stats.paired import Sums, estimate_of
from ..tasks.protocol import Protocol
from .sides import Load, Model, Side

if TYPE_CHECKING:
    from ..evaluation.divergence import Divergences

QUANTILE = 0.99
LIMIT = 128  # windows


@dataclass(frozen=True)
class Value:
    """A number with its 95 % interval over documents, None where there are too few."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, found: Estimate, shape: Callable[[float], float] = float) -> "Value":
        """Return an estimate with its interval, all as ``shape`` turns them."""
        return cls(*map(shape, (found.value, *(found.interval() or ()))))

    def shown(self, form: str) -> str:
        """Return it as text, numbers formatted by ``form``."""
        text = f"{self.value:{form}}"
        if self.low is not None and self.high is not None:
            text += f" ({self.low:{form}} to {self.high:{form}})"
        return text.replace("%", " %")


@dataclass(frozen=True)
class Fidelity:
    """What is said of one model: KL in nats, its 99 % quantile, same likeliest token, ratio of
    perplexities (model over base), and on how many documents and tokens."""

    kl: Value
    kl_q99: Value
    same_top: Value
    perplexity_ratio: Value
    documents: int
    tokens: int

    def __str__(self) -> str:
        """Return it as one sentence."""
        where = f"{self.tokens:,} tokens of {self.documents:,} documents"
        said = (
            f"KL(dense ‖ model) {self.kl.shown('.3g')}, 99 % quantile {self.kl_q99.shown('.3g')}",
            f"same likeliest token {self.same_top.shown('.1%')}",
            f"perplexity × {self.perplexity_ratio.shown('.4g')}",
        )
        return f"Fidelity on {where}: {'; '.join(said)}"


def by_document(values: ArrayLike, documents: Sequence[str]) -> Estimate:
    """Return the mean of values (n,) with the jackknife's error over documents."""
    parts = np.stack([np.asarray(values, float), np.ones(len(documents))], axis=1)[:, :, None]
    found = estimate_of(Sums(Measure(()), tuple(documents), parts))
    assert found is not None
    return found


def quantile(values: NDArray[np.float64], documents: Sequence[str], share: float) -> Value:
    """Return a quantile of values (n,), as llama.cpp and numpy interpolate it, and its interval."""
    found = float(np.quantile(values, share))
    half = by_document(values <= found, documents).half_width()
    if half is None:
        return Value(found)
    low, high = np.quantile(values, (max(0.0, share - half), min(1.0, share + half)))
    return Value(found, float(low), float(high))


def summed_up(found: "Divergences") -> Fidelity:
    """Return what a model's divergences say."""
    documents = found.documents
    return Fidelity(
        Value.of(by_document(found.kl, documents)),
        quantile(found.kl, documents, QUANTILE),
        Value.of(by_document(found.same_top, documents)),
        Value.of(by_document(found.nll - found.base_nll, documents), math.exp),
        len(set(documents)),
        len(documents),
    )


def _read(place: Path) -> Fidelity:
    with expected_form("what --fidelity found", place, "remove that file"):
        return TypeAdapter(Fidelity).validate_python(read_json(place))


def ask_text(
    place: Path | str, sides: Sequence[Side], load: Load, trust: bool, options: Mapping[str, Any]
) -> Callable[[Path], dict[str, Fidelity]]:
    """Return what measures the fidelity of all models but the first on the text in ``place``.

    It takes the folder in which results are kept, and measures what is not there. The text is by
    default WikiText-2. Raises UserError for a side that is no model, and for models that split text
    differently.
    """
    from ..evaluation.divergence import diverge, keep, read_windows
    from ..language_models.language_model import context_length

    models = [side for side in sides if isinstance(side, Model)]
    if odd := [side.name for side in sides if not isinstance(side, Model)]:
        raise UserError(
            f"--fidelity needs models, but {odd[0]} is an evaluation; name the model's folder in "
            "its place, or leave --fidelity out"
        )
    data = source_folder(place) if place else default_benchmark("perplexity")[1]
    if not data.exists():
        raise UserError(f"expected documents at --fidelity {data}, found nothing; check the path")
    trusted = tuple(model.folder for model in models) if trust else ()
    limit, seed = options.get("limit") or LIMIT, options.get("seed") or 0
    spec = Protocol("perplexity", dtype=options.get("dtype") or "auto")
    base, dense = models[0].name, load(models[0].folder)
    with trusting_folders(trusted):
        longest = min(context_length(load_config(model.folder)) for model in models)
        texts = {
            model.name: read_windows(load_tokenizer(model.folder), data, longest, limit, seed)
            for model in models
        }
        # Of what a result follows from: both models and what reads them, the text, the code.
        known = {one.name: run_digest(load(one.folder), {}, spec) for one in models}
    windows = texts[base]
    for name, own in texts.items():
        if own != windows:
            raise UserError(
                f"--fidelity needs models that split text into the same tokens, but {name} does it "
                f"otherwise than {base}; leave it out"
            )
    shared = [known[base], dense.device, [astuple(one) for one in windows], code_digest(__name__)]

    def measure(evals: Path) -> dict[str, Fidelity]:
        places = {}
        for one in models[1:]:
            name = f"fidelity-{digest([known[one.name], *shared])}.json"
            places[one.name] = evals / identify(one.folder).files_sha256 / name
        if missing := {one.name: one for one in models[1:] if not places[one.name].is_file()}:
            evals.mkdir(parents=True, exist_ok=True)
            with trusting_folders(trusted), tempfile.TemporaryDirectory(dir=evals) as folder:
                with dense as loader:
                    kept = keep(loader.load(spec), windows, Path(folder))
                for name, one in missing.items():
                    print(f"fidelity of {name}", flush=True)
                    with load(one.folder) as loader:
                        found = summed_up(diverge(loader.load(spec), windows, kept))
                    write_json(places[name], asdict(found))
        return {name: _read(one) for name, one in places.items()}

    return measure
