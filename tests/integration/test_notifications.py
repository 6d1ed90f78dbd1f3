"""A daemon tells a person in a real tmux, on the desktop and by the user's own command, once, and counts who waits."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.integration.test_blocked import LONG, TRUST, Place
from tests.support.stage import Stage, lines_of, until
from tests.support.tmux_server import PrivateServer

pytestmark = pytest.mark.tmux

KEEPS_STDIN = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
DESKTOP = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >> "$HOME/desktop"\n'


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Desk:
    """A team whose user has a terminal, a desktop and a command for notifications."""

    def __init__(self, stage: Stage) -> None:
        self.told = stage.home / "told"
        settings = stage.home / ".config" / "orchestrator"
        settings.mkdir(parents=True)
        argv = [sys.executable, "-c", KEEPS_STDIN, str(self.told)]
        (settings / "config.toml").write_text(
            f'notify = ["tmux", "bell", "desktop", "command"]\nnotify_command = {json.dumps(argv)}\n'
        )
        self.place = Place(stage)
        self.stage = stage
        tool = self.place.bin / "notify-send"
        tool.write_text(DESKTOP)
        tool.chmod(0o755)
        self.terminal = PrivateServer()

    def attach(self) -> None:
        inner = self.stage.server
        session = until(lambda: inner.run("list-sessions", "-F", "#{session_name}")).split("\n")[0]
        command = ["tmux", "-L", str(inner.socket.name), "attach", "-t", session]
        self.terminal.run("new-session", "-d", "-x", "150", "-y", "40", "--", "env", "-u", "TMUX", *command)

    def create(self, name: str) -> None:
        env = {"FAKE_SCREEN": str(TRUST), "FAKE_NOTES": str(self.place.notes)}
        asked = {"name": name, "role": "r", "engine": "codex", "env": env, "ready_wait_ms": 0}
        assert self.place.boss.tool("agent_create", asked)["agent_id"] == name

    def announced(self) -> list[str]:
        """The agents that the user's command was told of."""
        return [notice["agent_id"] for message in lines_of(self.told) for notice in message["notices"]]

    def counted(self) -> str:
        """What a status line with our segment says."""
        return self.stage.server.run("list-sessions", "-F", "#{@orchestrator_needs}").strip()


@pytest.fixture
def desk(make_stage: Callable[[str], Stage]) -> Iterator[Desk]:
    desk = Desk(make_stage(LONG))
    yield desk
    desk.terminal.end()


def test_a_person_is_told_once_everywhere_also_by_the_next_daemon(desk: Desk) -> None:
    desk.create("c")
    desk.attach()
    until(lambda: "orchestrator attach c" in desk.terminal.run("capture-pane", "-p"))
    until(lambda: desk.announced() == ["c"])
    (message,) = lines_of(desk.told)
    assert message["need_you"] == 1
    documented = json.loads(re.search(r"^```json\n(.*?)^```$", EXAMPLES.read_text(), re.MULTILINE | re.DOTALL)[1])
    assert (list(message), list(message["notices"][0])) == (list(documented), list(documented["notices"][0]))
    assert message["notices"][0] | {"kind": "needs_human", "item_kind": "trust", "name": "c"} == message["notices"][0]
    desktop = until(lambda: (words := lines(desk.stage.home / "desktop"))[4:] and words)
    assert desktop[:3] == ["--app-name=orchestrator", "--", f"◐ {desk.stage.root.name}"]
    until(lambda: desk.counted() == "1")
    desk.stage.kill_daemon()
    desk.create("d")
    until(lambda: "d" in desk.announced())
    assert desk.announced() == ["c", "d"]
    until(lambda: desk.counted() == "2")
    for name in ("c", "d"):
        assert desk.place.boss.tool("agent_delete", {"agent_id": name, "force": True, "confirm": name})["ok"]
    assert desk.announced() == ["c", "d"]


EXAMPLES = Path(__file__).parents[2] / "docs" / "notifications.md"
MESSAGE = {
    "v": 1, "project": "/p/shop", "title": "shop", "text": 'c1: asks to use Bash: echo "<b>$(id)</b>"',
    "link": "orchestrator attach c1", "need_you": 1, "notices": [],
}  # fmt: skip


def example(name: str) -> str:
    """The script of that name in the page."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", EXAMPLES.read_text(), re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if text.startswith(f"#!/bin/sh\n# {name}"))


class Service(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    got: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    Service.got.clear()
    server = http.server.HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run_example(name: str, home: Path) -> None:
    script = home / name
    script.write_text(example(name))
    script.chmod(0o755)
    env = {"PATH": f"{home}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1"}
    subprocess.run([script], input=json.dumps(MESSAGE) + "\n", env=env, text=True, timeout=60, check=True)


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the examples use jq and curl")
def test_the_examples_of_the_page_send_what_they_say(tmp_path: Path, service: str) -> None:
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "ntfy.curl").write_text(
        f'url = "{service}/my-topic"\nheader = "Authorization: Bearer tk_1"\n'
    )
    (tmp_path / ".config" / "chat-hook.curl").write_text(f'url = "{service}/hooks/1"\n')
    run_example("notify-ntfy", tmp_path)
    run_example("notify-chat", tmp_path)
    (topic, headers, body), (hook, _, chat) = Service.got
    assert (topic, headers["Authorization"], headers["Title"]) == ("/my-topic", "Bearer tk_1", "orchestrator")
    assert body.decode() == f"shop: {MESSAGE['text']}\norchestrator attach c1\n"
    assert (hook, json.loads(chat)) == ("/hooks/1", {"text": f"shop: {MESSAGE['text']}\norchestrator attach c1"})
    (tmp_path / "notify-send").write_text(DESKTOP)
    (tmp_path / "notify-send").chmod(0o755)
    run_example("notify-desk", tmp_path)
    assert lines(tmp_path / "desktop")[1:5] == [
        "--urgency=critical", "--", "shop", "c1: asks to use Bash: echo &quot;&lt;b&gt;$(id)&lt;/b&gt;&quot;"
    ]  # fmt: skip
