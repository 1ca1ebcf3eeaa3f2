"""The tokens of a GGUF file's texts: those that its metadata asks for, wherever texts are read."""

import itertools
import json

import pytest
from test_gguf import MERGES, SPECIAL, TOKENS, convert, tensors, write_gguf
from tokenizers import Tokenizer, models, pre_tokenizers

from evenprune.data.calibration import tokenize_pairs, tokenize_texts
from evenprune.language_models.language_model import load_language_model
from evenprune.models.loading import load_tokenizer

TEXTS = ["the cat and the hat", " two  blanks", "in\nand", "naïve – 北京"]
BYTES = [f"<0x{k:02X}>" for k in range(256)]
WORDS = ["th", "the", "▁the", "in", "an", "and", "▁and", "ou", "▁a", "▁▁", "▁t", "▁th", "▁i"]
# Numbers other than SentencePiece's usual ones.
PIECES = ["<pad>", "<end>", "<go>", "<?>", *BYTES, *"▁abcdefghijklmnopqrstuvwxyz", *WORDS]
FIRST, LAST, UNKNOWN = PIECES.index("<go>"), PIECES.index("<end>"), PIECES.index("<?>")
NUMBERS = {"bos": FIRST, "eos": LAST, "unk": UNKNOWN, "pad": 0}


def spm_file(path, keys=(), numbers=NUMBERS, pieces=PIECES, scores=None, model=(), **given):
    """Write a small llama with a SentencePiece vocabulary and further keys of the tokenizer."""

    def add(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(pieces)
        writer.add_token_scores([-float(k) for k in range(scores or len(pieces))])
        kinds = {"<?>": 2} | dict.fromkeys(["<pad>", "<end>", "<go>"], 3) | dict.fromkeys(BYTES, 6)
        writer.add_token_types([kinds.get(piece, 1) for piece in pieces])
        for name, number in numbers.items():
            getattr(writer, f"add_{name}_token_id")(number)
        add_keys(writer, keys)

    given.setdefault("weights", tensors(rows=len(pieces)))
    sizes = {"vocab_size": len(pieces)} | dict(model)
    return write_gguf(path, tokens=None, change=add, keys=sizes, **given)


def bpe_file(path, keys=(), pre="smollm", without=None):
    """Write a small llama with words of bytes and further keys of the tokenizer."""

    def add(writer):
        writer.kv_data[0].pop(f"tokenizer.ggml.{without}", None)
        add_keys(writer, keys)

    return write_gguf(path, change=add, pre=pre)


def add_keys(writer, keys):
    for name, value in dict(keys).items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"tokenizer.ggml.{name}", value)


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
