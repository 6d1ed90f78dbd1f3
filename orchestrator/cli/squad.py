"""Commands about squads: run one member, start the members of a file, wait, list, cancel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import interrupt, options, output, trust
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import DaemonClient, project_here

LOOK_MS = 1000
"""Milliseconds between two looks at a squad: a human watches."""
TOOL = "start_squad_members"

app = options.app("Run squads: CLIs that do one task each, without a pane.")
Visible = Annotated[bool, typer.Option("--visible", help="Show output live in panes of this tmux window.")]
SquadId = Annotated[str, typer.Argument(metavar="SQUAD", help="The squad's id.")]


@options.command(
    app,
    "run",
    'ENGINE=claude orchestrator squad run reviewer --task "Review the last commit"\n'
    'STATE_MODE=stateful orchestrator squad run architect --task "And the tests?" --chat-id 4f1c2a90-...',
)
def run(
    *,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role's id; see: orchestrator roles list.")],
    task: Annotated[str, typer.Option("--task", metavar="TEXT", help="What the member does; -: read from stdin.")],
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="DIR", help="Working directory within the project; default: its root.")
    ] = "",
    chat_id: Annotated[
        str, typer.Option("--chat-id", metavar="CHAT", help="Chat to continue; implies STATE_MODE=stateful.")
    ] = "",
    visible: Visible = False,
    as_json: Json = False,
) -> None:
    """Run one member and print its output.

    Its stdout and stderr are passed on unchanged. Exit 0 if the member completed, 1 if not.
    """
    options.refuse_agents()
    member: dict[str, Any] = {"roleId": role, "task": sys.stdin.read() if task == "-" else task}
    if cwd:
        member["cwd"] = cwd
    if chat_id:
        member["chatId"] = chat_id
        os.environ["STATE_MODE"] = "stateful"  # of this process, and so of its connection
    answer = _carried_out({"members": [member], "visible": visible})
    if as_json:
        output.print_json(answer)
    else:
        (row,) = answer["members"]
        _raw(row)
        if row.get("chatId"):
            output.warn(f"chat {row['chatId']}")
    _leave(answer)


@options.command(
    app,
    "start",
    "orchestrator squad start squad.json\n"
    """echo '{"members": [{"roleId": "reviewer", "task": "Review src/"}]}' | orchestrator squad start -""",
)
def start(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON arguments of start_squad_members; -: read from stdin.")
    ],
    visible: Visible = False,
    as_json: Json = False,
) -> None:
    """Start the members of a file and wait for all of them.

    Shows their progress, then the output of each. Exit 0 if all completed, 1 if not.
    """
    options.refuse_agents()
    answer = _carried_out(_given(file) | ({"visible": True} if visible else {}))
    _print_answer(answer, as_json=as_json)


@options.command(app, "wait", "orchestrator squad wait 1f0c...")
def wait(squad_id: SquadId, as_json: Json = False) -> None:
    """Wait for a running squad and print its results."""
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        answer = _followed(link, {"squadId": squad_id, "members": []})
    _print_answer(answer, as_json=as_json)


@options.command(app, "list", "orchestrator squad list")
def list_squads(
    every: Annotated[
        bool, typer.Option("--all", help="Include the members that answered nodes of spawn runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the squads whose results are kept."""
    with DaemonClient(project_here(), start=True) as link:
        listing = link.ask("orchestrator/squads", {})
    if not every:
        listing["squads"] = [squad for squad in listing["squads"] if not squad["spawn_node"]]
    if as_json:
        output.print_json(listing)
        return
    rows = [
        [
            squad["squadId"],
            output.age(squad["created_at"]),
            "ended" if squad["ended_at"] else "running",
            ", ".join(f"{member['roleId']} {member['status']}" for member in squad["members"]),
        ]
        for squad in listing["squads"]
    ]
    output.table(
        ["SQUAD", "AGE", "STATE", "MEMBERS"], rows, empty="no squads; start one: orchestrator squad run ROLE"
    )


@options.command(app, "cancel", "orchestrator squad cancel 1f0c...")
def cancel(squad_id: SquadId, as_json: Json = False) -> None:
    """End the running members of a squad."""
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        answer = link.ask("orchestrator/squad_cancel", {"squad_id": squad_id})
    if as_json:
        output.print_json(answer)
    else:
        output.say(f"{squad_id}: ending its members")


def _given(file: str) -> dict[str, Any]:
    try:
        arguments = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, ValueError) as error:
        raise BadRequest("bad_argument", f"{file} is not JSON: {error}") from error
    if isinstance(arguments, list):
        arguments = {"members": arguments}
    if not isinstance(arguments, dict):
        raise BadRequest("bad_argument", f"{file} contains no object with members")
    return arguments


def _carried_out(arguments: dict[str, Any]) -> dict[str, Any]:
    """Start a squad and follow it to its end; Ctrl-C ends its members."""
    with DaemonClient(project_here(), start=True) as link:
        return _followed(link, arguments)


def _followed(link: DaemonClient, first: dict[str, Any]) -> dict[str, Any]:
    squad_id, line = "", _MemberLine()
    try:
        with interrupt.held_back():  # before the first answer no squad is known whose members could be ended
            answer = link.tool(TOOL, {**first, "wait_ms": 0})
            squad_id = answer["squadId"]
        note = answer.get("untrusted")
        trust.note(note)
        output.warn(f"squad {squad_id}")
        while any(row["status"] == "running" for row in answer["members"]):
            line.show(_state(answer), _detail(answer))
            answer = link.tool(TOOL, {"squadId": squad_id, "members": [], "wait_ms": LOOK_MS}, wait_s=LOOK_MS / 1000)
    except KeyboardInterrupt:
        if squad_id:
            link.ask("orchestrator/squad_cancel", {"squad_id": squad_id})
            line.end()
            output.warn(f"canceled: the members of squad {squad_id} are ended")
        else:
            output.warn("the squad goes on if it has started; see: orchestrator squad list")
        raise
    line.end()
    return answer | ({"untrusted": note} if note else {})


class _MemberLine:
    """How far a squad is: one line that changes on a terminal, a line for each change elsewhere."""

    def __init__(self) -> None:
        self._shown = ""
        self._live = sys.stderr.isatty()

    def show(self, state: str, detail: str) -> None:
        if self._live:
            sys.stderr.write(f"\r\x1b[K{output.printable(f'{state}; {detail}')[:118]}")
            sys.stderr.flush()
        elif state != self._shown:
            output.warn(state)
        self._shown = state

    def end(self) -> None:
        if self._live and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _state(answer: dict[str, Any]) -> str:
    counts: dict[str, int] = {}
    for row in answer["members"]:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def _detail(answer: dict[str, Any]) -> str:
    reasons = [f"{row['roleId']} {row['reason']}" for row in answer["members"] if row["status"] == "running"]
    return ", ".join(reasons)


def _raw(row: dict[str, Any]) -> None:
    """A member's own words; on a terminal without what could command it."""
    for stream, key in ((sys.stdout, "rawStdout"), (sys.stderr, "rawStderr")):
        text = row[key]
        if text and not text.endswith("\n"):
            text += "\n"
        stream.flush()
        shown = output.printable(text) if stream.isatty() else text
        stream.buffer.write(shown.encode("utf-8", "surrogatepass"))
        stream.buffer.flush()
    if row["status"] != "completed":
        output.warn(f"{row['roleId']}: {row['status']}{_why(row)}")


def _why(row: dict[str, Any]) -> str:
    texts = [
        row.get("reason", ""),
        f"exit code {row['exitCode']}" if "exitCode" in row else "",
        row.get("signal", ""),
    ]
    causes = ", ".join(text for text in texts if text)
    return f" ({causes})" if causes else ""


def _print_answer(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
    else:
        for row in answer["members"]:
            chat = f", chat {row['chatId']}" if row.get("chatId") else ""
            output.say(f"--- {row['memberId']} {row['roleId']}: {row['status']}{_why(row)}{chat}")
            _raw({**row, "status": "completed"})
    _leave(answer)


def _leave(answer: dict[str, Any]) -> None:
    raise typer.Exit(0 if all(row["status"] == "completed" for row in answer["members"]) else 1)
