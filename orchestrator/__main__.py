"""The entry point: relay, hook, launch stub, member's pane before anything heavy is imported, else the command line.

It touches descriptors 0 and 1 for the relay, and turns what must not reach a user (a traceback) into a line.
"""

from __future__ import annotations

import gc
import os
import sys

from orchestrator.base.platform.basic_facts import why_unsupported

INTERNAL = 70  # EX_SOFTWARE: a bug


def main() -> int:
    """Run the command of ``sys.argv``; returns its exit status."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    why = why_unsupported()
    if why is not None:
        return refuse(command, *why)
    try:
        if command == "mcp":
            wire_in, wire_out = take_wire()
            from orchestrator.edge import relay  # noqa: PLC0415 - after the wire is safe

            return relay.main(sys.argv[2:], wire_in, wire_out)
        if command == "hook":
            from orchestrator.edge import cli_hook  # noqa: PLC0415 - one command, one import

            return cli_hook.main()
        if command == "launch":
            from orchestrator.edge import launch_stub  # noqa: PLC0415 - one command, one import

            return launch_stub.main(sys.argv[2:])
        if command == "show":
            from orchestrator.edge import member_viewer  # noqa: PLC0415 - one command, one import

            return member_viewer.main(sys.argv[2:])
        if command == "gsd-reader":
            wire_in, wire_out = take_wire()
            from orchestrator.gsd import reader_program  # noqa: PLC0415 - after the wire is safe

            return reader_program.main(wire_in, wire_out)
        if sys.argv[1:] == ["worker"] and "ORCHESTRATOR_AGENT_SECRET" in os.environ:
            from orchestrator.worker import task_loop  # noqa: PLC0415 - an agent starts 0.14 s sooner without the CLI's imports

            return task_loop.main()
        if sys.argv[1:3] == ["daemon", "run"] and "--lock-fd" in sys.argv:
            gc.disable()  # until everything is imported and loaded: a tenth of the start-up
            from orchestrator.base import lazy_imports  # noqa: PLC0415 - one command, one import

            lazy_imports.lighten_sdk()
            with lazy_imports.missing("rich"):  # it colours logs
                from orchestrator.daemon.start_up import start  # noqa: PLC0415 - 0.14 s sooner without the CLI's imports

            return start(sys.argv[3:])
        open_streams()
        from orchestrator.cli.app import main as command_line  # noqa: PLC0415 - heavy

        status = command_line() or 0
        gc.freeze()  # the interpreter's last search for garbage in all modules is a sixth of a short command
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not meet the pipe again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:  # noqa: BLE001 - the last line of defence against a traceback
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else "?"
        text = f"orchestrator: internal error, please report it: {type(error).__name__}: {error} ({place})\n"
        sys.stderr.write(text)
        return INTERNAL


def refuse(command: str, why: str, next_step: str) -> int:
    """Say that this system cannot run orchestrator; a hook says nothing, for it must not break a turn of its CLI."""
    from orchestrator.base.errors import EXIT_CODES, Environment  # noqa: PLC0415 - nothing else needs it here

    if command == "hook":
        sys.stdout.write("{}\n")
        return 0
    error = Environment("system_unsupported", why, next_step)
    if "--json" in sys.argv:
        import json  # noqa: PLC0415 - as above

        sys.stdout.write(json.dumps({"error": error.as_dict()}) + "\n")
    elif sys.stderr is not None:
        sys.stderr.write(f"orchestrator: {why}\n  {error.next_step}\n")
    return EXIT_CODES[Environment]


def open_streams() -> None:
    """Give a command that was started without stdin, stdout or stderr an empty one.

    Otherwise the next file or socket would get the number of that stream.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - a stream of the process


def take_wire() -> tuple[int, int]:
    """Move stdin and stdout to private descriptors and leave harmless ones behind.

    After it, fd 0 is empty and fd 1 is stderr, so that nothing that prints can reach the client.
    """
    import fcntl  # noqa: PLC0415 - some systems that are refused have none

    wire = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(null, 1)
        os.dup2(null, 2)
    os.close(null)
    if sys.stdout is not None:  # None when started without one
        sys.stdout.flush()  # what was printed before we ran, by a site hook
    return wire


if __name__ == "__main__":
    sys.exit(main())
