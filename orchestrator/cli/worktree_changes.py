"""Commands about what an agent did in its worktree: diff and merge. They need no daemon."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from orchestrator.cli import options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import facts
from orchestrator.cli.options import AgentWord, Json
from orchestrator.faces.daemon_client import project_here

CONFLICTS = 1
_COLORS = {"+": "32", "-": "31", "@": "36"}


def diff(
    agent: AgentWord,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files and how many lines changed.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an agent changed in its worktree.

    Uncommitted changes are included. In a pipe it prints git's patch unchanged; new files that git does not know yet
    are named on stderr.
    """
    from orchestrator.team.worktrees import changes  # noqa: PLC0415  (loads the git commands)

    place = project_here()
    agent_id = chosen(facts(place), agent).agent_id
    change = changes.diff(place.root, agent_id, stat=stat)
    text = change.text.decode("utf-8", "replace")
    if as_json:
        output.print_json(
            {
                "agent_id": agent_id,
                "base": change.base,
                "diff": text,
                "cut": change.cut,
                "untracked": change.untracked,
            }
        )
        return
    if sys.stdout.isatty():
        _print_colored(text)
    else:
        sys.stdout.buffer.write(change.text)
        sys.stdout.flush()
    for name in change.untracked:
        output.warn(f"new file, not added yet: {name}")
    if change.cut:
        output.warn("the diff is longer than can be shown; see git diff in the worktree")
    if not change.text and not change.untracked:
        output.warn(f"{agent_id} has changed nothing")


def _print_colored(text: str) -> None:
    """The diff with colours of ours; control characters of the files are made visible."""
    plain = bool(os.environ.get("NO_COLOR"))
    for line in text.removesuffix("\n").split("\n") if text else []:
        shown = output.printable(line.expandtabs(8))
        color = None if plain or line.startswith(("+++", "---")) else _COLORS.get(line[:1])
        sys.stdout.write(f"\x1b[{color}m{shown}\x1b[0m\n" if color else f"{shown}\n")


def merge(
    agent: AgentWord,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    as_json: Json = False,
) -> None:
    """Merge an agent's commits into the project's branch.

    That is the branch that the project has checked out. Nothing is changed if there is a conflict or the project has
    uncommitted changes. Runs no hooks of git. With --dry-run exit 1 if there are conflicts. Needs git 2.38.
    """
    from orchestrator.team.worktrees import changes  # noqa: PLC0415  (loads the git commands)

    if not dry_run:
        options.refuse_agents()
    place = project_here()
    root, agent_id = place.root, chosen(facts(place), agent).agent_id
    answer = changes.merge_preview(root, agent_id) if dry_run else changes.merge(root, agent_id)
    if as_json:
        output.print_json(answer)
    else:
        _show_merge(answer, agent_id, dry_run=dry_run)
    raise typer.Exit(0 if answer["clean"] else CONFLICTS)


def _show_merge(answer: dict[str, Any], agent_id: str, *, dry_run: bool) -> None:
    commits = answer["commits"]
    number = output.counted(len(commits), "commits")
    if not commits:
        output.say(f"{answer['branch']} has nothing that {answer['into']} does not have")
    elif dry_run:
        verdict = (
            "merge cleanly" if answer["clean"] else f"conflict in {output.counted(len(answer['conflicts']), 'files')}"
        )
        output.say(f"{number} of {answer['branch']} would {verdict} into {answer['into']}")
    else:
        output.say(f"merged {number} of {answer['branch']} into {answer['into']}: {answer['merged']}")
    for commit in commits:
        output.say_line(f"  {commit['commit']} {commit['subject']}")
    for name in answer["conflicts"]:
        output.say_line(f"  conflict: {name}")
    if answer["uncommitted"]:
        names = ", ".join(answer["uncommitted"])
        output.warn(f"not in any commit of {agent_id}, so not merged: {names}; see: orchestrator diff {agent_id}")
    if answer["operation"]:
        output.warn(f"a {answer['operation']} is in progress in the worktree of {agent_id}")


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    options.command(app, "diff", "orchestrator diff builder --stat\norchestrator diff builder | git apply")(diff)
    options.command(app, "merge", "orchestrator merge builder --dry-run\norchestrator merge builder")(merge)
