"""The only module that talks to the Hugging Face hub.

``Hub`` lists a repository at a commit and downloads single files of it. Everything that can
go wrong there becomes a UserError in one sentence; the text of the library's own exception
is never repeated, since it can hold request headers and signed addresses.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..io.checksums import sha256_cached
from ..io.errors import UserError
from ..io.files import disk_errors

RepoType = Literal["model", "dataset"]
TIMEOUT = 10.0  # seconds for a question about a repository; downloads have the library's own


class Unreachable(UserError):
    """The hub cannot be asked: offline mode, or no connection."""


@dataclass(frozen=True)
class RemoteFile:
    """Size in bytes as the hub states it, the SHA-256 of a large file, git's name of another."""

    bytes: int | None
    sha256: str | None
    blob: str | None = None

    def fits(self, path: Path) -> bool:
        """Return whether a local file is this one."""
        size = path.stat().st_size
        if self.bytes not in (None, size):
            return False
        if self.sha256 or not self.blob:
            return self.sha256 in (None, sha256_cached(path))
        content = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        content.update(path.read_bytes())
        return content.hexdigest() == self.blob


@dataclass(frozen=True)
class Listing:
    """A repository at one commit (40 hex digits): its files by path."""

    revision: str
    files: dict[str, RemoteFile]


class Hub:
    """A Hugging Face hub and the local cache of its files.

    ``cache`` and ``endpoint`` default to the library's own (HF_HOME, HF_ENDPOINT); a token is
    taken from where the library finds it (HF_TOKEN, ``hf auth login``).
    """

    def __init__(self, cache: Path | str | None = None, endpoint: str | None = None) -> None:
        self.cache = cache
        self.endpoint = endpoint

    def listing(self, repo: str, kind: RepoType, revision: str) -> Listing:
        """Return commit and files of ``repo`` at a branch, reference or commit.

        Raises Unreachable without a connection, else UserError: no such repository or
        revision, gated, or any other refusal.
        """
        from huggingface_hub import HfApi

        with _explained(repo, kind, revision):
            info = HfApi(endpoint=self.endpoint).repo_info(
                repo, repo_type=kind, revision=revision, files_metadata=True, timeout=TIMEOUT
            )
        files = {
            item.rfilename: RemoteFile(
                item.size, item.lfs.sha256 if item.lfs else None, item.blob_id
            )
            for item in info.siblings or []  # type: ignore[union-attr]  # only kernels lack it
        }
        return Listing(str(info.sha), files)

    def fetch(self, repo: str, kind: RepoType, revision: str, path: str) -> Path:
        """Return the copy of a file at a commit in the hub's cache, downloading it if need be.

        Raises as ``listing`` does, and UserError when the file is not there.
        """
        from huggingface_hub import constants, hf_hub_download

        with _explained(repo, kind, revision, path), disk_errors("the hub's cache"):
            return Path(
                hf_hub_download(
                    repo,
                    path,
                    repo_type=kind,
                    revision=revision,
                    cache_dir=self.cache,
                    endpoint=self.endpoint,
                    local_files_only=constants.is_offline_mode(),
                )
            )

    def known(self, repo: str, revision: str) -> list[str]:
        """Return a model's files at a commit as the cache lists them after a whole download.

        That is one by ``hf download`` or ``hub_model``; [] where the cache has no list.
        """
        from huggingface_hub import errors, get_cached_repo_tree

        with contextlib.suppress(errors.CachedRepoTreeNotFoundError):
            tree = get_cached_repo_tree(repo, revision=revision, cache_dir=self.cache)
            return [file.path for file in tree]
        return []

    def keep_list(self, repo: str, revision: str, names: Sequence[str]) -> None:
        """Let the cache list a model's files at a commit, of which ``names`` were downloaded."""
        from huggingface_hub import snapshot_download

        with _explained(repo, "model", revision):
            snapshot_download(
                repo, revision=revision, cache_dir=self.cache, endpoint=self.endpoint,
                allow_patterns=list(names),
            )  # fmt: skip


@contextlib.contextmanager
def _explained(repo: str, kind: RepoType, revision: str, path: str = "") -> Iterator[None]:
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
        errors.RemoteEntryNotFoundError: f"{what} has no file {path} at revision {revision}: check "
        "the configuration",
    }
    try:
        yield
    except UserError:
        raise
    except tuple(known) as error:
        message = next(text for one, text in known.items() if isinstance(error, one))
    except errors.HfHubHTTPError as error:
        message = (
            f"{what} could not be read, the hub answered with status "
            f"{error.response.status_code}: check HF_TOKEN and try again later"
        )
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, errors.HTTPError):
        offline = constants.is_offline_mode()
        reason = "offline mode is on (HF_HUB_OFFLINE)" if offline else "the hub cannot be reached"
        state = f"{path} of {what} is not in the local cache" if path else f"{what} cannot be read"
        raise Unreachable(f"{state}, {reason}: run prefetch where there is a network") from None
    except Exception as error:
        # Whatever else the library or its transport raises: an address that is none, an answer
        # that is no JSON, a transfer that broke.
        message = (
            f"{path or 'the list of files'} of {what} at {revision} could not be read "
            f"({type(error).__name__}): check HF_ENDPOINT and the name in the configuration, then "
            "run the same command again"
        )
    else:
        return
    raise UserError(message) from None
