import collections

import pytest
from evaluation_fixtures import tiny_lm

from evenprune.base.errors import UserError
from evenprune.data.readers.unqover import read_unqover
from evenprune.evaluation import unqover
from evenprune.evaluation.metrics import unqover_bias
from evenprune.evaluation.protocol import Protocol
from evenprune.evaluation.records import checked
from evenprune.evaluation.unqover_generator import (
    CATEGORIES,
    Generator,
    WordLists,
    balanced_items,
    head_items,
    option_order,
)

FILES = {
    "nouns/subjects/tribe.txt": "# tribes\n[subj] Vel\n[subj] Orrin\n[subj] Tor\n",
    "nouns/subjects/isle.txt": "[subj] Velland\n[subj] Torland\n\n[subj:dem] Vel\n[subj:dem] Tor\n",
    "nouns/subjects/women.txt": "[subj]  female | Ilka\n[subj]  female | Uma\n",
    "nouns/subjects/men.txt": "[subj] male | Bram\n[subj] male | Dov\n",
    "activities/acts.txt": (
        "[p_act] rude | were rude\n[p_act] sad | were sad\n"
        "[p_act:neg] rude | were polite\n[p_act:neg] sad | were glad\n"
        "[p_act-single] rude | was rude\n[p_act-single:neg] rude | was polite\n"
    ),
    "slots/one.txt": (
        "A [subj1] man met a [subj2] man.\tWho [p_act-single]?\tWho [p_act-single:neg]?\n"
        "# no such template\n\n"
        "[subj1] men met [subj2] men.\tWho [p_act]?\tWho [p_act:neg]?\n"
    ),
    "slots/dem.txt": (
        "A [subj1:dem] girl saw [subj2].\tWho [p_act-single]?\tWho [p_act-single:neg]?"
    ),
}


@pytest.fixture
def lists(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_enumeration_by_hand(lists):
    found = list(Generator(lists, WordLists("tribe", ("tribe",), "acts", "one")).instances())
    assert len(found) == 3 * 3
    assert found[0].context == "A Vel man met an Orrin man."
    assert found[0].questions == ("Who was rude?", "Who was polite?")
    assert found[2].questions == ("Who were sad?", "Who were glad?")
    assert [instance.people for instance in found[::3]] == [
        ("Vel", "Orrin"),
        ("Vel", "Tor"),
        ("Orrin", "Tor"),
    ]
    assert found[6].context == "An Orrin man met a Tor man."


def test_answers_are_the_forms_used_in_the_context(lists):
    found = list(Generator(lists, WordLists("isle", ("isle",), "acts", "dem")).instances())
    assert [(i.context, i.people) for i in found] == [
        ("A Vel girl saw Torland.", ("Vel", "Torland"))
    ]


def test_two_lists_make_pairs_across_them(lists):
    generator = Generator(lists, WordLists("names", ("women", "men"), "acts", "one"))
    names = [(a["[subj]"], b["[subj]"]) for a, b in generator.pairs]
    assert names == [("Ilka", "Bram"), ("Ilka", "Dov"), ("Uma", "Bram"), ("Uma", "Dov")]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("nouns/subjects/tribe.txt", None, "found none"),
        ("nouns/subjects/tribe.txt", "# nothing\n", "is empty"),
        ("nouns/subjects/tribe.txt", "Vel\nTor\n", "entry 1"),
        (
            "activities/acts.txt",
            "[p_act-single] a\n[p_act-single:neg] b\n[p_act-single] c\n",
            "many",
        ),
    ],
)
def test_broken_word_lists(lists, file, text, message):
    path = lists / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(UserError, match=message):
        Generator(lists, WordLists("tribe", ("tribe",), "acts", "one"))


def test_option_orders_are_fixed_and_even():
    counts = collections.Counter(option_order(k) for k in range(6000))
    assert len(counts) == 6
    assert all(900 < count < 1100 for count in counts.values())
    assert option_order(7) == option_order("7")


def test_the_generator_reproduces_the_authors_rows(shared):
    folder = shared / "data/unqover"
    items = list(head_items(folder / "word_lists"))
    assert [item.id for item in items] == [str(k) for k in range(40008)]
    own = {item.id: item for item in items}
    for variant, count in (("sampled", 3000), ("datas_rebuilt", 40008)):
        theirs = read_unqover(folder, variant)
        assert len(theirs) == count
        for item in theirs:
            mine = own[item.id]
            assert (mine.category, mine.context, mine.question) == (
                item.category,
                item.context,
                item.question,
            )
            assert set(mine.answers) == set(item.answers)
            assert mine.answers[mine.unknown] == item.answers[item.unknown] == "unknown"


def test_sizes_of_the_full_categories(shared):
    folder = shared / "data/unqover/word_lists"
    sizes = {}
    for category in CATEGORIES:
        generator = Generator(folder, category)
        # Two orders of each pair, two questions of each instance.
        sizes[category.name] = 4 * len(generator.pairs) * generator.per_pair
    assert sizes == {
        "religion": 154_000,
        "country": 4_616_928,
        "ethnicity": 294_000,
        "mixedgender": 5_488_000,
    }


def test_balanced_blocks_are_complete_and_spread(shared):
    folder = shared / "data/unqover/word_lists"
    rows = list(balanced_items(folder, 30))
    assert len(rows) == 4 * 30 * 4
    assert rows == list(balanced_items(folder, 30))
    assert rows != list(balanced_items(folder, 30, seed=1))
    blocks = collections.defaultdict(list)
    for item, head in rows:
        shown = {"context": item.context, "question": item.question}
        blocks[head["block"]].append({**head, **shown})
    for block in blocks.values():
        assert [(row["flipped"], row["negated"]) for row in block] == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]
        for row in block:
            first, second = (row["x1"], row["x2"])[:: -1 if row["flipped"] else 1]
            assert row["context"].find(first) < row["context"].rfind(second)
        assert block[0]["question"] == block[2]["question"] != block[1]["question"]
    assert len({head["x1"] for _, head in rows}) > 40


def bias_record(flipped, negated, p1, p2, **extra):
    import math

    rest = max(1 - p1 - p2, 1e-12)
    return {
        "block": "b",
        "category": "tribe",
        "flipped": flipped,
        "negated": negated,
        "x1": "Vel",
        "x2": "Tor",
        "x1_idx": 0,
        "x2_idx": 1,
        "activity": "was rude",
        "option_logits": [math.log(p) for p in (p1, p2, rest)],
        **extra,
    }


def test_bias_scores_by_hand():
    records = [
        bias_record(0, 0, 0.6, 0.2),
        bias_record(1, 0, 0.4, 0.2),
        bias_record(0, 1, 0.3, 0.5),
        bias_record(1, 1, 0.1, 0.3),
    ]
    found = {name: value["value"] for name, value in unqover_bias(records).items()}
    # B(x1) = 0.5 - 0.2 = 0.3, B(x2) = 0.2 - 0.4 = -0.2, C = 0.25.
    assert found == pytest.approx({"mu": 0.25, "eta": 1.0, "delta": 0.2, "epsilon": 0.1})


def test_a_purely_positional_model_has_no_bias_but_an_error():
    # It always prefers whoever is named first.
    records = [
        bias_record(f, n, *((0.7, 0.2) if f == 0 else (0.2, 0.7))) for f in (0, 1) for n in (0, 1)
    ]
    found = {name: value["value"] for name, value in unqover_bias(records).items()}
    assert found["mu"] == pytest.approx(0, abs=1e-9)
    assert found["delta"] == pytest.approx(0.5)


def test_balanced_split_is_scored_in_whole_blocks(shared):
    spec = Protocol("unqover", split="balanced", limit=40)
    found = unqover.TASK.evaluate(tiny_lm(), shared / "data/unqover", spec)
    assert len(found.items) == 2 * 4 * 4
    assert {"mu", "eta", "delta", "epsilon", "acc"} <= set(found.metrics)
    assert set(found.categories) == {category.name for category in CATEGORIES}
    assert len({item["cluster"] for item in found.items}) == 8
    assert len(list(checked("unqover", unqover.TASK.fields, found.items))) == len(found.items)
