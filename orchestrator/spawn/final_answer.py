"""Makes the final answer of a run from the answers of its nodes. Reads their artifacts; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.spawn import artifacts, evaluation
from orchestrator.spawn.attempt_outcome import Files, text_of
from orchestrator.spawn.run_data import CUT_OFF, MERGED, NodeRow, RunRow
from orchestrator.spawn.scheduler import RunEnd


@dataclass(frozen=True)
class Final:
    """The content of ``merged.md``, the node that wrote it, where answers disagree, and notes."""

    text: str
    model: str
    dissent: str = ""
    note: str = ""


def final(home: Path, run: RunRow, rows: Mapping[str, NodeRow], files: Files, end: RunEnd) -> Final | None:
    """The final answer; None when no node gave one. Raises as `text_of`.

    That of the merge node; else the only answer as it is; else all answers side by side, which costs no call.
    """
    merge = rows.get(MERGED)
    if merge is not None and merge.status == "completed" and end.status == "completed":
        text = text_of(home, files, MERGED)
        merged = sum(1 for need in merge.node.needs if need in rows and rows[need].status == "completed")
        text, dissent = evaluation.dissent(text, merged) if merged > 1 else (text, "")
        cut = _cut("the merged answer", merge)
        return Final(text, merge.answered_by, dissent, cut)
    given = [node_id for node_id in end.from_nodes if rows[node_id].status == "completed"]
    if not given:
        return None
    if len(given) == 1:
        row = rows[given[0]]
        return Final(text_of(home, files, given[0]), row.answered_by, "", _cut(f"the answer of {given[0]}", row))
    hide = artifacts.redacted if run.settings.redact else str
    parts = [
        f"## {node_id}: {hide(_line(rows[node_id].node.task))}\n\n{text_of(home, files, node_id)}"
        for node_id in given
    ]
    head = f"> {end.summary}. The answers are listed side by side; they were not merged.\n\n"
    note = "the answers are listed side by side, not merged"
    return Final(head + "\n\n".join(parts) + "\n", "", "", note)


def _cut(what: str, row: NodeRow) -> str:
    if row.finish_reason not in CUT_OFF:
        return ""
    return f"{what} is cut off {'at the limit of tokens' if row.finish_reason == 'length' else 'by a filter'}"


def _line(task: str) -> str:
    text = " ".join(task.split())
    return text if len(text) <= 100 else f"{text[:99]}…"
