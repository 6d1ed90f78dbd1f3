"""Show records of logs: a line each in a pipe; on a terminal what is long is a block below its line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.cli import output
from orchestrator.faces.payload_text import block

SHORT = 100
"""Characters of a record's content that may stand on its line on a terminal."""
INDENT = " " * 6
_GENERATED = re.compile(r"t-[0-9a-f]{12}")
_STAMPS = frozenset({"v", "seq", "at", "epoch", "by", "req", "mac", "crc"})
_HEAD = frozenset({"type", "task_id", "title", "payload", "agent_id", "ref"})


class EventText:
    """Prints the records of one log; ``agent_id`` is empty for a broadcast, whose records name their agents."""

    def __init__(self, root: Path, agent_id: str = "") -> None:
        self._root = root
        self._agent_id = agent_id
        self._titles: dict[str, str] = {}

    def show(self, records: Iterable[dict[str, Any]], *, as_json: bool = False) -> None:
        """Print the records as they come."""
        for record in records:
            self.show_record(record, as_json=as_json)

    def show_record(self, record: dict[str, Any], *, as_json: bool = False) -> None:
        """Print one record, its payload whole."""
        record = self.whole(record)
        if as_json:
            output.print_json(record)
            return
        for line in event_lines(record, self._label(record), terminal=sys.stdout.isatty()):
            output.say(line)

    def _label(self, record: dict[str, Any]) -> str:
        """What the task is called: its title in place of an id that we made."""
        task_id = str(record.get("task_id") or "")
        if record.get("title"):
            self._titles[task_id] = str(record["title"])
        return self._titles.get(task_id, task_id) if _GENERATED.fullmatch(task_id) else task_id

    def whole(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with the payload that the daemon or the broadcast has cut; as it is if it cannot be read."""
        payload = record.get("payload")
        cut = isinstance(payload, dict) and payload.get("cut") is True and set(payload) == {"cut", "bytes", "begins"}
        if not cut and not (payload is None and record.get("payload_bytes")):
            return record
        from orchestrator.team.roster import offline_view  # noqa: PLC0415  (loads the log readers)

        agent_id = self._agent_id or str(record.get("agent_id", ""))
        seq = record.get("ref") if not self._agent_id else record.get("seq")
        try:
            original = offline_view.record(self._root, agent_id, int(seq or 0))
        except OrchestratorError:
            return record
        return record if original is None else record | {"payload": original.get("payload")}


def event_lines(record: dict[str, Any], label: str, *, terminal: bool) -> list[str]:
    """A record as lines: seq, local time, agent (broadcast), type, task, and its payload or what else it says."""
    try:
        at = datetime.fromisoformat(str(record.get("at"))).astimezone().strftime("%H:%M:%S")
    except ValueError:
        at = "-"
    content = record.get("payload")
    if content is None:
        content = {
            key: value for key, value in record.items() if key not in _STAMPS | _HEAD and value not in (None, [], {})
        }
    kind, agent_id = f"{record.get('type', '?'):<10}", str(record.get("agent_id", ""))
    head = [f"{record.get('seq', '?'):>5}", at, agent_id, kind, label]
    line = " ".join(part for part in head if part).rstrip()
    if content in ({}, "", []):
        return [line]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if not terminal or (len(text) <= SHORT and "\n" not in text):
        return [f"{line} {text.replace(chr(10), '⏎')}"]
    return [line, *(INDENT + part for part in block(content))]
