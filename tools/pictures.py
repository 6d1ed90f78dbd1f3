"""Makes the pictures and the screens of the documentation: `make pictures`. It needs what `make e2e` needs.

docs/pictures/window.svg and recording.svg are the team of docs/tutorial.md at work: a real Claude Code against a
scripted model, in a private tmux server that a second one shows, borders included. docs/pictures/top.svg
and top.cast show `orchestrator top`. docs/screens/ has screens as text:
`status` and a window of eight agents at three sizes, and an agent that asks for a permission.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.e2e import shop
from tests.e2e.desk import Desk
from tests.e2e.models.server import ModelServer
from tests.e2e.world import START_S, World
from tests.support.page_blocks import ROOT, blocks_of, command_lines
from tests.support.stage import Stage, until
from tools.terminal_svg import Frame, picture, recording

PICTURES, SCREENS = ROOT / "docs" / "pictures", ROOT / "docs" / "screens"
WIDTH, HEIGHT = 120, 40
SIZES = ((80, 24), (120, 40), (220, 60))
LASTS_S = 20.0
PAUSE_S = 1.2  # the longest time for which the recording stands still
READ_S = 3.0  # the same in the recording of top, whose screens are read
TOP_SIZE = (110, 32)
TOP_KEYS = (
    ("g", "^─ coder ─", 1.5),
    ("a", "Enter: approve", 3.0),
    ("Enter", "approved", 2.0),
    ("5", r"\[diff\]", 2.5),
    ("T", "h/l move", 3.0),
    ("Escape", r"\[diff\]", 0.6),
    ("?", "keys", 1.5),
    ("Escape", r"\[diff\]", 0.6),
    ("q", r"\$$", 0.6),
)
"""What is pressed in the recording of top, what is shown then, and how long it stands."""
MODEL = "claude-sonnet-4-6"  # the name that the CLI shows; the model itself is scripted

EIGHT = """\
[agents.coder]
role = "implements changes"
engine = "claude"
approval = "edits"
worktree = true

[agents.reviewer]
role = "reviews changes"
engine = "claude"

[agents.writer]
role = "writes the documentation"
engine = "claude"

[agents.tester]
role = "runs the tests"
engine = "shell"

[agents.types]
role = "checks the types"
engine = "shell"

[agents.style]
role = "checks the style"
engine = "shell"

[agents.build]
role = "builds the package"
engine = "shell"

[agents.deploy]
role = "deploys to the test server"
engine = "shell"
"""
TASKS = (
    ("coder", "Give total() a discount of 10 percent from 100 on, with a test, and commit."),
    ("writer", "Describe the cart in README.md."),
    ("tester", "make integration-tests"),
    ("types", "sleep 600"),
    ("types", "mypy ."),
    ("style", "echo fine"),
    ("build", "sleep 500"),
)


@contextlib.contextmanager
def begun(width: int, height: int, team: str) -> Iterator[Desk]:
    """A person in ~/shop with a repository, a team file that is allowed, and a folder that Claude Code trusts."""
    base = Path(tempfile.mkdtemp(prefix="op-"))
    with ModelServer() as models:
        stage = Stage(base)
        world = World(stage, models, ("claude",))
        world.env |= {"ANTHROPIC_MODEL": MODEL, "ORCHESTRATOR_PARK_AFTER": "1", "ORCHESTRATOR_WAIT_CAP_MS": "4000"}
        shop.prepare(world)
        known = {str(world.home / "shop"): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
        config = {"hasCompletedOnboarding": True, "projects": known}
        (world.home / ".claude.json").write_text(json.dumps(config))
        settings = {"theme": "dark", "permissions": {"defaultMode": "default"}}
        (world.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        models.brain.play("Describe the cart", hold="never")
        desk = Desk(world, width, height)
        for name, value in (("status-right", ""), ("focus-events", "on"), ("automatic-rename", "off")):
            world.server.run("set-option", "-g", name, value)
        world.server.run("rename-session", "shop")
        world.server.run("rename-window", "shop")
        try:
            _project(desk, team)
            yield desk
        finally:
            world.run("orchestrator", "down", "--yes", "--force", "--stop-daemon", cwd=world.home / "shop")
            desk.close()
            world.close()
            stage.end()
            shutil.rmtree(base)


def _project(desk: Desk, team: str) -> None:
    text = next(text for language, text in blocks_of("docs/tutorial.md") if language == "sh")
    place = desk.world.home / "shop"
    for line in (*command_lines(text), "mkdir .agents"):
        desk.run(line)
    (place / ".agents" / "team.toml").write_text(team)
    desk.run("orchestrator trust")
    desk.run("clear")


class Camera:
    """Looks at the whole terminal twice a second, and keeps what has changed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames: list[tuple[float, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            text = cleaned(self._desk, self._desk.screen(colours=True))
            if not self._frames or self._frames[-1][1] != text:
                self._frames.append((time.monotonic(), text))

    def frames(self, pause_s: float = PAUSE_S) -> list[Frame]:
        """What was seen, with pauses cut to ``pause_s``, and in the time of the recording."""
        at, out = 0.0, []
        for number, (moment, text) in enumerate(self._frames):
            if number:
                at += min(moment - self._frames[number - 1][0], pause_s)
            out.append((at, text))
        scale = (LASTS_S - 2.0) / max(at, 1.0)  # the last screen stays for two seconds
        return [Frame(round(at * min(scale, 1.0), 2), text) for at, text in out]


def cleaned(desk: Desk, screen: str) -> str:
    """The screen without the directory of this run: the home is ``~``, as in a shell's prompt."""
    home = str(desk.world.home)
    folder = re.sub("[^A-Za-z0-9]", "-", home)  # as Claude Code names the folder of a project's transcripts

    def shorter(found: re.Match[str]) -> str:
        """What follows stays in its column: the border on the right moves for nothing."""
        name, rest = found[1], found[2]
        gone = len(name) - 1
        return ("~" if name == home else "") + rest.replace("│", " " * gone + "│", 1)

    pattern, text = f"({home}|{folder})(/.*|-.*)", screen
    while re.search(pattern, text):  # two panes beside each other may name it in one row
        text = re.sub(pattern, shorter, text)
    assert desk.world.stage.base.name not in text, text
    return text


def typed(desk: Desk, line: str) -> None:
    """Type a line as a person does, a few letters at a time, and wait until it has ended."""
    before = desk.ended()
    for at in range(0, len(line), 12):
        desk.type(line[at : at + 12])
        time.sleep(0.12)
    time.sleep(0.3)
    desk.press("Enter")
    until(lambda: desk.ended() > before, START_S)


def statuses(desk: Desk) -> dict[str, str]:
    """The status of each agent."""
    done = desk.world.run("orchestrator", "agent", "list", "--json", cwd=desk.world.home / "shop")
    return {row["agent_id"]: row["status"] for row in json.loads(done.stdout)["agents"]}


def recorded() -> None:
    """The tutorial's team in twenty seconds, and one picture of its window."""
    team = next(text for language, text in blocks_of("docs/tutorial.md") if language == "toml")
    with begun(WIDTH, HEIGHT, team) as desk:
        with Camera(desk) as camera:
            typed(desk, "orchestrator up")
            typed(desk, f'orchestrator task add coder "{TASKS[0][1]}"')
            until(lambda: statuses(desk)["coder"] == "blocked", START_S)
            time.sleep(1.0)
            typed(desk, "orchestrator status")
            window = cleaned(desk, desk.screen(colours=True))
            time.sleep(1.5)
            typed(desk, "orchestrator attach coder")
            time.sleep(2.0)
            desk.press("Enter")
            time.sleep(1.0)
            desk.press("C-b", "z")
            desk.press("C-b", ";")
            time.sleep(1.0)
            until(lambda: statuses(desk)["coder"] in {"idle", "parked"}, START_S)
            typed(desk, 'orchestrator task add tester "cd .agents/worktrees/coder && python3 -m unittest" --wait')
            time.sleep(1.5)
            typed(desk, "orchestrator merge coder")
            time.sleep(2.0)
        frames = camera.frames()
    PICTURES.mkdir(exist_ok=True)
    title = "A tmux window: a person's shell, two Claude Code agents, and a tester"
    (PICTURES / "window.svg").write_text(picture(window, WIDTH, HEIGHT, title))
    title = "Twenty seconds: a team starts, changes code, asks for a permission, tests and merges"
    (PICTURES / "recording.svg").write_text(recording(frames, WIDTH, HEIGHT, title, LASTS_S))
    print(f"{len(frames)} frames")


def topped() -> None:
    """`orchestrator top` in twenty seconds: the team, an answer, a change, the timeline."""
    with begun(*TOP_SIZE, EIGHT) as desk:
        desk.ends("orchestrator up")
        for agent, words in TASKS[1:]:
            desk.run(f'orchestrator task add {agent} "{words}"')
        desk.press("C-b", "z")
        desk.run("clear")
        with Camera(desk) as camera:
            desk.type("orchestrator top")
            time.sleep(0.8)
            desk.press("Enter")
            desk.shows("8 agents")
            place = desk.world.home / "shop"
            desk.world.run("orchestrator", "task", "add", *TASKS[0], cwd=place)
            until(lambda: statuses(desk)["coder"] == "blocked", START_S)
            desk.shows("asks")
            time.sleep(1.5)
            for key, text, pause_s in TOP_KEYS:
                desk.press(key)
                desk.shows(text)
                time.sleep(pause_s)
        frames = camera.frames(READ_S)
    PICTURES.mkdir(exist_ok=True)
    title = "Twenty seconds of top: an agent asks, is approved, its change is shown, then the timeline"
    (PICTURES / "top.svg").write_text(recording(frames, *TOP_SIZE, title, LASTS_S))
    (PICTURES / "top.cast").write_text(asciinema(frames, *TOP_SIZE, title))
    print(f"{len(frames)} frames")


def asciinema(frames: list[Frame], width: int, height: int, title: str) -> str:
    """The recording in the form of asciinema, version 2: a header, then each screen as what a terminal gets."""
    lines = [json.dumps({"version": 2, "width": width, "height": height, "title": title})]
    for frame in frames:
        screen = frame.text.rstrip("\n").replace("\n", "\x1b[0m\r\n")
        lines.append(json.dumps([frame.at_s, "o", f"\x1b[0m\x1b[H\x1b[2J{screen}\x1b[0m"], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def photographed(width: int, height: int) -> None:
    """Eight agents, one of each kind of status, at one size."""
    with begun(width, height, EIGHT) as desk:
        desk.ends("orchestrator up")
        for agent, words in TASKS:
            desk.run(f'orchestrator task add {agent} "{words}"')

        def settled() -> bool:
            known = statuses(desk)
            return (
                known.get("coder") == "blocked" and known.get("reviewer") == "parked" and known.get("style") == "idle"
            )

        until(settled, START_S)
        size = f"{width}x{height}"
        desk.run("orchestrator status")
        windows = []
        for number in desk.world.server.run("list-windows", "-t", "shop", "-F", "#{window_index}").split():
            desk.press("C-b", number)
            time.sleep(1.0)
            windows.append(plain(desk, desk.screen()))
        write(f"window-{size}.txt", "\n".join(windows))
        desk.press("C-b", "0")
        desk.press("C-b", "z")
        desk.run("orchestrator status")
        write(f"status-{size}.txt", plain(desk, desk.screen()))
        if (width, height) == (WIDTH, HEIGHT):
            card = plain(desk, desk.run("orchestrator status coder"))
            desk.run("orchestrator attach coder")
            desk.shows("^ Bash command")  # the zoomed pane has been drawn anew
            desk.shows("Do you want to proceed")
            write("blocked.txt", f"{card}\n{plain(desk, desk.screen())}")


def plain(desk: Desk, screen: str) -> str:
    """A screen as text, without spaces and empty lines at ends."""
    text = cleaned(desk, screen)
    return re.sub(r" +$", "", text, flags=re.MULTILINE).rstrip("\n") + "\n"


def write(name: str, text: str) -> None:
    """One file of docs/screens/."""
    SCREENS.mkdir(exist_ok=True)
    (SCREENS / name).write_text(text)


def main(names: list[str]) -> None:
    """All of it, or what is named: ``recording``, ``top``, or sizes such as ``80x24``."""
    if not names or "recording" in names:
        recorded()
    if not names or "top" in names:
        topped()
    for width, height in SIZES:
        if not names or f"{width}x{height}" in names:
            photographed(width, height)


if __name__ == "__main__":
    main(sys.argv[1:])
