"""The commands of the inbox: what waits for a human, and the answers to it.

Shows and asks; the daemon decides who may answer, and carries it out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.base.text_width import cut
from orchestrator.cli import completion, options, output
from orchestrator.cli.options import Json
from orchestrator.cli.redrawn_screen import RedrawnScreen
from orchestrator.edge.project_location import Project
from orchestrator.faces import inbox_lines
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.faces.snapshot_client import SnapshotClient, read_snapshot

WATCH_S = 1.0
"""How often a watched inbox is drawn again: the ages change."""
WAIT_S = 3600.0
OFFLINE = "no daemon answers: shown from the files, without the questions that CLIs ask at this moment"
DONE = {
    "approve": "approved",
    "always": "approved; a rule approves the same request from now on",
    "deny": "denied",
    "answer": "answered",
    "release": "its pane asks now",
    "dismiss": "dismissed",
}
ItemId = Annotated[
    str, typer.Argument(metavar="ID", help="The item's id; see: orchestrator inbox.", autocompletion=completion.items)
]


def inbox(
    item: Annotated[
        str, typer.Argument(metavar="[ID]", help="Show this item in full.", autocompletion=completion.items)
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again at each change until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show what waits for you: permissions, logins, errors.

    Agents that cannot continue come first. With ID it shows the whole text and the commands that answer it.
    """
    place = project_here()
    if watch:
        _watch(place, item, as_json=as_json)
        return
    snapshot = read_snapshot(place)
    _print(place, snapshot, item, as_json=as_json)


def approve(
    item: ItemId,
    always: Annotated[
        bool, typer.Option("--always", help="Also make a rule: exactly the same is not asked again in this project.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Allow what an agent asks for, once.

    With --always a rule allows the same command in the same directory, changes of the same file, or the same call:
    see orchestrator approvals list.
    """
    _answer(item, "always" if always else "approve", "", as_json=as_json)


def deny(
    item: ItemId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the agent's model reads it.")] = "",
    as_json: Json = False,
) -> None:
    """Refuse what an agent asks for.

    The agent's model may then try something else; opencode ends its turn.
    """
    _answer(item, "deny", reason, as_json=as_json)


def answer(
    item: ItemId,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="The option's label or number, or words; one per question.")
    ],
    as_json: Json = False,
) -> None:
    """Answer an agent's question."""
    _answer(item, "answer", "\n".join(text), as_json=as_json)


def release(item: ItemId, as_json: Json = False) -> None:
    """Let the agent's own pane ask instead.

    For a CLI that shows no dialog while it waits for an answer from here.
    """
    _answer(item, "release", "", as_json=as_json)


def dismiss(item: ItemId, as_json: Json = False) -> None:
    """Take an error, a conflict or a budget off the inbox.

    No agent waits for these. A record says that you have seen the item.
    """
    _answer(item, "dismiss", "", as_json=as_json)


def _answer(item: str, decision: str, text: str, *, as_json: bool) -> None:
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        given = {"item": item.strip().lower(), "decision": decision, "text": text, "face": "cli"}
        answered = link.ask("orchestrator/answer", given)
    if as_json:
        output.print_json(answered)
        return
    output.say_line(f"{answered['agent_id']}: {DONE.get(decision, decision)}")
    if answered.get("rule"):
        output.say_line(f"rule {answered['rule']}; take it back: orchestrator approvals remove {answered['rule']}")


# -- what is shown ------------------------------------------------------------------------------------------------


def _print(place: Project, snapshot: dict[str, Any], wanted: str, *, as_json: bool) -> None:
    chosen = _chosen(snapshot, wanted)
    if as_json:
        whole = {"project": str(place.root), "live": snapshot["live"], "inbox": snapshot["inbox"]}
        output.print_json(chosen if chosen is not None else whole)
        return
    if not snapshot["live"]:
        output.warn(OFFLINE)
    for line in _texts(snapshot, chosen):
        output.say(line)


def _chosen(snapshot: dict[str, Any], wanted: str) -> dict[str, Any] | None:
    """The item of that id, None without an id. BadRequest ``unknown_item``."""
    if not wanted:
        return None
    for item in snapshot["inbox"]:
        if item["id"] == wanted.strip().lower():
            return dict(item)
    raise BadRequest("unknown_item", f"the inbox has no item {wanted!r}: it is over, or the id is wrong")


def _texts(snapshot: dict[str, Any], item: dict[str, Any] | None) -> Sequence[str]:
    size, now = output.terminal_size(), datetime.now(UTC)
    width = size.columns if size else None
    if item is not None:
        return inbox_lines.item_lines(item, width, now)
    return inbox_lines.inbox_lines(snapshot["inbox"], width, now)


def _watch(place: Project, wanted: str, *, as_json: bool) -> None:
    """Show each change of the inbox: in place on a terminal, else below the last one."""
    with SnapshotClient(place, face="inbox") as client:
        if as_json or not sys.stdout.isatty():
            _follow(place, client, wanted, as_json=as_json)
            return
        with RedrawnScreen() as screen:
            while True:
                snapshot = client.latest()
                if snapshot is not None:
                    screen.show(_frame(place, snapshot, wanted))
                screen.wait(WATCH_S if snapshot is not None else 0.05)


def _follow(place: Project, client: SnapshotClient, wanted: str, *, as_json: bool) -> None:
    number, last = 0, None
    while True:
        number = client.wait(number, WAIT_S)
        snapshot = client.latest()
        seen = None if snapshot is None else (snapshot["live"], snapshot["inbox"])
        if snapshot is not None and seen != last:
            last = seen
            _print(place, snapshot, wanted, as_json=as_json)


def _frame(place: Project, snapshot: dict[str, Any], wanted: str) -> list[str]:
    size = output.terminal_size()
    columns, rows = (size.columns, size.lines) if size else (80, 24)
    item = next((item for item in snapshot["inbox"] if item["id"] == wanted.strip().lower()), None)
    if wanted and item is None:
        lines: Sequence[str] = [f"item {wanted} is over"]
    else:
        lines = _texts(snapshot, item)
    head = f"{place.root.name}: {time.strftime('%H:%M')}" + ("" if snapshot["live"] else "; no daemon answers")
    shown = [cut(output.printable(line).replace("\n", " "), columns) for line in (head, *lines)]
    return shown if len(shown) <= rows else [*shown[: rows - 1], cut(f"… {len(shown) - rows + 1} more", columns)]


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    options.command(app, "inbox", "orchestrator inbox\norchestrator inbox 3f2a91bc\norchestrator inbox --watch")(
        inbox
    )
    options.command(app, "approve", "orchestrator approve 3f2a91bc\norchestrator approve 3f2a91bc --always")(approve)
    options.command(app, "deny", "orchestrator deny 3f2a91bc --reason 'use the build directory'")(deny)
    options.command(app, "answer", "orchestrator answer 3f2a91bc Postgres\norchestrator answer 3f2a91bc 2 yes")(
        answer
    )
    options.command(app, "release", "orchestrator release 3f2a91bc")(release)
    options.command(app, "dismiss", "orchestrator dismiss 3f2a91bc")(dismiss)
