"""The loss of a fixed text with and without BOS: said where the tokenizer's way is worse."""

import json
import math
import shutil
from collections import Counter

import pytest
import torch
from evaluation_fixtures import char_tokenizer, checkpoint_command, result_of
from folders import change_json
from transformers import LlamaConfig, LlamaForCausalLM

from evenprune import cli
from evenprune.language_models.language_model import load_language_model
from evenprune.models.bos import TEXT

BOS, WIDTH = 1, 16


@pytest.fixture(scope="module")
def needs_bos(tmp_path_factory):
    """A model that knows how frequent each letter of the text is, but only where BOS came before.

    Only BOS has an embedding, which attention hands on to every later token.
    """
    folder, tokenizer = tmp_path_factory.mktemp("needs") / "model", char_tokenizer()
    sizes = {"hidden_size": WIDTH, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "tie_word_embeddings": False}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes, **heads))
    counts = Counter(tokenizer(TEXT, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight[BOS, 0] = 1.0
        attention = model.model.layers[0].self_attn
        attention.v_proj.weight[0, 0] = attention.o_proj.weight[1, 0] = 1.0
        # The last norm makes the second number √width where BOS was seen; 0 stays 0.
        for token in range(len(tokenizer)):
            model.lm_head.weight[token, 1] = math.log(counts[token] + 0.01) / 4 - 0.5
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def stripped(needs_bos, tmp_path_factory):
    """The model with a tokenizer that puts no BOS."""
    folder = shutil.copytree(needs_bos, tmp_path_factory.mktemp("stripped") / "model")
    change_json(folder / "tokenizer.json", post_processor=None)
    return folder


def plain_losses(folder):
    """Both figures by the library's own loss of all tokens but the first."""
    lm = load_language_model(folder, "cpu", "float32")
    ids = torch.tensor([lm.tokenizer(TEXT, add_special_tokens=False)["input_ids"]])
    with_bos = torch.cat([torch.tensor([[BOS]]), ids], 1)
    both = []
    for row, first in ((with_bos, 2), (ids, 1)):
        labels = row.clone()
        labels[:, :first] = -100
        with torch.no_grad():
            both.append(lm.model(row, labels=labels).loss.item())
    return dict(zip(("with", "without"), both))


def test_a_stripped_tokenizer_is_said_once_and_recorded(stripped, data, tmp_path, capsys):
    wanted = {
        name: {"task": "perplexity", "data": str(data / "tinystories"), "limit": 2, "bos": bos}
        for name, bos in (("a", "auto"), ("b", "auto"), ("c", "always"))
    }
    assert cli.main(checkpoint_command(stripped, tmp_path, wanted)) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "BOS" in line]
    expected = plain_losses(stripped)
    assert expected["without"] > 1.1 * expected["with"]
    assert said == [
        f"note: this model's loss of a fixed text is {expected['without']:.2f} per token without "
        f"BOS, as its tokenizer does, and {expected['with']:.2f} with it; set bos: always (--bos "
        "always), or bos: never to keep what it does without this note"
    ]
    for name in wanted:
        assert result_of(tmp_path / name)["bos_loss"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("bos", "count"), [("auto", 1), ("never", 0)])
def test_calibration_of_a_stripped_tokenizer_is_said_too(bos, count, stripped, tmp_path, capsys):
    rows = [{"stereotype": f"{k} is a", "anti_stereotype": f"{k} is b"} for k in "abcd"]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["prune", "--model", str(stripped), "--pairs", str(tmp_path / "pairs.jsonl")]
    words += ["--method", "wanda", "--regime", "u50", "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--device", "cpu", "--bos", bos]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "BOS" in line]
    assert len(said) == count
    expected = plain_losses(stripped)
    for line in said:
        assert f"{expected['without']:.2f} per token without BOS" in line
        assert f"{expected['with']:.2f} with it; set bos: always" in line


def test_a_tokenizer_that_puts_bos_is_fine(needs_bos, capsys):
    assert load_language_model(needs_bos, "cpu", "float32").bos_note is None
    assert "BOS" not in capsys.readouterr().err
