"""Every error the product reports, by who must act.

One base, five children. Each error carries a stable ``code`` (an entry of ``CODES``), one sentence,
and the next step. Surfaces map the *class*: ``EXIT_CODES`` for the shell, ``as_dict`` for MCP answers.
Callers and tests match codes, never sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar


class OrchestratorError(Exception):
    """Base of all expected errors; anything else is a bug.

    ``code`` is stable across versions, ``next_step`` tells the one who must act what to do.
    """

    kind: ClassVar[str] = "Error"

    def __init__(self, code: str, message: str, next_step: str = "", **facts: Any) -> None:
        entry = CODES.get(code)
        if entry is None or entry[0] is not type(self):
            raise AssertionError(f"{type(self).__name__}({code!r}) is not in the table of codes")
        super().__init__(message)
        self.code = code
        self.message = message
        self.next_step = next_step or entry[2]
        self.facts = facts

    def as_dict(self) -> dict[str, Any]:
        """The wire form: ``{kind, code, message, next_step, ...facts}``."""
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "next_step": self.next_step,
            **self.facts,
        }


class BadRequest(OrchestratorError):
    """The caller must change the request."""

    kind = "BadRequest"


class Conflict(OrchestratorError):
    """The caller's view is old: re-read, then decide again."""

    kind = "Conflict"


class NotReady(OrchestratorError):
    """The caller must wait; the same request may work later."""

    kind = "NotReady"


class Environment(OrchestratorError):
    """The operator must change the machine: tmux, disk, window, installation, configuration."""

    kind = "Environment"


class Corrupt(OrchestratorError):
    """A file says what cannot be true; stop, look at file and line."""

    kind = "Corrupt"


# code: (class, what it means, default next step). docs/reference/errors.md is generated from this table.
CODES: dict[str, tuple[type[OrchestratorError], str, str]] = {
    # who: the caller
    "bad_argument": (
        BadRequest,
        "an argument is missing, unknown, or has the wrong type or range",
        "read the tool's input schema and call again",
    ),
    "unknown_agent": (BadRequest, "no agent has this id", "agent_list shows the agents of this window"),
    "unknown_task": (
        BadRequest,
        "the agent has no task with this id",
        "agent_get shows the agent's unfinished tasks",
    ),
    "unknown_run": (BadRequest, "no team run has this id", "agent_list(scope='all') shows every run"),
    "unknown_engine": (BadRequest, "no engine has this name", "orchestrator doctor lists the engines"),
    "unknown_tool": (BadRequest, "this connection offers no tool of this name", "tools/list shows the tools"),
    "unknown_resource": (BadRequest, "no resource has this URI", "resources/templates/list shows the forms"),
    "bad_id": (
        BadRequest,
        "an id has characters or a length that ids may not have",
        "use letters, digits, dot, dash and underscore",
    ),
    "path_escape": (BadRequest, "a path leaves the project", "give a path inside the project"),
    "payload_too_large": (
        BadRequest,
        "a payload is over the limit",
        "write it to a file in the agent's artifacts/ and pass the path",
    ),
    "not_your_task": (
        BadRequest,
        "an event names a task that is not the agent's lease",
        "report on the task you hold, or leave task_id out",
    ),
    "no_lease": (BadRequest, "an event needs a task, and the agent holds none", "call wait_for_command"),
    "bad_event": (BadRequest, "an event's type and fields do not fit together", "see emit_event's schema"),
    "not_for_agents": (
        BadRequest,
        "a sub-agent or a squad member called what only the master may call",
        "work on your task; report with emit_event",
    ),
    "not_an_agent": (
        BadRequest,
        "this connection is not the agent it names",
        "only the agent's own process may speak for it",
    ),
    "origin_unknown": (
        BadRequest,
        "nothing shows that this process does not come from an agent: it has no terminal and its parent has ended",
        "run the command in a terminal, or start the AI CLI there",
    ),
    "trust_changed": (
        Conflict,
        "what would be allowed is not what was shown: it has changed since",
        "look at it again: orchestrator trust",
    ),
    "trust_refused": (
        BadRequest,
        "trust is given by a human at a terminal, not by an AI CLI or what it starts",
        "run orchestrator trust in a terminal of your own",
    ),
    "confirm_needed": (
        BadRequest,
        "force needs confirm='<agent_id>'",
        "repeat the call with confirm set to the agent's id",
    ),
    "no_project": (
        BadRequest,
        "the directory is no project: / or the home directory",
        "start in the directory the team is to work in",
    ),
    "bad_config": (
        BadRequest,
        "a configuration file, variable or flag has an unknown key or a wrong value",
        "fix the named key; orchestrator config show explains every value",
    ),
    "bad_role": (
        BadRequest,
        "the role's file cannot be used",
        "fix the named file (orchestrator roles lint), or take another role",
    ),
    "unknown_role": (BadRequest, "no role has this id", "list_roles shows the roles"),
    "unknown_squad": (
        BadRequest,
        "no squad has this id, or its results are no longer kept",
        "results are kept for an hour behind the end of the squad, those nobody has read for a week",
    ),
    "unknown_spawn_run": (
        BadRequest,
        "no spawn run of this home has this id",
        "smartspawn_run_list shows the runs; SMART_SPAWN_MCP_HOME chooses the home",
    ),
    "unknown_artifact": (
        BadRequest,
        "the spawn run has no artifact of this node (yet)",
        "smartspawn_run_result lists those there are",
    ),
    "no_api_key": (
        BadRequest,
        "a spawn run answered by the model API needs a key, and this connection has none",
        "set OPENROUTER_API_KEY where your CLI starts this server, or choose engine or agent; see docs/spawn-runs.md",
    ),
    "model_not_allowed": (
        BadRequest,
        "MODEL_ALLOWLIST and MODEL_DENYLIST leave no model for this",
        "name another model, or change the lists where your CLI starts this server",
    ),
    "prompt_too_large": (
        BadRequest,
        "the task and its context are longer than MAX_PROMPT_CHARS",
        "shorten them, or raise MAX_PROMPT_CHARS where your CLI starts this server",
    ),
    "bad_template": (
        BadRequest,
        "a command template cannot be used",
        "fix the template at the named line and column; docs/squads.md shows its language",
    ),
    "prompt_too_long": (
        BadRequest,
        "a value is longer than one argument of a program may be",
        "let the template take <%= promptFile %> or begin with the line: # stdin: prompt",
    ),
    "not_a_repository": (
        BadRequest,
        "there is no git repository with a commit that a worktree could be made of",
        "create the agent without worktree, or make the project a repository and commit",
    ),
    "no_worktree": (BadRequest, "the agent has no worktree", "orchestrator worktree list shows those there are"),
    "no_gsd_project": (
        BadRequest,
        "no directory from here upwards has a .planning/ that can be read, or an index of ours",
        "in a GSD project start there or name it (project_root); anywhere else run: orchestrator gsd index",
    ),
    "unknown_requirement": (
        BadRequest,
        "REQUIREMENTS.md, of this milestone or an archived one, has no requirement of this id",
        "gsd://project/requirements/pending lists the open ones",
    ),
    "unknown_phase": (
        BadRequest,
        "neither ROADMAP.md nor the phases' directories have this phase",
        "gsd_phase_status without arguments shows the current one",
    ),
    # who: the caller, after looking again
    "spawn_run_finished": (Conflict, "the spawn run has ended already", "read it with smartspawn_run_result"),
    "home_newer": (
        Conflict,
        "the home of the spawn runs was written by a newer version",
        "use that version, or another SMART_SPAWN_MCP_HOME",
    ),
    "task_exists": (Conflict, "the task id is taken by another payload", "use a new task_id"),
    "task_finished": (Conflict, "the task has ended already", "read its terminal event with events_read"),
    "agent_ended": (Conflict, "the agent is stopping, failed or deleted", "create a new agent"),
    "replaced": (Conflict, "a newer life of this agent has taken over", "stop; you have been replaced"),
    "window_taken": (
        Conflict,
        "the window of a team run is gone, and another run works in the caller's",
        "repeat the call in another tmux window",
    ),
    "entry_edited": (
        Conflict,
        "what setup wrote into a CLI's configuration has been changed by hand",
        "look at it; --force takes no notice of the change",
    ),
    "proto_mismatch": (
        Conflict,
        "two installations speak different protocols",
        "stop the other installation's daemon, or use one installation",
    ),
    "daemon_running": (Conflict, "another daemon serves this project", "orchestrator daemon status shows it"),
    "worktree_dirty": (
        Conflict,
        "a worktree holds work that is in no branch",
        "commit it or throw it away in the worktree, then try again",
    ),
    "worktree_busy": (
        Conflict,
        "a worktree is in use: its agent lives, a git operation is under way, or it is locked",
        "let that end first",
    ),
    "worktree_taken": (
        Conflict,
        "something with work in it lies where the agent's worktree would be",
        "see orchestrator worktree list; remove it there, or give the agent another name",
    ),
    # who: nobody, wait
    "queue_full": (
        NotReady,
        "the agent has as many unfinished tasks as are allowed",
        "wait for terminal events, then enqueue again",
    ),
    "daemon_down": (
        NotReady,
        "the daemon does not answer",
        "repeat the call later; orchestrator daemon status says why",
    ),
    "daemon_stopped": (NotReady, "the daemon was stopped by hand", "run: orchestrator daemon start"),
    "config_busy": (
        NotReady,
        "another program is writing the same configuration file",
        "run it again",
    ),
    "index_busy": (NotReady, "another process is making the index of this project", "run it again"),
    # who: the operator
    "no_room": (
        Environment,
        "the window is too small for another agent pane",
        'enlarge the window, delete an agent, or set overflow = "window"',
    ),
    "no_tmux": (Environment, "tmux is missing or does not answer", "install tmux 3.2 or newer"),
    "pane_unknown": (
        Environment,
        "the pane of the master cannot be known: its CLI shares one background process among panes",
        "start Codex with --no-daemon, or set features.daemon_auto_start = false and end the running one",
    ),
    "tmux_failed": (Environment, "tmux refused a command", "see the message; orchestrator doctor checks tmux"),
    "disk_full": (Environment, "the disk is full; nothing was stored", "free space, then repeat the call"),
    "io_failed": (
        Environment,
        "the operating system failed to write or read a file",
        "see the message; check disk and permissions",
    ),
    "git_failed": (Environment, "git is missing, too old, too slow, or refused", "see the message"),
    "engine_missing": (Environment, "the engine's program is not installed", "install it, or choose another engine"),
    "config_unreadable": (
        Environment,
        "a CLI's configuration file cannot be understood; it was left alone",
        "fix the named line, or add the snippet by hand: orchestrator setup --print CLI",
    ),
    "not_ready": (
        Environment,
        "the agent's CLI did not get to its first call in time",
        "see the cause and the last lines of its pane; docs/troubleshooting.md says what to do",
    ),
    "launch_failed": (Environment, "the agent's program did not start", "see the message and the pane's last lines"),
    "daemon_failed": (Environment, "the daemon cannot start", "see the message and the daemon's log"),
    "run_dir_unsafe": (
        Environment,
        "neither the run directory in /tmp nor the one in the state directory can be used",
        "make one of them yours, mode 0700; or set ORCHESTRATOR_STATE_DIR to a short absolute path that you can write",
    ),
    "state_dir_unsafe": (
        Environment,
        "the state directory, where trust is kept, belongs to somebody else or is open to others",
        "fix owner and mode (0700), or set ORCHESTRATOR_STATE_DIR to a directory of your own",
    ),
    "foreign_data": (
        Environment,
        "team data was not made on this machine, or was changed by something other than orchestrator",
        "run orchestrator trust in a terminal: it shows what would come to life, and asks",
    ),
    "untrusted_setting": (
        Environment,
        "a file of the project sets something that can act, and nobody has allowed its content",
        "run orchestrator trust in a terminal: it shows what the file sets, and asks",
    ),
    "home_unusable": (
        Environment,
        "the home of the spawn runs cannot be used",
        "see the message; SMART_SPAWN_MCP_HOME chooses another one",
    ),
    "key_unsafe": (
        Environment,
        "the file with the key is not the user's alone",
        "chmod 600 the named file, or set OPENROUTER_API_KEY",
    ),
    "gsd_failed": (
        Environment,
        "the process that reads a project's planning and code graph ended, or took too long",
        "call again; the daemon's log says more",
    ),
    "internal": (Environment, "a bug in orchestrator", "please report it with the daemon's log"),
    # who: the operator, before anything else runs
    "corrupt_home": (
        Corrupt,
        "the database or an artifact of the spawn runs says what cannot be true",
        "keep a copy; see the named file, and its backups beside it",
    ),
    "corrupt_index": (
        Corrupt,
        "the index of a project's code says what cannot be true",
        "run: orchestrator gsd index --rebuild",
    ),
    "corrupt_log": (Corrupt, "a log has a line that cannot be true", "orchestrator doctor shows file and line"),
    "unknown_version": (
        Corrupt,
        "a record is of a newer format or an unknown type",
        "use the version of orchestrator that wrote it, or a newer one",
    ),
}

EXIT_CODES: dict[type[OrchestratorError], int] = {
    BadRequest: 2,
    Conflict: 3,
    NotReady: 4,
    Environment: 5,
    Corrupt: 6,
}


FILES_TOLD = 5
NAME_TOLD = 120


def untrusted(files: Mapping[str, Iterable[str]]) -> Environment:
    """What says that settings of these files do not count (file -> its keys).

    Only names stand in it, and few: the values are a repository's words, and a model reads this.
    """
    rows = [{"file": _plain(file), "keys": [_plain(key) for key in keys]} for file, keys in sorted(files.items())]
    told = [f"{row['file']} ({', '.join(row['keys'][:FILES_TOLD])})" for row in rows[:FILES_TOLD]]
    more = f" and {len(rows) - FILES_TOLD} more files" if len(rows) > FILES_TOLD else ""
    message = f"these settings of the project do not count, because nobody has allowed them: {'; '.join(told)}{more}"
    return Environment("untrusted_setting", message, files=rows[: 4 * FILES_TOLD])


def untrusted_note(files: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The same as a part of an answer, under the key ``untrusted``; empty when there are no such files."""
    if not files:
        return {}
    return {"untrusted": {key: value for key, value in untrusted(files).as_dict().items() if key != "kind"}}


def _plain(name: str) -> str:
    """The name on one short line, without what could command a terminal or pass for our words."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    return shown if len(shown) <= NAME_TOLD else f"{shown[: NAME_TOLD - 1]}…"
