"""The stage for real CLIs: a user with a home, configured CLIs, a trusted project, and terminals on a private tmux.

    world = make_world("gemini", "claude")           fixture: `Stage` inside, these CLIs configured and on PATH
    world.snapshot("gemini")                         its configuration files: name -> hash, for before and after
    pane = world.start("gemini")                     the real CLI in a pane of its own, ready for a prompt
    pane.say("a prompt")                             paste and submit; returns when the model got it
    pane = world.lead("gemini", brain.script(...))   a master: registered by `orchestrator setup`, asked to lead
    world.run("orchestrator", "status", "--json")    a command in the user's shell environment
    make_world("gemini", user=other_user.UID)        all of it as an unprivileged user

Everything started carries the stage's mark; `close` ends what a CLI leaves behind on purpose (Codex's shared
background process), and the stage fails when anything else is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orchestrator.base.errors import Environment
from orchestrator.tmux.server_address import TmuxSocket
from tests.e2e import clis, homes, other_user
from tests.e2e.models.server import ModelServer
from tests.e2e.models.turn import KINDS, Kind
from tests.support.stage import BOUND_S, Stage, processes_with, until
from tests.support.tmux_server import PrivateServer

START_S = 300.0
"""The bound for a CLI to come up, four of them on a loaded machine included."""

READY: dict[Kind, re.Pattern[str]] = {
    "gemini": re.compile(r"Type your message or @path/to/file"),
    "claude": re.compile(r"^❯\xa0", re.MULTILINE),
    "codex": re.compile(r"^› ", re.MULTILINE),
    "opencode": re.compile(r"Ask anything"),
}
"""What a CLI's screen shows when it takes a prompt."""

PLAIN: dict[Kind, tuple[str, ...]] = {"gemini": (), "claude": (), "codex": ("--no-daemon",), "opencode": ()}
"""How `start` calls each CLI unless told otherwise. Codex without its background process, which 400 MB would start."""

LEAD: dict[Kind, tuple[str, ...]] = {
    "gemini": ("--approval-mode", "yolo"),
    "claude": ("--allowedTools", "mcp__orchestrator"),
    "codex": (*PLAIN["codex"], "-c", 'mcp_servers.orchestrator.default_tools_approval_mode="approve"'),
    "opencode": (),
}
"""How `lead` calls each CLI: its user allows our server's tools for this session, so that no question comes."""

_IN_PANE = 'exec env -i TERM="$TERM" TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" TERM_PROGRAM="${TERM_PROGRAM:-}" "$@"'


class Terminal:
    """One pane of the private tmux server with a program in it."""

    def __init__(self, world: World, pane: str, kind: Kind | None) -> None:
        self.world = world
        self.id = pane
        self.kind = kind

    def text(self, *, history: bool = False) -> str:
        """What the screen shows; with ``history`` all that scrolled away too."""
        lines = ["-S", "-"] if history else []
        return self.world.server.run("capture-pane", "-p", "-J", *lines, "-t", self.id)

    def show(self, form: str) -> str:
        """A tmux format of this pane."""
        return self.world.server.show(self.id, form)

    def dead(self) -> bool:
        """Whether the program has ended; its screen stays."""
        return self.show("#{pane_dead}") == "1"

    def pid(self) -> int:
        """The program's process."""
        return int(self.show("#{pane_pid}"))

    def shows(self, pattern: str | re.Pattern[str], bound_s: float = START_S) -> str:
        """Wait until the screen shows the pattern; the screen. Fails with the screen in the message."""
        return self._until(lambda screen: re.search(pattern, screen, re.MULTILINE) is not None, str(pattern), bound_s)

    def ready(self) -> None:
        """Wait until the CLI takes a prompt."""
        assert self.kind is not None
        self._until(lambda screen: READY[self.kind].search(screen) is not None, "a prompt", START_S)

    def _until(self, look: Any, wanted: str, bound_s: float) -> str:
        screen = ""

        def seen() -> bool:
            nonlocal screen
            screen = self.text()
            if look(screen):
                return True
            assert not self.dead(), f"ended before it showed {wanted}:\n{screen}"
            return False

        try:
            until(seen, bound_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; wanted {wanted} in\n{screen}") from None
        return screen

    def press(self, *names: str) -> None:
        """Press keys by tmux's names (``Enter``, ``Escape``, ``C-c``)."""
        self.world.server.run("send-keys", "-t", self.id, *names)

    def paste(self, text: str) -> None:
        """Paste as a terminal does, without submitting."""
        name = f"paste-{self.id[1:]}"
        self.world.server.run("set-buffer", "-b", name, "--", text)
        self.world.server.run("paste-buffer", "-p", "-d", "-b", name, "-t", self.id)

    def say(self, text: str, heard: str = "") -> None:
        """Paste a prompt, submit it, and wait until the CLI has asked its model about it.

        ``text`` must fit a line. It, or ``heard``, what the CLI makes of it, must be in no earlier request.
        """
        self.paste(text)
        self.shows(re.escape(text[:24]))
        self.submit(heard or text)

    def submit(self, text: str) -> None:
        """Submit what stands in the input line, and wait until the model has heard ``text``."""

        def heard() -> bool:
            return any(text in request.turn.said() for request in self.world.models.select())

        def submitted() -> bool:
            # An Enter right behind other keys may count as part of a paste; one that went through needs no other.
            self.press("Enter")
            with contextlib.suppress(AssertionError):
                until(heard, 5.0)
            return heard()

        try:
            until(submitted, START_S)
        except AssertionError:
            raise AssertionError(f"the model never got {text!r}; the screen:\n{self.text()}") from None


class World:
    """A user of the four CLIs; see the module's head."""

    def __init__(self, stage: Stage, models: ModelServer, kinds: Iterable[Kind] = KINDS, user: int = 0) -> None:
        self.stage = stage
        self.models = models
        self.user = user
        self.home = stage.home
        self.root = stage.root
        self.server = stage.server
        self.kinds = tuple(kinds)
        self._prefix: list[str] = []
        self._sessions = 0
        bins = [str(clis.program(kind).parent) for kind in self.kinds]
        self.env = stage.env  # what the user's shell exports; the same object, so that both agree
        self.env["PATH"] = os.pathsep.join([*bins, self.env["PATH"]])
        self.env["USER"] = self.env["LOGNAME"] = "nobody" if user else "root"
        for kind in self.kinds:
            self.user_config(kind)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True, env=self.env)
        (self.root / "README.md").write_text("# A project\n")
        if user:
            self._give_away()

    def _give_away(self) -> None:
        base = self.stage.base
        other_user.give(base, self.user)
        for place in base.parents:
            if place.name.startswith("ot-"):
                place.chmod(0o711)
        folders = [clis.folder(kind) for kind in self.kinds]
        self._prefix = other_user.prefix([*other_user.needed(), *folders], self.user)
        self.server.socket = TmuxSocket(path=str(base / "tmux.sock"), config="/dev/null")

    # -- the user's home ------------------------------------------------------------------------------------------

    def user_config(self, kind: Kind) -> None:
        """Write that CLI's own configuration into the home, and export its keys in the shell."""
        homes.write(kind, self.home, self.root, self.models)
        self.env.update(homes.keys(kind, self.models))
        if self.user:
            other_user.give(self.home, self.user)

    def used_before(self, kind: Kind) -> None:
        """Have the CLI of a user who has run it once: opencode's first start makes its database, alone."""
        if kind == "opencode":
            done = self.run(str(clis.program(kind)), "session", "list")
            assert done.returncode == 0, done.stdout + done.stderr

    def configure(self, config: str) -> None:
        """Replace the project's configuration as a whole; a daemon that runs takes it up."""
        place = self.root / ".agents" / "config.toml"
        new = place.with_name("new.toml")
        new.write_text(f'tmux_socket = "{self.server.socket.name}"\n{config}')
        new.replace(place)

    def snapshot(self, kind: Kind) -> dict[str, str]:
        """The CLI's configuration files, of the user and of the project: name -> hash."""
        return homes.snapshot(kind, self.home, self.root)

    def digest(self, kind: Kind) -> str:
        """``snapshot`` as one text."""
        return json.dumps(self.snapshot(kind), sort_keys=True)

    def uid(self) -> int:
        """The user everything in this world runs as."""
        return self.user or os.geteuid()

    # -- programs -------------------------------------------------------------------------------------------------

    def run(
        self, *argv: str, timeout_s: float = START_S, given: str | None = None, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """A command of the user's shell in the project (or ``cwd``), run to its end, outside of tmux.

        ``given`` is its input.
        """
        with tempfile.TemporaryFile() if given is not None else Path(os.devnull).open("rb") as file:
            if given is not None:
                file.write(given.encode())
                file.seek(0)
            return subprocess.run(
                [*self._prefix, *argv], env={**self.env, **env}, cwd=cwd or self.root, stdin=file,
                capture_output=True, text=True, timeout=timeout_s, check=False, start_new_session=True,
            )  # fmt: skip

    def orchestrator(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Our own command line as this user, outside of tmux."""
        return self.run(sys.executable, "-P", "-m", "orchestrator", *args, **env)

    def open(
        self,
        *argv: str,
        width: int = 220,
        height: int = 60,
        kind: Kind | None = None,
        cwd: Path | None = None,
        **env: str,
    ) -> Terminal:
        """A program in the first pane of a new session of the private tmux server, with the user's environment."""
        self._sessions += 1
        words = [f"{name}={value}" for name, value in {**self.env, **env}.items() if name != "TERM"]
        place = ["-s", f"user-{self._sessions}", "-x", str(width), "-y", str(height)]
        place += ["-c", str(cwd or self.root)]
        command = ["new-session", "-d", *place, "-P", "-F", "#{pane_id}", "--"]
        command += ["sh", "-c", _IN_PANE, "sh", *words, *argv]
        pane = self._first_as_user(command) if self.user and self._sessions == 1 else self.server.run(*command)
        # The screen of a CLI that ended is what explains it.
        with contextlib.suppress(Environment):
            self.server.run("set-option", "-p", "-t", pane, "remain-on-exit", "on")
        return Terminal(self, pane, kind)

    def _first_as_user(self, command: list[str]) -> str:
        flags = self.server.socket.flags()
        done = subprocess.run(
            [*self._prefix, "tmux", "-u", *flags, *command], env={**self.env, "TERM": "xterm-256color"},
            cwd="/", capture_output=True, text=True, timeout=BOUND_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self, kind: Kind, *args: str, ready: bool = True, **more: Any) -> Terminal:
        """The real CLI in a pane, with ``PLAIN``'s arguments unless ``args`` are given, and waited for."""
        words = args or PLAIN[kind]
        terminal = self.open(str(clis.program(kind)), *words, kind=kind, **more)
        if ready:
            terminal.ready()
        return terminal

    def setup(self, kind: Kind, *options: str) -> None:
        """Register our server with that CLI as its user does: ``orchestrator setup``."""
        done = self.orchestrator("setup", kind, *options)
        assert done.returncode == 0, done.stdout + done.stderr

    def lead(self, kind: Kind, prompt: str, *args: str, **more: Any) -> Terminal:
        """A master: the CLI with our server registered by ``setup``, allowed, and asked ``prompt``.

        ``prompt`` is what `Brain.script` returned, in most cases; ``args`` come behind those of ``LEAD``.
        """
        self.setup(kind)
        terminal = self.start(kind, *LEAD[kind], *args, **more)
        terminal.say(prompt)
        return terminal

    # -- the end --------------------------------------------------------------------------------------------------

    def evidence(self) -> list[tuple[str, str]]:
        """What explains a failure, each as (title, text): screens, the models' last requests, the daemons' logs."""
        found = []
        with contextlib.suppress(Environment):
            for pane in self.server.run("list-panes", "-a", "-F", "#{pane_id}").split():
                lines = Terminal(self, pane, None).text().splitlines()
                found.append((f"pane {pane}", "\n".join(line for line in lines if line.strip())))
        for request in self.models.requests[-3:]:
            last = request.turn.messages[-1:]
            found.append((f"a request of {request.kind}, agent {request.agent_id}", str(last)[-1000:]))
        logs = sorted(self.stage.run_base.glob("*/log"))
        return found + [(str(log), "\n".join(log.read_text(errors="replace").splitlines()[-30:])) for log in logs]

    def close(self) -> None:
        """End every pane, and those CLIs of the user that outlive theirs: agents' CLIs are the product's to end.

        Gemini CLI with its wrapper process goes on without a terminal, Codex has a background process.
        """
        self.server.end()

        def ended() -> bool:
            found = [pid for pid, command in self.stage.processes().items() if self._is_users(pid, command)]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not found

        until(ended)  # one of them may just have started another

    def _is_users(self, pid: int, command: str) -> bool:
        if re.search(r"codex.*app-server", command):
            return True
        if not any(str(clis.folder(kind)) in command for kind in self.kinds):
            return False
        try:
            return b"\0ORCHESTRATOR_AGENT_ID=" not in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


class OtherServer(PrivateServer):
    """The private tmux server of another user: by path, because each user has a socket directory of its own."""

    def path(self) -> Path:
        """Its socket."""
        return Path(str(self.socket.path)) if self.socket.path else super().path()


class OtherStage(Stage):
    """A stage whose processes belong to another user: the daemon answers nobody else, so it is found by its mark.

    Clients of the test itself (`begun`, `cli`) do not reach it; use `World.run`, `orchestrator` and terminals.
    """

    def __init__(self, base: Path, config: str = "", *, name: str = "project") -> None:
        super().__init__(base, config, name=name)
        named = self.server.socket.name
        self.server = OtherServer()
        self.server.socket = TmuxSocket(name=named, config="/dev/null")

    def daemon(self) -> int | None:
        """The pid of the daemon; None when none runs."""
        found = processes_with(f"ORCHESTRATOR_RUN_BASE={self.run_base}")
        return next((pid for pid, command in found.items() if " orchestrator daemon run" in command), None)


def needs_node() -> str:
    """Why the CLIs cannot be had on this machine; an empty text when they can, or are installed already."""
    if shutil.which("node", path=clis.ENVIRON.get("PATH")) is None:
        return "node is not on PATH; the end-to-end tests need node 20 or newer with npm"
    return ""
