"""SmolLM2 and StereoSet in float32: against sentence by sentence, and against a float64 loop."""

import os

import numpy as np
import pytest
import reference
import torch
from real_model import real_data, smollm2_folder
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.blocks.base_model import BaseModel
from evenprune.blocks.block_recorder import Form
from evenprune.blocks.forward import advance, record_inputs
from evenprune.blocks.packing import Text, pack_pairs
from evenprune.config.facts import regime_facts
from evenprune.data.calibration import tokenize_pairs
from evenprune.data.readers.stereoset import read_stereoset
from evenprune.methods.options import Options
from evenprune.pruning.engine import prune_model

LAST = 29  # the number of the last block


def real_pairs(folder, count):
    """Return the first pairs of StereoSet, of any token counts, for the model's tokenizer."""
    rows = [
        {"id": item.id, "category": item.category}
        | {name: getattr(item, name) for name in ("stereotype", "anti_stereotype")}
        for item in read_stereoset(real_data("stereoset"))[:count]
    ]
    return tokenize_pairs(rows, AutoTokenizer.from_pretrained(folder), "suffix")


def places(part, ids):
    """Return the row of a packed part in which a sentence stands, and its tokens' places there."""
    for row, stored in enumerate(part.ids):
        for seen in part.visible[row]:
            path = seen.nonzero().flatten()
            if stored[path].tolist() == list(ids):
                return row, path
    return None


@pytest.mark.slow
@torch.no_grad()
def test_packed_rows_have_the_activations_of_single_sentences():
    """20 pairs, all 30 blocks: each token's activations as in its sentence alone, to 1e-4."""
    folder = smollm2_folder()
    pairs = real_pairs(folder, 20).pairs
    base = BaseModel(folder, regime_facts("2of4"), "cpu")
    base.compute_dtype = torch.float32
    ids = [token for pair in pairs for token in (*pair.ids0, *pair.ids1)]
    base.load_outside(torch.tensor(ids))
    batches = pack_pairs(pairs, [1.0] * len(pairs), shared_prefix=True)
    packed = record_inputs(base, batches, Form())
    streams = [stream for parts, _ in packed for stream in parts]
    whole = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    alone, found = [], []  # of each sentence: what every block returns; its stream, row and tokens
    parts = [part for batch in batches for part in batch.parts]
    hooks = [
        block.register_forward_hook(lambda _module, _given, output: alone[-1].append(output))
        for block in whole.model.layers
    ]
    for sentence in [ids for pair in pairs for ids in (pair.ids0, pair.ids1)]:
        alone.append([])
        whole(torch.tensor([list(sentence)]), use_cache=False)
        number, place = next(
            (k, place) for k, part in enumerate(parts) if (place := places(part, sentence))
        )
        found.append((number, *place))
    for hook in hooks:
        hook.remove()
    worst = []
    for index in range(LAST + 1):
        base.load_block(index)
        advance(base.blocks[index], index, base.block_name(index), packed)
        base.unload_block(index)
        far = 0.0
        for (number, row, path), expected in zip(found, alone, strict=True):
            ours = streams[number].hidden[row, path]
            right = expected[index].reshape(ours.shape)
            far = max(far, float(((ours - right).norm(dim=1) / right.norm(dim=1)).max()))
        worst.append(far)
    print(f"largest relative deviation of a token: {max(worst):.1e}, block {np.argmax(worst)}")
    assert max(worst) <= 1e-4
    # Without the positions of the tree the same comparison fails.
    assert sum(int(batch.plan.weights.count_nonzero()) for batch in batches) < 0.8 * len(ids)


@pytest.mark.slow
@pytest.mark.skipif("EVENPRUNE_REAL" not in os.environ, reason="minutes; set EVENPRUNE_REAL=1")
def test_masks_of_the_last_block_are_those_of_a_float64_loop(tmp_path):
    """Behind the 29 blocks that the engine has pruned; Debias-SparseGPT, 2:4."""
    model = AutoModelForCausalLM.from_pretrained(smollm2_folder(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(smollm2_folder())
    for one in (model, tokenizer):
        one.save_pretrained(tmp_path / "base")
    pairs = real_pairs(tmp_path / "base", 100)
    options = Options("debias-sparsegpt", "2of4", alignment="suffix")
    prune_model(tmp_path / "base", options, Text(pairs), tmp_path / "out")
    pruned = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float64).eval()
    block = pruned.model.layers[LAST]
    masks = {name: (one == 0).numpy() for name, one in block.state_dict().items() if one.ndim == 2}
    block.load_state_dict(model.model.layers[LAST].state_dict())
    sentences = [ids for pair in pairs.pairs for ids in (pair.ids0, pair.ids1)]
    inputs = reference.linear_inputs(block, lambda ids: pruned(ids, use_cache=False), sentences)
    matches = [pair.matches for pair in pairs.pairs]
    equal = {}
    for name, x in inputs.items():
        both = list(zip(x[0::2], x[1::2], strict=True))
        h = reference.hessian(both, [], matches, [1.0] * len(both))
        weight = block.get_submodule(name).weight.detach().numpy()
        expected = reference.prune(weight, h, "debias-sparsegpt", "2of4") == 0
        equal[name] = float(np.mean(expected == masks[f"{name}.weight"]))
    print({name: round(share, 5) for name, share in equal.items()})
    assert len(equal) == 7
    assert min(equal.values()) >= 0.999
