"""Which exports of a file a planned change names."""

import pytest

from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said
from orchestrator.gsd.model import Intel
from orchestrator.gsd.snapshot import Snapshot


@pytest.mark.parametrize(
    ("planned", "named"),
    [
        ("rename UserStatus", ["UserStatus"]),
        ("drop `User` and db.close().", ["User", "db.close"]),
        ("users get a status", None),
    ],
)
def test_a_planned_change_names_whole_words(tmp_path, planned, named):
    merging = Merging()
    merging.replace("entity", {"m": Said("entity", "m", "m.py", exports=("UserStatus", "User", "db.close"))})
    snapshot = Snapshot(tmp_path, None, merging.graph, Intel(), lambda _: None, lambda _: [])
    answer = code_answers.pre_edit_check(snapshot, file="m.py", planned_change=planned)
    assert answer.get("named_exports") == named
