"""What a row of the engines table says: how to start one kind of CLI and speak to it. Pure, types only.

A quirk that needs code is a function named in the row (`prepare`, `reads`, `composer`), never a subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from orchestrator.core.screens import Composer, Screen, ScreenPattern


def _none() -> Mapping[str, str]:
    return MappingProxyType({})


APPROVALS = ("ask", "edits", "all")
"""``ask``: the CLI's own approvals as the user has them; ``edits``: file edits unasked; ``all``: everything."""


@dataclass(frozen=True)
class UserFiles:
    """Files and directories of the user that a row looks into before a launch; absolute paths."""

    files: tuple[str, ...] = ()
    dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """All that a row needs to know of one launch of one agent."""

    agent_id: str
    role: str
    epoch: int
    project: str
    cwd: str
    engine_dir: str  # absolute; the files of `PreparedLaunch` land in it
    rules: str  # the loop's rules and the role's body: system level where the CLI has one
    first: str  # the first user message, short
    again: str  # the constant reminder a wake hands over, also as a user message after a resume
    session: str  # a fresh UUID that the row may preset
    own: tuple[str, ...]  # command of our package
    mcp: tuple[str, ...]  # command of our MCP server, for this agent
    hook: tuple[str, ...]  # command of our hook, constant
    env: Mapping[str, str]  # what the CLI will find: the user's variables and our identity
    resume: str | None = None  # the session to go on with
    model: str | None = None
    approval: str = "ask"
    trust: bool = False  # spare the CLI's question whether the folder is trusted
    command: tuple[str, ...] = ()  # engine `command`: the argv template
    queries: tuple[str, ...] = ()  # tools of our server beside its two; they only read, and need no consent either
    files: Mapping[str, str] = field(default_factory=dict)  # of `UserFiles.files`, those that exist
    dirs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of `UserFiles.dirs`: the names in them
    shipped: Mapping[str, str] = field(default_factory=dict)  # of `Engine.ships`: the texts


@dataclass(frozen=True)
class PreparedLaunch:
    """What one launch is made of. ``files`` and ``links`` are relative to the engine directory, files 0600."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=_none)
    files: Mapping[str, str] = field(default_factory=_none)
    links: Mapping[str, str] = field(default_factory=_none)  # name -> absolute target
    session: str | None = None  # known beforehand; else the CLI tells it later


@dataclass(frozen=True)
class HeadlessRun:
    """One headless run of a CLI: a prompt in, text out, nobody at the keyboard.

    ``session`` is a fresh UUID for a new chat, also where the CLI chooses its id (empty where no chat is kept),
    ``chat`` the chat to go on with; at most one of them is set. ``stdin``: the prompt is too long for a word.
    ``env`` is what the CLI will find.
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
    """What one headless run is made of: the words, the program first, and variables over the caller's.

    ``stdin`` is what must come on standard input, asked for by `HeadlessRun.stdin` or not; None: nothing.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=_none)
    stdin: str | None = None


@dataclass(frozen=True)
class Headless:
    """How a CLI answers one prompt without a screen, and how its chats go on.

    ``run`` refuses a chat whose id cannot be one of this CLI's: BadRequest ``bad_argument``. ``chats``: the id of a
    new chat is ``chosen`` by us (`HeadlessRun.session`), printed by the command ``create`` (``created``), or found in
    what the first run printed by ``told(stdout, stderr)`` (empty: not there).
    """

    run: Callable[[HeadlessRun], HeadlessCommand]
    chats: Literal["chosen", "created", "told"]
    create: tuple[str, ...] = ()
    told: Callable[[str, str], str] | None = None
    long_prompt: Literal["stdin", "no"] = "no"  # how a prompt comes that is longer than a word may be
    sequential: bool = False  # several at once disturb each other
    models: str = ""  # the folder whose roles name models of this CLI


def no_reads(_env: Mapping[str, str], _cwd: str) -> UserFiles:
    """Of a row that looks at nothing of the user's."""
    return UserFiles()


@dataclass(frozen=True)
class Engine:
    """One kind of CLI.

    ``tool_limit_s`` is how long the CLI, launched our way, lets one tool call run; ``wait_for_command`` is capped
    below it. ``program`` must be on PATH. ``hook_events`` maps the CLI's own hook names to ours: ``start``,
    ``prompt``, ``turn_end``, ``interrupt``, ``permission``, ``notice``, ``end``. ``parks`` says how an idle agent
    ends its turn and is woken: a blocking turn-end ``hook``, a ``plugin`` inside the CLI, or not at all (``no``:
    it polls). ``park_limit_s`` bounds one park.
    """

    name: str
    prepare: Callable[[Launch], PreparedLaunch]
    tool_limit_s: float
    program: str = ""
    about: str = ""
    tested: bool = True
    tested_versions: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()  # names by which the CLI introduces itself to an MCP server
    reads: Callable[[Mapping[str, str], str], UserFiles] = no_reads
    ships: tuple[str, ...] = ()  # files of ours that run inside the CLI; `orchestrator/engines/plugins/` holds them
    parks: Literal["hook", "plugin", "no"] = "no"
    park_limit_s: float = 12 * 3600.0
    hook_events: Mapping[str, str] = field(default_factory=_none)
    holds_start: bool = False  # its ``start`` hook may be held until the CLI has our tools, as its first prompt's is
    title_idle: str = ""  # regular expression: the pane's title while no turn runs (a stale park shows it)
    busy: str = ""  # regular expression: a line on the screen while a turn runs
    human_queued: str = ""  # regular expression: a line on the screen while a human's message waits in the queue
    composer: Callable[[Screen], Composer] | None = None  # whether a line may be pasted now; None: never
    pasted: str = ""  # what the composer shows in place of a line like ours that was pasted; "": the line
    paste_gap_s: float = 0.1  # between a paste and its carriage return
    quit: str = ""  # the line that makes the CLI quit by itself; needs a `composer`
    stall_after_s: float = 0.0  # silence with a task and a still screen before it is `stalled`; 0: as configured
    patterns: tuple[ScreenPattern, ...] = ()  # what explains a silent screen, first match wins
    shared_process: str = ""  # regular expression: command line of a background process that serves several panes
    slow_start: float = 1.0  # how many times longer than others its start takes: `ready_timeout_s` is stretched by it
    resumes: bool = False
    models: bool = False  # takes a model
    call_limit_s: float = 0.0  # how long it lets one tool call of a master run if nobody raised that; 0: not known
    headless: Headless | None = None  # how squads run it; None: they cannot
    asks_trust: bool = False  # nothing that a folder's own settings name runs before its user has trusted the folder
    limits: tuple[str, ...] = ()  # what does not work with it, one sentence each; for docs and doctor
