"""`orchestrator gsd`: what each command asks, how an answer looks, which project is meant, what is written."""

import json
import os
import stat
from pathlib import Path
from typing import get_args

import pytest

from orchestrator.cli import app, gsd, gsd_index, gsd_text, output
from orchestrator.edge import project_location
from orchestrator.gsd import models as gsd_models
from orchestrator.gsd.graph.protocol import Located, Node, Reached
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.index import indexing
from orchestrator.gsd.model import Intel, Trouble
from orchestrator.gsd.picture import chosen as picture
from orchestrator.gsd.place import NO_PROJECT
from tests.support.gsd_trees import write

LONG = "src/" + "/".join(f"a-rather-long-directory-{n}" for n in range(6)) + "/file.with.dots.ts"
PROSE = "a sentence that goes on and on, " * 9 + "to its end"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    (tmp_path / "home").mkdir()
    for name in [name for name in os.environ if name.startswith(("ORCHESTRATOR_", "GSD_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    at = write(tmp_path / "p", {".planning/PROJECT.md": "# P\n", "src/lib/db.ts": "", "src/deep/x.ts": ""})
    monkeypatch.chdir(at)
    return at


class Told:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked, self.answers, self.graph = [], {}, Star()

    def answer(self, question, asking, arguments):
        self.asked.append((question, asking, arguments))
        return self.answers.get(question, {})

    def about(self, root, question, arguments):
        self.asked.append((question, root, arguments))
        return self.answers.get(question, {})

    def snapshot(self, root):
        return Snapshot(
            root,
            None,
            self.graph,
            Intel(sources={"graph.db": {"updated": "2026-01-21T00:00:00Z"}}),
            lambda _: None,
            lambda _: [],
        )


class Star:
    """A graph in which everything depends on one file, over at most two others."""

    def __init__(self, rings=(3, 2)) -> None:
        self.nodes = {"hub": Node("hub", "src/lib/db.ts", "Opens it", "util")}
        self.reached, last = [], ["hub"]
        for depth, count in enumerate(rings, 1):
            now = []
            for n in range(count):
                node = Node(f"n{depth}-{n}", f"src/{'api' if n == 0 else 'x'}/f{depth}-{n}.ts")
                self.nodes[node.id] = node
                via = "entity+suffix" if n == 1 else "graph.db"
                self.reached.append(Reached(node, depth, via, last[n % len(last)]))
                now.append(node.id)
            last = now
        self.edges, self.dangling = sum(rings), 1

    def hotspots(self, limit):
        return [(self.nodes["hub"], len(self.reached))][:limit] if self.reached else []

    def locate(self, text):
        found = next((one for one in self.nodes.values() if text in (one.id, one.path)), None)
        return Located(found, () if found else ("src/lib/db.ts",))

    def reach(self, node_id, max_depth):
        return [one for one in self.reached if one.depth <= max_depth] if node_id == "hub" else []


@pytest.fixture
def known(monkeypatch) -> Told:
    told = Told()
    monkeypatch.setattr(gsd, "_intelligence", lambda: told)
    return told


def run(capsys, *line, status=0):
    assert app.main(["gsd", *line]) == status
    return "".join(capsys.readouterr())


def told(capsys, *line, status=0):
    assert app.main(["gsd", *line, "--json"]) == status
    return json.loads(capsys.readouterr().out)


# -- what is asked, and where ---------------------------------------------------------------------------------------

ASKED = [
    (["query", "auth", "session"], "gsd_query_intel",
     {"query": "auth session", "type_filter": "all", "max_results": 10, "include_blast_radius": False}),
    (["query", "x", "--type", "api", "--max", "3", "--blast"], "gsd_query_intel",
     {"query": "x", "type_filter": "api", "max_results": 3, "include_blast_radius": True}),
    (["blast", "db.ts", "--depth", "5", "--change", "deletion"], "gsd_blast_radius",
     {"file": "db.ts", "max_depth": 5, "change_type": "deletion"}),
    (["blast", "src/lib/db.ts"], "gsd_blast_radius", {"file": "src/lib/db.ts", "max_depth": 3, "change_type": "any"}),
    (["phase"], "gsd_phase_status", {"phase": ""}),
    (["phase", "2.1"], "gsd_phase_status", {"phase": "2.1"}),
    (["requirement", "AUTH-1"], "gsd_requirement_status", {"requirement_id": "AUTH-1"}),
    (["patterns", "error", "handling"], "gsd_codebase_patterns", {"query": "error handling"}),
    (["past", "add", "x"], "gsd_similar_past_work", {"current_goal": "add x"}),
    (["files", "rate", "limits"], "gsd_phase_relevant_files", {"phase_goal": "rate limits"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "question", "arguments"), ASKED, ids=lambda one: " ".join(one) if isinstance(one, list) else None
)
def test_a_command_asks_what_the_tool_is_asked_and_json_is_its_answer(line, question, arguments, known, capsys):
    known.answers[question] = {"any": ["thing"], "project_root": "x"}
    assert told(capsys, *line) == known.answers[question]
    [(name, asking, given)] = known.asked
    assert (name, given) == (question, arguments)
    assert (asking.cwd, asking.named, asking.variable) == (str(Path.cwd()), "", "")


@pytest.mark.parametrize(("question", "key"), gsd.HITS.items())
def test_a_question_that_finds_nothing_exits_1(question, key, known, capsys):
    line = next(line for line, asked, _ in ASKED if asked == question)
    for nothing in ([], False):
        known.answers[question] = {key: nothing}
        assert told(capsys, *line, status=1) == known.answers[question]


@pytest.mark.parametrize(
    ("line", "question", "key"),
    [(["verify", "it", "works"], "gsd_verify_behavior", "verified"), (["verify", "--artifact", "GET /x"], "gsd_verify_artifact", "exists")],
)  # fmt: skip
@pytest.mark.parametrize(("value", "status"), [(True, 0), (False, 1), (None, 1)])
def test_verify_exits_by_what_it_found(line, question, key, value, status, known, capsys):
    known.answers[question] = {key: value, "confidence": "low", "evidence": []}
    assert told(capsys, *line, status=status) == known.answers[question]


def test_verify_takes_a_plain_path_for_the_file_it_names(root, known, monkeypatch, capsys):
    known.answers |= {"gsd_verify_artifact": {"exists": True}, "gsd_verify_behavior": {"verified": True}}
    monkeypatch.chdir(root / "src" / "deep")
    for given, meant in (("x.ts", "src/deep/x.ts"), ("src/gone.py", "src/gone.py"), (".planning/PROJECT.md",) * 2):
        told(capsys, "verify", given)
        question, _, arguments = known.asked.pop()
        assert (question, arguments) == ("gsd_verify_artifact", {"must_exist": meant})
    monkeypatch.chdir(root)
    for words in ("src", "src/lib/db.ts opens it", "login works", "see https://x.test/a.py"):
        told(capsys, "verify", words)
        assert known.asked.pop()[0] == "gsd_verify_behavior"


def test_a_next_step_names_commands_where_a_tool_cannot_be_called(root, capsys):
    write(root, {".planning/ROADMAP.md": "### Phase 1: A\n", ".planning/REQUIREMENTS.md": "- [ ] **A-1**: it\n"})
    assert told(capsys, "phase", "9", status=2)["error"]["next_step"].startswith("orchestrator gsd phase without")
    said = run(capsys, "requirement", "B-1", status=2)
    assert "orchestrator gsd requirement lists the open ones" in said and "gsd://" not in said


@pytest.mark.parametrize(
    ("number", "nouns", "text"), [(1, "files", "1 file"), (0, "files", "0 files"), (1, "summaries", "1 summary")]
)
def test_a_number_and_its_noun_agree(number, nouns, text):
    assert output.counted(number, nouns) == text


def test_a_file_named_from_a_directory_below_is_the_projects(root, known, monkeypatch, capsys):
    monkeypatch.chdir(root / "src" / "deep")
    for given, meant in (
        ("x.ts", "src/deep/x.ts"),
        ("../lib/db.ts", "src/lib/db.ts"),
        ("src/lib/db.ts", "src/lib/db.ts"),
    ):
        run(capsys, "blast", given)
        assert known.asked.pop()[2]["file"] == meant


def test_the_project_named_on_the_command_line_wins_over_the_variable(root, tmp_path, known, monkeypatch, capsys):
    other = write(tmp_path / "other", {".planning/STATE.md": ""})
    monkeypatch.setenv("GSD_PROJECT_ROOT", str(tmp_path))
    run(capsys, "phase")
    assert (known.asked[-1][1].cwd, known.asked[-1][1].variable) == (str(root), str(tmp_path))
    # monkeypatch undoes what the command sets
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", "")
    assert app.main(["-C", str(other), "gsd", "phase"]) == 0
    assert (known.asked[-1][1].cwd, known.asked[-1][1].variable) == (str(other), "")


@pytest.mark.parametrize(
    "line",
    [
        ["query", "x", "--type", "clas"], ["query", "x", "--max", "0"], ["query", "x", "--max", "101"], ["query"],
        ["blast", "x", "--change", "none"], ["blast", "x", "--depth", "11"], ["graph", "--limit", "0"], ["verify"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_the_tool_would_not_take_is_refused(line, known, capsys):
    assert told(capsys, *line, status=2)["error"]["code"] == "bad_argument"
    assert known.asked == []


def test_the_choices_are_those_of_the_tools():
    assert get_args(gsd_models.TypeFilter) == gsd.TYPES
    assert get_args(gsd_models.ChangeType) == gsd.CHANGES


LINES = [
    ["query", "x"], ["blast", "x"], ["phase"], ["requirement", "A-1"], ["requirement"], ["patterns", "x"], ["past", "x"],
    ["files", "x"], ["verify", "x"], ["check"], ["graph"],
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_without_a_project_every_command_says_what_the_tool_says(line, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    error = told(capsys, *line, status=2)["error"]
    assert (error["code"], error["message"]) == ("no_gsd_project", NO_PROJECT)
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("line", [line for line in LINES if line[0] != "graph"], ids=" ".join)
def test_what_only_reads_works_inside_an_agent(line, known, monkeypatch, capsys):
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "a")
    known.answers["check"] = {"troubles": [], "project_root": "/p", "files_read": 0, "counts": {}}
    assert app.main(["gsd", *line]) in (0, 1)
    assert "not_for_agents" not in capsys.readouterr().err


# -- how it looks ---------------------------------------------------------------------------------------------------

ANSWERS = {
    "gsd_query_intel": {"files": [
        {"id": "x", "path": LONG, "purpose": PROSE, "type": "service", "directDependents": 4, "exports": ["a"] * 40},
    ], "stale": [LONG]},
    "gsd_blast_radius": {
        "file": LONG, "directDependents": 1, "transitiveDependents": 1, "totalAffected": 2, "criticalFiles": [LONG],
        "testFiles": ["t.test.ts"], "recommendation": PROSE, "known": True,
        "details": {"directDependents": [{"id": "a", "path": LONG, "depth": 1}],
                    "transitiveDependents": [{"id": "b", "path": "t.test.ts", "depth": 2}]},
    },
    "gsd_phase_relevant_files": {"relevant_files": [
        {"path": LONG, "purpose": PROSE, "blast_radius": {"direct": 1, "total": 2}, "recommendation": PROSE, "exists": False},
    ], "suggested_approach": PROSE},
    "gsd_codebase_patterns": {"patterns": [
        {"name": "repository", "frequency": 7, "source": "code", "example": {"file": LONG, "line": 3, "code": "x\n  y"}},
    ], "recommendation": PROSE},
    "gsd_phase_status": {
        "current_phase": "3", "phase": "2", "phase_name": "Auth", "status": "partial", "goal": PROSE, "milestone": "v1",
        "plans": [{"id": "02-01", "status": "in_progress", "tasks": 3, "current_task": 2, "file": LONG}],
        "verification_status": "gaps_found", "blockers": [PROSE], "next_phase": {"number": "4", "name": "Next", "dependencies": ["3"]},
        "disagreements": [{"what": PROSE, "said": [{"file": LONG, "line": 9, "says": "Phase 3"}]}],
    },
    "gsd_requirement_status": {
        "requirement": "AUTH-1", "status": "in_progress", "text": PROSE, "conflict": PROSE, "file": LONG, "line": 4,
        "traced_to": [{"phase": "2", "plan": None, "by": "ROADMAP.md", "file": LONG}],
        "verification": {"status": "passed", "must_haves": [{"truth": PROSE, "status": None}]},
    },
    "requirements": {
        "pending": [{"id": "A-1", "status": "pending", "file": LONG, "line": 7}],
        "untraceable": {"untraceable": [{"id": "A-2", "reason": PROSE, "file": LONG, "line": 8}],
                        "plans": [{"plan": "02-01", "phase": "2", "file": LONG}]},
    },
    "gsd_similar_past_work": {"similar_phases": [
        {"phase": "1", "name": "First", "goal": PROSE, "approach": [PROSE], "lessons": [PROSE], "files_created": [LONG]},
    ], "recommendation": PROSE},
    "gsd_verify_behavior": {"verified": None, "confidence": "low", "reason": PROSE, "notes": [PROSE],
                            "evidence": [{"file": LONG, "line": 2, "code": "x"}, {"test": PROSE, "file": "t", "line": 1}]},
    "gsd_verify_artifact": {"exists": True, "location": f"{LONG}:3", "confidence": "high", "evidence": []},
}  # fmt: skip


@pytest.mark.parametrize("question", ANSWERS)
def test_lines_fit_80_columns_and_no_path_is_broken(question):
    lines = gsd_text.answer_lines(question, ANSWERS[question])
    text = "\n".join(lines)
    assert LONG in text
    # What must stay whole may be longer: a path, or what stands beside it.
    assert [line for line in lines if len(line) > 80 and LONG not in line] == []
    assert PROSE not in text


@pytest.mark.parametrize("question", ANSWERS)
def test_an_empty_answer_is_told_in_words(question):
    assert any(line.strip() for line in gsd_text.answer_lines(question, {}))


def test_what_is_told_of_a_phase(capsys):
    text = "\n".join(gsd_text.answer_lines("gsd_phase_status", ANSWERS["gsd_phase_status"]))
    assert "phase 2: Auth, partial (phase 3 is under way)" in text
    assert "2 of 3" in text and "next: phase 4, Next (after 3)" in text
    assert f"    {LONG}:9\n        Phase 3" in text
    between = gsd_text.answer_lines("gsd_phase_status", {"current_phase": None, "status": "between_milestones"})
    assert between == ["no phase is under way: between milestones"]


def test_a_phase_is_told_with_its_requirements_its_tests_and_what_concerns_it_alone():
    said = [{"file": "STATE.md", "line": 1, "says": "so"}]
    answer = {
        "phase": "3", "current_phase": None, "status": "complete", "requirements": ["A-1", "A-2"],
        "uat": {"status": "complete", "tests": {"pass": 14, "issue": 2}, "gaps": ["No field"], "fixed_gaps": ["x"]},
        "disagreements": [
            {"phase": "15", "what": "of another", "said": said},
            {"phase": "3", "what": "of this one", "said": said},
            {"phase": None, "what": "of all", "said": said},
        ],
    }  # fmt: skip
    text = "\n".join(gsd_text.answer_lines("gsd_phase_status", answer))
    assert "(no phase is under way)\n  requirements A-1, A-2\n" in text
    assert "tested by hand: complete; 14 pass, 2 issue; 1 gap fixed\nopen gaps:\n  - No field\n" in text
    assert "of this one" in text and "of all" in text and "of another" not in text
    whole = gsd_text.answer_lines("gsd_phase_status", {**answer, "phase": None})
    assert any("of another" in line for line in whole)


def test_how_many_depend_on_a_file_is_told_in_words():
    def first(**answer):
        return gsd_text.answer_lines("gsd_blast_radius", {"file": "a.ts", **answer})[1]

    assert first(totalAffected=1, directDependents=1) == "  1 depends on it: 1 directly, 0 over others"
    assert first(totalAffected=0) == "  no dependents known"
    unknown = gsd_text.answer_lines("gsd_blast_radius", {"file": "a.ts", "totalAffected": 0, "known": False})
    assert not any("depends on it" in line for line in unknown)


def test_a_quick_task_is_told_as_one():
    found = {"similar_phases": [{"phase": "quick/7-logs", "name": "logs", "goal": "Copy it."}, {"phase": "7"}]}
    told = gsd_text.answer_lines("gsd_similar_past_work", found)
    assert told == ["quick task 7-logs logs: Copy it.", "phase 7 :"]


def test_what_is_not_known_is_never_told_as_no():
    assert gsd_text.answer_lines("gsd_verify_behavior", {"verified": None, "confidence": "low"})[0].startswith(
        "verified: not known"
    )
    assert gsd_text.answer_lines("gsd_verify_artifact", {"exists": False})[0].startswith("there: no")
    assert any(
        "changed since the index was made" in line
        for line in gsd_text.answer_lines("gsd_query_intel", {"stale": ["a"]})
    )


def test_every_answer_that_a_command_shows_has_its_form():
    assert {question for _, question, _ in ASKED} <= set(gsd_text._FORMATTERS)


def test_names_of_files_cannot_command_the_terminal(known, capsys):
    known.answers["gsd_query_intel"] = {"files": [{"path": "a\x1b[2Jb\x9bc\u202e", "purpose": "\x1b]0;x\x07"}]}
    shown = run(capsys, "query", "x")
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


def test_the_open_requirements_are_those_pending_and_those_without_a_phase(known, root, monkeypatch, capsys):
    from orchestrator.gsd.planning import plan_answers

    known.answers["gsd_untraceable_requirements"] = {"untraceable": [{"id": "A-2"}]}
    monkeypatch.setattr(plan_answers, "pending_requirements", lambda _: [{"id": "A-1"}], raising=False)
    found = told(capsys, "requirement")
    assert found == {
        "pending": [{"id": "A-1"}], "untraceable": {"untraceable": [{"id": "A-2"}]}, "project_root": str(root),
    }  # fmt: skip
    known.answers["gsd_untraceable_requirements"] = {"notes": ["REQUIREMENTS.md does not count"]}
    assert "· REQUIREMENTS.md does not count" in run(capsys, "requirement")


# -- check ----------------------------------------------------------------------------------------------------------


def test_check_tells_each_trouble_as_an_editor_jumps_to_it(known, root, monkeypatch, capsys):
    known.answers["check"] = {
        "ok": False, "project_root": str(root), "files_read": 2, "counts": {"phases": 1, "edges": 0},
        "troubles": [{"file": ".planning/STATE.md", "line": 3, "kind": "odd", "what": "no phase"},
                     {"file": ".planning/intel/graph.db", "line": 0, "kind": "unreadable", "what": "not a database"}],
    }  # fmt: skip
    monkeypatch.chdir(root / "src")
    assert app.main(["gsd", "check"]) == 1
    out, err = capsys.readouterr()
    assert out == "../.planning/STATE.md:3: no phase\n../.planning/intel/graph.db:1: not a database\n"
    assert "2 files read: 1 phase\n" in err and "2 troubles" in err
    assert told(capsys, "check", status=1) == known.answers["check"]
    known.answers["check"] |= {"ok": True, "troubles": []}
    assert "all could be read" in run(capsys, "check")


def test_a_name_with_a_line_end_makes_no_line_of_its_own(known, capsys):
    known.answers["check"] = {
        "project_root": "/p", "files_read": 1, "counts": {},
        "troubles": [{"file": "a\nb.md", "line": 1, "what": "is\nodd"}],
    }  # fmt: skip
    assert run(capsys, "check", status=1).count("\n") == 3, "one, and two on stderr"
    known.answers["gsd_phase_status"] = {"phase": "1", "status": "planned", "directory": ".planning/phases/01-a\nb"}
    assert (
        run(capsys, "phase")
        == "phase 1: without a name, planned (no phase is under way)\n  .planning/phases/01-a\\nb\n"
    )


# -- graph ----------------------------------------------------------------------------------------------------------


def test_graph_draws_the_top_hotspot_into_the_projects_reports(known, root, monkeypatch, capsys):
    drawn = root / ".agents" / "reports" / "gsd-graph.html"
    assert run(capsys, "graph").strip() == str(drawn)
    page = drawn.read_text()
    assert "src/lib/db.ts" in page and "src/api/f1-0.ts" in page
    monkeypatch.chdir(root / "src")
    run(capsys, "graph")
    assert drawn.read_text() == page
    assert sorted(one.name for one in root.iterdir()) == [".agents", ".planning", "src"]


def test_graph_draws_the_named_file_where_it_is_told_to(known, root, tmp_path, capsys):
    found = told(capsys, "graph", "src/lib/db.ts", "-o", str(tmp_path / "x.html"))
    assert found == {"file": str(tmp_path / "x.html"), "about": "src/lib/db.ts", "project_root": str(root)}
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "x.html").stat().st_mode) == 0o666 & ~umask
    error = told(capsys, "graph", "no/such.ts", status=2)["error"]
    assert error["code"] == "bad_argument" and "src/lib/db.ts" in error["next_step"]


def test_graph_does_not_overwrite_what_is_not_ours(known, root, tmp_path, capsys):
    theirs = root / ".agents" / "reports" / "gsd-graph.html"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    assert told(capsys, "graph", status=2)["error"]["code"] == "bad_argument"
    assert theirs.read_text() == "mine"
    run(capsys, "graph", "--force")
    assert "mine" not in theirs.read_text()
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / "no" / "x.html"):
        assert told(capsys, "graph", "--force", "-o", str(place), status=2)["error"]["code"] == "bad_argument"


def test_graph_writes_nothing_below_planning(known, root, monkeypatch, capsys):
    (root / "link.html").symlink_to(root / ".planning" / "x.html")
    for place in (".planning/x.html", "link.html"):
        assert told(capsys, "graph", "--force", "-o", place, status=2)["error"]["code"] == "bad_argument"
    monkeypatch.chdir(root / ".planning")
    assert told(capsys, "graph", "-o", "x.html", status=2)["error"]["code"] == "bad_argument"
    assert [one.name for one in (root / ".planning").iterdir()] == ["PROJECT.md"]


def test_graph_writes_through_a_link_and_a_failure_leaves_the_old_page(known, root, tmp_path, monkeypatch, capsys):
    run(capsys, "graph", "-o", str(tmp_path / "real.html"))
    (root / "link.html").symlink_to(tmp_path / "real.html")
    before = (tmp_path / "real.html").read_bytes()
    run(capsys, "graph", "-o", "link.html")
    assert (root / "link.html").is_symlink() and (tmp_path / "real.html").read_bytes() == before
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert told(capsys, "graph", "-o", "link.html", status=5)["error"]["code"] == "io_failed"
    assert (tmp_path / "real.html").read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_graph_without_files_is_drawn_too(known, root, capsys):
    known.graph = Star(())
    known.graph.nodes = {}
    assert told(capsys, "graph")["about"] is None
    assert "No file is known" in (root / ".agents" / "reports" / "gsd-graph.html").read_text()


def test_the_picture_counts_all_and_lists_of_each_ring_its_share(known, root):
    known.graph = Star((400, 20_000))
    found = picture.picture(known.snapshot(root))
    assert found["counts"] == {
        "direct": 400, "transitive": 20_000, "total": 20_400, "critical": 2, "tests": 0, "by_depth": {1: 400, 2: 20_000},
    }  # fmt: skip
    listed = [one["depth"] for one in found["dependents"]]
    assert (listed.count(1), listed.count(2)) == (250, 250)
    assert sum(one["critical"] for one in found["dependents"]) == 2
    assert found["dependents"][0]["through_path"] == "src/lib/db.ts"
    assert found["sources"] == {"graph.db": "2026-01-21"}


# -- index ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(monkeypatch) -> list:
    calls: list = []

    def index(root, *, rebuild=False, tell=None):
        calls.append((root, rebuild))
        tell("parse", 1, 2)
        tell("parse", 2, 2)
        odd = [Trouble(f"src/b{n}.py", 3, "is no Python") for n in range(25)]
        return indexing.IndexDone(3, 1, 0, 0, 2, 1, 0.5, 2048, odd, {"python": 3})

    monkeypatch.setattr(indexing, "index", index)
    return calls


def test_index_takes_the_named_directory_else_the_gsd_project_else_the_project(
    root, tmp_path, indexed, monkeypatch, capsys
):
    plain = write(tmp_path / "plain", {"sub/x.py": "", "a.py": ""})
    (plain / ".git").mkdir()
    monkeypatch.chdir(root / "src")
    run(capsys, "index")
    run(capsys, "index", "deep", "--rebuild")
    monkeypatch.chdir(plain / "sub")
    run(capsys, "index")
    assert indexed == [(root, False), (root / "src" / "deep", True), (plain, False)]


@pytest.mark.parametrize("line", [["index", "/"], ["index", "home"], ["index"]])
def test_the_root_and_the_home_directory_are_never_indexed(line, tmp_path, indexed, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if line == ["index"]:
        monkeypatch.chdir(tmp_path / "home")
    assert told(capsys, *line, status=2)["error"]["code"] == "no_project"
    assert indexed == []


@pytest.mark.parametrize("name", ["no/such", "a\0b", "src/lib/db.ts"])
def test_what_is_no_directory_is_not_indexed(name, indexed, capsys):
    assert told(capsys, "index", name, status=2)["error"]["code"] == "bad_argument"
    assert indexed == []


def test_a_variable_that_names_no_project_is_not_passed_over(tmp_path, indexed, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("GSD_PROJECT_ROOT", str(tmp_path / "empty"))
    assert told(capsys, "index", status=2)["error"]["code"] == "no_gsd_project"
    assert indexed == []


def test_the_line_of_progress_is_for_a_terminal_and_goes_again(indexed, monkeypatch, capsys):
    shown = run(capsys, "index")
    assert "parsing" not in shown
    assert "3 files (3 python), 2 imports" in shown
    assert "src/b0.py:3: is no Python" in shown and "5 more" in shown
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert app.main(["gsd", "index"]) == 0
    err = capsys.readouterr().err
    assert "\rparsing: 2 of 2 files" in err and err.endswith(" \r")
    found = told(capsys, "index")
    assert (found["files"], found["changed"], len(found["unreadable"])) == (3, 1, 25)


def test_ctrl_c_ends_the_index_with_130(monkeypatch, capsys):
    def index(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(indexing, "index", index)
    assert app.main(["gsd", "index"]) == 130


def test_index_is_refused_inside_an_agent(root, indexed, monkeypatch, capsys):
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "a")
    assert told(capsys, "index", status=2)["error"]["code"] == "not_for_agents"
    assert indexed == []
    assert project_location.find_project(root).root == root
    assert gsd_index.STEP_S > 0
