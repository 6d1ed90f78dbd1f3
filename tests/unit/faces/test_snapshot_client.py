"""Following a snapshot: what goes wrong is shown as not live, and never as the last good team."""

from pathlib import Path

import pytest

from orchestrator.base.errors import NotReady
from orchestrator.edge.project_location import find_project
from orchestrator.faces import snapshot_client
from orchestrator.faces.snapshot_client import SnapshotClient, merged


class Link:
    """A daemon that gives these answers and then breaks in this way."""

    def __init__(self, answers, fault):
        self.answers, self.fault = list(answers), fault

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Nothing is open."""

    hang_up = close

    def ask(self, _method, _params, wait_s=0.0):
        assert wait_s >= 0
        if self.answers:
            return self.answers.pop(0)
        raise self.fault


WHOLE = {"version": 3, "boot": "b", "live": True, "agents": [], "inbox": [], "runs": [], "totals": {}}


@pytest.mark.parametrize(
    "fault", [NotReady("daemon_down", "gone"), KeyError("order"), ValueError("no JSON"), OSError()]
)
@pytest.mark.parametrize("readable", [True, False])
def test_a_daemon_that_breaks_in_any_way_leaves_no_snapshot_that_looks_alive(tmp_path, monkeypatch, fault, readable):
    links = [Link([WHOLE], fault)]
    monkeypatch.setattr(
        snapshot_client,
        "DaemonClient",
        lambda *_a, **_k: links.pop() if links else Link([], NotReady("daemon_down", "")),
    )
    if not readable:
        monkeypatch.setattr(snapshot_client, "offline_snapshot", lambda *_a: 1 / 0)
    (tmp_path / ".agents").mkdir()
    with SnapshotClient(find_project(Path(tmp_path)), face="test") as client:
        number = 0
        while True:
            number = client.wait(number, 20.0)
            latest = client.latest()
            assert latest is not None
            if not latest["live"]:
                break
    assert latest["agents"] == []


def test_an_answer_that_names_what_has_changed_keeps_the_rest():
    known = {**WHOLE, "agents": [{"agent_id": "a", "n": 1}, {"agent_id": "b", "n": 1}], "inbox": [{"id": "1"}]}
    news = {"version": 4, "boot": "b", "live": True, "changed": [{"agent_id": "b", "n": 2}], "gone": ["a"], "order": ["b"],
            "runs": [], "totals": {}}  # fmt: skip
    after = merged(known, news)
    assert (after["agents"], after["inbox"], after["version"]) == ([{"agent_id": "b", "n": 2}], [{"id": "1"}], 4)
