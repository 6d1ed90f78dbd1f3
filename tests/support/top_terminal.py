"""`orchestrator top` in a session of a stage's tmux server: what it shows, what is pressed."""

from __future__ import annotations

import sys

from tests.support.stage import until


class Top:
    """`top` in a session of the stage's tmux server, as a person starts it."""

    def __init__(self, stage, width=80, height=24, **env):
        self.server = stage.server
        words = [word for name, value in {**stage.env, **env}.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(width), "-y", str(height), "-c", str(stage.root)]
        command = ["--", sys.executable, "-P", "-m", "orchestrator", "top"]
        self.pane = self.server.run(
            "new-session", "-d", "-s", "top", *size, "-P", "-F", "#{pane_id}", *words, *command
        ).strip()
        self.server.run("set-option", "-p", "-t", self.pane, "remain-on-exit", "on")

    def lines(self, *, colours=False):
        return self.server.run("capture-pane", "-p", *(["-e"] if colours else []), "-t", self.pane).split("\n")

    def shows(self, *texts):
        def look():
            screen = "\n".join(self.lines())
            return screen if all(text in screen for text in texts) else None

        try:
            return until(look)
        except AssertionError:
            raise AssertionError(f"{texts} not in:\n" + "\n".join(self.lines())) from None

    def press(self, *keys):
        self.server.run("send-keys", "-t", self.pane, *keys)

    def resize(self, width, height):
        self.server.run("resize-window", "-t", self.pane, "-x", str(width), "-y", str(height))

    @property
    def pid(self):
        return int(self.server.show(self.pane, "#{pane_pid}"))
