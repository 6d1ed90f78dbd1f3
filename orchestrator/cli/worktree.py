"""Commands about the agents' git worktrees: list, merge-check, remove.

What only looks works without a daemon; a removal is the daemon's, which knows who lives.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orchestrator.cli import options, output
from orchestrator.cli.daemon_client import DaemonClient, project_here
from orchestrator.cli.facts import facts
from orchestrator.cli.options import AgentId, Json

CONFLICTS = 1
REMOVE_WAIT_S = 300.0  # the daemon may be making worktrees for others

app = options.app("See and remove the git worktrees of agents.")


@options.command(
    app, "list", "orchestrator worktree list\norchestrator worktree list --json | jq '.worktrees[] | select(.dirty)'"
)
def list_worktrees(as_json: Json = False) -> None:
    """List the worktrees of all agents.

    What each is ahead of the project's last commit, and whether it holds what is not committed. One that belongs to
    no agent was left by a daemon that was killed, or its agent's data is gone.
    """
    from orchestrator.team.worktrees import inspection  # noqa: PLC0415  (loads pydantic)

    place = project_here()
    rows = inspection.listed(place.root)
    source = facts(place)
    statuses = {row["agent_id"]: row["status"] for row in source.agents()} if rows else {}
    for row in rows:
        row["status"] = statuses.get(row["agent_id"]) if row["recorded"] else None
    if as_json:
        output.print_json({"live": source.live, "worktrees": rows})
        return
    if not rows:
        output.say("no worktrees; orchestrator agent create NAME --role ROLE --worktree makes one")
        return
    output.table(
        ["AGENT", "STATUS", "BRANCH", "AHEAD", "BEHIND", "FILES", "STATE", "PATH"],
        [
            [
                row["agent_id"],
                output.status_word(row["status"]) if row["status"] else "no agent",
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
        output.warn("no daemon answers: this is what files and git say")


def _state(row: dict[str, Any]) -> str:
    """All there is to say of a worktree before one removes or merges it."""
    if row.get("error"):
        return output.short(str(row["error"]), 60)
    words = ["dirty" if row["dirty"] else "clean"]
    if row["operation"]:
        words.append(f"{row['operation']} under way")
    if row["locked"]:
        words.append("locked")
    if row["merged"]:
        words.append("merged")
    if row["branch"] and row["on"] != row["branch"]:
        words.append(f"on {row['on'] or 'no branch'}")
    return ", ".join(words)


@options.command(app, "merge-check", "orchestrator worktree merge-check builder --into main")
def merge_check(
    agent_id: AgentId,
    into: Annotated[str, typer.Option(metavar="BRANCH", help="Merge into this; default: the project's HEAD.")] = "",
    as_json: Json = False,
) -> None:
    """Try the merge of an agent's branch, changing nothing.

    Exit 0 if it merges cleanly, 1 with the files in conflict if not. Needs git 2.38.
    """
    from orchestrator.team.worktrees import inspection  # noqa: PLC0415  (loads pydantic)

    found = inspection.merge_check(project_here().root, agent_id, into)
    if as_json:
        output.print_json(found)
    else:
        verdict = "merges cleanly" if found["clean"] else f"conflicts in {len(found['conflicts'])} files"
        output.say(f"{found['branch']} into {found['into']}: {verdict}")
        for name in found["conflicts"]:
            output.say(f"  {name}")
        if found["dirty"]:
            output.warn("the worktree is dirty: what is not committed was not checked")
        if found["operation"]:
            output.warn(f"a {found['operation']} is under way in the worktree")
    raise typer.Exit(0 if found["clean"] else CONFLICTS)


@options.command(app, "remove", "orchestrator worktree remove builder")
def remove(agent_id: AgentId, as_json: Json = False) -> None:
    """Remove the worktree of a deleted agent.

    Refused while it holds what is not committed. Its branch goes too if that loses no commit.
    """
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        done = link.ask("orchestrator/worktree", {"agent_id": agent_id}, wait_s=REMOVE_WAIT_S)
    if as_json:
        output.print_json(done)
        return
    output.say(f"{agent_id}: removed {done['path']}" + f" and branch {done['branch']}" * bool(done["branch_removed"]))
    if done["note"]:
        output.warn(done["note"])
