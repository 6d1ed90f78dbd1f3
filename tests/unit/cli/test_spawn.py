"""The commands about spawn runs, against a link that answers what a test scripts: what they ask, say and exit with."""

import hashlib
import io
import json
import sys
from types import SimpleNamespace

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.cli import app, spawn, spawn_progress
from orchestrator.spawn.run_picture import MARK

ID = "6f0c1b2e-1c8d-4f0e-9d8e-0f2f0c6a8a11"
OTHER = "6f0d1b2e-1c8d-4f0e-9d8e-0f2f0c6a8a11"
CREATE, STATUS, RESULT = "smartspawn_run_create", "smartspawn_run_status", "smartspawn_run_result"
CANCEL, LIST, ARTIFACT = "smartspawn_run_cancel", "smartspawn_run_list", "smartspawn_artifact_get"
HEALTH, PICTURE = "smartspawn_health", "orchestrator/spawn_run"
MADE = {"run_id": ID, "status": "queued", "created_at": "2026-01-02T03:04:05.000Z", "estimated_steps": 4}


class Told:
    """A daemon's answers by tool, one after the other, the last one for ever; an error among them is raised."""

    def __init__(self):
        self.calls = []
        self.answers = {LIST: [{"runs": [row(ID)]}], CREATE: [MADE]}

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def tool(self, name, given, **_):
        self.calls.append((name, given))
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return json.loads(json.dumps(answer))

    ask = tool

    def asked(self, name):
        return [given for called, given in self.calls if called == name]


def row(run_id, status="running"):
    return {"run_id": run_id, "task": "a\ntask", "status": status, "created_at": "2026-01-02T03:04:05.000Z"}


def state(status="running", done=1, *, total=4, event="node a done", nodes=(), **more):
    progress = {"total_nodes": total, "done_nodes": done, "running_nodes": 1, "failed_nodes": 0, "skipped_nodes": 0}
    cost = {"usd": 0.0125, "reserved_usd": 0.5, "limit_usd": 5, "prompt_tokens": 10, "completion_tokens": 20}
    known = {"run_id": ID, "status": status, "progress": progress, "last_event": event, "mode": "swarm"}
    return known | {"elapsed_s": 12.0, "cost": cost, "nodes": list(nodes), "planner": "local"} | more


def node(name, status="running", **more):
    return {"node_id": name, "kind": "task", "wave": 0, "model": "lab/m", "status": status, "needs": []} | more


def ended(status="completed", **more):
    return {
        "run_id": ID,
        "status": status,
        "merged_output": "the answer",
        "summary": "3 of 3",
        "artifacts": [],
    } | more


@pytest.fixture
def daemon(monkeypatch, tmp_path):
    told = Told()
    monkeypatch.setattr(spawn, "DaemonClient", told)
    for name in ("ORCHESTRATOR_AGENT_ID", "ORCHESTRATOR_MEMBER_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return told


def run(*words):
    return app.main(["spawn", *words])


# -- create -----------------------------------------------------------------------------------------------------------


def test_create_asks_for_exactly_what_was_given_and_prints_the_id_alone_on_stdout(daemon, capsys):
    assert run("create", "do it", "--mode", "single") == 0
    assert daemon.calls == [(CREATE, {"task": "do it", "mode": "single"})]
    out, err = capsys.readouterr()
    assert out == f"{ID}\n"
    assert f"spawn status {ID} --follow" in err
    assert f"spawn result {ID}" in err


def test_create_passes_on_every_wish(daemon, monkeypatch, tmp_path):
    (tmp_path / "facts.md").write_text("é facts")
    monkeypatch.setattr(sys, "stdin", io.StringIO("from stdin"))
    line = (
        "create - --mode collective --budget low --context @facts.md --count 4 --persona architect --stack python,,sql "
        "--domain banking --format json --guardrails tests --style decision --merge-model lab/m --engine claude,codex"
    )
    assert run(*line.split(), "--agent", "builder", "--models", "llama3.2:3b, lab/m") == 0
    role = {
        "persona": "architect", "stack": ["python", "sql"], "domain": "banking", "format": "json",
        "guardrails": ["tests"],
    }  # fmt: skip
    assert daemon.asked(CREATE) == [
        {
            "task": "from stdin", "mode": "collective", "budget": "low", "context": "é facts", "collectiveCount": 4,
            "role": role, "merge": {"style": "decision", "model": "lab/m"}, "engine": "claude,codex",
            "agent": "builder", "models": ["llama3.2:3b", "lab/m"],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("content", "code"), [(b"\xff", "bad_argument"), (None, "io_failed")])
def test_a_context_that_cannot_be_read_creates_nothing(daemon, capsys, tmp_path, content, code):
    if content:
        (tmp_path / "facts").write_bytes(content)
    assert run("create", "t", "--mode", "single", "--context", "@facts", "--json") != 0
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    assert daemon.calls == []


def test_the_context_may_come_from_stdin_but_not_together_with_the_task(daemon, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("the diff"))
    assert run("create", "review it", "--mode", "single", "--context", "@-") == 0
    assert daemon.asked(CREATE)[0]["context"] == "the diff"
    capsys.readouterr()
    assert run("create", "-", "--mode", "single", "--context", "@-") == 2
    assert "both read from stdin" in capsys.readouterr().err
    assert len(daemon.calls) == 1


def test_an_empty_stdin_is_no_task(daemon, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert run("create", "-", "--mode", "single") == 2
    assert "the task is empty" in capsys.readouterr().err
    assert daemon.calls == []


@pytest.mark.parametrize(("line", "tool"), [("create t --mode poem", CREATE), ("list --status poem", LIST)])
def test_a_word_that_the_tool_refuses_sends_its_user_to_the_commands_help(daemon, capsys, line, tool):
    daemon.answers[tool] = [BadRequest("bad_argument", "it should be another")]
    assert run(*line.split()) == 2
    err = capsys.readouterr().err
    assert f"see: orchestrator spawn {line.split()[0]} --help" in err
    assert "schema" not in err


@pytest.mark.parametrize(("steps", "words"), [(1, "about 1 step\n"), (4, "about 4 steps\n")])
def test_steps_are_counted_in_words(daemon, capsys, steps, words):
    daemon.answers[CREATE] = [MADE | {"estimated_steps": steps}]
    assert run("create", "t", "--mode", "single") == 0
    assert words in capsys.readouterr().err


def test_create_with_wait_follows_and_prints_the_merged_answer_alone_on_stdout(daemon, capsys):
    daemon.answers |= {STATUS: [state(), state(done=2), state("completed", 4)], RESULT: [ended()]}
    assert run("create", "t", "--mode", "swarm", "--wait") == 0
    out, err = capsys.readouterr()
    assert out == "the answer\n"
    assert "1/4 nodes" in err
    assert "2/4 nodes" in err
    assert [given.get("wait_ms") for given in daemon.asked(STATUS)] == [None, 1000, 1000]


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_a_run_that_did_not_complete_is_exit_1_with_its_reason(daemon, capsys, status):
    daemon.answers |= {STATUS: [state(status)], RESULT: [ended(status, merged_output="", failure="node a: HTTP 401")]}
    assert run("create", "t", "--mode", "swarm", "--wait") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "node a: HTTP 401" in err


def test_with_wait_and_json_the_result_is_all_of_stdout(daemon, capsys):
    daemon.answers |= {STATUS: [state("completed")], RESULT: [ended()]}
    assert run("create", "t", "--mode", "swarm", "--wait", "--json") == 0
    assert json.loads(capsys.readouterr().out) == ended()


def test_ctrl_c_leaves_the_run_running_and_says_how_to_go_on(daemon, capsys):
    daemon.answers |= {STATUS: [state(), KeyboardInterrupt()]}
    assert run("create", "t", "--mode", "swarm", "--wait") == 130
    assert daemon.asked(CANCEL) == []
    err = capsys.readouterr().err
    assert f"spawn status {ID} --follow" in err
    assert f"spawn cancel {ID}" in err


# -- how far it is ----------------------------------------------------------------------------------------------------


def test_status_shows_totals_and_a_row_per_node(daemon, capsys):
    nodes = [
        node("a", "completed", seconds=3.0, usd=0.0125, attempts=2, reruns=1),
        node("b", "failed", error="HTTP 503\nand more", usd=None),
    ]
    daemon.answers[STATUS] = [state(nodes=nodes, waiting_for_key=True)]
    assert run("status", ID) == 0
    out = capsys.readouterr().out
    assert "$0.0125 of $5.00" in out
    assert "planned by local" in out
    assert "2 attempts, re-run 1x" in out
    assert "HTTP 503⏎and more" in out
    assert "waiting for the key" in out


def test_what_may_have_been_charged_and_the_notes_of_a_run_are_shown(daemon, capsys):
    cost = {"usd": 0.0125, "limit_usd": 5, "maybe_charged_usd": 0.41}
    daemon.answers[STATUS] = [state(cost=cost, nodes=[node("a", "failed", maybe_charged_usd=0.41)], notes=["odd"])]
    assert run("status", ID) == 0
    out = capsys.readouterr().out
    assert "$0.0125 of $5.00, $0.4100 may have been charged" in out
    assert out.count("$0.4100 may have been charged") == 2, "of the run, and of the node"
    assert "note: odd" in out
    daemon.answers[RESULT] = [ended(cost={"usd_estimate": 0.0125, "maybe_charged_usd": 0.41}, notes=["odd"])]
    assert run("result", ID) == 0
    err = capsys.readouterr().err
    assert "$0.4100 may have been charged" in err
    assert "note: odd" in err


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("canceled", 1)])
def test_status_with_follow_ends_as_the_run_does(daemon, status, code):
    daemon.answers[STATUS] = [state(), state(status)]
    assert run("status", ID, "--follow") == code


def test_a_look_that_shows_nothing_new_is_no_line(daemon, capsys):
    daemon.answers[STATUS] = [state(), state(elapsed_s=13.0), state(elapsed_s=14.0, eta_s=3.0), state("completed", 4)]
    assert run("status", ID, "--follow", "--json") == 0
    assert len(capsys.readouterr().err.splitlines()) == 2


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(spawn_progress, "sys", SimpleNamespace(stderr=shown))
    return shown


def test_on_a_terminal_a_bar_names_nodes_cost_and_what_is_left(daemon, terminal):
    nodes = [node("[red]build[/red]"), node("test"), node("late", "retry_pending")]
    daemon.answers[STATUS] = [state(nodes=nodes, eta_s=30.0), state("completed", 4)]
    assert run("status", ID, "--follow") == 0
    shown = terminal.getvalue()
    assert "running; 1/4 nodes; 12.0 s; $0.0125 of $5.00; 30.0 s left" in shown
    assert "running: [red]build[/red], test; waiting for retry: late" in shown
    assert "━" in shown


def test_a_node_cannot_command_the_terminal(daemon, terminal):
    daemon.answers[STATUS] = [state(nodes=[node("\x1b]0;owned\x07")]), state("completed")]
    assert run("status", ID, "--follow") == 0
    assert "\x1b]0;" not in terminal.getvalue()
    assert "\\x1b]0;owned" in terminal.getvalue()


def test_a_dumb_terminal_gets_lines(daemon, terminal, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "dumb")
    daemon.answers[STATUS] = [state("completed")]
    assert run("status", ID, "--follow") == 0
    assert terminal.getvalue() == ""
    assert "1/4 nodes" in capsys.readouterr().err


def test_of_many_running_nodes_some_are_named_and_the_rest_counted():
    told = spawn_progress.busy(state(nodes=[node(f"n{n}") for n in range(9)]))
    assert told == "running: n0, n1, n2, n3, n4, n5 and 3 more"


def test_a_run_without_a_price_shows_no_cost():
    assert spawn_progress.spent(state(cost={"usd": None, "limit_usd": 5})) == spawn_progress.spent({}) == ""


# -- which run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [["status", "6f0c"], ["result", "6f0c"], ["cancel", "6f0c"], ["artifact", "6f0c", "a"], ["graph", "6f0c"]],
    ids=lambda line: line[0],
)
def test_a_unique_beginning_of_an_id_is_enough_everywhere(daemon, line, capsys):
    failed = BadRequest("unknown_artifact", "as far as this test goes")
    daemon.answers |= {name: [failed] for name in (STATUS, RESULT, CANCEL, ARTIFACT, PICTURE)}
    daemon.answers[LIST] = [{"runs": [row(OTHER), row(ID)]}]
    assert run(*line) == 2
    assert daemon.calls[-1][1]["run_id"] == ID


def test_a_beginning_of_several_ids_is_refused_naming_them(daemon, capsys):
    daemon.answers[LIST] = [{"runs": [row(OTHER), row(ID)]}]
    assert run("cancel", "6f0", "--json") == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "bad_argument"
    assert ID in error["message"]
    assert OTHER in error["message"]
    assert daemon.asked(CANCEL) == []


def test_a_whole_id_is_not_looked_up_and_an_unknown_one_is_the_daemons_to_refuse(daemon, capsys):
    daemon.answers[STATUS] = [BadRequest("unknown_spawn_run", "no such run")]
    assert run("status", ID) == run("status", "zzz") == 2
    assert [given["run_id"] for given in daemon.asked(STATUS)] == [ID, "zzz"]
    assert daemon.asked(LIST) == [{"limit": 200}], "as many as the tool gives"


# -- result, list, cancel, health -------------------------------------------------------------------------------------


def test_result_prints_the_answer_and_with_raw_each_nodes_own(daemon, capsys):
    raws = [{"node_id": "a", "output": "one\n"}, {"node_id": "b", "output": "two", "truncated": True}]
    daemon.answers[RESULT] = [ended(raw_outputs=raws)]
    assert run("result", ID, "--raw") == 0
    assert daemon.asked(RESULT) == [{"run_id": ID, "include_raw": True}]
    out, err = capsys.readouterr()
    assert out == "the answer\n--- a\none\n--- b\ntwo\n"
    assert f"spawn artifact {ID} b" in err


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (ended(summary="3 of 3 nodes answered"), "completed; 3 of 3 nodes answered"),
        (ended("failed", summary="no model is left", failure="no model is left"), "failed; no model is left"),
        (ended("failed", summary="0 of 1", failure="a: HTTP 401"), "failed; 0 of 1; a: HTTP 401"),
        (ended("canceled", summary="canceled; 0 of 3"), "canceled; 0 of 3"),
        (ended("running", summary=""), "running"),
    ],
)
def test_how_a_run_has_ended_is_said_once(told, words):
    assert spawn_progress.ending(told) == words


def test_the_result_of_a_run_that_has_not_ended_is_exit_4(daemon, capsys):
    daemon.answers[RESULT] = [ended("running", merged_output="")]
    assert run("result", ID) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert f"spawn result {ID} --wait" in err


def test_result_with_wait_looks_until_the_run_has_ended(daemon, capsys):
    daemon.answers[RESULT] = [ended("queued"), ended("running"), ended("running"), ended()]
    assert run("result", ID, "--wait") == 0
    assert [given.get("wait_ms", 0) > 0 for given in daemon.asked(RESULT)] == [False, True, True, True]


def test_an_answer_that_was_cut_is_fetched_whole(daemon, capsys):
    daemon.answers |= {RESULT: [ended(merged_output="one ", more=True)], ARTIFACT: pages("one ", "two")}
    assert run("result", ID) == 0
    assert capsys.readouterr().out == "one two\n"
    assert daemon.asked(ARTIFACT)[0] == {"run_id": ID, "node_id": "merged"}


def test_what_a_model_said_cannot_command_a_terminal_and_is_verbatim_in_a_pipe(daemon, capsys, monkeypatch):
    daemon.answers[RESULT] = [ended(merged_output="\x1b[2Jé")]
    assert run("result", ID) == 0
    assert capsys.readouterr().out == "\x1b[2Jé\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run("result", ID) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_on_a_narrow_terminal_the_ids_of_a_list_stay_whole(daemon, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    daemon.answers[LIST] = [{"runs": [row(ID) | {"task": "a long task with many words " * 4}]}]
    assert run("list") == 0
    assert ID in capsys.readouterr().out


def test_list_asks_for_state_and_number_and_keeps_a_task_on_one_line(daemon, capsys):
    assert run("list", "--status", "running", "--limit", "7") == 0
    assert daemon.calls == [(LIST, {"limit": 7, "status": "running"})]
    out = capsys.readouterr().out
    assert ID in out
    assert "a⏎task" in out
    assert run("list", "--limit", "201") == 2


def test_cancel_says_whether_it_is_done_or_under_way(daemon, capsys):
    daemon.answers[CANCEL] = [{"status": "canceling"}]
    assert run("cancel", ID) == 0
    assert capsys.readouterr().out == f"{ID}: canceling\n"


@pytest.mark.parametrize(
    ("missing", "code"),
    [(None, 0), ("smart_spawn_api_reachable", 0), ("openrouter_configured", 1), ("worker_alive", 1)],
)
@pytest.mark.parametrize("reasons", [{"worker_alive": "it died"}, ["worker_alive: it died"]])
def test_health_fails_only_for_what_runs_cannot_do_without(daemon, capsys, missing, code, reasons):
    names = (
        "openrouter_configured", "smart_spawn_api_reachable", "db_writable", "artifact_storage_writable",
        "worker_alive",
    )  # fmt: skip
    daemon.answers[HEALTH] = [{name: name != missing for name in names} | {"reasons": reasons}]
    assert run("health") == code
    out = capsys.readouterr().out
    assert all(name in out for name in names)
    assert out.count("no ") == (missing is not None)
    assert "it died" in out


# -- artifacts --------------------------------------------------------------------------------------------------------


def pages(*parts, **metadata):
    whole = "".join(parts).encode()
    known = {"sha256": hashlib.sha256(whole).hexdigest(), "bytes": len(whole), "path": "artifacts/x"} | metadata
    told = [
        {"artifact_type": "raw", "content": part, "metadata": known, "next_offset": at + 1}
        for at, part in enumerate(parts)
    ]
    del told[-1]["next_offset"]
    return told


def test_an_artifact_of_several_pages_is_one_whole(daemon, capsys, tmp_path):
    daemon.answers[ARTIFACT] = pages("é" * 5, "x\n", "end")
    assert run("artifact", ID, "a", "-o", "out.txt") == 0
    assert (tmp_path / "out.txt").read_bytes() == ("é" * 5 + "x\nend").encode()
    assert [given.get("offset") for given in daemon.asked(ARTIFACT)] == [None, 1, 2]
    assert capsys.readouterr().out == ""


def test_an_artifact_goes_to_stdout_or_as_json(daemon, capsys):
    daemon.answers[ARTIFACT] = pages("all of it")
    assert run("artifact", ID, "plan") == 0
    assert capsys.readouterr().out == "all of it\n"
    assert run("artifact", ID, "plan", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["content"], told["metadata"]["bytes"]) == ("all of it", 9)


def test_an_artifact_goes_over_a_file_that_holds_something_else_only_with_force(daemon, capsys, tmp_path):
    mine = tmp_path / "mine.md"
    mine.write_text("mine")
    daemon.answers[ARTIFACT] = pages("the answer")
    assert run("artifact", ID, "merged", "-o", "mine.md") == 2
    assert "--force" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    assert run("artifact", ID, "merged", "-o", "mine.md", "--force") == 0
    assert run("artifact", ID, "merged", "-o", "mine.md") == 0, "the same again is harmless"
    assert mine.read_text() == "the answer"


def test_an_artifact_that_is_not_what_was_stored_is_reported_and_not_written(daemon, capsys, tmp_path):
    daemon.answers[ARTIFACT] = pages("changed", sha256="0" * 64)
    assert run("artifact", ID, "a", "-o", "out.txt", "--json") == 6
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "corrupt_home"
    assert not (tmp_path / "out.txt").exists()


# -- the graph --------------------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(daemon):
    daemon.answers[PICTURE] = [
        {"run": state("completed") | {"task": "t"}, "nodes": [node("a", "completed")], "events": []}
    ]
    return daemon


def test_the_graph_is_a_page_among_the_projects_reports_and_may_be_drawn_again(drawn, capsys, tmp_path):
    assert run("graph", ID) == run("graph", ID) == 0
    page = tmp_path / ".agents" / "reports" / f"{ID}.html"
    assert capsys.readouterr().out == f"{page}\n" * 2
    assert "<!doctype html>" in page.read_text()


@pytest.mark.parametrize("line", [["-o", "g.svg"], ["-o", "g.svg", "--format", "svg"]])
def test_the_graph_is_an_svg_where_that_is_asked_for(drawn, line, tmp_path):
    assert run("graph", ID, *line) == 0
    assert (tmp_path / "g.svg").read_text().startswith("<svg ")


def test_the_graph_never_goes_over_a_foreign_file_without_force(drawn, capsys, tmp_path):
    (tmp_path / "g.html").write_text("mine" + " " * 2000 + MARK)
    assert run("graph", ID, "-o", "g.html", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "bad_argument"
    assert (tmp_path / "g.html").read_text().startswith("mine")
    assert run("graph", ID, "-o", "g.html", "--force") == 0
    assert MARK in (tmp_path / "g.html").read_text()[:1024]


def test_a_form_that_is_none_is_refused_before_anything_is_asked(drawn):
    assert run("graph", ID, "--format", "png") == 2
    assert drawn.calls == []
