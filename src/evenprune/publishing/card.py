"""Write the model card of a pruned folder or a 2:4 export, with scores where there are any.

The card is the folder's own README.md (of a pruned folder as this version words it), with what is
given here: scores of `--evals` in the hub's model-index and as a table, the base model's place on
the hub, a licence. The folder stays as it is; `push` uploads it with such a card.
"""

import argparse
from pathlib import Path

from ..models.trust import add_trust_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``card``."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="checkpoint")
    add_card_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="README.md")
    add_trust_argument(parser)


def add_card_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a card says that the folder does not know."""
    add = parser.add_argument
    add("--evals", type=Path, metavar="DIR", help="its evaluations (the folder of summary.json)")
    add(
        "--base-model", metavar="ORG/NAME", help="the base model on the hub, if its record has none"
    )
    add("--license", metavar="ID", help="licence, as the hub names them: apache-2.0, llama3.1, …")


def run(args: argparse.Namespace) -> None:
    """Write the card; UserError for a folder that is not as it was written."""
    from ..base.files import write_text
    from ..base.outputs import check_file

    check_file(args.out, [args.model, args.evals])
    write_text(args.out, card_of(args.model, args.evals, args.base_model, args.license))


def card_of(
    folder: Path,
    evals: Path | None = None,
    base_model: str | None = None,
    licence: str | None = None,
) -> str:
    """Return the card of a checkpoint as Markdown. The same folder and results, the same text.

    Raises UserError for a folder of another kind or one that was changed, for evaluations of
    another checkpoint, and for a name that is none of the hub.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    from ..base.errors import UserError, shown
    from ..models.cards import CARD, split_card, with_front_matter
    from ..models.identity import EXPORT, identify, own_manifest
    from ..pruning.card import model_card
    from .scores import as_table, read_scores

    identify(folder)
    manifest = own_manifest(folder)
    exported = (folder / EXPORT).is_file()
    if manifest is None and not exported:
        raise UserError(
            f"expected a folder that `prune` or `export-sparse24` wrote at {folder}, which has no "
            "manifest of theirs; check the path"
        )
    text = (folder / CARD).read_text("utf-8") if exported or not manifest else model_card(manifest)
    data, body = split_card(text)
    if base_model:
        try:
            validate_repo_id(base_model)
        except HFValidationError:
            raise UserError(
                f"expected a repository of the hub, org/name, for --base-model, got "
                f"{shown(base_model)}"
            ) from None
        if data.base_model not in (None, base_model):
            raise UserError(
                f"--base-model {base_model}, but {folder} was pruned from {data.base_model}, as "
                "its manifest says; leave the option out"
            )
        data.base_model = base_model
        data["base_model_relation"] = "quantized" if exported else "finetune"
    if licence:
        data.license = licence
    if evals is not None:
        scores = read_scores(evals, folder)
        data.model_name = str(identify(folder).model_sha256)
        data.eval_results = [one.as_result() for one in scores]
        body = f"{body.rstrip()}\n\n## Scores\n\n{as_table(scores)}\n\n{MEANING}\n"
    return with_front_matter(data, body)


MEANING = """Intervals are over the items of a benchmark, Wilson's for rates of judged answers, else
of the normal distribution; they say nothing of other seeds of the calibration. `n` counts items."""
