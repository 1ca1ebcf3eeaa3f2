"""The page of the invented world, from made-up evaluations whose slope is known."""

import pytest
from both import main, refused

from evenprune.io.files import write_json, write_jsonl

ODDS = (-2.0, -1.0, 0.5, 1.0, 2.5)


@pytest.fixture
def folder(tmp_path):
    """A world of five pairs and five questions, and a model with slopes 0.5 and 2."""
    planted = {str(k): odds for k, odds in enumerate(ODDS)}
    asked = {"groups": [0, 2], "right": None}
    questions = {f"Faith-{k}": asked | {"log_odds": odds} for k, odds in planted.items()}
    # One that its context settles has no gap.
    settled = {"groups": [0, 1], "log_odds": 9.0, "right": 0}
    items = {"stereoset": planted, "bbq": {**questions, "Faith-9": settled}}
    leans = [{"group": "Velist", "dimension": "brask/luman", "log_odds": odds} for odds in ODDS]
    write_json(tmp_path / "world/planted.json", {"leans": leans, "items": items})
    rest = {"category": "race", "correct": True}
    pairs = [
        {"item_id": name, "option_logprobs": [0.5 * odds + 1, 1.0]} | rest
        for name, odds in planted.items()
    ]
    write_jsonl(tmp_path / "evals/stereoset/items.jsonl", pairs)
    answers = [  # two orders of the options, whose mean is twice the planted
        {"item_id": name, "perm": perm, "option_logprobs": [entry["log_odds"], 7.0, shift]}
        for name, entry in questions.items()
        for perm, shift in (("012", -3 * entry["log_odds"]), ("210", entry["log_odds"]))
    ]
    answers.append({"item_id": "Faith-9", "perm": "012", "option_logprobs": [0.0, 1.0, 2.0]})
    rest = {"condition": "ambig", "pred": 0, "correct": False, "biased_idx": 0, "unknown_idx": 2}
    answers = [row | rest | {"category": "Faith"} for row in answers]
    write_jsonl(tmp_path / "evals/bbq/items.jsonl", answers)
    return tmp_path


def words(folder, out="out"):
    given = ["--world", folder / "world", "--model", "mine", folder / "evals"]
    return ["report-world", *map(str, given), "--out", str(folder / out)]


def test_slopes_and_figures_are_on_the_page(folder):
    assert main(words(folder)) == 0
    text = (folder / "out/world.md").read_text()
    assert "| mine | StereoSet-like pairs | 5 | 0.20 | 0.10 | 0.50 | 1.00 |" in text
    assert "| mine | BBQ-like, ambiguous | 5 | 0.20 | 0.40 | 2.00 | 1.00 |" in text
    assert len((folder / "out/world.csv").read_text().splitlines()) == 11
    assert main(words(folder, "again")) == 0
    for name in ("world.md", "world.html", "world.csv"):
        assert (folder / "out" / name).read_bytes() == (folder / "again" / name).read_bytes()


def test_another_worlds_items_and_wrong_words_are_named(folder, capsys):
    row = {"item_id": "x", "category": "race", "option_logprobs": [0.0, 0.0], "correct": True}
    write_jsonl(folder / "evals/stereoset/items.jsonl", [row])
    refused(capsys, words(folder), "which its planted.json does not have")
    (folder / "evals/stereoset/items.jsonl").unlink()
    (folder / "evals/bbq/items.jsonl").unlink()
    refused(capsys, words(folder), "evaluate the dense model first")
    write_json(folder / "world/planted.json", {"leans": []})
    refused(capsys, words(folder), "make the world again")
