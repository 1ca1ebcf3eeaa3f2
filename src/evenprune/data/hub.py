"""The only module that talks to the Hugging Face hub.

The hub's own library resolves, downloads, and finds what its cache (HF_HOME) has. Everything that
can go wrong there becomes a UserError in one sentence; the text of the library's own exception
is never repeated, since it can hold request headers and signed addresses.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..io.checksums import matching
from ..io.errors import UserError
from ..io.files import disk_errors

RepoType = Literal["model", "dataset"]


def snapshot(
    repo: str, kind: RepoType, revision: str, patterns: Sequence[str]
) -> tuple[Path, list[str]]:
    """Return the folder of ``repo`` in the hub's cache, and those of its files that match.

    The folder's name is the commit. What is missing is downloaded; without a connection the cache
    has to have all of it. Of a model only files at its top level are taken. Raises UserError where
    that is not possible: no such repository or revision, gated, out of reach.
    """
    from huggingface_hub import snapshot_download

    below = None if kind == "dataset" else "*/*"
    with _explained(repo, kind, revision), disk_errors("the hub's cache"):
        which: dict[str, Any] = {"repo_type": kind, "revision": revision, "ignore_patterns": below}
        folder = Path(snapshot_download(repo, allow_patterns=list(patterns), **which))
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return folder, matching((name for name in names if not below or "/" not in name), patterns)


@contextlib.contextmanager
def _explained(repo: str, kind: RepoType, revision: str) -> Iterator[None]:
    """Turn the library's exceptions into one sentence that holds no secret."""
    from huggingface_hub import constants, errors

    what = f"the hub's {kind} {repo}"
    known: dict[type[Exception], str] = {
        errors.HFValidationError: f"{repo!r} is no name of a {kind} on the hub: expected org/name "
        "of letters, digits and -, _ or . in the configuration",
        errors.GatedRepoError: f"{what} is gated and this account may not read it: accept its "
        "terms on its page, then set HF_TOKEN (or run `hf auth login`) and run the command again",
        errors.RepositoryNotFoundError: f"{what} does not exist, or is private and needs a token "
        "that may read it: check the name in the configuration, or set HF_TOKEN",
        errors.RevisionNotFoundError: f"{what} has no revision {revision}: correct or remove it "
        "from the lock file",
        errors.LocalEntryNotFoundError: f"{what} is not in the local cache as a whole, and "
        + (
            "offline mode is on (HF_HUB_OFFLINE)"
            if constants.is_offline_mode()
            else "the hub cannot be reached"
        )
        + ": run prefetch where there is a network",
        # Whatever else the library or its transport raises: an address that is none, an answer
        # that is no JSON, a transfer that broke.
        Exception: f"{what} could not be read at {revision} (NAME): check HF_ENDPOINT, HF_TOKEN "
        "and the name in the configuration, then run the same command again",
    }
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        message = next(text for one, text in known.items() if isinstance(error, one))
        raise UserError(message.replace("NAME", type(error).__name__)) from None
