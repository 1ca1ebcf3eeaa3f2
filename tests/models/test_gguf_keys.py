"""Keys of a GGUF file that change what a model computes: followed, or refused by their names."""

import itertools
import json

import pytest
import torch
from gguf import MODEL_ARCH, get_tensor_name_map
from gguf import GGMLQuantizationType as Kind
from test_gguf import (
    HEADS,
    LAYERS,
    MERGES,
    MLP,
    SPECIAL,
    TOKENS,
    WIDTH,
    convert,
    one_sentence,
    tensors,
    write_gguf,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, Gemma3TextConfig

from evenprune.data.calibration import tokenize_pairs, tokenize_texts
from evenprune.io.errors import UserError
from evenprune.language_models.language_model import load_language_model
from evenprune.models.loading import load_model, load_tokenizer


def add_keys(writer, keys):
    kinds = {bool: "bool", str: "string", float: "float32", int: "uint32"}
    for key, value in keys.items():
        getattr(writer, f"add_{kinds[type(value)]}")(key, value)


REFUSED = [
    ("llama.logit_scale", 0.5),
    ("llama.attention.sliding_window", 16),
    ("llama.rope.scaling.factor", 4.0),
    ("llama.attention.key_length", 32),
    ("new.thing", "x"),
    ("tokenizer.ggml.remove_extra_whitespaces", True),
]


@pytest.mark.parametrize(("key", "value"), REFUSED, ids=[key for key, _ in REFUSED])
def test_a_key_that_is_not_followed_is_refused_by_name(tmp_path, key, value):
    path = write_gguf(tmp_path / "a.gguf", change=lambda writer: add_keys(writer, {key: value}))
    with pytest.raises(UserError, match=key) as caught:
        convert(path, tmp_path / "out")
    assert str(path) in one_sentence(str(caught.value))
    assert not (tmp_path / "out").exists()


def test_keys_that_say_what_the_model_does_anyway_are_accepted(tmp_path):
    head = WIDTH // HEADS
    keys = {
        "llama.logit_scale": 1.0, "llama.attention.scale": head**-0.5,
        "llama.attention.sliding_window": 128, "llama.attention.causal": True,
        "llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 1.0,
        "llama.rope.scaling.original_context_length": 128, "llama.attention.key_length": head,
        "llama.attention.value_length": head, "llama.expert_count": 0,
        "llama.rope.scaling.finetuned": False, "tokenizer.ggml.remove_extra_whitespaces": False,
        "quantize.imatrix.file": "words.dat", "general.basename": "tiny", "split.count": 1,
        "tokenizer.ggml.fim_pre_token_id": 3,
    }  # fmt: skip
    path = write_gguf(tmp_path / "a.gguf", change=lambda writer: add_keys(writer, keys))
    convert(path, tmp_path / "out")


def test_a_gemma_file_is_read_with_its_keys(tmp_path):
    """Windows, head size and the scale of embeddings; logits are those of the model it is of."""
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=len(PIECES), hidden_size=WIDTH, intermediate_size=MLP, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=1, head_dim=32, sliding_window=16,
        rms_norm_eps=1e-5, query_pre_attn_scalar=256,
    )  # fmt: skip
    config.rope_parameters["full_attention"]["rope_theta"] = 10_000.0
    model = AutoModelForCausalLM.from_config(config).eval()
    names, weights = get_tensor_name_map(MODEL_ARCH.GEMMA3, LAYERS), {}
    for name, value in model.state_dict().items():
        if name != "lm_head.weight":
            stem, _, end = name.rpartition(".")
            offset = 1 if "norm" in name else 0
            weights[f"{names.get_name(stem)}.{end}"] = value.numpy() + offset

    def made(path, **changes):
        keys = {
            "attention.key_length": 32, "attention.value_length": 32, "attention.head_count_kv": 1,
            "attention.sliding_window": 16, "rope.dimension_count": None,
        } | changes  # fmt: skip
        return spm_file(
            path, {"add_space_prefix": False}, arch="gemma3", weights=weights, kind=Kind.F32,
            model=keys,
        )  # fmt: skip

    convert(made(tmp_path / "a.gguf"), tmp_path / "out", "float32")
    batch = torch.arange(4, 60)[None]
    with torch.no_grad():
        found = load_model(tmp_path / "out", dtype=torch.float32)(batch).logits
        assert torch.equal(found, model(batch).logits)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (settings["sliding_window"], settings["head_dim"]) == (16, 32)
    with pytest.raises(UserError, match=r"has 64 for gemma3.attention.value_length.*has 32"):
        convert(made(tmp_path / "b.gguf", **{"attention.value_length": 64}), tmp_path / "no")


# The tokens of texts: those that the metadata asks for, wherever texts are read


TEXTS = ["the cat and the hat", " two  blanks", "in\nand", "naïve – 北京"]
BYTES = [f"<0x{k:02X}>" for k in range(256)]
WORDS = ["th", "the", "▁the", "in", "an", "and", "▁and", "ou", "▁a", "▁▁", "▁t", "▁th", "▁i"]
# Numbers other than SentencePiece's usual ones.
PIECES = ["<pad>", "<end>", "<go>", "<?>", *BYTES, *"▁abcdefghijklmnopqrstuvwxyz", *WORDS]
FIRST, LAST, UNKNOWN = PIECES.index("<go>"), PIECES.index("<end>"), PIECES.index("<?>")
NUMBERS = {"bos": FIRST, "eos": LAST, "unk": UNKNOWN, "pad": 0}


def spm_file(path, keys=(), numbers=NUMBERS, pieces=PIECES, model=(), **given):
    """Write a small llama with a SentencePiece vocabulary and further keys of the tokenizer."""

    def add(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(pieces)
        writer.add_token_scores([-float(k) for k in range(len(pieces))])
        kinds = {"<?>": 2} | dict.fromkeys(["<pad>", "<end>", "<go>"], 3) | dict.fromkeys(BYTES, 6)
        writer.add_token_types([kinds.get(piece, 1) for piece in pieces])
        for name, number in numbers.items():
            getattr(writer, f"add_{name}_token_id")(number)
        add_keys(writer, of_tokenizer(keys))

    given.setdefault("weights", tensors(rows=len(pieces)))
    sizes = {"vocab_size": len(pieces)} | dict(model)
    return write_gguf(path, tokens=None, change=add, keys=sizes, **given)


def bpe_file(path, keys=(), pre="smollm"):
    """Write a small llama with words of bytes and further keys of the tokenizer."""
    return write_gguf(path, change=lambda writer: add_keys(writer, of_tokenizer(keys)), pre=pre)


def of_tokenizer(keys):
    return {f"tokenizer.ggml.{name}": value for name, value in dict(keys).items()}


def spm_tokens(text, blank):
    """SentencePiece as in llama.cpp: the neighbours with the best score join, again and again."""
    parts = list((" " * blank + text).replace(" ", "▁"))
    number = {piece: k for k, piece in enumerate(PIECES)}
    while True:
        pairs = enumerate(a + b for a, b in itertools.pairwise(parts))
        joined = [(number[both], k) for k, both in pairs if both in number]
        if not joined:
            break
        _, k = min(joined)  # scores fall with the number
        parts[k : k + 2] = ["".join(parts[k : k + 2])]
    found = [[part] if part in number else [BYTES[b] for b in part.encode()] for part in parts]
    return [number[piece] for pieces in found for piece in pieces]


def bpe_tokens(text, blank):
    plain = Tokenizer(
        models.BPE({token: k for k, token in enumerate(TOKENS)}, [tuple(m.split()) for m in MERGES])
    )
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return plain.encode(" " * (blank and not text.startswith(" ")) + text).ids


FILES = {
    "llama": (spm_file, spm_tokens, (FIRST, LAST), (True, False, True)),
    "gpt2": (bpe_file, bpe_tokens, (TOKENS.index(SPECIAL[1]), 0), (False, False, False)),
}
KEYS = ("add_bos_token", "add_eos_token", "add_space_prefix")
# None, and each key either way.
WAYS = [(), (False, True, False), (True, False, True)]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", FILES)
def test_tokens_are_those_that_the_metadata_asks_for(tmp_path, kind, way):
    """In evaluation and in calibration, each key either way and left out."""
    make, tokens, (bos, eos), usual = FILES[kind]
    convert(make(tmp_path / "a.gguf", dict(zip(KEYS, way))), tmp_path / "out")
    first, last, blank = way or usual
    expected = [[bos] * first + tokens(text, blank) + [eos] * last for text in TEXTS]
    lm = load_language_model(tmp_path / "out", "cpu", "float32")
    assert lm.encode(TEXTS) == expected
    assert lm.bos_id == (bos if first else None)
    assert tokenize_texts(TEXTS, lm.tokenizer) == list(map(tuple, expected))
    pair = {"id": "1", "category": "a", "stereotype": TEXTS[0], "anti_stereotype": TEXTS[1]}
    (found,) = tokenize_pairs([pair], lm.tokenizer, "suffix").pairs
    assert [list(found.ids0), list(found.ids1)] == expected[:2]
    for text in TEXTS[:3]:
        assert lm.tokenizer.decode(tokens(text, blank)).strip() == text.strip()


def test_special_tokens_are_the_file_s_or_the_usual_ones(tmp_path):
    convert(spm_file(tmp_path / "a.gguf", {"eot_token_id": 7}), tmp_path / "a")
    found = load_tokenizer(tmp_path / "a")
    numbers = (found.bos_token_id, found.eos_token_id, found.unk_token_id, found.pad_token_id)
    assert numbers == (FIRST, LAST, UNKNOWN, 0)
    assert len(found) == len(PIECES)  # none that only a class of transformers' has
    settings = json.loads((tmp_path / "a" / "generation_config.json").read_text())
    assert settings["eos_token_id"] == [LAST, 7]  # either ends an answer
    pieces = ["<unk>", "<s>", "</s>", *PIECES[4:]]
    convert(spm_file(tmp_path / "b.gguf", numbers={}, pieces=pieces), tmp_path / "b")
    found = load_tokenizer(tmp_path / "b")
    assert (found.unk_token, found.bos_token, found.eos_token) == ("<unk>", "<s>", "</s>")
    assert found("the")["input_ids"] == [1, pieces.index("▁the")]


@pytest.mark.parametrize(
    ("pre", "start"), [("llama-bpe", True), ("tekken", True), ("gpt-2", False)]
)
def test_bos_of_byte_level_words_follows_their_pre_tokenizer(tmp_path, pre, start):
    convert(bpe_file(tmp_path / "a.gguf", pre=pre), tmp_path / "a")
    assert (load_tokenizer(tmp_path / "a")("the")["input_ids"][0] == 1) == start
    convert(bpe_file(tmp_path / "b.gguf", {"add_bos_token": not start}, pre), tmp_path / "b")
    assert (load_tokenizer(tmp_path / "b")("the")["input_ids"][0] == 1) != start
