"""Files of earlier days must read for ever: logs, spawn homes and indexes that are never written again.

``v1`` was written before records had seals, ``v1-sealed``, the spawn home and the index on 2026-11-25. A home of the
original tool (0.1.0) is read in ``tests/unit/spawn/test_database_upgrade.py``.
"""

import shutil
from pathlib import Path

import pytest

from orchestrator.core import record_types, records, state
from orchestrator.gsd.index import store
from orchestrator.journal.log_reader import read_all
from orchestrator.spawn import queries
from tests.support.spawns import in_home

FILES = Path(__file__).resolve().parents[1] / "logs"
V1 = FILES / "v1"
SEALED = FILES / "v1-sealed"
TYPES = {
    "inbox": record_types.INBOX_TYPES,
    "outbox": record_types.OUTBOX_TYPES,
    "broadcast": record_types.BROADCAST_TYPES,
}
MODELS = {"inbox": records.INBOX, "outbox": records.OUTBOX, "broadcast": records.BROADCAST}


def folded(logs, agent_id):
    agent = state.Agent(agent_id)
    for log in ("inbox", "outbox"):
        for record in read_all(logs / f"{log}.jsonl", TYPES[log]):
            state.apply(agent, log, record)
    return agent


def test_logs_of_version_1_fold_to_what_happened_then():
    agent = folded(V1, "we-ird-n-me")
    assert agent.life == "deleted"
    assert agent.epoch == 2
    assert agent.outcomes == {"result": 1, "error": 1, "canceled": 0}
    assert agent.finished["long"].outcome == "result"
    assert not agent.unfinished
    assert agent.spec["name"] == "We/ird Näme"
    assert len(agent.restarts) == 1


def test_sealed_logs_of_version_1_fold_to_what_happened_then():
    agent = folded(SEALED, "bu-ilder")
    assert agent.life == "deleted"
    assert agent.epoch == 2
    assert agent.outcomes == {"result": 2, "error": 2, "canceled": 1}
    assert {name: task.outcome for name, task in agent.finished.items()} == {
        "good": "result", "bad": "error", "odd": "error", "long": "canceled", "lost": "result",
    }  # fmt: skip
    assert agent.spec["name"] == "Bu/ilder é"
    assert not agent.restarts, "a restart that was asked for counts against no limit"


@pytest.mark.parametrize("logs", [V1, SEALED], ids=lambda path: path.name)
def test_the_broadcast_repeats_the_ends_that_the_outbox_holds(logs):
    lines = list(read_all(logs / "broadcast.jsonl", record_types.BROADCAST_TYPES))
    outbox = list(read_all(logs / "outbox.jsonl", record_types.OUTBOX_TYPES))
    assert [record["ref"] for record in lines] == [
        record["seq"] for record in outbox if record["type"] in record_types.BROADCAST_TYPES
    ]


@pytest.mark.parametrize("logs", [V1, SEALED], ids=lambda path: path.name)
@pytest.mark.parametrize("log", TYPES)
def test_old_records_fit_todays_models(logs, log):
    read = list(read_all(logs / f"{log}.jsonl", TYPES[log]))
    assert len(read) == len((logs / f"{log}.jsonl").read_text().splitlines())
    for record in read:
        MODELS[log].validate_python(record)


def test_a_spawn_home_of_form_2_reads_as_before(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(FILES / "spawn-home.sqlite", home / "db.sqlite")

    async def read(db):
        runs = sorted(await db.read(queries.runs), key=lambda run: run.number)
        assert [(run.request.mode, run.status) for run in runs] == [
            (mode, "completed") for mode in ("single", "collective", "plan", "cascade", "swarm")
        ]
        nodes = [await db.read(queries.nodes, run.id) for run in runs]
        assert sum(map(len, nodes)) == 15
        assert {node.status for of_run in nodes for node in of_run} == {"completed", "skipped"}
        assert sum([len(await db.read(queries.events, run.id)) for run in runs]) == 49
        assert sum([len(await db.read(queries.artifacts, run.id)) for run in runs]) == 20
        assert sum([len(await db.read(queries.attempts, run.id)) for run in runs]) == 13

    in_home(home, read)


def test_an_index_of_version_1_reads_as_before(tmp_path):
    path = tmp_path / store.STORE
    path.parent.mkdir(parents=True)
    shutil.copy(FILES / "gsd-index.sqlite", path)
    read = store.read(tmp_path)
    assert read.complete
    assert {facts.path: list(facts.imports) for facts in read.files} == {
        "src/kettle.py": [], "src/price.ts": [], "src/shop.ts": ["src/price.ts"], "src/tea.py": ["src/kettle.py"],
    }  # fmt: skip
    assert not read.troubles
