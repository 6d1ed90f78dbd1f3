"""Build the tree of all commands, run one command line, and turn an error into an exit status.

Importing this file loads only typer and the standard library; a command loads the rest when it runs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import EXIT_CODES, BadRequest, Environment, OrchestratorError
from orchestrator.cli import (
    agent_panes,
    agents,
    config,
    daemon,
    doctor,
    events,
    gc,
    gsd,
    inbox,
    logs,
    options,
    output,
    report,
    roles,
    schema,
    setup,
    spawn,
    squad,
    standing_rules,
    status,
    task_history,
    tasks,
    team,
    team_runs,
    top,
    trust,
    verify,
    web,
    why,
    worktree,
    worktree_changes,
)
from orchestrator.cli.command_groups import TopGroup, hide
from orchestrator.cli.options import Json
from orchestrator.edge import project_location
from orchestrator.faces import shell_hints

BUG = 70
INTERRUPTED = 130
READER_GONE = 141
"""128 + SIGPIPE, as of every program in a pipe: 0 would say that the command did what it was asked to."""
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app = options.app("Lead a team of command-line AI agents in panes of your tmux window.", TopGroup)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"orchestrator {project_location.version()}")
        raise typer.Exit


@app.callback()
def _top(
    root: Annotated[
        str,
        typer.Option(
            "--project",
            "-C",
            metavar="DIR",
            help="Project directory; default: found from the current directory upwards.",
        ),
    ] = "",
    _: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if root:
        if not Path(root).is_dir():
            raise BadRequest("bad_argument", f"--project {root!r} is not a directory", "give an existing directory")
        os.environ["ORCHESTRATOR_PROJECT"] = str(Path(root).resolve())


@options.command(
    app,
    "mcp",
    "claude mcp add orchestrator -- orchestrator mcp\norchestrator mcp --toolsets team",
    context_settings=PASSED_ON,
    add_help_option=False,
)
def mcp(rest: typer.Context) -> None:
    """Serve MCP on stdin and stdout.

    AI CLIs start this command. Options: --toolsets LIST, --project DIR.
    """
    root = os.environ.get("ORCHESTRATOR_PROJECT")
    _become("mcp", *(["--project", root] if root else []), *rest.args)


@options.command(
    app, "launch", "orchestrator launch builder 1 --project .", context_settings=PASSED_ON, add_help_option=False
)
def launch(rest: typer.Context) -> None:
    """Become an agent's CLI in its pane.

    For the daemon only; do not run it yourself.
    """
    _become("launch", *rest.args)


def _become(*args: str) -> None:
    """Replace this process by the command: its stdout carries a protocol, so it must not share a process."""
    sys.stdout.flush()
    os.execv(sys.executable, project_location.own_command(*args))  # noqa: S606  (an argv list)


@options.command(app, "worker", "orchestrator agent create builder --role builds --engine shell  # starts one")
def worker(as_json: Json = False) -> None:  # noqa: ARG001  (read by the error boundary)
    """Run the tasks of a shell agent.

    The daemon starts this in an agent's pane.
    """
    from orchestrator.worker import task_loop  # noqa: PLC0415

    raise typer.Exit(task_loop.main())


@options.command(app, "demo", "orchestrator demo --keep")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the panes and print how to attach.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the team that demo --keep left running.")] = False,
    as_json: Json = False,
) -> None:
    """Run a team of three shell agents on real tasks.

    Shows their progress and a table of results. Leaves nothing running, unless --keep is given.
    """
    options.refuse_agents(changes=False)  # the demo's team is its own, and so is its state directory
    from orchestrator.cli import demo as scene  # noqa: PLC0415

    raise typer.Exit(scene.main(keep=keep, as_json=as_json, end_kept=end))


@options.command(app, "version", "orchestrator version")
def version(as_json: Json = False) -> None:
    """Show the version."""
    if as_json:
        output.print_json({"version": project_location.version()})
    else:
        _version(wanted=True)


team.add_to(app)
trust.add_to(app)
inbox.add_to(app)
app.add_typer(standing_rules.app, name="approvals")
app.add_typer(agents.app, name="agent")
task_history.add_to(tasks.app)
app.add_typer(tasks.app, name="task")
app.add_typer(worktree.app, name="worktree")
app.add_typer(roles.app, name="roles")
app.add_typer(squad.app, name="squad")
app.add_typer(spawn.app, name="spawn")
app.add_typer(gsd.app, name="gsd")
events.add_to(app)
status.add_to(app)
logs.add_to(app)
team_runs.add_to(app)
report.add_to(app)
top.add_to(app)
agent_panes.add_to(app)
worktree_changes.add_to(app)
options.command(app, "web", "orchestrator web\norchestrator web --read-only --port 0")(web.web)
app.add_typer(daemon.app, name="daemon")
app.add_typer(config.app, name="config")
setup.add_to(app)
doctor.add_to(app)
verify.add_to(app)
why.add_to(app)
gc.add_to(app)
schema.add_to(app)


hide(app, "mcp", "launch", "worker")


@functools.cache
def _command() -> Any:
    """All commands as one; built once per process, because building takes longer than most commands."""
    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: this process's) and return its exit status; never raises or shows a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    code = 0
    try:
        code = _run(args, as_json="--json" in args)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
        return code or READER_GONE
    except OSError as error:  # no room for what was printed
        _close_stdout()
        return code or _report(_io_failed(error), as_json=False)
    return code


def _run(args: list[str], *, as_json: bool) -> int:
    try:
        code = _command()(args or ["--help"], prog_name="orchestrator", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except OrchestratorError as error:
        return _report(error, as_json=as_json)
    except project_location.RunDirUnsafe as error:
        return _report(Environment("run_dir_unsafe", str(error)), as_json=as_json)
    except typer.TyperException as error:
        return _usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer ends the process with 1
            raise end.__context__ from None
        raise
    except OSError as error:
        return _report(_io_failed(error), as_json=as_json)
    except Exception as error:  # noqa: BLE001  (the boundary: what is left is a bug of ours)
        return _bug(error, as_json=as_json)


def _io_failed(error: OSError) -> Environment:
    where = f"{error.filename}: " if error.filename else ""
    return Environment("io_failed", f"{where}{error.strerror or error}")


def _report(error: OrchestratorError, *, as_json: bool, code: int | None = None) -> int:
    step = shell_hints.in_the_shell(error.next_step, error.code)
    if as_json:
        output.print_json({"error": error.as_dict() | {"next_step": step}})
    else:
        output.warn(f"orchestrator: {error.message}" + (f"\n  {step}" if step else ""))
        for line in error.facts.get("last_lines", []):  # of the pane, which is closed by now
            output.warn(f"  | {line}")
    if code is not None:
        return code
    return BUG if error.code == "internal" else EXIT_CODES[type(error)]


def _usage(error: typer.TyperException, *, as_json: bool) -> int:
    text = error.format_message()
    if not as_json and text.startswith("Usage:"):  # a group without a command: print its help
        output.warn(text)
        return EXIT_CODES[BadRequest]
    command = getattr(getattr(error, "ctx", None), "command_path", "orchestrator")
    return _report(BadRequest("bad_argument", text, f"see: {command} --help"), as_json=as_json)


def _bug(error: Exception, *, as_json: bool) -> int:
    """Write the traceback to the log and report one sentence."""
    log = "the log could not be written"
    with contextlib.suppress(Exception):
        from orchestrator.faces.daemon_client import marker, project_here  # noqa: PLC0415

        path = marker(project_here(), project_location.LOG)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "a") as file:  # noqa: PTH123
            file.write("".join(traceback.format_exception(error)))
        log = f"please report it with {path}"
    return _report(
        Environment("internal", f"internal error in orchestrator: {type(error).__name__}", log),
        as_json=as_json,
        code=BUG,
    )


def _close_stdout() -> None:
    """Nobody gets what was printed; without this the interpreter's last flush would complain."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
