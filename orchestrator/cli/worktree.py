"""Commands about the agents' git worktrees: list, merge-check, remove.

list and merge-check work without a daemon. The daemon removes worktrees, because it knows which agents are alive.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import Facts, FromDaemon, facts
from orchestrator.cli.options import AgentWord, Json
from orchestrator.faces.daemon_client import DaemonClient, project_here

CONFLICTS = 1
REMOVE_WAIT_S = 300.0  # the daemon may be making worktrees for others

app = options.app("List, check and remove the git worktrees of agents.")


@options.command(
    app, "list", "orchestrator worktree list\norchestrator worktree list --json | jq '.worktrees[] | select(.dirty)'"
)
def list_worktrees(as_json: Json = False) -> None:
    """List the worktrees of all agents.

    Shows how far each is ahead of the project's last commit and whether it has uncommitted changes. One without an
    agent was left by a killed daemon, or its agent's data was removed.
    """
    from orchestrator.team.worktrees import inspection  # noqa: PLC0415  (loads the git commands)

    place = project_here()
    rows = inspection.listed(place.root)
    source = facts(place)
    agents = {row["agent_id"]: row for row in [*source.agents(), *source.snapshot()["agents"]]} if rows else {}
    for row in rows:
        row["status"] = agents[row["agent_id"]]["status"] if row["recorded"] and row["agent_id"] in agents else None
    if as_json:
        output.print_json({"live": source.live, "worktrees": rows})
        return
    if not rows:
        output.say("no worktrees; make one: orchestrator agent create NAME --role ROLE --worktree")
        return
    output.table(
        ["AGENT", "STATUS", "BRANCH", "AHEAD", "BEHIND", "FILES", "STATE", "PATH"],
        [
            [
                row["agent_id"],
                output.state_word(agents[row["agent_id"]]) if row["status"] else "no agent",
                row["branch"] or "-",
                *(str(row.get(key, "-")) for key in ("ahead", "behind", "files_changed")),
                _state(row),
                row["path"],
            ]
            for row in rows
        ],
        status_column=1,
    )
    if not source.live:
        output.warn("no daemon answers: shown from files and git")


def _state(row: dict[str, Any]) -> str:
    """The state of a worktree that matters before it is removed or merged, in a few words."""
    if row.get("error"):
        return output.short(str(row["error"]), 60)
    words = ["dirty" if row["dirty"] else "clean"]
    if row["operation"]:
        words.append(f"{row['operation']} in progress")
    if row["locked"]:
        words.append("locked")
    if row["merged"]:
        words.append("merged")
    if row["branch"] and row["on"] != row["branch"]:
        words.append(f"on {row['on'] or 'no branch'}")
    return ", ".join(words)


@options.command(app, "merge-check", "orchestrator worktree merge-check builder --into main")
def merge_check(
    agent: AgentWord,
    into: Annotated[str, typer.Option(metavar="BRANCH", help="Target branch; default: the project's HEAD.")] = "",
    as_json: Json = False,
) -> None:
    """Check whether an agent's branch merges cleanly; changes nothing.

    Exit 0 if it does, 1 if not, with the files in conflict. Needs git 2.38.
    """
    from orchestrator.team.worktrees import inspection  # noqa: PLC0415  (loads the git commands)

    place = project_here()
    check = inspection.merge_check(place.root, _owner(facts(place), place.root, agent), into)
    if as_json:
        output.print_json(check)
    else:
        verdict = "merges cleanly" if check["clean"] else f"conflicts in {len(check['conflicts'])} files"
        output.say(f"{check['branch']} into {check['into']}: {verdict}")
        for name in check["conflicts"]:
            output.say(f"  {name}")
        if check["dirty"]:
            output.warn("the worktree is dirty: uncommitted changes were not checked")
        if check["operation"]:
            output.warn(f"a {check['operation']} is in progress in the worktree")
    raise typer.Exit(0 if check["clean"] else CONFLICTS)


@options.command(app, "remove", "orchestrator worktree remove builder")
def remove(agent: AgentWord, as_json: Json = False) -> None:
    """Remove the worktree of a deleted agent.

    Refused while it has uncommitted changes. Also removes the branch if no commit is lost.
    """
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        agent_id = _owner(FromDaemon(link), link.place.root, agent, ended=True)
        done = link.ask("orchestrator/worktree", {"agent_id": agent_id}, wait_s=REMOVE_WAIT_S)
    if as_json:
        output.print_json(done)
        return
    output.say(f"{agent_id}: removed {done['path']}" + f" and branch {done['branch']}" * bool(done["branch_removed"]))
    if done["note"]:
        output.warn(done["note"])


def _owner(source: Facts, root: Path, word: str, *, ended: bool = False) -> str:
    """The id of the agent whose worktree the word means; with ``ended`` of the deleted ones, if one has a worktree.

    Also a worktree that no agent is known of can be named, by its directory.
    """
    from orchestrator.team.roster import agent_names  # noqa: PLC0415
    from orchestrator.team.worktrees import inspection  # noqa: PLC0415  (loads the git commands)

    rows = source.agents()
    home = inspection.home(root)
    having = [row for row in rows if os.path.lexists(home / row["agent_id"])]
    choice = agent_names.choose((row for row in having if not ended or row["status"] == "deleted"), word)
    if choice is not None:
        if choice.agent_id != word.removeprefix(agent_names.EXACT):
            output.warn(f"{word} is agent {choice.agent_id}")
        return choice.agent_id
    leftover = not any(row["agent_id"] == word for row in rows) and "/" not in word and os.path.lexists(home / word)
    return word if leftover else chosen(source, word).agent_id
