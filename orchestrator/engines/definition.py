"""The types of an engine: how to start one kind of CLI and talk to it. Pure.

Special behaviour that needs code is a function of the engine (`prepare`, `reads`, `composer`), never a subclass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from orchestrator.core.model_usage import ModelRequest
from orchestrator.core.screens import Composer, LogFinding, Screen, ScreenPattern
from orchestrator.engines.permission_requests import PermissionRequest
from orchestrator.engines.screen_dialogs import DialogForm
from orchestrator.engines.shown_dialogs import ShownDialog
from orchestrator.engines.usage_reading import TranscriptUsage
from orchestrator.engines.user_setup import UserSetup


def _none() -> Mapping[str, str]:
    return MappingProxyType({})


APPROVALS = ("ask", "edits", "all")
"""``ask``: the CLI's own approvals as the user has them; ``edits``: file edits unasked; ``all``: everything."""


@dataclass(frozen=True)
class UserFiles:
    """Files and directories of the user that an engine reads before a launch; absolute paths.

    ``within``: each a directory and an ending; the files in it whose names end so are read too.
    """

    files: tuple[str, ...] = ()
    dirs: tuple[str, ...] = ()
    within: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Launch:
    """All that an engine needs for one launch of one agent."""

    agent_id: str
    role: str
    epoch: int
    project: str
    cwd: str
    engine_dir: str  # absolute; the files of `PreparedLaunch` land in it
    rules: str  # the loop's rules and the role's body: system level where the CLI has one
    first: str  # the first user message, short
    again: str  # the constant reminder that a wake delivers; also the user message after a resume
    session: str  # a fresh UUID that the engine may use as the session id
    own: tuple[str, ...]  # command of our package
    mcp: tuple[str, ...]  # command of our MCP server, for this agent
    hook: tuple[str, ...]  # command of our hook, constant
    env: Mapping[str, str]  # what the CLI will find: the user's variables and our identity
    resume: str | None = None  # the session to resume
    model: str | None = None
    approval: str = "ask"
    trust: bool = False  # skip the CLI's question whether the folder is trusted
    command: tuple[str, ...] = ()  # engine `command`: the argv template
    queries: tuple[str, ...] = ()  # further tools of our server; they only read and need no approval
    files: Mapping[str, str] = field(default_factory=dict)  # of `UserFiles.files`, those that exist
    dirs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of `UserFiles.dirs`: the names in them
    shipped: Mapping[str, str] = field(default_factory=dict)  # of `Engine.ships`: the texts


THEN_TYPE = "; when that is fixed, type any word and Enter in its pane"
"""Follows the reason of a refused login that has ended a turn: nothing but a message begins the next one."""


@dataclass(frozen=True)
class PreparedLaunch:
    """The parts of one launch. ``files`` and ``links`` are relative to the engine directory, files 0600."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=_none)
    files: Mapping[str, str] = field(default_factory=_none)
    links: Mapping[str, str] = field(default_factory=_none)  # name -> absolute target
    session: str | None = None  # None: the CLI reports it later


@dataclass(frozen=True)
class HeadlessRun:
    """One headless run of a CLI: a prompt in, text out, no human.

    ``session`` is a fresh UUID for a new chat, even if the CLI chooses its own id (empty: no chat is kept); ``chat``
    is the chat to continue; at most one is set. ``stdin``: the prompt is too long for a command-line argument.
    ``env`` is the environment of the CLI.
    """

    prompt: str
    cwd: str
    session: str = ""
    chat: str = ""
    stdin: bool = False
    approval: str = "ask"
    trust: bool = False
    model: str | None = None
    env: Mapping[str, str] = field(default_factory=_none)


@dataclass(frozen=True)
class HeadlessCommand:
    """The command of one headless run; ``env`` is added to the caller's environment.

    ``stdin`` is the text for standard input, whether `HeadlessRun.stdin` is set or not; None: no input.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=_none)
    stdin: str | None = None


class TranscriptPlace(NamedTuple):
    """Where a CLI keeps the transcript of one session: ``files`` is a glob pattern below ``folder``."""

    folder: str
    files: str


class RunRecord(NamedTuple):
    """Where a CLI records that a run has begun: ``files`` is a glob pattern below ``folder``, ``message`` a regex.

    After ``bound_s`` nobody waits for it any more: a CLI of another version may record its runs elsewhere.
    """

    folder: str
    files: str
    message: str
    bound_s: float = 30.0


@dataclass(frozen=True)
class Headless:
    """How a CLI answers one prompt without a screen, and how its chats are continued.

    ``run`` raises BadRequest ``bad_argument`` for an impossible chat id. ``chats``: a new chat's id is ``chosen``
    by us (`HeadlessRun.session`), printed by the command ``create`` (``created``), or ``printed`` by the first run,
    where ``printed_chat_id(stdout, stderr)`` finds it (empty: not found). ``record(env, chat)`` is for a CLI whose
    start deletes the chats of the same folder that have no message yet. ``opening(env)`` is for one of which two
    runs that start at once disturb each other.
    """

    run: Callable[[HeadlessRun], HeadlessCommand]
    chats: Literal["chosen", "created", "printed"]
    create: tuple[str, ...] = ()
    printed_chat_id: Callable[[str, str], str] | None = None
    record: Callable[[Mapping[str, str], str], RunRecord] | None = None
    opening: Callable[[Mapping[str, str]], RunRecord] | None = None
    long_prompt: Literal["stdin", "no"] = "no"  # how to pass a prompt too long for an argument
    sequential: bool = False  # parallel runs disturb each other


class RoleFolder(NamedTuple):
    """The folder in a project that a CLI reads agents from: its path, and how its files end."""

    path: str
    ending: str = ".md"


def no_reads(_env: Mapping[str, str], _cwd: str) -> UserFiles:
    """For an engine that reads none of the user's files."""
    return UserFiles()


@dataclass(frozen=True)
class Engine:
    """One kind of CLI.

    ``tool_limit_s`` is how long the CLI, launched our way, lets one tool call run; ``wait_for_command`` is capped
    below it. ``program`` must be on PATH. ``hook_events`` maps the CLI's own hook names to ours: ``start``,
    ``prompt``, ``turn_end``, ``interrupt``, ``permission``, ``answered``, ``tool``, ``notice``, ``usage``,
    ``compacted``, ``end``. ``parks`` says how an idle agent ends its turn and is woken: a blocking turn-end ``hook``,
    a ``plugin`` inside the CLI, or not at all (``no``: it polls). ``park_limit_s`` bounds one park.
    """

    name: str
    prepare: Callable[[Launch], PreparedLaunch]
    tool_limit_s: float
    program: str = ""
    about: str = ""
    takes: Literal["words", "command"] = "words"  # what a task asks of its agents: a text, or a shell command
    tested: bool = True
    tested_versions: tuple[str, ...] = ()
    package: str = ""  # its npm package, in which doctor finds the version without starting it
    clients: tuple[str, ...] = ()  # names by which the CLI introduces itself to an MCP server
    reads: Callable[[Mapping[str, str], str], UserFiles] = no_reads
    ships: tuple[str, ...] = ()  # files of ours that run inside the CLI; `orchestrator/engines/plugins/` holds them
    parks: Literal["hook", "plugin", "no"] = "no"
    park_limit_s: float = 12 * 3600.0
    hook_events: Mapping[str, str] = field(default_factory=_none)
    holds_start: bool = False  # its ``start`` hook may be held until the CLI has our tools, as its first prompt's is
    title_idle: str = ""  # regular expression: the pane's title while no turn runs (a stale park shows it)
    busy: str = ""  # regular expression: a line on the screen while a turn runs
    human_queued: str = ""  # as `human_waits` searches: a human's message waits, or a command was just refused
    composer: Callable[[Screen], Composer] | None = None  # whether a line may be pasted now; None: never
    pasted: str = ""  # what the composer shows in place of a line like ours that was pasted; "": the line
    paste_gap_s: float = 0.1  # between a paste and its carriage return
    quit: str = ""  # the line that makes the CLI quit by itself; needs a `composer`
    stall_after_s: float = 0.0  # silence with a task and a still screen before it is `stalled`; 0: as configured
    patterns: tuple[ScreenPattern, ...] = ()  # what explains a silent screen, first match wins
    log: str = ""  # a log that the CLI appends to, in the engine directory; asked if the screen explains nothing
    dialogs: tuple[DialogForm, ...] = ()  # its permission dialogs that a key from outside may answer
    request: Callable[[str, Mapping[str, Any]], PermissionRequest | None] | None = (
        None  # what an event of its hook or plugin asks its user; None: it is decided in its pane alone
    )
    asks_no_more: Callable[[Screen, frozenset[str]], bool] | None = (
        None  # whether the screen shows that a request held without a dialog, which covers these, is over
    )
    shows: Callable[[Screen], ShownDialog | None] | None = (
        None  # the dialog on the screen, if the CLI shows the dialogs of several waiting hooks one after the other
    )
    explain_log: Callable[[str], LogFinding | None] = lambda _text: None  # what the end of the log explains
    min_pane: tuple[int, int] = (60, 12)  # columns and rows of the smallest pane in which a person can read it
    shared_process: str = ""  # regular expression: command line of a background process that serves several panes
    on_pane_closed: Literal["cancel", "requeue"] = "requeue"  # the default of the setting: its running task
    slow_start: float = 1.0  # how many times longer than others its start takes: `ready_timeout_s` is stretched by it
    session_key: str = ""  # where a tool call's ``_meta`` names the CLI's session before anything else does
    resumes: bool = False
    transcript: Callable[[Mapping[str, str], str], TranscriptPlace] | None = (
        None  # of a session (a plain id), by the CLI's environment; None: in no file that people can read
    )
    usage: TranscriptUsage | None = None  # how its model requests are read from its transcripts; None: they are not
    reported_usage: Callable[[Mapping[str, Any]], ModelRequest | None] | None = (
        None  # a model request, of the data of a plugin's event ``usage``; None: its plugin reports none
    )
    no_usage: str = "this engine reports no tokens"  # what is said if neither of the two reports any
    models: bool = False  # takes a model
    call_limit_s: float = 0.0  # how long it lets one tool call of a master run if nobody raised that; 0: not known
    headless: Headless | None = None  # how squads run it; None: they cannot
    role_folder: RoleFolder | None = None  # its files are roles too, and name models of this CLI
    setup: UserSetup | None = None  # how setup registers our server in it; None: it cannot
    asks_trust: bool = False  # nothing that a folder's own settings name runs before its user has trusted the folder
    limits: tuple[str, ...] = ()  # what does not work with it, one sentence each; for docs and doctor

    def human_waits(self, screen: Screen) -> bool:
        """Whether the screen of a held CLI shows that what a human has typed waits for the end of the turn.

        `human_queued` is searched in the whole screen, so that it can rule out what is followed by something newer.
        """
        return bool(self.human_queued and re.search(self.human_queued, "\n".join(screen.lines), re.MULTILINE))
