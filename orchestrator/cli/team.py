"""Commands about the whole team: bring it to the state its file describes, and end it.

Every change is an idempotent tool call to the daemon: after a kill -9 at any moment the same command leads to the
same team.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.cli import daemon, interrupt, options, output, trust
from orchestrator.cli.agent_choice import shown_names
from orchestrator.cli.agents import DELETE_WAIT_S, READY_WAIT_S
from orchestrator.cli.facts import facts
from orchestrator.cli.options import Json, RunId
from orchestrator.cli.terminal import Terminal
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.trust.untrusted_settings import untrusted_note

if TYPE_CHECKING:  # teamfile loads pydantic, which most commands do without
    from orchestrator.team.roster.team_plan import TeamStep

START_WAIT_MS = 45_000
DONE = {
    "keep": "kept",
    "create": "created",
    "restart": "restarted",
    "recreate": "recreated",
    "end": "ended",
    "leave": "left alone",
    "refuse": "left alone",
}
NOT_THERE = ("exited", "failed", "stopping", "deleted")


def up(
    *,
    file: Annotated[str, typer.Option(metavar="FILE", help="Team file; default: .agents/team.toml.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="Delete and create again each agent that differs from the file.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete the agents that are not in the file.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Let --recreate and --prune cancel unfinished tasks.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until agents are ready.")] = False,
    as_json: Json = False,
) -> None:
    """Make this window's team what its file describes.

    Creates missing agents and restarts failed ones; a second run changes nothing. Asks you to allow the file if it is
    new or has changed. Exit 0: the team is as described; 1: it is not, and each line gives the reason.
    """
    options.refuse_agents()
    from orchestrator.team.roster import team_file, team_plan  # noqa: PLC0415
    from orchestrator.trust.allowed import digest, name_of  # noqa: PLC0415

    place = project_here()
    path = Path(file).absolute() if file else place.root / team_file.TEAM_FILE
    content = team_file.content_of(path)
    described = team_file.parse(path, content, place.root)
    report: dict[str, Any] = {"file": str(path), "dry_run": dry_run}
    errors: dict[TeamStep, str] = {}
    with DaemonClient(place, start=True) as link:
        steps = team_plan.plan(described, _living(link), place.root, recreate=recreate, prune=prune, force=force)
        making = {step.name for step in steps if step.do in ("create", "recreate")}
        # Before any change: a variable that is not set must not leave half a team.
        arguments = {agent.name: agent.arguments(os.environ) for agent in described if agent.name in making}
        name = name_of(place.root, path)  # a file outside the project needs no permission: the user named it
        if name is not None and any(step.do not in ("keep", "leave", "refuse") for step in steps):
            report |= _agreed(link, (name, digest(content)), steps, dry_run=dry_run)
        if dry_run:
            rows = [_intended(step) for step in steps]
        else:
            with interrupt.says(
                "the daemon goes on with the steps that it has begun",
                "see the team: orchestrator status",
                "take the other steps: orchestrator up",
                "end the team: orchestrator down",
            ):
                errors, report["attach"], untrusted = _carry_out(link, steps, arguments, wait=not no_wait)
                report |= {"untrusted": untrusted} if untrusted else {}
                # What was made has been waited for.
                old = {step.name for step in steps if step.do in ("keep", "restart") and not no_wait}
                metas = _living(link, wait_for=old)
            after = team_plan.plan(described, metas, place.root)
            seen = {str(meta["agent_id"]): meta for meta in metas}
            rows = [
                _outcome(step, _same(step, after), seen, errors.get(step, ""), may_start=no_wait) for step in steps
            ]
        ours = {row["agent_id"] for row in rows}
        every = _every(link)
        report["elsewhere"] = [row["agent_id"] for row in every if row["agent_id"] not in ours]
    report["as_described"] = all(row["ok"] for row in rows)
    # What could not be made anew has been ended all the same.
    changed = [step for step in steps if step.do not in ("keep", "leave", "refuse")]
    report["changed"] = not dry_run and any(step.do == "recreate" or step not in errors for step in changed)
    trust.note(report.get("untrusted"))
    if as_json:
        output.print_json({**report, "agents": rows})
    else:
        _show_up(rows, report, shown_names(every))
    raise typer.Exit(0 if report["as_described"] else 1)


def down(
    *,
    run: RunId = "",
    force: Annotated[bool, typer.Option("--force", help="Kill the agents; their running tasks are lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    stop_daemon: Annotated[
        bool, typer.Option("--stop-daemon", help="Also stop the daemon, as daemon stop does.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End the whole team.

    Stops every agent and closes its pane. Unfinished tasks end in canceled; files stay. Exit 0 only if no agent is
    left.
    """
    options.refuse_agents()
    place = project_here()
    rows, survivors = _end_team(place, run, force=force, yes=yes, as_json=as_json)
    stopped = stop_daemon and not survivors
    if stopped:
        daemon.stop_by_hand(place)
    if as_json:
        output.print_json({"ended": not survivors, "agents": rows, "left": survivors, "daemon_stopped": stopped})
    else:
        for agent_id in survivors:
            output.warn(f"{agent_id} still runs; run the command again")
        if not survivors:
            output.say("the team has ended" if rows else "no agent runs: nothing to end")
        if stopped:
            output.say("the daemon has stopped; start it again: orchestrator daemon start")
    raise typer.Exit(1 if survivors else 0)


# -- up ---------------------------------------------------------------------------------------------------------


def _agreed(
    link: DaemonClient, content: tuple[str, str], steps: Sequence[TeamStep], *, dry_run: bool
) -> dict[str, Any]:
    """Ask the human to allow a team file of the project (its name and hash); a note if nobody can be asked."""
    name, sha256 = content

    def plan(terminal: Terminal) -> None:
        terminal.show("orchestrator up would do this:")
        for row in map(_intended, steps):
            why = f": {row['why']}" if row["why"] else ""
            terminal.show(f"{row['do']} {row['name']}{why}".replace("\n", "\\n"), "  ")

    if not dry_run:
        trust.agree(link, name, sha256, plan)
    elif not link.ask("orchestrator/trust_counts", {"file": name, "sha256": sha256})["counts"]:
        return untrusted_note({name: ["agents"]})
    return {}


def _living(link: DaemonClient, wait_for: Collection[str] = ()) -> list[dict[str, Any]]:
    """The metas of this window's agents that are not deleted; those of these names not before they have started."""
    rows = link.tool("agent_list", {})["agents"]
    waits = [row["name"] in wait_for and row["status"] == "starting" for row in rows]
    calls = [
        {"agent_id": row["agent_id"], **({"wait_ms": START_WAIT_MS} if wait else {})}
        for row, wait in zip(rows, waits, strict=True)
    ]
    metas: list[dict[str, Any]] = [{} for _ in rows]
    for at, answer in link.tools("agent_get", calls, wait_s=START_WAIT_MS / 1000):
        if isinstance(answer, OrchestratorError):
            metas[at] = {**rows[at], "unreadable": _sentence(answer)}
        else:
            metas[at] = answer["meta"]
    return [meta for meta in metas if meta["status"] != "deleted"]


def _every(link: DaemonClient) -> list[dict[str, Any]]:
    """The rows of all agents of the project that are not deleted."""
    return [row for row in link.tool("agent_list", {"scope": "all"})["agents"] if row["status"] != "deleted"]


def _carry_out(
    link: DaemonClient, steps: Sequence[TeamStep], arguments: dict[str, dict[str, Any]], *, wait: bool
) -> tuple[dict[TeamStep, str], str | None, dict[str, Any] | None]:
    """Take the steps, ends first because they make room; what each failed with, how to attach, what did not count."""
    errors: dict[TeamStep, str] = {}
    ending = [step for step in steps if step.do in ("end", "recreate") or (step.do == "create" and step.agent_id)]
    restarting = [step for step in steps if step.do == "restart"]
    for tool, batch, wait_s in (
        ("agent_delete", ending, DELETE_WAIT_S),
        ("agent_restart", restarting, READY_WAIT_S),
    ):
        for at, answer in link.tools(tool, [{"agent_id": step.agent_id} for step in batch], wait_s=wait_s):
            if isinstance(answer, OrchestratorError):
                errors[batch[at]] = _sentence(answer)
    making = [step for step in steps if step.do in ("create", "recreate") and step not in errors]
    if not making:
        return errors, None, None
    request: dict[str, Any] = {"agents": [arguments[step.name] for step in making], "only_missing": True}
    if not wait:
        request["ready_wait_ms"] = 0
    try:
        answer = link.tool("agents_create", request, wait_s=READY_WAIT_S)
    except OrchestratorError as error:
        return errors | dict.fromkeys(making, _sentence(error)), None, None
    agents = answer["agents"]
    for step, row in zip(making, agents, strict=True):
        if "error" in row:
            lines = [f"| {line}" for line in row["error"].get("last_lines", [])[-3:]]
            errors[step] = "; ".join([row["error"]["message"], row["error"]["next_step"], *lines])
    return errors, next((row["attach"] for row in agents if row.get("attach")), None), answer.get("untrusted")


def _same(step: TeamStep, after: Sequence[TeamStep]) -> TeamStep | None:
    """What the second look says of the step's agent; None when it is gone."""
    if step.do in ("leave", "end") or (step.do == "refuse" and not step.differs):
        return next((candidate for candidate in after if candidate.agent_id == step.agent_id), None)
    return next((candidate for candidate in after if candidate.name == step.name and candidate.do != "leave"), None)


def _intended(step: TeamStep) -> dict[str, Any]:
    """A row of a dry run."""
    ok = step.do in ("keep", "leave") and not step.differs
    return {
        "name": step.name,
        "agent_id": step.agent_id,
        "do": step.do,
        "ok": ok,
        "differs": list(step.differs),
        "why": _why(step),
    }


def _outcome(
    step: TeamStep, now: TeamStep | None, seen: dict[str, dict[str, Any]], error: str, *, may_start: bool
) -> dict[str, Any]:
    """A row of what was done; ``ok`` only if the second check finds the agent as described."""
    agent_id = now.agent_id if now is not None else step.agent_id
    meta = seen.get(str(agent_id), {})
    status = str(meta.get("status", "deleted" if agent_id else "missing"))
    row = {"name": step.name, "agent_id": agent_id, "do": step.do, "did": DONE[step.do], "status": status}
    differs = list(now.differs) if now is not None else []
    why = error or _why(step if step.do == "refuse" else now)
    if step.do == "leave":
        ok = True
        why = "not in the file"
    elif step.do == "end":
        ok = status == "deleted"
    else:
        there = now is not None and now.do == "keep" and status not in NOT_THERE
        waits = status == "starting" or (status == "blocked" and not meta.get("ready_at"))
        ok = not error and step.do != "refuse" and there and not differs and (may_start or not waits)
        why = why or ("" if ok and status != "blocked" else str(meta.get("reason") or ""))
    if error:
        row["did"] = "failed"
    return {**row, "ok": ok, "differs": differs, "why": why}


def _why(step: TeamStep | None) -> str:
    if step is None:
        return ""
    hint = "; to change it, add --recreate" if step.differs and step.do in ("keep", "restart") else ""
    return "; ".join([*step.differs, *([step.why] if step.why else [])]) + hint


def _sentence(error: OrchestratorError) -> str:
    return f"{error.message}; {error.next_step}" if error.next_step else error.message


def _show_up(rows: list[dict[str, Any]], report: dict[str, Any], names: dict[str, str]) -> None:
    """``names`` are what is shown of living agents; others are shown by their id, or without one by their name."""
    dry = report["dry_run"]
    titles = ["AGENT", "TO DO", "WHY"] if dry else ["AGENT", "DONE", "STATUS", "WHY"]
    output.table(
        titles,
        [
            [
                names.get(row["agent_id"]) or row["agent_id"] or row["name"],
                row["do"] if dry else row["did"],
                *([] if dry else [output.status_word(row["status"])]),
                output.short(row["why"], 200),
            ]
            for row in rows
        ],
        status_column=None if dry else 2,
    )
    if report.get("attach"):
        output.say(f"watch it: {report['attach']}")
    state = "as described" if report["as_described"] else "not as described"
    output.say(f"the team is {state}" + ("" if dry or report["changed"] else "; nothing was changed"))
    if report["elsewhere"]:
        elsewhere = ", ".join(names[agent_id] for agent_id in report["elsewhere"])
        output.warn(f"left alone, because they belong to other windows: {elsewhere}")


# -- down -------------------------------------------------------------------------------------------------------


def _end_team(
    place: Project, run: str, *, force: bool, yes: bool, as_json: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """End every living agent (of that run); a row for each, and the ids of those that live all the same."""
    source = facts(place)
    if run:
        _known_run(place, run)
    if not _of(source.agents(), run):
        return [], []
    with DaemonClient(place, start=True) as link:
        living = _of(_every(link), run)
        _ask(sum(row["queue_depth"] + (row["running_task_id"] is not None) for row in living), force, yes, as_json)
        calls = [
            {"agent_id": row["agent_id"], **({"force": True, "confirm": row["agent_id"]} if force else {})}
            for row in living
        ]
        rows: list[dict[str, Any]] = []
        for at, answer in _ending(link, calls):
            row = {"agent_id": calls[at]["agent_id"], "status": living[at]["status"], "canceled_tasks": []}
            if isinstance(answer, OrchestratorError):
                row["error"] = answer.as_dict()
                shown = f"not ended: {_sentence(answer)}"
            else:
                row |= {key: answer[key] for key in ("status", "canceled_tasks")}
                canceled = ", ".join(answer["canceled_tasks"])
                shown = f"{answer['status']}" + (f", canceled: {canceled}" if canceled else "")
            rows.append(row)
            if not as_json:
                output.say(f"{row['agent_id']}: {shown}")
        return rows, [row["agent_id"] for row in _of(_every(link), run)]


def _ending(
    link: DaemonClient, calls: list[dict[str, Any]]
) -> Iterator[tuple[int, dict[str, Any] | OrchestratorError]]:
    """Ask all of them to end; each answer as it comes."""
    with interrupt.says("the agents go on ending", "see them: orchestrator status"):
        yield from link.tools("agent_delete", calls, wait_s=DELETE_WAIT_S)


def _of(rows: list[dict[str, Any]], run: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["status"] != "deleted" and (not run or row["run_id"] == run)]


def _known_run(place: Project, run: str) -> None:
    from orchestrator.team.roster import offline_view  # noqa: PLC0415

    if run not in {row["run_id"] for row in offline_view.runs(place.root)}:
        raise BadRequest("unknown_run", f"no team run has the id {run!r}", "list them: orchestrator agent list")


def _ask(unfinished: int, force: bool, yes: bool, as_json: bool) -> None:
    """Ask the user to confirm the loss of unfinished tasks and, with ``force``, of the agents' work in progress."""
    if yes or not (unfinished or force):
        return
    tasks = f"{unfinished} unfinished task{'s' * (unfinished != 1)}"
    loss = f"this cancels {tasks}" if unfinished else "--force kills the agents at once"
    if as_json or not sys.stdin.isatty():
        raise BadRequest("confirm_needed", loss, "add --yes")
    if not typer.confirm(f"End the team? {loss[0].upper()}{loss[1:]}.", err=True):
        raise typer.Abort


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    options.command(app, "up", "orchestrator up\norchestrator up --dry-run\norchestrator up --recreate --prune")(up)
    options.command(app, "down", "orchestrator down\norchestrator down --yes --stop-daemon")(down)
