"""What answers for decoder blocks while the model's own code prepares their arguments.

The blocks are run one at a time, so the code between them must do nothing but hand on the
hidden states. A replaced block returns its input in the form in which the real one returns its
output, and everything else is refused: arguments that depend on what a block computes, hidden
states altered between blocks, blocks called twice or in another order.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..io.errors import Unsupported

# Number of a block, and the arguments of its call behind it -> what the model gets for it.
Take = Callable[..., Any]
Plain = bool | int | float | str | None


class Stop(Exception):
    """Ends a forward pass whose remainder is not needed."""


def _objection(what: str) -> Unsupported:
    return Unsupported(f"the model's code {what}, so its blocks cannot be run one at a time")


def _refuse(*_: Any, **__: Any) -> Any:
    raise _objection("uses more of a decoder block's output than the hidden states")


class _Withheld:
    """Stands for a value that a block computes beside the hidden states: any use is refused."""

    __torch_function__ = classmethod(_refuse)
    # Operators do not go through __getattr__.
    __getattr__ = __bool__ = __len__ = __iter__ = __getitem__ = __float__ = __int__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __matmul__ = __neg__ = __index__ = _refuse


@dataclass(frozen=True)
class Form:
    """In what form a decoder block returns its hidden states.

    kind: the type of the output, a tensor, tuple or list. others: the values behind the hidden
    states, which come first.
    """

    kind: type[Any] = Tensor
    others: tuple = ()

    def fill(self, hidden: Tensor) -> Any:
        """Return hidden states in this form."""
        return hidden if issubclass(self.kind, Tensor) else self.kind((hidden, *self.others))

    def hidden(self, output: Any) -> Tensor:
        """Return the hidden states of an output; UserError for one of another form."""
        if isinstance(output, Tensor) and issubclass(self.kind, Tensor):
            return output
        if type(output) is not self.kind or len(output) != 1 + len(self.others):
            raise Unsupported(
                f"a decoder block returns {_described(output)}, another one of the same model "
                f"{self.kind.__name__} with {1 + len(self.others)} values"
            )
        return output[0]


def _described(output: Any) -> str:
    sized = isinstance(output, tuple | list | dict)
    return type(output).__name__ + (f" with {len(output)} values" if sized else "")


def form_of(output: Any, hidden: Tensor) -> Form:
    """Return the form of a block's ``output`` for the input ``hidden``.

    Raises UserError when its first or only value is not of the shape of the hidden states.
    """
    values = output if type(output) in (tuple, list) else [output]
    first, *others = values or [None]
    if not isinstance(first, Tensor) or first.shape != hidden.shape:
        shape = f" of shape {tuple(first.shape)}" if isinstance(first, Tensor) else ""
        raise Unsupported(
            f"expected a decoder block to return hidden states {tuple(hidden.shape)} alone or "
            f"first, got {_described(output)}{shape}"
        )
    kept = (value if isinstance(value, Plain) else _Withheld() for value in others)
    return Form(type(output), tuple(kept))


Call = tuple[tuple, dict]  # the arguments of a block behind the hidden states


@dataclass
class Tape:
    """Records the calls of all blocks in one forward pass of the model, in order.

    form: what a replaced block returns. last: number of the block at which the pass ends. alter:
    what is done to the hidden states on their way through one. first: the hidden states in front
    of the first block; calls: the further arguments of each.
    """

    form: Form
    last: int
    alter: Callable[[Tensor], Tensor] | None = None
    calls: list[Call] = field(default_factory=list)
    first: Tensor | None = None
    sent: Tensor | None = None

    def take(self, index: int, /, *args: Any, **kwargs: Any) -> Any:
        """Note a block's call and return what the model gets for it; Stop at the last block."""
        hidden, args = (args[0], args[1:]) if args else (kwargs.pop("hidden_states", None), ())
        if index != len(self.calls):
            raise _objection(f"calls decoder block {index} as number {len(self.calls)}")
        if not isinstance(hidden, Tensor):
            raise _objection(f"calls decoder block {index} without hidden states as a tensor")
        if self.sent is not None and hidden is not self.sent and not _same(hidden, self.sent):
            raise _objection(f"changes the hidden states in front of decoder block {index}")
        if any(isinstance(value, _Withheld) for value in _leaves([args, kwargs])):
            _refuse()
        self.calls.append((args, kwargs))
        self.first = hidden if self.first is None else self.first
        if index == self.last:
            raise Stop
        self.sent = self.alter(hidden) if self.alter else hidden
        return self.form.fill(self.sent)


@contextlib.contextmanager
def replaced(blocks: nn.ModuleList, take: Take) -> Iterator[None]:
    """Have ``take`` answer the calls of all blocks; everything but the call is the block's own."""
    changed = [block.__dict__.pop("forward", None) for block in blocks]
    for index, block in enumerate(blocks):
        block.forward = partial(take, index)
    try:
        yield
    finally:
        for block, forward in zip(blocks, changed, strict=True):
            del block.forward
            if forward is not None:  # not its class's
                block.forward = forward


def _leaves(value: Any) -> list:
    """Return the values within nested tuples, lists and dicts."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def check_independent(calls: list[Call], others: list[Call]) -> None:
    """Raise UserError when arguments differ between passes whose blocks return other values."""
    for index, (one, two) in enumerate(zip(calls, others, strict=True)):
        left, right = _leaves(list(one)), _leaves(list(two))
        if len(left) != len(right) or not all(map(_same, left, right)):
            raise _objection(
                f"hands decoder block {index} arguments that depend on the blocks before it"
            )


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return one.shape == two.shape and torch.equal(one, two)
    if isinstance(one, Plain):
        return one == two
    return type(one) is type(two)
