"""`orchestrator doctor` before and with `--live`, with the real CLIs and scripted models."""

import json

import pytest

from tests.e2e.models.turn import KINDS

LONG = [pytest.param(kind, marks=[] if kind == "codex" else pytest.mark.slow) for kind in KINDS]


@pytest.mark.parametrize("kind", LONG)
def test_doctor_live_takes_each_cli_through_a_task_a_wake_and_a_cancel(make_world, kind):
    world = make_world(kind)
    before = world.snapshot(kind)
    done = world.orchestrator("doctor", "--live", kind, "--json", timeout_s=400)
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert found[f"engine {kind}"]["level"] == "ok"
    assert found[f"{kind} login"]["level"] == "ok"
    live = found[f"live {kind}"]
    assert live["level"] == "ok", json.dumps(live, indent=1) + done.stderr
    assert live["figures"]["canceled"] and live["figures"]["parked"]
    assert "live" not in found, "something was left running"
    assert world.snapshot(kind) == before
    assert not (world.root / ".agents" / "agents").exists()
