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
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter

from ..data.defaults import default_benchmark
from ..evaluation.benchmarks import run_digest
from ..evaluation.load_model import Loader
from ..io.checksums import source_folder
from ..io.codedigest import code_digest
from ..io.errors import UserError
from ..io.files import digest, write_json
from ..io.reading import expected_form, read_json
from ..language_models.causal_model import context_length
from ..models.identity import identify
from ..models.loading import load_config, load_tokenizer
from ..models.trust import trusting_folders
from ..stats.inference import Estimate
from ..stats.measures import Measure
from ..stats.paired import Sums, jackknife
from ..tasks.protocol import Protocol
from .sides import Load, Model, Side

if TYPE_CHECKING:
    from ..evaluation.divergence import Divergences, Window
    from ..language_models.language_model import LanguageModel

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
        ends = found.interval()
        if ends is None:
            return cls(shape(found.value))
        return cls(shape(found.value), shape(ends.low), shape(ends.high))

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
    names, index = np.unique(np.asarray(documents), return_inverse=True)
    sums = np.bincount(index, np.asarray(values, float)), np.bincount(index).astype(float)
    parts = np.stack(sums, axis=1)[:, :, None]
    found = jackknife(Sums(Measure(()), tuple(names.tolist()), parts))
    assert found is not None
    return found.estimate(lambda value: value)


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


@dataclass(frozen=True)
class Text:
    """The windows of a text, and what loads the dense model and the others by their names.

    ``places``: where each other model's result is kept, below the folder of evaluations.
    """

    windows: Sequence["Window"]
    dense: Loader
    others: Mapping[str, Loader]
    places: Mapping[str, str]
    trusted: tuple[Path, ...]
    spec: Protocol

    def measure(self, evals: Path) -> dict[str, Fidelity]:
        """Return each other model's fidelity, measured where it is not kept below ``evals``."""
        from ..evaluation.divergence import diverge, keep

        places = {name: evals / one for name, one in self.places.items()}
        if missing := [name for name, one in places.items() if not one.is_file()]:
            evals.mkdir(parents=True, exist_ok=True)
            with trusting_folders(self.trusted), tempfile.TemporaryDirectory(dir=evals) as folder:
                with self.dense as loader:
                    kept = keep(self._load(loader), self.windows, Path(folder))
                for name in missing:
                    print(f"fidelity of {name}", flush=True)
                    with self.others[name] as loader:
                        found = summed_up(diverge(self._load(loader), self.windows, kept))
                    write_json(places[name], asdict(found))
        return {name: _read(place) for name, place in places.items()}

    def _load(self, loader: Loader) -> "LanguageModel":
        # Always transformers' model, whose hidden states can be had.
        return cast("LanguageModel", loader.load(self.spec))


def _read(place: Path) -> Fidelity:
    with expected_form("what --fidelity found", place, "remove that file"):
        return TypeAdapter(Fidelity).validate_python(read_json(place))


def ask_text(
    place: Path | str, sides: Sequence[Side], load: Load, trust: bool, options: Mapping[str, Any]
) -> Text:
    """Return what --fidelity asks for, with the text in ``place``, by default WikiText-2.

    Raises UserError for a side that is no model, and for models that split text differently.
    """
    from ..evaluation.divergence import read_windows

    models = [side for side in sides if isinstance(side, Model)]
    for side in sides:
        if not isinstance(side, Model):
            raise UserError(
                f"--fidelity needs models, but {side.name} is an evaluation; name the model's "
                "folder in its place, or leave --fidelity out"
            )
    data = source_folder(place) if place else default_benchmark("perplexity")[1]
    if not data.exists():
        raise UserError(f"expected documents at --fidelity {data}, found nothing; check the path")
    trusted = tuple(model.folder for model in models) if trust else ()
    with trusting_folders(trusted):
        longest = min(context_length(load_config(model.folder)) for model in models)
        limit, seed = options.get("limit") or LIMIT, options.get("seed") or 0
        windows = None
        for model in models:
            own = read_windows(load_tokenizer(model.folder), data, longest, limit, seed)
            if windows is not None and own != windows:
                raise UserError(
                    f"--fidelity needs models that split text into the same tokens, but "
                    f"{model.name} does it otherwise than {models[0].name}; leave it out"
                )
            windows = own
    spec = Protocol("perplexity", dtype=options.get("dtype") or "auto")
    dense, *others = (load(one.folder) for one in models)
    # Of what a result follows from: both models and what reads them, the text, the code.
    with trusting_folders(trusted):
        known = [
            run_digest(identify(one.folder), {}, spec, loader.versions(spec))
            for one, loader in zip(models, (dense, *others))
        ]
    text = [astuple(one) for one in windows or ()]
    shared = [known[0], dense.device, text, code_digest(__name__)]
    places = {
        one.name: f"{identify(one.folder).files_sha256}/fidelity-{digest([own, *shared])}.json"
        for one, own in zip(models[1:], known[1:])
    }
    named = dict(zip(places, others, strict=True))
    return Text(windows or [], dense, named, places, trusted, spec)
