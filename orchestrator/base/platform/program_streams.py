"""The streams of a program that could not be started are closed: what Python does from 3.11.4 on (gh-87474).

Before, a start that fails for want of a descriptor loses those that it already had. A daemon that has none left
tries often, for it looks at its panes: it would never have one again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

REPAIRED = (3, 11, 4)


def repair() -> None:
    """Close what a failed start leaves open, for this whole process; nothing to do where Python does it."""
    if sys.version_info < REPAIRED:
        subprocess.Popen._get_handles = _handles  # type: ignore[attr-defined] # noqa: SLF001 - there is no other way


def _handles(process: Any, stdin: Any, stdout: Any, stderr: Any) -> tuple[int, ...]:
    """The ends of the three streams as `subprocess` wants them: of stdin the child's first, of the others ours."""
    opened: list[int] = []

    def ends(stream: Any) -> tuple[int, int]:
        """What is read from and what is written to; of a stream that is given, both are it."""
        if stream == subprocess.PIPE:
            pipe = os.pipe()
            opened.extend(pipe)
            return pipe
        given = process._get_devnull() if stream == subprocess.DEVNULL else stream  # noqa: SLF001 - see the head
        number = -1 if given is None else given if isinstance(given, int) else given.fileno()
        return number, number

    try:
        child_in, to_child = ends(stdin)
        from_child, child_out = ends(stdout)
        if stderr == subprocess.STDOUT:
            errors, child_errors = -1, child_out if child_out != -1 else 1
        else:
            errors, child_errors = ends(stderr)
    except BaseException:
        if (null := getattr(process, "_devnull", None)) is not None:
            opened.append(null)
        for number in opened:
            with contextlib.suppress(OSError):
                os.close(number)
        raise
    return (
        child_in, to_child if stdin == subprocess.PIPE else -1,
        from_child if stdout == subprocess.PIPE else -1, child_out,
        errors if stderr == subprocess.PIPE else -1, child_errors,
    )  # fmt: skip
