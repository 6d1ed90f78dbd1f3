"""Options that several commands share, the declaration of a command, and the refusal of agents."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import completion
from orchestrator.cli.command_groups import CommandGroup
from orchestrator.edge.project_location import MEMBER_ENV
from orchestrator.trust import launched

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, errors included.")]
AgentWord = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        help="The agent's name or id; id:ID means exactly that agent, even if it was deleted.",
        autocompletion=completion.agents,
    ),
]
RunId = Annotated[str, typer.Option("--run", metavar="RUN", help="Only this team run.")]
Since = Annotated[int, typer.Option("--since", metavar="SEQ", min=0, help="Only records after this sequence number.")]
Last = Annotated[int, typer.Option("-n", "--last", metavar="N", min=0, help="Only the last N records; 0: all.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Keep printing new records until Ctrl-C.")]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Setting that overrides files and environment; repeatable."),
]

Command = Callable[..., None]


def app(about: str, group: type[CommandGroup] = CommandGroup) -> typer.Typer:
    """A group of commands with plain help, which is fast and easy to copy."""
    return typer.Typer(
        cls=group,
        help=about,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def command(group: typer.Typer, name: str, example: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare a command; its help ends with ``example`` (one command line per line)."""
    epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())
    return group.command(name, epilog=epilog, **settings)


def refuse_agents(*, changes: bool = True) -> None:
    """BadRequest ``not_for_agents`` inside an agent or a squad member: only the master may change the team.

    With ``changes`` also BadRequest ``origin_unknown`` if the origin of the process is unknown. The daemon applies
    the same rules; this check covers what a command does without the daemon.
    """
    agent_id = os.environ.get("ORCHESTRATOR_AGENT_ID")
    if agent_id:
        raise BadRequest("not_for_agents", f"this runs inside agent {agent_id}, which may not change the team")
    member_id = os.environ.get(MEMBER_ENV)
    if member_id:
        message = f"this runs inside squad member {member_id}, which may not change the team"
        raise BadRequest("not_for_agents", message, "finish your own task and return its result")
    origin = launched.own_origin()
    if origin.kind == "agent":
        named = ", ".join(sorted(name for _, name in origin.agents))
        raise BadRequest("not_for_agents", f"this runs inside agent {named}, which may not change the team")
    if origin.kind == "member":
        message = "this runs inside a squad member, which may not change the team"
        raise BadRequest("not_for_agents", message, "finish your own task and return its result")
    if origin.kind == "unknown" and changes:
        raise BadRequest("origin_unknown", "an agent may have started this command, so it may only read")


def words(line: str, option: str) -> list[str]:
    """A command line as words, split as a shell would; BadRequest ``bad_argument`` if a quote is not closed."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadRequest("bad_argument", f"{option} {line!r} is not a command line: {error}") from None


def pairs(items: list[str], option: str) -> dict[str, str]:
    """``KEY=VALUE`` items as a dict; BadRequest ``bad_argument`` for an item without a name or equals sign."""
    out: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadRequest("bad_argument", f"{option} {item!r} is not KEY=VALUE")
        out[key] = value
    return out
