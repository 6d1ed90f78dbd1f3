"""The command that registers our server with an AI CLI, removes it, or prints the entry to write by hand."""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.base.toolsets import DEFAULT_TOOLSETS, GSD, TOOLSETS
from orchestrator.cli import completion, options, output, tmux_setup
from orchestrator.cli.options import Json
from orchestrator.edge import project_location

if TYPE_CHECKING:
    from orchestrator.engines.user_setup import UserSetup

EXAMPLE = (
    "orchestrator setup gemini --dry-run\norchestrator setup claude --hooks\n"
    "orchestrator setup codex --toolsets gsd\norchestrator setup codex --uninstall\n"
    "orchestrator setup tmux --dry-run"
)

BUSY_S = 12.0  # longer than a CLI honours the lock of a dead process: `UserSetup.lock_stale_s`


def setup(  # noqa: PLR0917  (typer calls it by name)
    cli: Annotated[
        str,
        typer.Argument(
            metavar="CLI",
            help="The CLI, such as gemini, claude, codex or opencode; or tmux.",
            autocompletion=completion.clis,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", "--remove", help="Remove what setup added; with --hooks only the hooks.")
    ] = False,
    toolsets: Annotated[
        str,
        typer.Option(
            "--toolsets",
            metavar="LIST",
            help="Toolsets of the entry, of team,squad,smartspawn,gsd; default: those it has, else team,squad. gsd "
            "alone makes a separate entry.",
        ),
    ] = "",
    in_settings: Annotated[
        bool,
        typer.Option("--settings", help="claude: write gsd into ~/.claude/settings.json, for tools that read it."),
    ] = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also add the turn-end hook: an idle master waits without model turns.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also replace parts that were edited by hand.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the snippets for manual use; write nothing.")] = False,
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="tmux: the key after the prefix that opens top; none: no key.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Register the server with an AI CLI, for the user.

    Changes the CLI's own configuration: one entry and, with --hooks, its hooks; for tmux two lines: the number of
    agents that need you in the status line, and a key that opens top in a popup. The rest of the file stays
    unchanged, a backup is kept next to it, and a second run changes nothing.
    """
    from orchestrator.engines.table import SETUPS  # noqa: PLC0415
    from orchestrator.setup import registration  # noqa: PLC0415

    if cli == tmux_setup.NAME:
        if toolsets or in_settings or hooks:
            raise BadRequest("bad_argument", "tmux takes no toolsets, settings or hooks", "leave the option out")
        if show:
            tmux_setup.print_lines(key, as_json)
            return
        if not dry_run:
            options.refuse_agents()
        (changed,) = _patiently(lambda: tmux_setup.change(key, uninstall=uninstall, force=force, dry=dry_run))
        tmux_setup.print_change(changed, dry_run, as_json)
        return
    if key:
        raise BadRequest("bad_argument", "--key is for tmux", "orchestrator setup tmux --key M-o")
    if cli not in SETUPS:
        known = ", ".join([*SETUPS, tmux_setup.NAME])
        raise BadRequest("bad_argument", f"setup does not support {cli!r}", f"give one of: {known}")
    user_setup = SETUPS[cli]
    chosen = _chosen(user_setup, toolsets, in_settings=in_settings, hooks=hooks)
    if show:
        _print(cli, user_setup, chosen, in_settings, as_json)
        return
    if not dry_run:
        options.refuse_agents()
    done = _patiently(
        lambda: (
            registration.unregister(
                user_setup,
                os.environ,
                only_hooks=hooks,
                toolsets=chosen,
                in_settings=in_settings,
                force=force,
                dry=dry_run,
            )
            if uninstall
            else registration.register(
                user_setup,
                os.environ,
                with_hooks=hooks,
                toolsets=chosen,
                in_settings=in_settings,
                force=force,
                dry=dry_run,
            )
        )
    )
    notes = list(_notes(cli, user_setup, hooks, uninstall, in_settings))
    if as_json:
        files = [_as_dict(user_setup, change) for change in done]
        output.print_json({"cli": cli, "dry_run": dry_run, "files": files, "notes": notes})
        return
    _print_changes(user_setup, done, dry_run, uninstall)
    for note in notes:
        output.say(f"note: {note}")


def _chosen(cli: UserSetup, names: str, *, in_settings: bool, hooks: bool) -> tuple[str, ...] | None:
    """The requested toolsets, None if none; BadRequest ``bad_argument`` for options that exclude each other."""
    from orchestrator.engines.table import SETUPS  # noqa: PLC0415
    from orchestrator.setup import entries  # noqa: PLC0415

    toolsets = entries.chosen(names) if names else (GSD,) if in_settings else None
    if names and toolsets is None:
        known = ",".join(TOOLSETS)
        raise BadRequest(
            "bad_argument", f"--toolsets {names!r} is not a list of toolsets", f"give each once, from: {known}"
        )
    if in_settings and (not cli.gsd_in_settings or toolsets != (GSD,)):
        fit = {name: other.title for name, other in SETUPS.items() if other.gsd_in_settings}
        raise BadRequest(
            "bad_argument",
            f"--settings is for {' or '.join(fit.values())} and the toolset gsd",
            f"orchestrator setup {next(iter(fit))} --settings",
        )
    if hooks and toolsets is not None and "team" not in toolsets:
        raise BadRequest(
            "bad_argument",
            "--hooks needs the toolset team",
            "leave out --hooks, or add team to --toolsets",
        )
    return toolsets


def _patiently(work: Callable[[], list[Any]]) -> list[Any]:
    """Retry ``work`` until the file is free: some CLIs lock their own file for short times."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            return work()
        except NotReady:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "setup", EXAMPLE)(setup)


def _print_changes(cli: UserSetup, done: list[Any], dry_run: bool, uninstall: bool) -> None:
    changed: list[Any] = []
    for file in done:
        for change in file.changes:
            name = ".".join(change.path)
            if change.action in ("kept", "absent"):
                state = "is not there" if change.action == "absent" else "is as it should be"
                if change.edited:
                    state = "starts this installation; your edits are kept"
                output.say(f"{file.path}: {name} {state}")
                continue
            changed.append(change)
            output.say(f"{file.path}: {name} {'would be ' if dry_run else ''}{change.action}")
            for line in _diff(cli, change):
                output.say(f"  {line}")
        if file.backup:
            output.say(f"  backup: {file.backup}")
    names = [f"`{change.path[-1]}`" for change in changed if change.what == "entry"]
    if not changed:
        output.say("nothing to change")
    elif names and not dry_run:
        step = "no longer offers" if uninstall else "offers"
        several = "s" if len(names) > 1 else ""
        output.say(f"When next started, {cli.title} {step} the server{several} {' and '.join(names)}.")


def _diff(cli: UserSetup, change: Any) -> Iterator[str]:
    """The lines of a part before and after, as a diff without its head."""
    from orchestrator.setup import entries  # noqa: PLC0415

    part = entries.EntryPart(change.what, change.path, {}, change.what.startswith("hook"))
    before, after = (
        [] if value is None else entries.shown(cli, part, entries.without_secrets(value)).splitlines()
        for value in (change.before, change.after)
    )
    yield from (line for line in difflib.ndiff(before, after) if not line.startswith("?"))


def _as_dict(cli: UserSetup, file: Any) -> dict[str, Any]:
    return {
        "file": str(file.path),
        "written": file.written,
        "backup": str(file.backup) if file.backup else None,
        "changes": [
            {
                "what": change.what,
                "path": list(change.path),
                "action": change.action,
                "edited": change.edited,
                "diff": [] if change.action in ("kept", "absent") else list(_diff(cli, change)),
            }
            for change in file.changes
        ],
    }


def _notes(name: str, cli: UserSetup, hooks: bool, uninstall: bool, in_settings: bool) -> Iterator[str]:
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415

    if uninstall:
        return
    if in_settings:
        yield "this form is for tools that follow the GSD MCP architecture document"
        yield from cli.settings_notes
        return
    program = ENGINES[name].program
    if shutil.which(program) is None:
        yield f"{program} is not on PATH; the file is ready for when it is installed"
    if hooks and not cli.hook_events:
        yield f"{cli.title} has no turn-end hook; as master it waits with broadcast_read"
    elif hooks:
        yield from cli.hook_notes
    yield from cli.notes


def _print(name: str, cli: UserSetup, chosen: tuple[str, ...] | None, in_settings: bool, as_json: bool) -> None:
    from orchestrator.setup import config_locations, entries, registration  # noqa: PLC0415

    entry, hooks = registration.parts_of(cli, chosen or DEFAULT_TOOLSETS)
    servers, settings = (
        f"{config_locations.server_file(cli, os.environ)}",
        f"{config_locations.hooks_file(cli, os.environ)}",
    )
    if in_settings:
        part = registration.settings_part()
        snippets = [("gsd", settings, entries.shown(cli, part, part.value))]
    elif entry.path[-1] == GSD:
        snippets = [("gsd", servers, entries.shown(cli, entry, entry.value))]
    else:
        agent = entries.for_agents(cli, [*project_location.own_command("mcp"), "--agent"])
        snippets = [
            ("master", servers, entries.shown(cli, entry, entry.value)),
            *(("hook", settings, entries.shown(cli, part, part.value)) for part in hooks),
            ("agent", "", agent),
        ]
    if as_json:
        rows = [{"for": what, "file": file or None, "text": text} for what, file, text in snippets]
        output.print_json({"cli": name, "snippets": rows})
        return
    heads = {
        "master": "The master's entry, in",
        "gsd": "The entry of gsd alone, in",
        "hook": "The master's turn-end hook (optional), in",
        "agent": "A sub-agent that you start by hand: only its two tools. "
        "Agents that orchestrator starts get this by themselves.",
    }
    for what, file, text in snippets:
        output.say(f"# {heads[what]} {shlex.quote(file) if file else ''}".rstrip())
        output.say(text.rstrip("\n") + "\n")
