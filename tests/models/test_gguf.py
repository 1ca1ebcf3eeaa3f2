"""GGUF files as models: the weights and tokens of the file, the same bytes always, clear errors."""

import contextlib
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from real_model import smollm2_folder, smollm2_gguf
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.convert_slow_tokenizer import bytes_to_unicode

from evenprune import cli
from evenprune.data.packages import gguf_folder
from evenprune.io.errors import UserError
from evenprune.io.files import sha256_file
from evenprune.io.marks import FETCHED
from evenprune.io.outputs import atomic_folder
from evenprune.models.gguf import convert_gguf, stored_as
from evenprune.models.gguf_header import read_header
from evenprune.models.loading import check_model_folder, load_model, load_tokenizer

HEADS, KV_HEADS, WIDTH, MLP, LAYERS = 4, 2, 64, 96, 2
MERGES = ["t h", "th e", "Ġ the", "i n", "a n", "an d", "Ġ and", "o u", "Ġ a", "Ġ Ġ"]
SPECIAL = ["<|end|>", "<|start|>"]
ALPHABET = [*bytes_to_unicode().values()]
TOKENS = [*SPECIAL, *ALPHABET, *(merge.replace(" ", "") for merge in MERGES)]
ROWS = len(TOKENS)
CHAT = "{% for m in messages %}<|start|>{{ m['content'] }} – naïve{% endfor %}"
TEXTS = ["the cat and the hat", "naïve  café\n\n– 北京 42", "<|start|>and so on<|end|>", ""]
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def convert(path, out, dtype="bfloat16"):
    with atomic_folder(out, FETCHED) as new:
        convert_gguf(path, new, dtype)


def stored(path):
    return stored_as(path, read_header(path))[0]


def hf_name(name):
    """Return transformers' name of a llama's tensor."""
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name):
        return f"model.layers.{match[1]}.{NAMES[match[2]]}.weight"
    return {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }[name]


def paired(rows, heads):
    """Rows of a q or k matrix in llama.cpp's order: each head's two halves take turns."""
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(rows.shape)


def halved(rows, heads):
    """``paired`` undone."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1).reshape(rows.shape)


def tensors(tied=True, rows=ROWS):
    """Random weights of a small llama, in llama.cpp's order and names."""
    draw = np.random.default_rng(7)
    kv = WIDTH // HEADS * KV_HEADS
    sizes = {
        "attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH),
        "attn_output": (WIDTH, WIDTH), "ffn_gate": (MLP, WIDTH), "ffn_up": (MLP, WIDTH),
        "ffn_down": (WIDTH, MLP), "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,),
    }  # fmt: skip
    found = {"token_embd.weight": (rows, WIDTH), "output_norm.weight": (WIDTH,)}
    if not tied:
        found["output.weight"] = (rows, WIDTH)
    for layer in range(LAYERS):
        found |= {f"blk.{layer}.{name}.weight": shape for name, shape in sizes.items()}
    made = {name: draw.normal(0, 0.1, shape).astype(np.float32) for name, shape in found.items()}
    for name in made:
        if ".attn_q." in name or ".attn_k." in name:
            made[name] = paired(made[name], HEADS if ".attn_q." in name else KV_HEADS)
    return made


def write_gguf(
    path, kind=Kind.Q4_1, change=None, weights=None, arch="llama", tokens=TOKENS, keys=(),
    pre="smollm", **given,
):  # fmt: skip
    """Write a small llama; ``change`` may do more to the writer, ``keys`` are not written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, arch, **given)
    writer.add_name("Tiny llama")
    numbers = {
        "context_length": 128, "embedding_length": WIDTH, "feed_forward_length": MLP,
        "block_count": LAYERS, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "rope.dimension_count": WIDTH // HEADS, "vocab_size": len(TOKENS),
    } | dict(keys)  # fmt: skip
    for key, number in numbers.items():
        if number is None:
            continue
        writer.add_uint32(f"{arch}.{key}", number)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    if tokens:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
        writer.add_token_merges(MERGES)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(0)
        writer.add_chat_template(CHAT)
    for name, value in (tensors() if weights is None else weights).items():
        own = kind if value.ndim > 1 else Kind.F32
        data = value if own in (Kind.F32, Kind.F16) else quantize(value, own)
        data = data.astype(np.float16) if own == Kind.F16 else data
        writer.add_tensor(name, data, raw_dtype=None if own in (Kind.F32, Kind.F16) else own)
    if change:
        change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def expected_weights(path, heads, kv_heads, dtype=torch.bfloat16, step=1):
    """The file's weights by the library that defines them, rows of q and k in their own order."""
    found = {}
    for tensor in GGUFReader(path).tensors[::step]:
        value = dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            value = halved(value, heads if ".attn_q." in tensor.name else kv_heads)
        found[hf_name(tensor.name)] = torch.from_numpy(np.array(value)).to(dtype)
    return found


def assert_same_weights(folder, expected):
    found = load_file(folder / "model.safetensors")
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value), name


def read_by_transformers(path, dtype=torch.bfloat16):
    place = {"gguf_file": path.name, "local_files_only": True}
    unpacked = GgufConfig(dequantize=True)
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            path.parent, dtype=dtype, quantization_config=unpacked, **place
        )
    return model.eval(), AutoTokenizer.from_pretrained(path.parent, **place)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENPRUNE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return gguf_folder(tiny)


# What comes out


def test_the_folder_is_an_ordinary_model(folder, tiny):
    check_model_folder(folder)
    model = load_model(folder)
    assert model.dtype == torch.bfloat16
    assert not hasattr(model.config, "quantization_config")
    assert sorted(contents(folder)) == [
        ".code", ".evenprune.json", "chat_template.jinja", "config.json", "generation_config.json",
        "model.safetensors", "source.json", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert json.loads((folder / "source.json").read_text()) == {
        "weights": "4-bit weights (Q4_1), de-quantised",
        "stored": {"bits": 5.0, "bytes": tiny.stat().st_size, "form": "GGUF Q4_1, de-quantised"},
        "file": "tiny.gguf",
        "sha256": sha256_file(tiny),
    }
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert not {"is_local", "local_files_only", "gguf_file", "name_or_path"} & set(settings)
    written = b"".join(data for name, data in contents(folder).items() if name != "source.json")
    assert str(tiny.parent).encode() not in written
    assert b"model.gguf" not in written


@pytest.mark.parametrize(
    ("kind", "tied", "dtype", "text"),
    [
        (Kind.Q4_1, True, "bfloat16", "4-bit weights (Q4_1), de-quantised"),
        (Kind.BF16, False, "bfloat16", "16-bit weights (BF16)"),
        (Kind.F32, False, "float32", "32-bit weights (F32)"),
    ],
)
def test_weights_are_the_dequantised_ones(tmp_path, kind, tied, dtype, text):
    path = write_gguf(tmp_path / "model.Q2_K.gguf", kind, weights=tensors(tied))
    assert stored(path) == text
    convert(path, tmp_path / "out", dtype)
    expected = expected_weights(path, HEADS, KV_HEADS, getattr(torch, dtype))
    assert set(load_file(tmp_path / "out/model.safetensors")) == set(expected)
    assert_same_weights(tmp_path / "out", expected)
    check_model_folder(tmp_path / "out")


def test_logits_and_tokens_are_those_of_transformers(tiny, folder):
    model, tokenizer = read_by_transformers(tiny)
    ours, words = load_model(folder), load_tokenizer(folder)
    for text in TEXTS:
        assert words(text)["input_ids"] == tokenizer(text)["input_ids"], text
    assert words.chat_template == CHAT
    assert (words.bos_token, words.eos_token) == ("<|start|>", "<|end|>")
    with torch.no_grad():
        for text in filter(None, TEXTS):
            batch = tokenizer(text, return_tensors="pt")["input_ids"]
            assert torch.equal(ours(batch).logits, model(batch).logits)


@pytest.mark.slow
def test_the_same_bytes_in_another_process(tiny, folder, tmp_path):
    """Another name and place of the file, locale, hash seed, number of threads and neighbours."""
    path = tmp_path / "ü b" / "a b.gguf"
    path.parent.mkdir()
    shutil.copy(tiny, path)
    for name in ("tokenizer_config.json", "added_tokens.json", "generation_config.json"):
        (path.parent / name).write_text('{"bos_token": "x", "auto_map": {"a": "b--c"}}')
    code = "import sys; from evenprune.data.packages import gguf_folder as f, Path as P"
    code += "; print(f(P(sys.argv[1])))"
    other = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "9", "OMP_NUM_THREADS": "2"}
    other["EVENPRUNE_CACHE"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, path], env=os.environ | other, check=True, capture_output=True
    )
    found, expected = contents(Path(done.stdout.decode().strip())), contents(folder)
    said, source = (json.loads(one.pop("source.json")) for one in (found, expected))
    assert said | {"file": "tiny.gguf"} == source
    # Of the code, and of the files with source.json.
    codes = [one.pop(".code").split() for one in (found, expected)]
    assert codes[0][0] == codes[1][0]
    assert found == expected


def test_compare_takes_a_gguf_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EVENPRUNE_CACHE", str(tmp_path / "cache"))
    exact = write_gguf(tmp_path / "exact.gguf", Kind.F32)
    small = write_gguf(tmp_path / "small.gguf", Kind.Q8_0)
    own = "question,option1,option2,answer\nWho sang?,Ann,Bob,A\nWho ran?,Ann,Bob,B\n"
    (tmp_path / "own.csv").write_text(own)
    text = json.dumps({"id": "a", "text": "the cat and the hat"})
    (tmp_path / "text.jsonl").write_text(text)
    words = ["compare", exact, small, "--benchmark", "multiple_choice", "--data"]
    words += [tmp_path / "own.csv", "--fidelity", tmp_path / "text.jsonl"]
    words += ["--out", tmp_path / "out"]
    assert cli.main([*map(str, words)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{small}: 8.5 bits a weight (GGUF Q8_0, de-quantised), ")
    assert f"against {exact}: 32 bits a weight (GGUF F32), " in said
    found = json.loads((tmp_path / "out/comparison.json").read_text())["blocks"][0]["fidelity"]
    assert 0 < found["kl"]["value"] < 0.01


# What is refused


def one_sentence(text):
    """Return a message after checks on its form: one line, and what to do next at its end."""
    assert text.strip().count("\n") == 0, text
    assert "Traceback" not in text
    assert ";" in text or "," in text
    return text


def head(tensors_count, keys_count, rest=b""):
    made = b"GGUF" + struct.pack("<IQQ", 3, tensors_count, keys_count) + rest
    return lambda path: path.write_bytes(made + b"\0" * 64)


def key(name, kind, rest):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + rest


def entry(shape, kind=0, offset=0, name=b"a"):
    form = f"<I{len(shape)}QIQ"
    return struct.pack("<Q", len(name)) + name + struct.pack(form, len(shape), *shape, kind, offset)


ARCH = key(b"general.architecture", 8, struct.pack("<Q", 5) + b"llama")


def changed(change):
    found = tensors()
    change(found)
    return found


def infinite(found):
    found["blk.0.ffn_up.weight"][3, 3] = np.inf


def renamed(found):
    found["blk.0.ffn_odd.weight"] = found.pop("blk.0.ffn_up.weight")


def gguf(**given):
    return lambda path: write_gguf(path, **given)


def writer_of(method, *given):
    return gguf(change=lambda writer: getattr(writer, method)(*given))


DAMAGED = {
    "missing": (lambda path: None, "expected a GGUF file at .*, found none"),
    "count": (head(1 << 60, 1 << 60), "requires a buffer of at least"),
    "overlapping": (
        head(3, 1, ARCH + b"".join(entry([6], name=b"%d" % k) for k in range(3))),
        "its tensor [12] lies on the bytes of another one",
    ),
    "unknown architecture": (gguf(arch="quux"), "architecture quux is not supported"),
    "no tokenizer": (gguf(tokens=None), "expected a tokenizer in"),
    "split": (writer_of("add_uint16", "split.count", 2), "one of 2 parts"),
    "renamed matrix": (gguf(weights=changed(renamed)), "no tensor is model.layers.0.mlp.up_proj"),
    "infinity": (gguf(kind=Kind.F32, weights=changed(infinite)), "NaN or infinity in model"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_sentence(tmp_path, name, capfd):
    damage, said = DAMAGED[name]
    path = tmp_path / "model.gguf"
    damage(path)
    before = sorted(tmp_path.iterdir())
    capfd.readouterr()
    with pytest.raises(UserError, match=said) as caught:
        convert(path, tmp_path / "out")
    message = one_sentence(str(caught.value))
    assert str(path) in message
    assert capfd.readouterr().err.count("\n") <= 1
    assert sorted(tmp_path.iterdir()) == before


# The real model


def sentences(count):
    """Seeded sentences of words, names, numbers, signs and scripts."""
    rng = random.Random(3)
    words = (
        "the people Asian naïve café 北京 Привет 😀 don't 42 3.14 2,000 e-mail ( — “quoted” x² ﬁ"
    )
    return [" ".join(rng.choices([*words.split(), "\t", "\n", ""], k=20)) for _ in range(count)]


@pytest.mark.slow
def test_the_real_model_is_the_one_that_transformers_reads():
    path, folder = smollm2_gguf(), smollm2_folder()
    assert stored(path) == "4-bit weights (Q4_1), de-quantised"
    assert_same_weights(folder, expected_weights(path, 9, 3, step=7))
    tokenizer = AutoTokenizer.from_pretrained(
        path.parent, gguf_file=path.name, local_files_only=True
    )
    texts = sentences(50)
    assert load_tokenizer(folder)(texts)["input_ids"] == tokenizer(texts)["input_ids"]
