"""What a listing of processes says of one of them. Pure."""

from __future__ import annotations

from typing import NamedTuple


class ProcessStat(NamedTuple):
    """A process as the kernel lists it, also one that has ended and that nobody has waited for.

    ``state`` is a letter as ps shows it. ``start`` is in clock ticks since boot on Linux, and in hundredths of a
    second since 1970 elsewhere: with the pid it names one process of this boot. ``terminal`` is the device number of
    its controlling one, as far as the listing has it: ask `process_facts.terminal_of`. ``bare``: it has no
    environment and gets none, because it ends or is the kernel's own; the portable form does not tell.
    """

    name: bytes
    state: bytes
    parent: int
    session: int
    terminal: int
    start: int
    bare: bool = False

    @property
    def ended(self) -> bool:
        """Whether the process has ended and is listed only until its parent waits for it."""
        return self.state in (b"Z", b"X")
