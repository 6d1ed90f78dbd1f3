"""docs/tutorial.md, followed line by line by a person at a terminal, with a real Claude Code and a scripted model."""

from __future__ import annotations

import contextlib
import json
import re

from tests.e2e import shop
from tests.e2e.desk import Desk
from tests.e2e.world import READY, START_S
from tests.support.page_blocks import blocks_of, command_lines
from tests.support.stage import until

PAGE = "docs/tutorial.md"


class Reader:
    """Who follows the page; ``after`` names what the page promises of a line, by the line's beginning."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shop = desk.world.home / "shop"
        self.seen: list[str] = []
        self.after = {
            "orchestrator up": self._three_panes,
            "orchestrator task add coder": self._asks,
            "orchestrator status coder": lambda text: holds(text, "◐ asks", shop.COMMIT, "transcript: /", "orchestrator attach coder"),
            "orchestrator attach coder": self._answers,
            "orchestrator task show": lambda text: holds(text, "✓ result", "total() gives 10 percent from 100 on."),
            "orchestrator diff coder": lambda text: holds(text, "+    return amount * 0.9", "+        self.assertEqual(total([60, 40]), 90)"),
            "orchestrator task add tester": lambda text: holds(text, "Ran 2 tests", "OK", "exit_code: 0"),
            "orchestrator task add reviewer": lambda text: holds(text, "Ready to merge."),
            "orchestrator merge coder --dry-run": self._nothing_merged,
            "orchestrator merge coder": lambda text: holds((self.shop / "cart.py").read_text(), "amount * 0.9"),
            "git log": lambda text: holds(text, "Merge branch 'orchestrator/coder'", "Add a cart"),
            "orchestrator down": self._alone,
            "orchestrator worktree remove coder": lambda _: self._removed(),
        }  # fmt: skip

    def follows(self, line: str) -> None:
        """Type a line of the page, and check what the page says of it."""
        text = self.desk.run(line)
        known = [start for start in self.after if line.startswith(start)]
        if known:
            start = max(known, key=len)
            self.after[start](text)
            self.seen.append(start)

    def trusts(self) -> None:
        """Start Claude Code, trust the folder, and leave it."""
        begun = -1

        def trusted() -> bool:
            """One look, and the key that it asks for; a dialog that has just been drawn loses keys or takes them late."""
            nonlocal begun
            if self.desk.ended() > begun:  # not begun yet, or a late key chose "No, exit"
                begun = self.desk.ended()
                self.desk.type("claude")
                self.desk.press("Enter")
            screen = self.desk.pane.text().rpartition("$ claude")[2]
            if found := re.search("❯ +(No, exit|Yes, I trust)[^$]*Enter to confirm", screen):
                self._press_and_wait("Down" if found[1].startswith("No") else "Enter")
            return READY["claude"].search(screen) is not None

        until(trusted, START_S)
        self.desk.type("/exit")
        self.desk.shows(r"^❯\s*/exit")
        until(lambda: self.desk.ended() > begun or self._press_and_wait("Enter"), START_S)

    def _press_and_wait(self, name: str) -> None:
        """Press a key, and wait a while until the screen is another one."""
        before = self.desk.pane.text()
        self.desk.press(name)
        with contextlib.suppress(AssertionError):
            until(lambda: self.desk.pane.text() != before, 5.0)

    def _panes(self) -> list[str]:
        found = self.desk.world.server.run("list-panes", "-t", self.desk.pane.id, "-F", "#{@orchestrator_agent}")
        return sorted(name for name in found.split("\n") if name)

    def _three_panes(self, text: str) -> None:
        holds(text, "Allow this content", "the team is as described")
        assert self._panes() == ["coder", "reviewer", "tester"]

    def _asks(self, _: str) -> None:
        reason = until(
            lambda: next((row.get("reason") for row in self._status() if row["status"] == "blocked"), None)
        )
        assert shop.COMMIT in reason
        holds(self.desk.run("orchestrator status"), "◐ asks", "asks to use Bash: git")

    def _status(self) -> list[dict[str, object]]:
        done = self.desk.world.run("orchestrator", "agent", "list", "--json", cwd=self.shop)
        return list(json.loads(done.stdout)["agents"])

    def _answers(self, _: str) -> None:
        assert self.desk.agent() == "coder"
        holds(self.desk.shows(r"❯ 1\. Yes"), shop.COMMIT)
        self.desk.press("Enter")
        self.desk.press("C-b", "z")
        self.desk.press("C-b", ";")
        until(lambda: self.desk.agent() == "")
        until(lambda: self.desk.pane.show("#{window_zoomed_flag}") == "0")
        until(lambda: {row["agent_id"]: row["status"] for row in self._status()}["coder"] in {"idle", "parked"})

    def _nothing_merged(self, text: str) -> None:
        holds(text, "1 commit of orchestrator/coder would merge cleanly")
        assert "0.9" not in (self.shop / "cart.py").read_text()

    def _alone(self, text: str) -> None:
        holds(text, "the team has ended")
        assert self._panes() == []
        assert len(self.desk.world.server.panes(self.desk.pane.id)) == 1

    def _removed(self) -> None:
        assert not (self.shop / ".agents" / "worktrees" / "coder").exists()
        done = self.desk.world.run("git", "branch", "--list", "orchestrator/*", cwd=self.shop)
        assert done.stdout == ""


def holds(text: str, *words: str) -> None:
    """Fail unless all these words are in the text, however the terminal broke its lines."""
    flat = " ".join(text.split())
    assert [one for one in words if " ".join(one.split()) not in flat] == [], text


def test_a_reader_of_the_tutorial_gets_what_it_promises(make_world):
    world = make_world("claude")
    shop.prepare(world)
    desk = Desk(world, 120, 40)
    try:
        reader = Reader(desk)
        for language, text in blocks_of(PAGE):
            if language == "text":
                assert text == "claude\n"
                reader.trusts()
            elif language == "toml":
                (reader.shop / ".agents").mkdir()
                (reader.shop / ".agents" / "team.toml").write_text(text)
            for line in command_lines(text) if language == "sh" else ():
                reader.follows(line)
        assert set(reader.seen) == set(reader.after)
    finally:
        world.run("orchestrator", "daemon", "stop", cwd=world.home / "shop")
        desk.close()
