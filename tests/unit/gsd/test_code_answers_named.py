"""Which exports of a file a planned change names."""

import pytest

from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Intel, Trouble


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


def _safe(tmp_path, *said, file):
    merging = Merging()
    for source in ("entity", "index"):
        merging.replace(source, {each.path: each for each in said if each.source == source})
    snapshot = Snapshot(tmp_path, None, merging.graph, Intel(), lambda _: None, lambda _: [])
    answer = code_answers.pre_edit_check(snapshot, file=file)
    return answer["safe"], [note.partition(":")[0] for note in answer.get("notes", ())]


def test_nothing_is_safe_that_a_link_may_mean(tmp_path):
    indexed = [
        Said("index", "", path, targets=targets, by_path=True)
        for path, targets in (("a/util.ts", ()), ("b/util.ts", ()), ("c/d.ts", ("e.ts",)), ("e.ts", ()), ("m.py", ()))
    ]
    said = [*indexed, Said("index", "", "m.ts", by_path=True)]
    assert _safe(tmp_path, *said, file="a/util.ts") == (True, [])
    linked = [*said, Said("entity", "c-d", "c/d.ts", targets=("util", "m"))]
    assert _safe(tmp_path, *linked, file="a/util.ts") == (None, ["Who depends on a/util.ts is not clear"])
    assert _safe(tmp_path, *linked, file="m.py") == (None, ["Who depends on m.py is not clear"])
    assert _safe(tmp_path, *linked, file="c/d.ts") == (True, [])
    only = [one for one in linked if one.path not in {"b/util.ts", "m.ts"}]
    assert _safe(tmp_path, *only, file="a/util.ts") == (False, [])
    assert _safe(tmp_path, *only, file="m.py") == (False, [])


@pytest.mark.parametrize(
    "file", [".planning/intel/entities", ".planning/intel/entities/a.md", ".planning/intel/deps.json"]
)
def test_nothing_is_safe_while_what_tells_of_edges_could_not_be_read(tmp_path, file):
    merging = Merging()
    merging.replace("index", {"a.py": Said("index", "", "a.py", targets=("m.py",), by_path=True)})
    told = Intel(troubles=(Trouble(file, 0, "is too long", "unreadable"), Trouble("x.md", 0, "is odd", "unreadable")))
    snapshot = Snapshot(tmp_path, None, merging.graph, told, lambda _: None, lambda _: [])
    answer = code_answers.pre_edit_check(snapshot, file="a.py")
    assert (answer["safe"], answer["notes"]) == (None, [f"{file} could not be read: is too long"])
