"""What the answers and prompts about code say where little or nothing is known of it."""

import pytest

from orchestrator.gsd import prompting
from orchestrator.gsd.graph.code_answers import MAX_RESULTS
from orchestrator.gsd.intelligence import Intelligence
from orchestrator.gsd.models import QueryArguments
from tests.support.gsd_trees import unpack


@pytest.fixture
def about(tmp_path):
    asked = Intelligence()
    yield lambda tree, question, **arguments: asked.about(unpack(tree, tmp_path), question, arguments)
    asked.close()


def test_a_query_that_finds_nothing_says_why(about):
    assert "orchestrator gsd index" in about("gsd-v1.9.1", "gsd_query_intel", query="graph")["note"]
    found = about("to-tui", "gsd_query_intel", query="api", type_filter="service")
    assert found["note"] == "No file of type service matches. There are: binary, library, module, unknown."
    assert "any of these words" in about("to-tui", "gsd_query_intel", query="kubernetes")["note"]
    assert "note" not in about("to-tui", "gsd_query_intel", query="api")


def test_as_many_results_are_given_as_may_be_asked_for(about):
    most = next(each.le for each in QueryArguments.model_fields["max_results"].metadata if hasattr(each, "le"))
    assert most == MAX_RESULTS
    assert len(about("to-tui", "gsd_query_intel", query="src", max_results=most)["files"]) == 49


def test_a_prompt_has_the_conventions_once_and_none_where_there_are_none(tmp_path):
    asked = Intelligence()
    told = prompting.prompt(asked.snapshot(unpack("to-tui", tmp_path)), who="planner")["text"]
    assert told.count("rusqlite (SQLite)") == 1 and '"raw"' not in told
    assert "operations.. " not in told
    bare = prompting.prompt(asked.snapshot(unpack("gsd-v1.9.1", tmp_path)), who="planner")["text"]
    assert '"naming": {}' not in bare
    asked.close()
