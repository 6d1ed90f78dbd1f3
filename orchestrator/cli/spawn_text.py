"""The results and the status of spawn runs, printed for humans."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import typer

from orchestrator.base.errors import EXIT_CODES, Corrupt, NotReady
from orchestrator.cli import output, spawn_progress
from orchestrator.faces.daemon_client import DaemonClient


def whole_artifact(link: DaemonClient, run_id: str, node: str) -> dict[str, Any]:
    """An artifact with all of its content; Corrupt ``corrupt_home`` if it differs from what was stored."""
    arguments: dict[str, Any] = {"run_id": run_id, "node_id": node}
    first_page = link.tool("smartspawn_artifact_get", arguments)
    parts, page = [first_page["content"]], first_page
    while page.get("next_offset") is not None:
        page = link.tool("smartspawn_artifact_get", arguments | {"offset": page["next_offset"]})
        parts.append(page["content"])
    content = "".join(parts)
    if hashlib.sha256(encoded(content)).hexdigest() != first_page["metadata"]["sha256"]:
        place = first_page["metadata"].get("path") or node
        raise Corrupt("corrupt_home", f"artifact {place} of run {run_id} does not match its SHA-256")
    return {"artifact_type": first_page["artifact_type"], "content": content, "metadata": first_page["metadata"]}


def encoded(text: str) -> bytes:
    """The bytes of a text as they are stored; a model's may have lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def print_text(text: str) -> None:
    """Print a model's text; on a terminal with control characters made visible."""
    if text and not text.endswith("\n"):
        text += "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(encoded(output.printable(text) if sys.stdout.isatty() else text))
    sys.stdout.buffer.flush()


def print_result(link: DaemonClient, answer: dict[str, Any], *, as_json: bool) -> None:
    """Print the whole result of a run and exit with the status of its end."""
    from orchestrator.spawn.picture_words import maybe_charged  # noqa: PLC0415

    run_id, state = answer["run_id"], answer["status"]
    if answer.pop("more", False):
        answer["merged_output"] = whole_artifact(link, run_id, "merged")["content"]
    if as_json:
        output.print_json(answer)
    else:
        print_text(answer.get("merged_output") or "")
        for row in answer.get("raw_outputs") or ():
            output.say(f"--- {row['node_id']}")
            print_text(row["output"])
            if row.get("truncated"):
                output.warn(f"cut; all of it: orchestrator spawn artifact {run_id} {row['node_id']}")
        for note in answer.get("notes", ()):
            output.warn(f"note: {note}")
        if unknown := maybe_charged(answer.get("cost") or {}):
            output.warn(unknown)
        output.warn(spawn_progress.ending(answer))
        if state not in spawn_progress.ENDED and not answer.get("foreign"):
            output.warn(f"  wait for its end: orchestrator spawn result {run_id} --wait")
    raise typer.Exit(0 if state == "completed" else 1 if state in spawn_progress.ENDED else EXIT_CODES[NotReady])


def print_status(answer: dict[str, Any]) -> None:
    """Print the status of a run with its nodes."""
    from orchestrator.spawn.picture_words import dollars, maybe_charged, repeats, seconds, totals  # noqa: PLC0415

    output.say(f"{answer['run_id']}: {', '.join(totals(answer))}")
    rows = [
        [
            node["node_id"],
            node["status"],
            str(node["wave"]),
            node["model"],
            seconds(node.get("seconds")),
            dollars(node.get("usd")),
            output.short("; ".join(filter(None, (repeats(node), maybe_charged(node), node.get("error")))), 80),
        ]
        for node in answer.get("nodes", ())
    ]
    if rows:
        output.table(["NODE", "STATUS", "WAVE", "MODEL", "TIME", "COST", "REMARKS"], rows)
    for note in answer.get("notes", ()):
        output.say(f"note: {note}")
    for text in (spawn_progress.busy(answer), answer.get("last_event")):
        if text:
            output.say(str(text))
