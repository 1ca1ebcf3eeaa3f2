"""What all sections of a configuration are made of: strict keys, names, lists."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, WithJsonSchema

# A name that becomes part of a path: no slash, blank, quote or shell sign can get in.
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
# The same where a file of one's own may stand, which is given a name before (own_files.py).
Named = Annotated[Slug, WithJsonSchema({"type": "string"})]
# The end of a module's name, such as o_proj or attention.dense.
Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.]*$", max_length=100)]
# "auto": as the checkpoint has it.
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class Section(BaseModel):
    """A part of the configuration; a key it does not know is an error."""

    model_config = ConfigDict(
        extra="forbid", validate_default=True, strict=True, allow_inf_nan=False
    )


def listed(value: Any) -> Any:
    """Take one name for a list of it."""
    return [value] if isinstance(value, str) else value


def each_once(names: list[Any]) -> list[Any]:
    """Return a list; raise ValueError where one of it comes twice."""
    if len(set(names)) < len(names):
        raise ValueError("expected each one once")
    return names
