"""Switches of the protocols: BOS, CrowS-Pairs by shared tokens."""

import math

import numpy as np
import pytest
import torch
from evaluation_fixtures import tiny_lm
from hypothesis import given
from hypothesis import strategies as st

from evenprune.data.readers.choice import read_hellaswag
from evenprune.data.readers.crows_pairs import CrowsPair
from evenprune.data.readers.texts import read_tinystories, read_wikitext
from evenprune.stats.measures import MEASURES
from evenprune.stats.paired import sums_of
from evenprune.tasks import crows_pairs, hellaswag, perplexity
from evenprune.tasks.crows_pairs import shared_positions
from evenprune.tasks.harness import Harness, loglikelihoods
from evenprune.tasks.protocol import Protocol

BOS = 1


@pytest.fixture(scope="module")
def adding():
    """A model whose tokenizer puts BOS before a text."""
    return tiny_lm()


@pytest.fixture(scope="module")
def silent():
    """The same model with a tokenizer that has a BOS token and does not put it there."""
    return tiny_lm(adds=False)


@torch.inference_mode()
def logprobs(lm, ids):
    """ln p of each token but the first, from a plain pass."""
    table = lm.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(table[k - 1, ids[k]]) for k in range(1, len(ids))]


def plain(lm, text):
    return lm.tokenizer(text, add_special_tokens=False)["input_ids"]


# BOS


def test_a_template_s_bos_is_the_only_one_or_none(adding):
    text = "<s>U:Who?"
    bare = plain(adding, "U:Who?")
    for bos, start in (("auto", [BOS]), ("always", [BOS]), ("never", [])):
        assert adding.with_bos(bos).encode([text], special=False) == [start + bare]
    assert adding.with_bos("always").encode(["U:Who?"], special=False) == [[BOS, *bare]]


@pytest.mark.parametrize("bos", ["always", "never"])
def test_documents_follow_the_switch(bos, adding, silent, data):
    stories = {story.id: story for story in read_tinystories(data / "tinystories")}
    for lm in (adding, silent):
        outcome = perplexity.TASK.evaluate(
            lm.with_bos(bos), data / "tinystories", Protocol("perplexity", limit=3)
        )
        assert outcome.facts["bos"] == (bos == "always")
        for item in outcome.items:
            ids = [BOS] * (bos == "always") + plain(lm, stories[item["item_id"]].text)
            assert item["n_tokens"] == len(ids) - 1
            assert item["nll"] == pytest.approx(-sum(logprobs(lm, ids)), rel=1e-5)
        mean = sum(i["nll"] for i in outcome.items) / sum(i["n_tokens"] for i in outcome.items)
        assert outcome.metrics["ppl"]["value"] == pytest.approx(math.exp(mean))


def chunks(ids, size):
    return [ids[k : k + size] for k in range(0, len(ids) - size + 1, size)]


def windows_of(split, bos, lm, rows):
    """The windows of a split whose model has 512 positions, written out again."""
    start = [BOS] * (bos != "never")
    if split == "evaluate":  # as the library: a row by itself, of special tokens BOS alone
        return [[BOS, *plain(lm, row)[:511]] for row in rows if row]
    if split == "paper":
        text = "".join(row for row in rows if len(row) >= 512)
        return [start + one[len(start) :] for one in chunks([*start, *plain(lm, text)], 512)]
    ids = plain(lm, "\n\n".join(rows))
    if split == "gptq2048":
        return chunks([*start, *ids], 512)
    return [[BOS, *one] for one in chunks(ids, 511)]


@pytest.mark.parametrize(
    ("split", "bos"),
    [
        ("gptq2048", "always"),
        ("gptq2048", "never"),
        ("gptq2048+bos", "auto"),  # in every window, whatever the tokenizer adds
        ("paper", "always"),
        ("paper", "never"),
        ("evaluate", "auto"),
    ],
)
def test_windows_and_their_perplexity(split, bos, adding, silent, data):
    rows = read_wikitext(data / "wikitext2")
    windows = windows_of(split, bos, adding, rows)
    # Of the paper's windows positions 257 to 511 count.
    each = [[-x for x in logprobs(adding, one)][256 * (split == "paper") :] for one in windows]
    assert len(each) > 2
    sums, counts = np.cumsum([sum(one) for one in each]), np.cumsum([len(one) for one in each])
    value = {
        "paper": np.exp(sums / counts).mean(),  # of the running perplexity
        "evaluate": np.mean([math.exp(np.mean(one)) for one in each]),
    }.get(split, math.exp(sums[-1] / counts[-1]))
    for lm in (adding, silent):
        spec = Protocol("perplexity", split=split)
        found = perplexity.TASK.evaluate(lm.with_bos(bos), data / "wikitext2", spec)
        assert [i["nll"] for i in found.items] == pytest.approx(list(map(sum, each)), rel=1e-5)
        assert found.metrics["ppl"]["value"] == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("bos", ["always", "never"])
def test_lm_eval_s_contexts_follow_the_switch(bos, adding, silent, data):
    item = read_hellaswag(data / "hellaswag")[0]
    start = [BOS] * (bos == "always") + plain(adding, item.query)
    expected = []
    for choice in item.choices:
        ids = start + plain(adding, f" {choice}")
        expected.append(sum(logprobs(adding, ids)[len(start) - 1 :]))
    for lm in (adding, silent):
        # "never" leaves texts without a context nothing to stand on but EOS.
        lm.tokenizer.eos_token = "."
        (record,) = hellaswag.TASK.records(lm.with_bos(bos), [item], Protocol("hellaswag"))
        assert record["option_logprobs"] == pytest.approx(expected, abs=1e-3)
        lm.tokenizer.eos_token = None


@pytest.mark.parametrize("bos", ["always", "never"])
def test_lm_eval_s_prefix_follows_the_switch(bos, adding, silent, data):
    pair = CrowsPair("0", "tribe", "Vel sing.", "Tor sing.", "stereo")
    asked = [{"sent_more": pair.sent_more, "sent_less": pair.sent_less}]
    for lm in (adding, silent):
        lm.tokenizer.eos_token = "."
        prefix = BOS if bos == "always" else lm.tokenizer.eos_token_id
        harness = Harness(lm.with_bos(bos), Protocol("crows_pairs"))
        file = "crows_pairs/crows_pairs_english.yaml"
        (sample,) = harness.run("crows_pairs_english", file, asked, [pair.id])
        more, _ = loglikelihoods(sample)
        (ours,) = crows_pairs.TASK.records(lm.with_bos(bos), [pair], Protocol("crows_pairs"))
        text = plain(lm, "Vel sing.")
        assert ours["option_logprobs"][0] == pytest.approx(more, abs=1e-3)
        assert more == pytest.approx(sum(logprobs(lm, [prefix, *text])), abs=1e-3)
        # Rolling windows: the prefix stands before the text once.
        page = " = Vel = \n The Vel sing ."
        harness = Harness(lm.with_bos(bos), Protocol("perplexity"))
        (shown,) = harness.run("wikitext", "wikitext/wikitext.yaml", [{"page": page}], [0])
        text = plain(lm, shown["arguments"][0][0])
        assert shown["word_perplexity"][0] == pytest.approx(
            sum(logprobs(lm, [prefix, *text])), abs=1e-3
        )
        lm.tokenizer.eos_token = None


# CrowS-Pairs by shared tokens


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_shared_tokens_match_in_order(first, second):
    left, right = shared_positions(first, second)
    assert [first[k] for k in left] == [second[k] for k in right]
    assert left == sorted(set(left))
    assert right == sorted(set(right))


def test_the_common_beginning_cancels():
    assert shared_positions([1, 2, 5, 3, 4], [1, 2, 6, 7, 3, 4]) == ([3, 4], [4, 5])
    assert shared_positions([1, 2], [1, 2]) == ([], [])
    assert shared_positions([1, 2, 3], [1, 2, 4]) == ([], [])


def test_a_pair_without_shared_tokens_is_left_out(adding, tmp_path):
    """It tells nothing, neither for nor against a stereotype."""
    lines = ["\tsent_more\tsent_less\tstereo_antistereo\tbias_type"]
    lines += [f"{k}\t{pair}\tstereo\ttribe" for k, pair in enumerate(["A b\tA c", "A b.\tA c."])]
    (tmp_path / "crows_pairs_revised.csv").write_text("\n".join(lines) + "\n")
    found = crows_pairs.TASK.evaluate(adding, tmp_path, Protocol("crows_pairs"))
    item, other = found.items
    assert (item["n_shared"], item["shared_logprobs"]) == (0, [0.0, 0.0])
    assert item["correct_shared"] is None
    more, less = other["shared_logprobs"]
    expected = {
        "pct_stereotype_shared": float(more > less),
        "signed_diff_shared": more - less,
        "likelihood_diff_shared": abs(more - less),
    }
    for name, value in expected.items():
        assert found.metrics[name] == {"value": pytest.approx(value), "n": 1, "stderr": None}
        sums = sums_of(MEASURES["crows_pairs", name], [item, other])
        assert (sums.value, sums.parts[:, 1].sum()) == (pytest.approx(value), 1)
