"""Intel stores that nobody's hook would write: each costs what could not be read, and an answer still stands."""

import pytest

from orchestrator.gsd import pages
from orchestrator.gsd.intel.reading import IntelStore
from orchestrator.gsd.snapshot import Snapshot
from tests.gsd_trees import write

INTEL = ".planning/intel"


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        ('{"naming": ' + "[" * 250 + "]" * 250 + "}", None),
        ('{"naming": {"a": ' + "[" * 900 + "]" * 900 + "}}", None),
        ('{"naming": {"a": "x\\ud800"}}', {"a": "x?"}),
        ('{"naming": {"a": "x\\ud800", "b": NaN}}', None),
    ],
)
def test_conventions_that_no_answer_could_carry_are_told(tmp_path, text, naming):
    write(tmp_path, {f"{INTEL}/conventions.json": text})
    graph, told = IntelStore(tmp_path).read()
    assert told.conventions.get("naming") == naming
    assert len(told.troubles) == (naming is None)
    snapshot = Snapshot(tmp_path, None, graph, told, lambda _: None, lambda _: [])
    assert pages.page(snapshot, uri="gsd://intel/conventions")["mime"] == "application/json"
