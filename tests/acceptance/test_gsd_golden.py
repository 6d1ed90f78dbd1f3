"""The answers about the four real trees, as they were reviewed against the trees (`fixtures/gsd/golden`)."""

import orjson
import pytest

from tests.support import golden_gsd
from tests.support.gsd_trees import TREES, unpack


@pytest.mark.parametrize("name", TREES)
def test_the_answers_about_a_real_tree_are_those_that_were_reviewed(tmp_path, name):
    found = golden_gsd.answers(name, unpack(name, tmp_path.resolve()))
    wanted = orjson.loads((golden_gsd.HERE / f"{name}.json").read_bytes())
    assert list(found) == list(wanted)
    for question, answer in wanted.items():
        assert found[question] == answer, question
