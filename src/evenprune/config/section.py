"""What all sections of a configuration are made of: strict keys, names, lists."""

import os
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

LARGEST = 2**63 - 1
# Control characters, separators of lines, halves of surrogates.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONGEST = 200  # bytes of a name in a path; most file systems take 255

# A name that becomes part of a path: no slash, blank, quote or shell sign can get in.
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
# "auto": as the checkpoint has it.
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
# BOS at the start of every text: as the tokenizer does, always exactly one, or never one.
Bos = Literal["auto", "always", "never"]


def _words(text: str) -> str:
    if "{" in text or "}" in text:
        raise ValueError("expected text without braces")
    return text


def short_names(path: str) -> str:
    """Return a path whose parts a file system takes, with what is added to them in the making."""
    if any(len(os.fsencode(part)) > LONGEST for part in path.split(os.sep)):
        raise ValueError(f"expected names of at most {LONGEST} bytes")
    return path


Words = Annotated[str, AfterValidator(_words)]
Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_words)
]
# A path of the user's: here, and nowhere else, ~ becomes the home folder.
Place = Annotated[str, AfterValidator(os.path.expanduser), AfterValidator(short_names)]
# The name of a data set, or the path of a file of one's own in its place.
Named = Annotated[str, AfterValidator(short_names)]


def listed(value: Any) -> Any:
    """Take one name for a list of it."""
    return [value] if isinstance(value, str) else value


def each_once(names: list[Any]) -> list[Any]:
    """Return a list; raise ValueError where one of it comes twice."""
    if len(set(names)) < len(names):
        raise ValueError("expected each one once")
    return names


Item = TypeVar("Item")
Once = Annotated[list[Item], Field(min_length=1), AfterValidator(each_once)]
# The same where one name may stand alone.
OneOrMore = Annotated[Once[Item], BeforeValidator(listed, json_schema_input_type=str | list[str])]


class Section(BaseModel):
    """A part of the configuration; a key it does not know is an error."""

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_written(cls, value: Any) -> Any:
        """Refuse text of several lines or with control characters, and numbers beyond 64 bits."""
        for one in value if isinstance(value, list | dict) else [value]:
            if isinstance(one, int) and abs(one) > LARGEST:
                raise ValueError(f"expected a number of at most {LARGEST}")
            if isinstance(one, str) and (sign := _UNPRINTABLE.search(one)):
                code = f"U+{ord(sign[0]):04X}"
                raise ValueError(f"expected one line without control characters, has {code}")
        return value
