"""Logs of every version that was ever released must read for ever: these files are never written again."""

from pathlib import Path

from orchestrator.core import records, state
from orchestrator.journal.log_reader import read_all

V1 = Path(__file__).resolve().parents[1] / "logs" / "v1"


def test_logs_of_version_1_fold_to_what_happened_then():
    agent = state.Agent("we-ird-n-me")
    for log, types in (("inbox", records.INBOX_TYPES), ("outbox", records.OUTBOX_TYPES)):
        for record in read_all(V1 / f"{log}.jsonl", types):
            state.apply(agent, log, record)
    assert agent.life == "deleted"
    assert agent.epoch == 2
    assert agent.outcomes == {"result": 1, "error": 1, "canceled": 0}
    assert agent.finished["long"].outcome == "result"
    assert not agent.unfinished
    assert agent.spec["name"] == "We/ird Näme"
    assert len(agent.restarts) == 1


def test_the_broadcast_of_version_1_reads_and_tells_of_the_same_ends():
    lines = list(read_all(V1 / "broadcast.jsonl", records.BROADCAST_TYPES))
    outbox = list(read_all(V1 / "outbox.jsonl", records.OUTBOX_TYPES))
    told = [record["ref"] for record in lines]
    assert told == [record["seq"] for record in outbox if record["type"] in records.BROADCAST_TYPES]


def test_records_of_version_1_fit_todays_models():
    for log, model in (("inbox", records.INBOX), ("outbox", records.OUTBOX), ("broadcast", records.BROADCAST)):
        types = {"inbox": records.INBOX_TYPES, "outbox": records.OUTBOX_TYPES, "broadcast": records.BROADCAST_TYPES}[
            log
        ]
        for record in read_all(V1 / f"{log}.jsonl", types):
            model.validate_python(record)
