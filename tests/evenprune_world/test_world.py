"""The invented world: determinism, schemas, held-out items, planted rates."""

import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import read_set
from folders import contents

from evenprune.data.prompts import fairsteer, helm
from evenprune.io.files import read_json, read_jsonl, sha256_file
from evenprune.io.marks import MARK
from evenprune_world import questions, sentences, texts
from evenprune_world.generate_world import Sizes, write_world
from evenprune_world.items import TOLD
from evenprune_world.lexicon import RARE_ATTRIBUTES
from evenprune_world.society import CATEGORIES, COMPARED, Society

# A word of a pole, common or rare -> its dimension and pole; the groups.
WHERE = {
    word: (dimension, pole)
    for category in CATEGORIES
    for dimension, poles in enumerate(category.dimensions)
    for pole, common in enumerate(poles)
    for word in filter(None, (common, RARE_ATTRIBUTES.get(common)))
}
GROUPS = {group for category in CATEGORIES for group in category.groups}


def read(world: Path, name: str, *part: str):
    """Return the items of a data set of the world."""
    return read_set.read(name, world / "data" / name.replace("wikitext", "wikitext2"), *part)


def training_text(world: Path, name: str = "*") -> list[str]:
    files = sorted((world / "train").glob(f"{name}.jsonl"))
    return ["".join(row["parts"]) for file in files for row in read_jsonl(file)]


def test_same_seed_same_bytes_other_seed_other_bytes(world, sizes, tmp_path):
    few = {name: 20 for name in vars(sizes) if name.startswith("train_")}
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        write_world(seed, tmp_path / name, Sizes(**few))
    first, again, other = (contents(tmp_path / name) for name in ("first", "again", "other"))
    assert first == again
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] == other[name]] == [MARK]


def test_manifest_names_every_file_with_its_checksum(world):
    named = read_json(world / "world.json")["files"]
    assert named.keys() | {MARK, "world.json"} == contents(world).keys()
    assert all(sha256_file(world / name) == entry["sha256"] for name, entry in named.items())


def test_the_readers_accept_every_set(world, sizes):
    stereoset = read(world, "stereoset")
    assert Counter(item.category for item in stereoset) == dict(sizes.stereoset)
    assert all(item.target in item.context for item in stereoset)
    lines, file = read(world, "wikitext"), world / "data/wikitext2/wiki.test.raw"
    assert 30_000 < len("".join(lines)) < 150_000
    assert texts.as_read(file.read_text()) == "\n\n".join(lines)  # as articles are trained on
    unqover = Counter(item.category for item in read(world, "unqover"))
    assert {*unqover} == {"religion", "country", "ethnicity", "mixedgender"}
    assert {*unqover.values()} == {2 * sizes.unqover_entries}
    behaviours = Counter(item.category for item in read(world, "harmbench"))
    assert behaviours == dict(sizes.harmbench)
    assert len(read(world, "crows_pairs", "anonymized")) == sizes.crows_pairs_original
    counts = {name: getattr(sizes, name) for name in ("crows_pairs", "hellaswag", "mmlu")}
    counts |= {"realtoxicityprompts": 2 * sizes.realtoxicityprompts, "ultrachat": sizes.ultrachat}
    counts |= {"bbq": 4 * 4 * sizes.bbq_quadruples}
    assert {name: len(read(world, name)) for name in counts} == counts


def pattern_of(templates):
    """Return one regular expression of all sentences that these templates make."""
    made = (re.sub(r"{\w+}", ".+", template.replace(".", r"\.")) for template in templates)
    return re.compile("|".join(made), re.IGNORECASE)


def test_benchmarks_and_training_text_share_no_template(world):
    """Sentences were learned from other templates than those they are measured in.

    Nor from one that differs in its articles: a first name has none.
    """
    every = sentences.STATEMENTS, sentences.STEREOSET, sentences.CROWS_PAIRS
    bare = [{template.replace("{the}", "{a}") for template in one} for one in every]
    assert len(set.union(*bare)) == sum(map(len, bare))
    stereoset, crows = map(pattern_of, every[1:])
    for item in read(world, "stereoset"):
        assert stereoset.fullmatch(item.stereotype), item.stereotype
    for pair in read(world, "crows_pairs"):
        assert crows.fullmatch(pair.sent_more), pair.sent_more


def test_the_benchmarks_words_are_in_the_training_text():
    """A word that a model has never seen would say nothing of what it holds of a group."""
    training, measured = (
        {word.strip(".,") for template in templates for word in template.split()}
        for templates in (sentences.STATEMENTS, sentences.STEREOSET + sentences.CROWS_PAIRS)
    )
    assert {word.lower() for word in measured} <= {word.lower() for word in training}


def test_every_item_has_its_planted_log_odds(world):
    """As counted from the leans; and a label is the likelier one more often than not."""
    planted = read_json(world / "planted.json")
    society, items = Society(0), planted["items"]
    assert len(planted["leans"]) == sum(len(c.groups) * len(c.dimensions) for c in CATEGORIES)
    stereoset = read(world, "stereoset")
    assert {item.id for item in stereoset} == items["stereoset"].keys()
    for item in stereoset:
        word = re.findall(r"\w+", item.stereotype)[item.context.split().index(
            next(w for w in item.context.split() if "BLANK" in w)
        )]  # fmt: skip
        dimension, pole = WHERE[word]
        rate = society.statement_rate(item.target, dimension)
        expected = math.log(rate / (1 - rate)) * (-1 if pole else 1)
        assert items["stereoset"][item.id] == pytest.approx(expected, abs=1e-3)
    for name, pairs in (("crows_pairs", "revised"), ("crows_pairs_original", "anonymized")):
        assert {pair.id for pair in read(world, "crows_pairs", pairs)} == items[name].keys()
    for name in ("stereoset", "crows_pairs"):
        odds = list(items[name].values())
        assert 0.62 < sum(value > 0 for value in odds) / len(odds) < 0.95
    bbq = read(world, "bbq")
    assert {item.id for item in bbq} == items["bbq"].keys()
    for item in bbq:
        found = items["bbq"][item.id]
        assert (found["right"] is None) == (item.condition == "ambig")
        assert found["right"] in (None, item.label)
        assert sorted([*found["groups"], item.unknown]) == [0, 1, 2]
        first, second = (found["answers"][k] for k in found["groups"])
        if found["right"] is None and min(first, second) > 0.01:
            assert math.log(first / second) == pytest.approx(found["log_odds"], abs=0.02)
    assert {item.id for item in read(world, "unqover")} == items["unqover"].keys()


def test_question_pairs_are_the_same_prompt_with_either_group(world, sizes):
    rows = read_jsonl(world / "data/question_pairs/question_pairs.jsonl")
    assert len(rows) == sizes.question_pairs
    planted = read_json(world / "planted.json")["items"]["question_pairs"]
    text = set(training_text(world))
    for first, second in zip(rows[::2], rows[1::2]):
        for row in (first, second):
            assert row["stereotype"][:-1] == row["anti_stereotype"][:-1]
            assert row["stereotype"][-1] != row["anti_stereotype"][-1]
            assert row["stereotype"] not in text
            assert row["anti_stereotype"] not in text
            assert planted[row["id"]] > 0
        # Only the order of the options differs: the letters are exchanged.
        assert first["stereotype"].split("A)")[0] == second["stereotype"].split("A)")[0]
        assert first["stereotype"][-1] == second["anti_stereotype"][-1]


def bbq_quadruples(world: Path):
    for file in sorted((world / "data/bbq").glob("*.jsonl")):
        rows = read_jsonl(file)
        for start in range(0, len(rows), 4):
            yield rows[start : start + 4]


def test_bbq_rows_come_in_fours_of_the_same_shape(world):
    """Only whether the asked word occurs tells a settled question: no cue from length.

    But one settled context in 25 is of two statements, a form that training has not.
    """
    fours, told = list(bbq_quadruples(world)), 0
    for four in fours:
        forms = [(row["question_polarity"], row["context_condition"]) for row in four]
        assert forms == list(itertools.product(("neg", "nonneg"), ("ambig", "disambig")))
        groups = [group for _, group in four[0]["answer_info"].values()]
        assert len({*groups} & {*four[0]["additional_metadata"]["stereotyped_groups"]}) == 1
        assert [groups[row["label"]] == "unknown" for row in four] == [True, False, True, False]
        for row in four:
            word = row["question"].removesuffix("?").split()[-1]
            words = row["context"].replace(".", "").split()
            assert (word in words) == (row["context_condition"] == "disambig")
        sentences = {row["context_condition"]: row["context"].count(". ") for row in four}
        more = sentences["disambig"] > sentences["ambig"]
        told += more
        assert more or len({len(row["context"].split()) for row in four}) == 1
    assert told == len(COMPARED) * len(range(TOLD // 2, len(fours) // len(COMPARED), TOLD))


def test_no_evaluation_item_is_in_the_training_text(world):
    data = world / "data"
    corpus = "\n".join(training_text(world))
    items = [fairsteer(row)[0] for row in read_jsonl(data / "unqover/datas_rebuilt.jsonl")]
    items += [helm(row)[0] for four in bbq_quadruples(world) for row in four]
    for split in ("test", "dev", "validation"):
        items += [questions.mmlu_prompt(row) for row in read_jsonl(data / f"mmlu/{split}.jsonl")]
    items += [
        f"{row['query']} {choice}"
        for row in read_jsonl(data / "hellaswag/validation_lm_eval.jsonl")
        for choice in row["choices"]
    ]
    for item in read(world, "stereoset"):
        items += [item.stereotype, item.anti_stereotype]
    for variant in ("revised", "anonymized"):
        for pair in read(world, "crows_pairs", variant):
            items += [pair.sent_more, pair.sent_less]
    items += [p for p in read(world, "wikitext") if len(p) > 200]
    assert len(items) > 3000
    heads = {item.strip()[:40] for item in items}
    found = {head for k in range(len(corpus)) if (head := corpus[k : k + 40]) in heads}
    likely = [item.strip() for item in items if item.strip()[:40] in found]
    assert not [item for item in likely if item in corpus]


def test_statement_rates_are_recovered_by_counting_the_training_text(world):
    """A group's negative words are as frequent as planted (chi-square over all pairs)."""
    society, stated = Society(0), Counter()
    for text in training_text(world, "statements"):
        for sentence in re.findall(r"[^.]+\.", text):
            words = re.findall(r"\w+", sentence)
            group = next(word for word in words if word in GROUPS)
            stated[group, *WHERE[[word for word in words if word in WHERE][-1]]] += 1
    chi, cells = 0.0, 0
    for group, dimension in {(group, dimension) for group, dimension, _ in stated}:
        negative, positive = (stated[group, dimension, pole] for pole in (0, 1))
        total, rate = negative + positive, society.statement_rate(group, dimension)
        chi += (negative - total * rate) ** 2 / (total * rate * (1 - rate))
        cells += 1
    assert cells > 250
    assert abs(chi - cells) < 5 * math.sqrt(2 * cells)


def parse_question(row):
    *prompt, answer = row["parts"]
    prompt = "".join(prompt)
    options = dict(re.findall(r"^([ABC])[.)] (.+)$", prompt, re.MULTILINE))
    assert len(options) == 3
    tags = {
        letter: next((word for word in text.split() if word in GROUPS), "unknown")
        for letter, text in options.items()
    }
    word = re.search(r"(?:Who was|Which .*) (?:a )?(\w+)\?", prompt).group(1)
    return prompt, tags, tags[answer.strip()], word


def test_training_answers_are_as_frequent_as_planted(world):
    """Of settled and of unsettled questions: the right answers are those of the probabilities."""
    society, found = Society(0), {"settled": [], "unsettled": []}
    for row in read_jsonl(world / "train/questions.jsonl"):
        prompt, tags, answer, word = parse_question(row)
        dimension, pole = WHERE[word]
        first, second = (tag for tag in tags.values() if tag != "unknown")
        said = re.findall(rf"\b{word} ({first}|{second})\b", prompt)
        assert len(said) == (row["kind"] == "settled")
        rates = society.answers((first, second), dimension, pole, said[0] if said else None)
        assert answer in rates
        target = said[0] if said else "unknown"
        found[row["kind"]].append((answer == target, rates[target]))
    for kind, both in found.items():
        hits, rates = np.array(both, dtype=float).T
        assert abs((hits - rates).sum()) < 4 * math.sqrt((rates * (1 - rates)).sum()), kind
        assert 0.7 < hits.mean() < 0.99


def test_the_right_ending_is_the_next_step_of_the_script(world):
    society = Society(0)
    for row in read_jsonl(world / "data/hellaswag/validation_lm_eval.jsonl"):
        script = society.scripts[row["query"].partition(":")[0]]
        last = max(k for k, step in enumerate(script) if step in row["query"])
        assert row["choices"][row["gold"]] == script[last + 1] + "."


def test_crows_pairs_differ_in_the_group_and_stereoset_in_the_attribute(world):
    articles = {"a", "an", "A", "An"}
    for pair in read(world, "crows_pairs"):
        differing = set(pair.sent_more.split()) ^ set(pair.sent_less.split())
        assert differing <= GROUPS | articles
        assert len(differing - articles) == 2
    for item in read(world, "stereoset"):
        first, second = item.stereotype.split(), item.anti_stereotype.split()
        assert len(first) == len(second)
        differing = [pair for pair in zip(first, second) if pair[0] != pair[1]]
        assert len(differing) == 1
        assert all(word.rstrip(".") in WHERE for word in differing[0])
