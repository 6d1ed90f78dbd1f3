"""A person at a terminal with tmux: a shell in a window that a client shows, keys, and the whole screen with its borders.

The client is a pane of a second private server, so keys go through tmux's own prefix table and `attach` has a client to
switch. The shell notes the exit status of each line in a file; so a line has ended when its status is there.
"""

from __future__ import annotations

import os
import re

from tests.e2e.world import START_S, World
from tests.support.stage import until
from tests.support.tmux_server import PrivateServer

SHELL = ("bash", "--norc", "--noprofile", "-i")
QUESTION = re.compile(r"\[y/N\]\s*$")


class Desk:
    """One terminal of ``width`` and ``height``; ``pane`` is the shell's, in the home directory at first."""

    def __init__(self, world: World, width: int = 160, height: int = 50) -> None:
        self.world = world
        self._statuses = world.stage.base / "statuses"
        self._statuses.touch()
        env = {"PS1": r"\w $ ", "PROMPT_COMMAND": f"echo $? >>{self._statuses}", "HISTFILE": os.devnull}
        self.pane = world.open(*SHELL, width=width, height=height, cwd=world.home, **env)
        self._outer = PrivateServer()
        self._session = self.pane.show("#{session_name}")
        words = [f"{name}={value}" for name, value in world.env.items()]
        size = ["-x", str(width), "-y", str(height)]
        client = ["tmux", "-u", *world.server.socket.flags(), "attach", "-t", self._session]
        start = ["new-session", "-d", *size, "-P", "-F", "#{pane_id}", "--", "env", "-i", *words, *client]
        self.screen_pane = self._outer.run(*start)
        self._outer.run("set-option", "-g", "status", "off")
        until(lambda: world.server.run("list-clients"))
        # Keys that arrive at once, as on a busy machine, would be a paste to tmux, and its prefix a letter.
        world.server.run("set-option", "-g", "assume-paste-time", "0")

    # -- the keyboard ---------------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Type text; it reaches the active pane."""
        self._outer.run("send-keys", "-t", self.screen_pane, "-l", "--", text)

    def press(self, *names: str) -> None:
        """Press keys by tmux's names; ``C-b`` is the prefix of the person's own tmux."""
        for name in names:
            self._outer.run("send-keys", "-t", self.screen_pane, name)

    # -- what is seen ---------------------------------------------------------------------------------------------

    def screen(self, *, colours: bool = False) -> str:
        """The whole terminal: all panes, their borders, the status line."""
        return self._outer.run("capture-pane", "-p", *(["-e"] if colours else []), "-t", self.screen_pane)

    def agent(self) -> str:
        """The agent in whose pane the keys arrive; empty in the person's own pane."""
        return self.world.server.show(f"{self._session}:", "#{@orchestrator_agent}")

    def shows(self, pattern: str) -> str:
        """Wait until the terminal shows the pattern; the screen."""
        screen = ""

        def seen() -> bool:
            nonlocal screen
            screen = self.screen()
            return re.search(pattern, screen, re.MULTILINE) is not None

        try:
            until(seen, START_S)
        except AssertionError:
            raise AssertionError(f"never saw {pattern} in\n{screen}") from None
        return screen

    # -- lines ----------------------------------------------------------------------------------------------------

    def run(self, line: str, answer: str = "y") -> str:
        """Type a line into the shell and wait for its end; what it printed. Fails if its exit status is not 0.

        A question that ends in ``[y/N]`` gets ``answer``.
        """
        code, text = self.ends(line, answer)
        assert code == 0, f"{line}\nended with {code}:\n{text}"
        return text

    def ends(self, line: str, answer: str = "y") -> tuple[int, str]:
        """As ``run``; the exit status and what was printed."""
        self.press("C-l")
        until(lambda: self.pane.text().strip().endswith("$") and "\n" not in self.pane.text().strip())
        before = self.ended()
        self.world.server.run("clear-history", "-t", self.pane.id)
        for part in line.split("\n"):
            self.type(part)
            self.press("Enter")
        answered = 0

        def over() -> bool:
            nonlocal answered
            text = self.pane.text(history=True).rstrip()
            if QUESTION.search(text) and not answered:
                self.type(answer)
                self.press("Enter")
                answered = 1
            return self.ended() > before

        until(over, START_S)
        return int(self._statuses.read_text().split()[-1]), self.pane.text(history=True)

    def ended(self) -> int:
        """How many lines of the shell have ended so far."""
        return len(self._statuses.read_text().split())

    def close(self) -> None:
        """End the client; the world ends the shell."""
        self._outer.end()
