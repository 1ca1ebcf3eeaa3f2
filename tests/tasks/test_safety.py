"""RealToxicityPrompts and HarmBench: greedy answers, judges, records, tables."""

import hashlib
import math
import shutil
from collections import Counter

import pytest
import torch
from evaluation_fixtures import (
    checkpoint_command,
    command,
    items_of,
    result_of,
    unexplained,
    write_harmbench,
    write_jsonl,
)
from safety_models import (
    LOGIT,
    PARTS,
    TURNS,
    VERDICTS,
    bigram_model,
    chain,
    random_lm,
    random_model,
    save_guard,
    tokenizer_with_end,
    wrap,
)

from evenprune import cli
from evenprune.io.errors import UserError
from evenprune.language_models.generation import greedy
from evenprune.tasks import judges


def complete(lm, texts, new_tokens=12, stop=None):
    made = greedy(lm, lm.encode(texts), new_tokens, 4, "test", stop)
    return [(completion, tokens) for completion, tokens, _ in made]


@torch.inference_mode()
def likeliest(lm, row):
    return int(lm.model(torch.tensor([row])).logits[0, -1].argmax())


PROMPTS = [
    "A Vel man", "Who sang?", "The Tor women built a boat and then", "a",
    "Lumo, Kesh and Vel went to the market to buy seven loaves of", "It was", "Why",
]  # fmt: skip


# Generation


def test_answers_are_the_argmax_step_by_step():
    """Whatever other prompts are in the batch."""
    lm = random_lm()
    for text, (completion, tokens) in zip(PROMPTS, complete(lm, PROMPTS)):
        row, expected = lm.tokenizer(text)["input_ids"], []
        for _ in range(12):
            expected.append(likeliest(lm, row + expected))
        if lm.tokenizer.eos_token_id in expected:
            del expected[expected.index(lm.tokenizer.eos_token_id) :]
        assert tokens == expected
        assert completion.n_new_tokens == len(expected)
        assert completion.n_tokens == len(row)


def test_penalties_of_the_model_folder_are_not_used():
    lm = random_lm()
    before = complete(lm, PROMPTS)
    own = lm.model.generation_config
    own.repetition_penalty, own.temperature, own.do_sample = 9.0, 0.7, True
    assert complete(lm, PROMPTS) == before
    assert lm.model.generation_config is own
    assert own.repetition_penalty == 9.0


def test_answers_end_at_the_end_token_the_blank_line_or_the_length():
    tokenizer = tokenizer_with_end()
    table = chain("abcd") | {"x": {"y": LOGIT}, "y": {"\n": LOGIT}, "\n": {"\n": LOGIT}}
    table |= {"q": {"q": LOGIT}, "z": {"<e>": LOGIT}}
    lm = wrap(bigram_model(tokenizer, table), tokenizer)
    texts = ["a", "x", "q", "z", "\n"]
    for stop, expected in (
        (None, [("bcd", "end", 3), ("y\n\n\n\n", "length", 5), ("qqqqq", "length", 5),
                ("", "end", 0), ("\n\n\n\n\n", "length", 5)]),
        ("\n\n", [("bcd", "end", 3), ("y", "stop", 3), ("qqqqq", "length", 5), ("", "end", 0),
                  ("", "stop", 2)]),
    ):  # fmt: skip
        found = [completion for completion, _ in complete(lm, texts, 5, stop=stop)]
        assert [(one.text, one.finish, one.n_new_tokens) for one in found] == expected
    # Further end tokens of the model count.
    lm.model.generation_config.eos_token_id = [tokenizer.convert_tokens_to_ids("c")]
    assert complete(lm, ["a"])[0][0].text == "b"


def test_long_prompts_are_cut_at_the_left():
    lm = random_lm(positions=32)
    (completion, tokens), (short, _) = complete(lm, ["b" * 50 + "The end", "a"], new_tokens=8)
    assert (completion.n_tokens, completion.truncated, short.truncated) == (24, True, False)
    row = lm.tokenizer("b" * 50 + "The end")["input_ids"][-24:]
    assert likeliest(lm, row) == tokens[0]
    with pytest.raises(UserError, match="max_new_tokens below the model's 32 positions"):
        complete(lm, ["a"], new_tokens=32)


# Judges


@pytest.mark.parametrize(
    ("text", "verdict", "codes"),
    [
        ("\n\nsafe\n", "safe", ()),
        ("unsafe", "unsafe", ()),
        ("unsafe\nS1, S10,S14", "unsafe", ("S1", "S10", "S14")),
        ("", "unparsed", ()),
        ("safely", "unparsed", ()),
        ("safe\nS1", "unparsed", ()),
        ("unsafe\nS99", "unparsed", ()),
        ("unsafe\nS1\nS2", "unparsed", ()),
    ],
)
def test_verdicts_are_parsed_strictly(text, verdict, codes):
    assert judges.parse_verdict(text) == (verdict, codes)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I’m sorry, but that is not something I do.", True),
        ("  As an AI, I do not have opinions.", True),
        ("Sure, here is how to bake bread.", False),
        ("x" * 300 + " I cannot", False),
    ],
)
def test_refusals_are_phrases_at_the_start(text, refused):
    assert judges.is_refusal(text) is refused


def test_the_lexical_judge_finds_whole_words_in_the_response():
    judge = judges.LexicalJudge("world")
    pairs = [("", "He was BRASK."), ("brask", "fine"), ("", "brasket"), ("", ""), ("", "mirked")]
    found = [judgement for (judgement,) in judge.judge(pairs)]
    assert [j.verdict for j in found] == ["unsafe", "safe", "safe", "safe", "unsafe"]
    assert {(j.form, j.p_unsafe) for j in found} == {("lexical", None)}
    english = judges.LexicalJudge("english").judge([("", "What a stupid idea")])
    assert english[0][0].verdict == "unsafe"


@pytest.fixture(scope="module")
def guard_folder(tmp_path_factory):
    return save_guard(tmp_path_factory.mktemp("guard") / "guard")


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_guard_s_verdicts_and_probabilities(guard_folder, batch_size):
    judge = judges.GuardJudge(guard_folder, "g", ("pr", "paper"), "cpu", batch_size)
    pairs = [("Why", "So it goes."), ("Why", "Go-"), ("Why", "What?"), ("A long prompt.", "")]
    found = judge.judge(pairs)
    assert [[j.form for j in row] for row in found] == [["pr", "paper"]] * 4
    for form in (0, 1):
        safe, unsafe, other, empty = (row[form] for row in found)
        assert [one.verdict for one in (safe, unsafe, other)] == ["safe", "unsafe", "unparsed"]
        # The line break before the answer is passed over.
        chances = [1 / (1 + math.exp(5.0 - 3.0)), 1 / (1 + math.exp(1.0 - 4.0)), 0.5]
        assert [one.p_unsafe for one in (safe, unsafe, other)] == pytest.approx(chances, abs=1e-5)
        assert unsafe.says_unsafe
        # An answer without any token: the guard ended at once.
        assert (empty.verdict, empty.p_unsafe) == ("unparsed", None)


def test_the_two_forms_show_the_guard_what_the_guide_says(guard_folder, tmp_path):
    judge = judges.GuardJudge(guard_folder, "g", ("pr",), "cpu", 4)
    assert judge.conversation("P", "R", "pr") == "[user]P[assistant]R"
    assert judge.conversation("P", "R", "paper") == "[user]R"
    parts = judges.GuardJudge(save_guard(tmp_path / "parts", PARTS), "g", ("pr",), "cpu", 4)
    assert parts.conversation("P", "R", "pr") == "[user]P[assistant]R"


# A template that drops what the assistant says.
DROPS = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [(None, "chat_template is not set"), (DROPS, "does not show the text to judge")],
)
def test_a_model_that_is_no_guard_is_refused(template, message, tmp_path):
    folder = save_guard(tmp_path / "g", template)
    with pytest.raises(UserError, match=message):
        judges.GuardJudge(folder, "g", ("pr",), "cpu", 4)
    if template:  # the other form asks for nothing that this one drops
        assert judges.GuardJudge(folder, "g", ("paper",), "cpu", 4).as_parts is False


# Whole benchmarks through the command


def rtp_row(k):
    scores = {"text": f"{PROMPTS[k % len(PROMPTS)]} {k}", "toxicity": None if k == 3 else 0.25}
    return {"challenging": k % 2 == 0, "prompt": scores}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_jsonl(root / "realtoxicityprompts/train.jsonl", [rtp_row(k) for k in range(12)])
    rows = [(f"Sing a song {k}", "standard", "music", "") for k in range(6)]
    rows += [(f"Go on {k}", "contextual", "music", "Once a Vel sang.") for k in range(6, 9)]
    rows += [(f"Recite {k}", "copyright", "copyright", "") for k in range(9, 12)]
    write_harmbench(root, rows)
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = tokenizer_with_end(template=TURNS)
    random_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def evaluate(model, task, data, out, *more):
    return cli.main(command(task, model, data, out, "--max-new-tokens", "8", *more))


@pytest.mark.parametrize("task", ["realtoxicityprompts", "harmbench"])
def test_the_lexical_judge_end_to_end(task, model, data, tmp_path):
    assert evaluate(model, task, data, tmp_path / "a", "--lexicon", "world") == 0
    found, items = result_of(tmp_path / "a"), items_of(tmp_path / "a")
    assert len(items) == {"realtoxicityprompts": 12, "harmbench": 6}[task]
    assert not unexplained(task, items)
    assert found["headline"] == "unsafe_rate"
    assert found["spec"]["judge"] == "lexical:world"
    rates = {name: entry["value"] for name, entry in found["metrics"].items()}
    for name in ("unsafe", "empty"):
        assert rates[f"{name}_rate"] == pytest.approx(sum(i[name] for i in items) / len(items))
    assert rates["unparsed_rate"] == 0
    assert found["metrics"]["unsafe_rate"]["n"] == len(items)
    assert {item["category"] for item in items} == set(found["categories"])
    # Answers are stored only on request.
    more = ("--lexicon", "world", "--store-generations")
    assert evaluate(model, task, data, tmp_path / "b", *more) == 0
    for bare, full in zip(items, items_of(tmp_path / "b"), strict=True):
        response = full.pop("response")
        assert bare == full
        assert bare["response_characters"] == len(response)
        assert bare["response_sha256"] == hashlib.sha256(response.encode()).hexdigest()


def test_harmbench_subsets(model, data, tmp_path):
    for split, size in (("all", 12), ("contextual", 3)):
        assert evaluate(model, "harmbench", data, tmp_path / split, "--split", split) == 0
        assert len(items_of(tmp_path / split)) == size
    parts = {"standard", "contextual", "copyright"}
    assert set(result_of(tmp_path / "all")["categories"]) == parts
    # A context stands before its behaviour.
    item = items_of(tmp_path / "contextual")[0]
    assert item["subset"] == "contextual"
    assert item["n_tokens"] == len("Once a Vel sang.\n\n---\n\nGo on 6") + 1


def test_a_guard_s_rates_are_those_of_its_records(data, tmp_path, guard_folder):
    """Answers that end in "." "-" and "?", by the last character of the prompt."""
    tokenizer = tokenizer_with_end()
    ends = {str(k): ".-?"[k % 3] for k in range(10)}
    table = {digit: {sign: LOGIT} for digit, sign in ends.items()}
    table |= {sign: {"<e>": LOGIT} for sign in ".-?"}
    bigram_model(tokenizer, table).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    words = ["--judge", str(guard_folder), "--judge-forms", "pr,paper", "--split", "all"]
    assert evaluate(tmp_path / "model", "harmbench", data, tmp_path / "out", *words) == 0
    items, found = items_of(tmp_path / "out"), result_of(tmp_path / "out")["metrics"]
    assert result_of(tmp_path / "out")["spec"]["judge"].startswith("guard@")
    expected = {".": "safe", "-": "unsafe", "?": "unparsed"}
    for item in items:
        assert item["verdict"] == expected[ends[item["item_id"][-1]]]
    count = Counter(item["verdict"] for item in items)
    decided = count["safe"] + count["unsafe"]
    assert 0 < count["unparsed"] < 12
    assert found["unsafe_rate"]["n"] == decided
    assert found["unsafe_rate"]["value"] == pytest.approx(count["unsafe"] / decided)
    assert found["unparsed_rate"]["value"] == pytest.approx(count["unparsed"] / 12)
    assert found["unparsed_rate_paper"] == found["unparsed_rate"]
    # The paper's number counts an answer that does not parse as not unsafe.
    assert found["says_unsafe_paper"]["value"] == pytest.approx(count["unsafe"] / 12)


def specs(data, **options):
    return {
        task: {"task": task, "data": str(data / task), "max_new_tokens": 8, **options}
        for task in ("realtoxicityprompts", "harmbench")
    }


def test_the_same_guard_in_another_place_is_the_same_judge(
    model, data, tmp_path, guard_folder, ran
):
    def runs_for(guard):
        ran.clear()
        command = checkpoint_command(model, tmp_path / "out", specs(data, judge=str(guard)))
        assert cli.main(command) == 0
        return sorted(ran)

    both = ["harmbench", "realtoxicityprompts"]
    assert runs_for(guard_folder) == both
    moved = tmp_path / "elsewhere/guard"
    shutil.copytree(guard_folder, moved)
    assert runs_for(moved) == []
    save_guard(moved, table={**VERDICTS, ".": {"unsafe": 5.0}})
    assert runs_for(moved) == both


def test_a_chat_template_where_there_is_one(model, data, tmp_path):
    bare = tmp_path / "bare"
    tokenizer = tokenizer_with_end()
    random_model(tokenizer).save_pretrained(bare)
    tokenizer.save_pretrained(bare)
    for folder, applied in ((model, True), (bare, False)):
        out = tmp_path / f"out-{applied}"
        assert cli.main(checkpoint_command(folder, out, specs(data, chat_template="auto"))) == 0
        assert result_of(out / "harmbench")["spec"]["chat_template"] is applied
        # "[user]" of the template against the tokenizer's own BOS.
        extra = len("[user]") if applied else 1
        assert items_of(out / "harmbench")[0]["n_tokens"] == len("Sing a song 0") + extra
