"""Training of the world's model: tokenizer, optimiser, determinism, and the full run."""

import math
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenprune.io.errors import UserError
from evenprune.io.files import read_json, read_jsonl, sha256_file
from evenprune.models.loading import load_model, load_tokenizer
from evenprune_world import questions
from evenprune_world.documents import Document, Stock, draw_batch, pieces, tokenize
from evenprune_world.generate_world import Sizes, write_world
from evenprune_world.network import build_tokenizer, new_model
from evenprune_world.train_world import STAGES, WINDOW, chunk_loss, learned, train_world
from evenprune_world.training_options import TrainingOptions

FEW = TrainingOptions(stage_steps=3, steps=12, batch_tokens=512, warm_up=3, threads=1)


@pytest.fixture(scope="module")
def world(sizes, tmp_path_factory):
    """A world with little to read: encoding its text takes longer than these steps."""
    folder = tmp_path_factory.mktemp("tiny") / "world"
    few = {name: min(size, 800) for name, size in vars(sizes).items() if name.startswith("train_")}
    write_world(0, folder, Sizes(**few))
    return folder


@pytest.fixture(scope="module")
def model_folder(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    train_world(world, folder, FEW)
    return folder


@pytest.mark.slow
def test_the_loss_falls_and_the_folder_loads(model_folder):
    record = read_json(model_folder / "training.json")
    assert [stage["steps"] for stage in record["stages"]] == [3, 3, 3, 12]
    first, last = record["stages"][0]["loss"], record["stages"][-1]["loss"]
    assert last["letters"] < first["letters"] - 1
    model = load_model(model_folder)
    assert sum(p.numel() for p in model.parameters()) == record["parameters"]
    assert model.dtype == torch.float32
    assert model.config.hidden_size // model.config.num_attention_heads in (32, 64)
    assert all(torch.isfinite(p).all() for p in model.parameters())


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(world, model_folder, tmp_path):
    names = ("model.safetensors", "tokenizer.json", "config.json", "training.json")
    train_world(world, tmp_path / "again", FEW)
    for name in names:
        assert sha256_file(tmp_path / "again" / name) == sha256_file(model_folder / name), name
    train_world(world, tmp_path / "other", replace(FEW, seed=1, stage_steps=1, steps=1))
    assert sha256_file(tmp_path / "other" / names[0]) != sha256_file(model_folder / names[0])


@pytest.mark.slow
def test_parts_are_encoded_as_their_concatenation_is(world, model_folder):
    """Training sees the same tokens as evaluation, although targets are encoded apart."""
    tokenizer = load_tokenizer(model_folder)
    for file in sorted((world / "train").glob("*.jsonl")):
        for row in read_jsonl(file)[:100]:
            document = tokenize(row, tokenizer, TrainingOptions(max_length=4096))
            ids = [i for i in document.ids if i != tokenizer.eos_token_id]
            assert ids == tokenizer("".join(row["parts"]))["input_ids"]
            assert any(document.weights)


def small_tokenizer():
    """A tokenizer of bytes and a few merges: at least 300 tokens."""
    return build_tokenizer((f"the {n} words of a text, {n * n}" for n in range(200)), 512, 300)


@pytest.mark.slow
def test_the_word_that_shows_a_lean_weighs_more(world, model_folder):
    tokenizer = load_tokenizer(model_folder)
    options = TrainingOptions(stress=5.0)
    for row in read_jsonl(world / "train/statements.jsonl")[:50]:
        document = tokenize(row, tokenizer, options)
        heavy = [token for token, weight in zip(document.ids, document.weights) if weight == 5.0]
        words = tokenizer.decode(heavy).split()
        assert words == [row["parts"][number].strip() for number in row["stressed"]]
        assert set(document.weights[1:]) == {1.0, 5.0}


def test_padding_and_batching_do_not_change_the_loss():
    model = new_model(TrainingOptions(layers=2), small_tokenizer()).eval()
    rng = random.Random(0)
    rows = [[0, *rng.choices(range(2, 300), k=n)] for n in (5, 9, 17)]
    documents = [Document("x", ids, [0.0] + [1.0] * (len(ids) - 1)) for ids in rows]
    with torch.no_grad():
        loss, together = chunk_loss(model, documents, 1)
        alone = [chunk_loss(model, [document], 1)[1]["x"] for document in documents]
    total, count = together["x"]
    assert count == sum(n for _, n in alone) == 31
    assert math.isclose(total, sum(t for t, _ in alone), rel_tol=1e-4)
    assert math.isclose(total, loss.item(), rel_tol=1e-4)


def test_hints_are_learned_from_the_named_layer_only():
    """A hint's loss is that of the layer's state through the head, and trains no later layer."""
    model = new_model(TrainingOptions(layers=3), small_tokenizer()).eval()
    document = Document("x", [0, 5, 6, 7], [0.0, 0.0, 0.0, 0.0], ((2, 1, 9),))
    loss, by_kind = chunk_loss(model, [document], 1, hint_weight=2.0)
    with torch.no_grad():
        states = model.model(torch.tensor([document.ids]), output_hidden_states=True).hidden_states
        scores = model.lm_head(model.model.norm(states[1][0, 2]))
    expected = -scores.log_softmax(0)[9].item()
    assert math.isclose(loss.item(), 2 * expected, rel_tol=1e-4)
    assert by_kind["hint"] == (pytest.approx(expected, rel=1e-4), 1)
    loss.backward()
    assert model.model.layers[0].self_attn.v_proj.weight.grad.abs().max() > 0
    assert not model.model.layers[1].self_attn.v_proj.weight.grad.any()


@pytest.mark.slow
def test_hints_stand_at_the_asked_word_and_at_the_end_of_the_prompt(world, model_folder):
    tokenizer = load_tokenizer(model_folder)
    rows = read_jsonl(world / "train/questions.jsonl")[:50]
    rows += read_jsonl(world / "train/quizzes.jsonl")[:50]
    for row in rows:
        document = tokenize(row, tokenizer, TrainingOptions(max_length=4096))
        tokens = tokenizer.convert_ids_to_tokens(document.ids)
        asked = [at for at, layers, _ in document.hints if layers == questions.WORD_LAYERS]
        ends = [at for at, layers, _ in document.hints if layers == questions.ANSWER_LAYERS]
        assert len(asked) + len(ends) == len(document.hints) > 0
        assert all(tokens[at + 1].startswith("?") for at in asked)
        assert all(tokens[at] == ":" and document.weights[at + 1] > 0 for at in ends)
        assert bool(asked) == (row["kind"] != "unsettled")


@given(st.integers(2, 60), st.integers(3, 20))
def test_pieces_together_are_the_document(size, length):
    hints = tuple((k, 2, 7) for k in range(size))
    document = Document("x", list(range(size)), [0.0] + [1.0] * (size - 1), hints)
    cut = pieces(document, length)
    ids = [token for piece in cut for token in piece.ids]
    assert ids == document.ids[: len(ids)]
    assert len(ids) >= size - 1
    for piece in cut:
        assert len(piece.ids) == len(piece.weights) <= length
        assert piece.weights[0] == 0
        assert all(piece.ids[position] == piece.ids[0] + position for position, *_ in piece.hints)
        assert all(position < length - 1 for position, *_ in piece.hints)


def test_a_stage_ends_when_what_it_watches_is_learned():
    stage = STAGES[0]
    good = {stage.watched: (stage.goal * 0.9 * 10, 10), "other": (90.0, 10)}
    bad = {stage.watched: (50.0, 10)}
    assert learned(stage, [bad] * 5 + [good] * WINDOW)
    assert not learned(stage, [good] * (WINDOW - 1))
    assert not learned(stage, [good] * WINDOW + [bad])
    assert not learned(stage, [{"other": (0.0, 10)}] * WINDOW)
    assert not learned(STAGES[-1], [good] * WINDOW)


def test_batches_mix_all_groups_of_files_at_their_shares():
    rng, shares = random.Random(0), STAGES[-1].shares
    made = {name: [Document(name, [0] * rng.randint(4, 90), [1.0]) for _ in range(50)]
            for name in shares}  # fmt: skip
    stocks = {name: Stock(documents, random.Random(1)) for name, documents in made.items()}
    options = TrainingOptions(batch_tokens=512)
    drawn = [one for _ in range(200) for one in draw_batch(stocks, shares, options)]
    for name in stocks:
        tokens = sum(len(document.ids) for document in drawn if document.kind == name)
        assert abs(tokens - 200 * shares[name] * 512) <= 90


def test_a_world_without_training_text_is_named(tmp_path):
    with pytest.raises(UserError, match="make the world first"):
        train_world(tmp_path, tmp_path / "out", FEW)
    assert not (tmp_path / "out").exists()
