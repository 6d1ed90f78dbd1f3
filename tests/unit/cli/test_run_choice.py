"""Which team run a command reads."""

from types import SimpleNamespace

from orchestrator.cli import run_choice
from orchestrator.team.roster import offline_view


def run(run_id, pane, ended_at=None):
    return {
        "run_id": run_id, "ended_at": ended_at, "tmux_socket": "/tmp/tmux", "server_pid": 7, "master_pane": pane,
    }  # fmt: skip


def test_the_pane_of_a_session_waits_for_its_own_run_which_is_made_after_it(monkeypatch, tmp_path):
    before = [run("old", "%1", "2026-01-01T00:00:00Z"), run("of-another-window", "%2")]
    looks = iter([[], before[:1], before, [*before, run("ours", "%1")]])
    monkeypatch.setattr(offline_view, "runs", lambda _root: next(looks))
    monkeypatch.setattr(run_choice, "LOOK_AGAIN_S", 0)
    monkeypatch.setenv("TMUX", "/tmp/tmux,7,0")
    monkeypatch.setenv("TMUX_PANE", "%1")
    assert run_choice.wait_for_run_of_pane(SimpleNamespace(root=tmp_path)) == "ours"
