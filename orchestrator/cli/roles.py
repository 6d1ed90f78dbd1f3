"""Commands about roles: list, show, lint. Reads only, needs no daemon."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options, output, trust
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import project_here
from orchestrator.trust.untrusted_settings import untrusted_note

if TYPE_CHECKING:  # loads YAML
    from orchestrator.roles.catalogue import Role, RoleListing

BROKEN = 1

Directory = Annotated[
    str,
    typer.Option(
        "--dir", metavar="DIR", help="Only roles of this directory; default: AGENTS_DIRECTORY_PATH, else all."
    ),
]

app = options.app("List, show and check the roles of agents and squad members.")


@options.command(app, "list", "orchestrator roles list\norchestrator roles list --json | jq -r '.roles[].id'")
def list_roles(directory: Directory = "", as_json: Json = False) -> None:
    """List the roles and the source of each.

    For each id the first file found counts, in the order .agents/roles, agents, the folders of CLIs (such as
    .claude/agents), then the roles shipped with orchestrator. Files that cannot be used are named on stderr.
    """
    listing = _listing(directory)
    warning = untrusted_note({role.file: role.withheld for role in listing.roles.values() if role.withheld})
    trust.note(warning.get("untrusted"))
    if as_json:
        output.print_json(
            {"roles": [_row(role) for role in listing.roles.values()], "broken": _broken(listing), **warning}
        )
        return
    if listing.roles:
        output.table(
            ["ROLE", "SOURCE", "DESCRIPTION"],
            [
                [role.id, role.source, output.short(role.description, 100) or "-"]
                for role in sorted(listing.roles.values(), key=lambda role: role.id)
            ],
        )
    else:
        output.say("no roles")
    for role in listing.broken:
        output.warn(f"{role.file} {role.reason}")


@options.command(app, "show", "orchestrator roles show reviewer")
def show(
    role_id: Annotated[
        str, typer.Argument(metavar="ROLE", help="The role's id: its file name without the extension.")
    ],
    directory: Directory = "",
    as_json: Json = False,
) -> None:
    """Show a role: the keys of its file and the instructions for the model."""
    role = _listing(directory).role(role_id)
    if as_json:
        output.print_json({**_row(role), "keys": dict(role.keys), "body": role.body})
        return
    output.say(f"role:        {role.id}\nfile:        {role.file}")
    for key, value in role.keys.items():
        state = " (not allowed: orchestrator trust)" if key in role.withheld else ""
        output.say(f"{key + ':':<12} {output.short(value, 1000)}{state}")
    output.say(f"\n{role.body}")


@options.command(app, "lint", "orchestrator roles lint\norchestrator roles lint --json | jq '.findings[]'")
def lint(directory: Directory = "", as_json: Json = False) -> None:
    """Check the role files: unusable files, keys without effect, keys that an engine ignores.

    Exit 1 if a file cannot be used.
    """
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415  (not at every start)
    from orchestrator.roles import lint as check  # noqa: PLC0415  (loads YAML)

    listing = _listing(directory)
    rows = check.findings(listing, ENGINES.values())
    if as_json:
        output.print_json({"ok": not listing.broken, "findings": [asdict(row) for row in rows]})
    else:
        for row in rows:
            mark = "✕" if row.kind == "broken" else "·" if row.kind in ("shadowed", "ignored") else "!"
            output.say(f"{mark} {row.file} {row.message}")
        output.say(f"{len(listing.roles)} roles can be used, {len(listing.broken)} files cannot")
    if listing.broken:
        raise typer.Exit(BROKEN)


def _listing(directory: str) -> RoleListing:
    from orchestrator.roles import catalogue  # noqa: PLC0415  (loads YAML)

    if directory:
        return catalogue.read(project_here().root, str(Path(directory).expanduser().absolute()))
    named, warning = catalogue.directory_of(os.environ)
    if warning:
        output.warn(warning)
    return catalogue.read(project_here().root, named)


def _row(role: Role) -> dict[str, Any]:
    fields = {key: getattr(role, key) for key in ("id", "name", "description", "source", "file")}
    return {**fields, "model": role.model, "approval": role.approval, "toolsets": list(role.toolsets)}


def _broken(listing: RoleListing) -> list[dict[str, str]]:
    return [asdict(role) for role in listing.broken]
