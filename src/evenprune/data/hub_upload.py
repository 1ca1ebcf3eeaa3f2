"""Writing to the Hugging Face hub: one commit of many files, and what can go wrong in a sentence.

As in `hub.py`, the text of the library's own exceptions is never repeated.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..base.errors import UserError
from .hub import TIMEOUT, Hub

GITATTRIBUTES = ".gitattributes"  # the hub's own


def check_token() -> None:
    """Raise UserError where the hub's library finds no token (HF_TOKEN, ``hf auth login``)."""
    from huggingface_hub import get_token

    if not get_token():
        raise UserError(
            "no token of the hub was found: set HF_TOKEN to one that may write, or run "
            "`hf auth login`, then run the same command again"
        )


def upload(
    hub: Hub, repo: str, files: Mapping[str, Path | bytes], private: bool, message: str
) -> tuple[str, int]:
    """Put files into a model repository by one commit; return its address and what was left out.

    The repository is made where it is not there; the visibility of one that is there stays. What
    it holds with the same content is not sent, so that a call that was cut off goes on where it
    was. Raises UserError without token, network or permission, and where the repository holds
    files that are none of ``files``; nothing is changed then.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    check_token()
    api = HfApi(endpoint=hub.endpoint)
    with _explained(repo):
        api.create_repo(repo, repo_type="model", private=private, exist_ok=True)
        info = api.model_info(repo, files_metadata=True, timeout=TIMEOUT)
        there = {item.rfilename: item for item in info.siblings or []}
        foreign = sorted(set(there) - set(files) - {GITATTRIBUTES})
        if foreign:
            raise UserError(
                f"the hub's model {repo} holds {foreign[0]}, which is none of the folder's files "
                "and would be read with them; remove it there, or name a new repository"
            )
        added = [
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in sorted(files.items())
        ]
        same = [
            one
            for one in added
            if (lfs := getattr(there.get(one.path_in_repo), "lfs", None))
            and lfs.sha256 == one.upload_info.sha256.hex()
        ]
        sent = [one for one in added if one not in same]
        if not sent:
            return f"{api.endpoint}/{repo}/tree/{info.sha}", len(same)
        done = api.create_commit(
            repo, sent, commit_message=message, repo_type="model", parent_commit=info.sha
        )
    return str(done.commit_url), len(same)


@contextlib.contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Turn the library's exceptions into one sentence that holds no secret."""
    from huggingface_hub import constants, errors

    again = "then run the same command again"
    try:
        yield
    except UserError:
        raise
    except errors.HFValidationError:
        message = f"{repo!r} is no name of a repository on the hub: expected org/name"
    except errors.RepositoryNotFoundError:
        message = (
            f"the hub's model {repo} is not there and could not be made with this token: check "
            f"the name and that the token may write there, {again}"
        )
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            message = (
                f"the token may not write to the hub's model {repo} (status {status}): take one "
                f"with write access to {repo.partition('/')[0]}, {again}"
            )
        elif status in (409, 412):
            message = f"the hub's model {repo} was changed meanwhile: look at it, {again}"
        else:
            message = (
                f"the upload to {repo} was refused with status {status}; what was sent stays "
                f"there: wait, {again}"
            )
    except (errors.OfflineModeIsEnabled, errors.HTTPError, OSError):
        reason = (
            "offline mode is on (HF_HUB_OFFLINE)"
            if constants.is_offline_mode()
            else "the hub cannot be reached"
        )
        message = f"nothing was published in {repo}, {reason}: check the network, {again}"
    except Exception as error:
        message = (
            f"the upload to {repo} failed ({type(error).__name__}); what was sent stays there: "
            f"check HF_ENDPOINT, the card's metadata and the network, {again}"
        )
    else:
        return
    raise UserError(message) from None
