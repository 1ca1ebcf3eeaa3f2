"""A small world that the tests of this folder share."""

import pytest

from evenprune_world.generate_world import Sizes, write_world

TRAINED = {f"train_{name}": 100 for name in ("exercises", "quizzes", "knowledge", "stories")}
SMALL = Sizes(
    **TRAINED, train_questions=6000, train_statements=8000, train_articles=30, train_dialogues=100
)


@pytest.fixture(scope="session")
def sizes():
    return SMALL


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world") / "world"
    write_world(0, folder, SMALL)
    return folder
