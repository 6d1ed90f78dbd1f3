"""Spawn runs over real relays: a home and a stand-in for the model API of one test, a connection with its variables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from orchestrator.trust.state_dir import VARIABLE
from tests.fakes.openrouter import Fake
from tests.support.stage import Stage, Wire, until

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef"
ENDED = {"completed", "failed", "canceled"}
WAIT_MS = 40_000


@pytest.fixture
def fake() -> Iterator[Fake]:
    """The stand-in for OpenRouter and the Smart Spawn API, for one test."""
    with Fake() as one:
        yield one


def of_one_user(stage: Stage, other: Stage) -> Stage:
    """The first stage, for the projects of one user: what was made in a home from one of them is known in the other."""
    stage.env[VARIABLE] = other.env[VARIABLE]
    return stage


class Scene:
    """A test's own home and stand-in on a stage that may be shared."""

    def __init__(self, stage: Stage, base: Path, fake: Fake, **env: str) -> None:
        self.stage = stage
        self.fake = fake
        self.home = base / "spawn-home"
        self.env = {
            **stage.env,
            "OPENROUTER_API_KEY": KEY,
            "OPENROUTER_BASE_URL": fake.url,
            "SMART_SPAWN_API_URL": "off",
            "SMART_SPAWN_MCP_HOME": str(self.home),
            **env,
        }

    def connect(self, **env: str) -> Wire:
        """A client of the toolset; an empty value takes a variable out."""
        found = {name: value for name, value in {**self.env, **env}.items() if value}
        return self.stage.begun(found, "--toolsets", "smartspawn")

    def planned(self) -> dict[str, str]:
        """The variable with which the stand-in's Smart Spawn API plans."""
        return {"SMART_SPAWN_API_URL": self.fake.planner_url}

    # -- what the disk says -------------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of the home's database, read beside the daemon."""
        with sqlite3.connect(f"file:{self.home}/db.sqlite?mode=ro", uri=True) as con:
            con.row_factory = sqlite3.Row
            found = [dict(row) for row in con.execute(query, values)]
        con.close()
        return found

    def file(self, *parts: str) -> Path:
        return self.home.joinpath("artifacts", *parts)

    def document(self, run_id: str, node_id: str) -> dict[str, Any]:
        """A node's artifact."""
        found: dict[str, Any] = json.loads(self.file(run_id, f"{node_id}.json").read_bytes())
        return found

    def spent(self, run_id: str) -> Decimal:
        """What the ledger says: known costs, and reservations where nobody knows."""
        rows = self.rows("SELECT * FROM attempts WHERE run_id = ?", run_id)
        return sum(
            (
                Decimal(
                    row["reserved"] if row["cost"] is None and row["cost_source"] == "reserved" else row["cost"] or 0
                )
                for row in rows
            ),
            Decimal(0),
        )


def tool(wire: Wire, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool of spawn runs by the rest of its name."""
    return wire.tool(f"smartspawn_{name}", arguments)


def create(wire: Wire, task: str = "Say what is true.", mode: str = "single", **more: Any) -> str:
    """Create a run; its id."""
    answer = wire.tool("smartspawn_run_create", {"task": task, "mode": mode, **more})
    assert "error" not in answer, answer
    return answer["run_id"]


def status(wire: Wire, run_id: str, **more: Any) -> dict[str, Any]:
    """How far a run is."""
    return wire.tool("smartspawn_run_status", {"run_id": run_id, **more})


def result(wire: Wire, run_id: str, **more: Any) -> dict[str, Any]:
    """What a run has come to, awaited."""
    answer = wire.tool("smartspawn_run_result", {"run_id": run_id, "wait_ms": WAIT_MS, **more})
    assert "error" not in answer or answer.get("status"), answer
    return answer


def run(wire: Wire, task: str = "Say what is true.", mode: str = "single", **more: Any) -> dict[str, Any]:
    """Create a run and await what it comes to."""
    return result(wire, create(wire, task, mode, **more))


def ended(wire: Wire, run_id: str) -> dict[str, Any]:
    """The status of a run once it has ended."""

    def look() -> dict[str, Any] | None:
        found = status(wire, run_id, wait_ms=5000)
        return found if found["status"] in ENDED else None

    return until(look)


def node(found: dict[str, Any], node_id: str) -> dict[str, Any]:
    """One node of a status."""
    return next(one for one in found["nodes"] if one["node_id"] == node_id)


def do(**what: Any) -> str:
    """A task that tells the stand-in how to behave."""
    return f"Please.\nDO {json.dumps(what)}"


def code_of(answer: dict[str, Any]) -> str:
    """The code of an error."""
    found: str = answer["error"]["code"]
    return found
