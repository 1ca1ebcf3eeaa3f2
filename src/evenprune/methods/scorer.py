"""Scores of sentences with gradients: several a row where the model takes them as a tree."""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..blocks.block_recorder import Stop, form_of, replaced
from ..blocks.probe import TOLERANCE, tree_objection
from ..io.onednn import missing
from ..models.architecture import find_blocks
from ..models.token_trees import Tree, common_prefix, merged, visible
from .contexts import Ids

STEP = 32  # tokens


class LogProbs(torch.autograd.Function):
    """``logits[place, token] - logsumexp(logits)[place]``, (s,), of logits (p, v).

    The gradient takes one buffer of the logits' size; autograd's own takes three at a time.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, place: Tensor, token: Tensor) -> Tensor:
        """Return the log-probabilities of tokens."""
        total = logits.logsumexp(-1)
        ctx.save_for_backward(logits, total, place, token)
        return logits[place, token] - total[place]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient for the logits."""
        logits, total, place, token = ctx.saved_tensors
        (grad,) = grads
        summed = torch.zeros_like(total).index_put((place,), -grad, accumulate=True)
        found = (logits - total[:, None]).exp_().mul_(summed[:, None])
        # Tokens that repeat are summed first, as autograd does: the same bytes.
        spots, index = torch.stack([place, token]).unique(dim=1, return_inverse=True)
        found[*spots] += grad.new_zeros(spots.shape[1]).index_add(0, index, grad)
        return found, None, None


class Scorer:
    """What the sentences of parts, and the tokens of texts, have in a model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        _, self.blocks = find_blocks(model)
        self.trees = False
        self.form = form_of(*self._last(self._filled([(0, 1)])))

    @torch.no_grad()
    def take_trees(self, parts: Sequence[Sequence[Ids]], tokens: int) -> bool:
        """Put all sentences of a pass into one row from now on where that gives the same.

        Tried with ``parts``; no row will be longer than ``tokens``. Return whether it is done.
        """
        if tree_objection(self.model, tokens):
            return False
        try:
            alone, self.trees = torch.cat(self.log_p(parts)), True
            together = torch.cat(self.log_p(parts))
        except torch.OutOfMemoryError:
            raise
        except (AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError):
            self.trees = False
        else:
            apart = (alone - together).abs() / alone.abs().clamp(min=1.0)
            self.trees = bool(apart.max() <= TOLERANCE[self.model.dtype])
        return self.trees

    def _filled(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return rows filled up at the right to a multiple of ``STEP``: attention is causal.

        A CPU's library makes code for each shape that comes, and keeps it.
        """
        length = -(-max(map(len, rows)) // STEP) * STEP
        filled = [[*row, *(0,) * (length - len(row))] for row in rows]
        return torch.tensor(filled, device=self.model.device)

    def _last(self, ids: Tensor, trees: Sequence[Tree] = ()) -> tuple[Any, Tensor]:
        """Return what the last block returns for ids (r, l), and what it was given.

        Where the rows are ``trees``, a token sees those before it in its own sentences alone.
        """
        options: dict[str, Tensor] = {}
        if trees:
            padded = [
                one._replace(tokens=row) for one, row in zip(trees, ids.tolist(), strict=True)
            ]
            seen, places = visible(padded)
            mask = torch.zeros(seen.shape, dtype=self.model.dtype)
            mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)
            options["attention_mask"] = mask[:, None].to(ids.device)
            options["position_ids"] = places.to(ids.device)
        found: list[Any] = []

        def hook(_module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            found.extend((output, args[0] if args else kwargs["hidden_states"]))
            raise Stop

        handle = self.blocks[-1].register_forward_hook(hook, with_kwargs=True)
        with handle, contextlib.suppress(Stop):
            self.model(input_ids=ids, use_cache=False, **options)
        return found[0], found[1]

    def states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return what the last block returns for rows, (r, l, d), filled up to one length."""
        return self.form.hidden(self._last(self._filled(rows))[0])

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (p, v) float32 of what the last block returns at p positions, (p, d).

        What follows the blocks (final norm, scaling, soft-capping, the output embeddings) is the
        model's own code, run with these positions put in the blocks' place.
        """
        hidden = hidden[:, None]
        ids = torch.zeros(len(hidden), 1, dtype=torch.int64, device=hidden.device)

        def take(index: int, /, *args: Any, **kwargs: Any) -> Any:
            if index == len(self.blocks) - 1:
                return self.form.fill(hidden)
            return self.form.fill(args[0] if args else kwargs["hidden_states"])

        with replaced(self.blocks, take):
            return self.model(input_ids=ids, use_cache=False).logits[:, 0].float()

    def log_p(self, parts: Sequence[Sequence[Ids]], whole: bool = False) -> list[Tensor]:
        """Return log p of the sentences of each part, less that of what they begin with alike.

        ``whole``: of all tokens after the first.
        """
        rows = [ids for part in parts for ids in part]
        starts = [1 if whole else _start(part) for part in parts for _ in part]
        trees = [merged(part) for part in ([rows] if self.trees else [[ids] for ids in rows])]
        paths = [(tree, path) for tree, one in enumerate(trees) for path in one.paths]
        # Of each scored token: its row, where the token before it stands, and itself.
        owners, spots, wanted = zip(
            *(
                (row, (tree, path[place - 1]), rows[row][place])
                for row, (tree, path) in enumerate(paths)
                for place in range(starts[row], len(rows[row]))
            ),
            strict=True,
        )
        number = {spot: k for k, spot in enumerate(dict.fromkeys(spots))}
        places = [*number, *[spots[0]] * missing(len(number))]
        tree, node = torch.tensor(places, device=self.model.device).T
        ids = self._filled([one.tokens for one in trees])
        last = self._last(ids, trees if self.trees else ())[0]
        logits = self.logits(self.form.hidden(last)[tree, node])
        place = torch.tensor([number[spot] for spot in spots], device=logits.device)
        token = torch.tensor(wanted, device=logits.device)
        found = LogProbs.apply(logits, place, token)
        owner = torch.tensor(owners, device=logits.device)
        scores = torch.zeros(len(rows), device=logits.device).index_add(0, owner, found)
        return list(scores.split([len(part) for part in parts]))


def _start(part: Sequence[Ids]) -> int:
    """Return where the sentences of a part begin to differ, at least 1."""
    return max(1, min(common_prefix(part[0], ids) for ids in part[1:]))
