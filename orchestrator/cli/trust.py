"""The command that allows files of a project to act: shows what they would do, then asks the user at the terminal.

The daemon finds, judges and stores; this file shows and asks. Nothing is read from stdin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.cli.terminal import Terminal
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.trust.untrusted_settings import untrusted

ROUNDS = 5
"""How often the files are shown again if they change during the question."""
REFUSED = 1
KINDS = {
    "config": "the project's settings",
    "team": "the team file: agents that orchestrator up would start",
    "role": "a role",
    "template": "a template: the command line of squad members",
}
FLEET_NOTE = "who may write into the database of a fleet may start programs on every host that accepts it"


def trust(
    *,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Further templates or team files (.toml) of the project."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be allowed, and its digest.")
    ] = False,
    expect: Annotated[
        str,
        typer.Option(
            "--expect",
            metavar="DIGEST",
            help="Allow the content with this digest without asking (needs trust_by_digest).",
        ),
    ] = "",
    listing: Annotated[bool, typer.Option("--list", help="List the allowed files.")] = False,
    revoke: Annotated[
        str, typer.Option("--revoke", metavar="FILE|all", help="Revoke the permission of a file, or of all.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Allow what files of this project may do: settings, team, roles.

    Shows the changes since each file was last allowed, and asks on the terminal. Refused in a process started by an
    AI CLI. Exit 1 if you do not agree.
    """
    if sum(map(bool, (dry_run, expect, listing, revoke))) > 1:
        raise BadRequest("bad_argument", "only one of --dry-run, --expect, --list and --revoke can be given")
    if not (dry_run or listing):
        refuse_others()
    place = project_here()
    request = _named(place, files or [])
    with DaemonClient(place, start=True) as link:
        if listing:
            _show_list(link.ask("orchestrator/trust_list", {}), as_json=as_json)
        elif revoke:
            _take_back(link, place, revoke, as_json=as_json)
        elif dry_run:
            _show_only(link.ask("orchestrator/trust_preview", request), as_json=as_json)
        elif expect:
            _print_outcome(
                link.ask("orchestrator/trust_allow", {**request, "digest": expect, "expect": True}), as_json=as_json
            )
        else:
            _ask_for_all(link, request, as_json=as_json)


def refuse_others() -> None:
    """BadRequest ``trust_refused`` in a process that an AI CLI has started; the daemon checks it again."""
    from orchestrator.project_trust import trust_authority  # noqa: PLC0415  (loads much)

    trust_authority.refuse(trust_authority.chain_of(os.getpid()))


def agree(link: DaemonClient, name: str, sha256: str, intro: Callable[[Terminal], None]) -> None:
    """Make sure that this content of a team file is allowed: ask on the terminal, after ``intro``, if it is not.

    Environment ``untrusted_setting`` if nobody can be asked or the answer is no; BadRequest ``trust_refused`` in a
    process of an AI CLI; Conflict ``trust_changed`` if the file has changed meanwhile.
    """
    if link.ask("orchestrator/trust_counts", {"file": name, "sha256": sha256})["counts"]:
        return
    refusal = untrusted({name: ["agents"]})
    try:
        terminal = Terminal()
    except BadRequest:
        raise refusal from None
    with terminal:
        refuse_others()
        request = {"teams": [name], "only": [name]}
        shown = link.ask("orchestrator/trust_preview", {**request, "asking": True})
        if [row["sha256"] for row in shown["files"]] != [sha256]:
            raise Conflict("trust_changed", f"{name} changed while it was shown", "run it again")
        intro(terminal)
        _review(terminal, shown)
        if not terminal.agreed("Allow this content, and carry it out?"):
            raise Environment(refusal.code, "nothing was done: the team file was not allowed", **refusal.facts)
        link.ask("orchestrator/trust_allow", {**request, "digest": shown["digest"]})


def note(warning: dict[str, Any] | None) -> None:
    """One line on stderr about settings that do not count, if an answer has such a part (``untrusted``)."""
    if warning:
        output.warn(f"{warning['message']}; {warning['next_step']}".replace("\n", " "))


def _named(place: Project, files: Sequence[str]) -> dict[str, Any]:
    """The files of a command line by their names in the project."""
    from orchestrator.trust.allowed import name_of  # noqa: PLC0415

    teams: list[str] = []
    templates: list[str] = []
    for file in files:
        name = name_of(place.root, Path(file).absolute())
        if name is None:
            raise BadRequest("path_escape", f"{file} is not a file of {place.root}: it needs no permission")
        if not Path(file).is_file():
            raise BadRequest("bad_argument", f"{file} is not a file", "correct the path, then run it again")
        (teams if name.endswith(".toml") else templates).append(name)
    return {"teams": teams, "templates": templates}


def _ask_for_all(link: DaemonClient, request: dict[str, Any], *, as_json: bool) -> None:
    """Show and ask until nothing is left, or the human does not agree."""
    done: dict[str, Any] = {"ok": True, "allowed": [], "adopted": 0, "left": 0}
    rounds = 0
    while True:
        shown = link.ask("orchestrator/trust_preview", {**request, "asking": True})
        if not (shown["files"] or shown["data"]):
            break
        # Without anything to ask no terminal is needed.
        with Terminal() as terminal:
            _review(terminal, shown)
            if not terminal.agreed("Allow this?"):
                if as_json:
                    output.print_json({**done, "ok": False})
                else:
                    output.say("nothing was allowed" if not done["allowed"] else "nothing more was allowed")
                raise typer.Exit(REFUSED)
        try:
            answer = link.ask("orchestrator/trust_allow", {**request, "digest": shown["digest"]})
        except Conflict as error:
            rounds += 1
            if error.code != "trust_changed" or rounds >= ROUNDS:
                raise
            output.warn("the files have changed meanwhile; please review again")
            continue
        done["allowed"] = sorted({*done["allowed"], *answer["allowed"]})
        done["adopted"] += answer["adopted"]
        if not answer["left"]:
            break
    for problem in shown["problems"]:
        output.warn(f"{problem['file']} cannot be allowed: {problem['reason']}".replace("\n", " "))
    _print_outcome(done, as_json=as_json)


def _review(terminal: Terminal, shown: dict[str, Any]) -> None:
    """All that would count, and at the end the keys alone: a long file must not push them out of sight."""
    for row in shown["files"]:
        before = "changed since it was allowed" if row["changed"] else "never allowed before"
        terminal.show(f"\n{_line(row['file'])}: {KINDS.get(row['kind'], row['kind'])}, {before}")
        terminal.show(row["diff"], "    | ")
    for item in shown["data"]:
        terminal.show(f"\n{_line(str(item['kind']))} {_value(item['name'])}, not made on this machine:")
        for key, value in item.items():
            _show_fact(terminal, str(key), value)
    terminal.show("\nThis would count from now on:")
    for row in shown["files"]:
        for key, value in row["keys"].items():
            terminal.show(f"{_line(row['file'])}: {_line(key)} = {_value(value)}", "  ")
        if _about_a_fleet(row):
            terminal.show(FLEET_NOTE, "  ")
    if shown["data"]:
        terminal.show(f"{output.counted(len(shown['data']), 'pieces')} of team data", "  ")
    if shown["left"]:
        terminal.show(f"{output.counted(shown['left'], 'files')} more come after this", "  ")
    terminal.show(f"digest {shown['digest']}")


def _about_a_fleet(row: dict[str, Any]) -> bool:
    return row["kind"] == "config" and any(key.startswith("fleet_") for key in row["keys"])


def _show_fact(terminal: Terminal, key: str, value: Any) -> None:
    """One fact of team data; of a list of tables each in a line of its own."""
    if isinstance(value, list) and value and all(isinstance(table, dict) for table in value):
        terminal.show(f"{_line(key)}:", "    | ")
        for table in value:
            terminal.show(_value(table), "    |   ")
    elif key not in ("kind", "name") and value is not None:
        terminal.show(f"{_line(key)}: {_value(value)}", "    | ")


def _line(text: str) -> str:
    return text.replace("\n", "\\n")


def _value(value: Any) -> str:
    """A value in full, on one line: nobody agrees to what is cut off."""
    return json.dumps(value, ensure_ascii=False)


def _show_only(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(shown)
        return
    for row in shown["files"]:
        output.say_line(f"{row['file']}: {KINDS.get(row['kind'], row['kind'])}")
        for line in row["diff"].split("\n"):
            output.say_line(f"    | {line}")
        for key, value in row["keys"].items():
            output.say_line(f"  {key} = {_value(value)}")
        if _about_a_fleet(row):
            output.say_line(f"  {FLEET_NOTE}")
    for item in shown["data"]:
        output.say_line(f"team data: {_value(item)}")
    for problem in shown["problems"]:
        output.warn(f"{problem['file']} cannot be allowed: {problem['reason']}".replace("\n", " "))
    output.say(f"digest {shown['digest']}" if shown["files"] or shown["data"] else "nothing to allow")


def _show_list(listing: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(listing)
        return
    if listing["files"]:
        output.table(
            ["FILE", "STATE", "ALLOWED", "SHA-256"],
            [[row["file"], row["state"], output.age(row["at"]), row["sha256"][:16]] for row in listing["files"]],
        )
    else:
        output.say("nothing is allowed")
    for name in listing["waiting"]:
        output.say_line(f"not allowed: {name}")


def _take_back(link: DaemonClient, place: Project, file: str, *, as_json: bool) -> None:
    from orchestrator.trust.allowed import name_of  # noqa: PLC0415

    # As --list shows it, or as seen from here.
    names = [file] if file == "all" else [file, name_of(place.root, Path(file).absolute()) or file]
    for name in dict.fromkeys(names):
        answer = link.ask("orchestrator/trust_revoke", {"file": name})
        if answer["revoked"]:
            break
    if as_json:
        output.print_json(answer)
    else:
        for name in answer["revoked"]:
            output.say_line(f"no longer allowed: {name}")
        if not answer["revoked"]:
            output.say("nothing was revoked: it was not allowed")


def _print_outcome(done: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(done)
        return
    for name in done["allowed"]:
        output.say_line(f"allowed: {name}")
    if done["adopted"]:
        output.say(f"adopted: {output.counted(done['adopted'], 'pieces')} of team data")
    if not (done["allowed"] or done["adopted"]):
        output.say("nothing to allow")


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    example = (
        "orchestrator trust\norchestrator trust --dry-run\norchestrator trust --list\norchestrator trust --revoke all"
    )
    options.command(app, "trust", example)(trust)
