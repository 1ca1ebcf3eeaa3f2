"""Upload a pruned folder or a 2:4 export to the Hugging Face hub, with its card.

Without `--yes` nothing is sent: files, sizes, the repository and the card's metadata are listed.
The folder is compared with its manifest before. The repository gets it by one commit; what is
there with the same SHA-256 is not sent again. The token is the one of HF_TOKEN or `hf auth login`.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

from ..models.trust import add_trust_argument
from .card import add_card_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``push``."""
    add = parser.add_argument
    add("model", type=Path, metavar="DIR", help="pruned folder, or its 2:4 export")
    add("--repo", required=True, metavar="ORG/NAME", help="repository of the hub, made if need be")
    add_card_arguments(parser)
    add("--card", type=Path, metavar="FILE", help="card to upload in place of the one made here")
    add("--public", action="store_true", help="for everyone, where the repository is a new one")
    add("--yes", action="store_true", help="do it; default: only say what would be done")
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Say what is uploaded, and with ``--yes`` upload it; UserError before anything is sent."""
    from ..base.errors import UserError
    from ..data.hub import Hub
    from ..data.hub_upload import check_token, upload
    from ..models.cards import split_card
    from .card import card_of

    _check_repo(args.repo)
    made = [name for name in ("evals", "base_model", "license") if getattr(args, name)]
    if args.card and made:
        flag = f"--{made[0].replace('_', '-')}"
        raise UserError(
            f"--card is a finished card, which {flag} would change; give one of the two"
        )
    if args.yes:
        check_token()
    card = card_of(args.model, args.evals, args.base_model, args.license)
    if args.card:
        card = args.card.read_text("utf-8")
    files = published_files(args.model, card)
    sizes = {name: _size(content) for name, content in files.items()}
    visibility = "public" if args.public else "private"
    print(f"{args.model} -> {args.repo} ({visibility} if it is new, else as it is)")
    for name, size in sizes.items():
        print(f"{size:>15,}  {name}")
    print(f"{sum(sizes.values()):>15,}  bytes in {len(sizes)} files\n")
    print(f"{split_card(card)[0].to_yaml()}\n")
    if not args.yes:
        print("nothing was sent; the same command with --yes does it")
        return
    message = f"evenprune: {args.model.resolve().name}"
    address, same = upload(Hub(), args.repo, files, not args.public, message)
    print(f"{address}: {len(files) - same} files compared or sent, {same} were there")


def published_files(folder: Path, card: str) -> dict[str, Path | bytes]:
    """Return what is uploaded of a checked folder: name -> file, or content that differs.

    The card is ``card``, and the record of the folder (manifest.json, sparse24.json) has its
    SHA-256, so that what is downloaded is whole. Times and host (provenance.json) stay here.
    Raises UserError for links, folders and files that the record does not list.
    """
    from ..base.checksums import compare_files, sealed
    from ..base.errors import UserError
    from ..base.files import canonical_json, read_json
    from ..base.marks import MARK, TIMESTAMP
    from ..models.cards import CARD
    from ..models.identity import EXPORT, MANIFEST, UNLISTED

    record = EXPORT if (folder / EXPORT).is_file() else MANIFEST
    content: dict[str, Any] = read_json(folder / record)
    part = "carried" if record == EXPORT else "files"
    listed = {**content["files"], **content[part]}
    for entry in sorted(folder.iterdir()):
        known = entry.name in {*listed, record, *UNLISTED, MARK, TIMESTAMP}
        if entry.is_symlink() or not entry.is_file() or not known:
            what = "a link" if entry.is_symlink() else "none of the files that were written there"
            raise UserError(f"{entry} is {what}, and is not uploaded; move it away")
    compare_files(folder, listed, folder / record, "make the folder again", verify=True)
    text = card.encode()
    content[part] = {**content[part], CARD: hashlib.sha256(text).hexdigest()}
    content.pop("checksum")
    files: dict[str, Path | bytes] = {name: folder / name for name in sorted(listed)}
    files[CARD] = text
    files[record] = f"{canonical_json(sealed(content), indent=1)}\n".encode()
    return dict(sorted(files.items()))


def _check_repo(repo: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    from ..base.errors import UserError, shown

    try:
        validate_repo_id(repo)
        good = "/" in repo
    except HFValidationError:
        good = False
    if not good:
        raise UserError(f"expected org/name for --repo, got {shown(repo)}")


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
