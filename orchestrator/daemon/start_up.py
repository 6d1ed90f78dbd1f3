"""Start the daemon of a project: `orchestrator daemon run`. Takes its door over from a relay, or opens it itself."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from pathlib import Path

from orchestrator.base.errors import EXIT_CODES, Environment, OrchestratorError
from orchestrator.base.platform import program_streams
from orchestrator.config.file_watch import ConfigState
from orchestrator.daemon import door
from orchestrator.daemon.process import Daemon
from orchestrator.protocol.daemon_log import configure_log


def main(root: Path, lock_fd: int | None = None, socket_fd: int | None = None) -> int:
    """Run the project's daemon until it ends; the exit status. Raises what keeps it from starting.

    The descriptors are those of the relay that starts it; without them it takes lock and socket itself.
    """
    if lock_fd is not None and socket_fd is not None:
        opened = door.take_over(lock_fd, socket_fd, root)
    else:
        opened = door.start_as_foreground(root)
    program_streams.repair()
    try:
        try:
            state = ConfigState(root, dict(os.environ))
            configure_log(state.current.config.log_level, state.current.config.log_format)
            asyncio.run(_run(root, opened, state))
        except OSError as error:
            raise Environment("daemon_failed", f"the daemon ended: {error}") from error
    except OrchestratorError as error:
        with contextlib.suppress(OSError):  # the run directory's disk may be full too
            opened.write_failed(error.as_dict())
        raise
    return 0


def start(arguments: list[str]) -> int:
    """`orchestrator daemon run --project DIR [--lock-fd N --socket-fd M]`; the exit status; errors go to stderr."""
    parser = argparse.ArgumentParser(prog="orchestrator daemon run")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--lock-fd", type=int)
    parser.add_argument("--socket-fd", type=int)
    options = parser.parse_args(arguments)
    try:
        return main(options.project, options.lock_fd, options.socket_fd)
    except OrchestratorError as error:
        sys.stderr.write(f"orchestrator daemon: {error.code}: {error.message}\nnext: {error.next_step}\n")
        return EXIT_CODES[type(error)]


async def _run(root: Path, opened: door.Door, state: ConfigState) -> None:
    await Daemon(root, opened, state).run()
