"""`orchestrator top`: the app that follows the snapshot and shows its views. Loads Textual."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from textual import events
from textual.app import App
from textual.message import Message

from orchestrator.base.text_width import columns_of
from orchestrator.edge.project_location import Project
from orchestrator.faces.snapshot_client import SnapshotClient
from orchestrator.faces.top import pasted_text
from orchestrator.faces.top.key_bindings import KeyAction
from orchestrator.faces.top.tab_texts import TabReader
from orchestrator.faces.top.team_requests import TeamRequests
from orchestrator.faces.top.team_screen import TeamScreen
from orchestrator.faces.top.top_dialogs import TextDialog
from orchestrator.faces.top.top_face import TopFace
from orchestrator.faces.top.way_back import unbind_command

FOLLOW_S = 60.0
WRITER_THREAD = "textual-output"
"""Textual's thread that writes to the terminal. It ends with it, and Textual waits for it for ever."""


class SnapshotSource(Protocol):
    """Where snapshots come from; `SnapshotClient` in use."""

    def latest(self) -> dict[str, Any] | None: ...
    def wait(self, number: int, timeout_s: float) -> int: ...


class DeliveredCall(Message):
    """A call from a thread, for the event loop's."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


class TopApp(App[None], inherit_bindings=False):
    """The app; quitting it changes nothing."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
        Screen { background: ansi_default; color: ansi_default; layout: vertical; overflow: hidden; }
        #team, #view { background: ansi_default; color: ansi_default; }
        #view { height: 1fr; }
        #prompt { border: none; height: 1; padding: 0 1; background: ansi_default; }
    """

    def __init__(self, face: TopFace, source: SnapshotSource, bindings: Mapping[str, KeyAction]) -> None:
        super().__init__(ansi_color=True)  # at once: what NO_COLOR filters is decided here
        self.theme = "ansi-dark"
        self.face = face
        self._source = source
        self._team = TeamScreen(face, bindings, TabReader(face.root, face.requests, ascii_only=face.ascii_only))
        self._stopped = False

    def on_mount(self) -> None:
        """Show the team and follow the snapshot."""
        self.face.deliver = self._deliver
        self.face.snapshot = self._source.latest()
        self.push_screen(self._team)
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):  # as q does: restores the terminal's modes
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        threading.Thread(target=self._follow, daemon=True, name="top snapshots").start()

    def _deliver(self, call: Callable[[], None]) -> None:
        self.post_message(DeliveredCall(call))

    def on_unmount(self) -> None:
        """No more news."""
        self._stopped = True

    def _follow(self) -> None:
        number = 0
        while not self._stopped:
            newest = self._source.wait(number, FOLLOW_S)
            if newest != number:
                number = newest
                self.face.deliver(self._show_news)

    def _show_news(self) -> None:
        snapshot = self._source.latest()
        if snapshot is None or snapshot is self.face.snapshot:
            return
        self.face.snapshot = snapshot
        shown = self.screen
        if isinstance(shown, TextDialog) and shown.item and shown.item not in {i["id"] for i in snapshot["inbox"]}:
            shown.over("it was answered, withdrawn or changed meanwhile")
        self._team.show()

    def on_delivered_call(self, message: DeliveredCall) -> None:
        """What a thread has brought."""
        if not self._stopped:
            message.call()

    def on_app_blur(self, _: events.AppBlur) -> None:
        """The terminal has lost the keyboard: what an agent draws meanwhile is not read."""
        self.face.seen = False

    def on_app_focus(self, _: events.AppFocus) -> None:
        """Somebody looks again: at what is newest."""
        self.face.seen = True
        self._team.show()


STAND_INS = str.maketrans("▶·⏎─│╭╮╰╯↑↓←→✓✕◐…\u2212\u2013", ">-^-|++++^v<>+x!.--") | dict.fromkeys(
    range(0x2581, 0x2590), "#"
)
"""What is drawn in place of a sign that the terminal's encoding does not have; each as wide as its sign."""


def _stand_ins(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(STAND_INS)
    return "".join(char if char.isascii() else "?" * max(1, columns_of(char)) for char in text), error.end


def run_top(
    place: Project,
    bindings: Mapping[str, KeyAction],
    *,
    ascii_only: bool,
    popup: Sequence[str],
    commands: Sequence[tuple[str, str]],
) -> None:
    """Show top in this terminal until a person quits it."""
    pasted_text.install()
    requests = TeamRequests(place)
    face = TopFace(place.root, requests, ascii_only=ascii_only, popup=popup, commands=commands)
    for name in ("COLUMNS", "LINES"):  # Textual would believe them rather than the terminal, also after a resize
        os.environ.pop(name, None)
    with contextlib.suppress(AttributeError, ValueError):  # a locale without a letter must not end the display
        codecs.register_error("stand-ins", _stand_ins)
        sys.__stderr__.reconfigure(errors="stand-ins")  # type: ignore[union-attr]  # it is a text stream of ours

    def unbind() -> None:
        for socket, table in face.key_tables:
            requests.run_quietly(unbind_command(socket, table))

    def thread_failed(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is None or failure.thread.name != WRITER_THREAD:
            threading.__excepthook__(failure)
            return
        unbind()
        os._exit(128 + signal.SIGHUP)

    threading.excepthook = thread_failed
    with SnapshotClient(place, face="top", answers=True) as source:
        source.wait(0, 0.3)
        TopApp(face, source, bindings).run()
    unbind()
    requests.close()
