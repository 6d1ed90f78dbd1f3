"""Run one command line, and turn an error into an exit status.

Importing this file loads only typer and the standard library; a command is loaded when it is called.
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
from orchestrator.cli import options, output
from orchestrator.cli.command_groups import TopGroup
from orchestrator.edge import project_location
from orchestrator.faces import shell_hints

BUG = 70
INTERRUPTED = 130
READER_GONE = 141
"""128 + SIGPIPE, as of every program in a pipe: 0 would say that the command did what it was asked to."""

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


@functools.cache
def _command() -> Any:
    """The top level; built once per process."""
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
