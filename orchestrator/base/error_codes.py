"""Codes of errors, except those about a fleet: who must act, what each means, the default next step. Data only."""

from __future__ import annotations

# In the order of who must act, which the kind of an error says too.
ERROR_CODES: dict[str, tuple[str, str, str]] = {
    # who: the caller
    "bad_argument": (
        "BadRequest",
        "an argument is missing, unknown, or has the wrong type or range",
        "read the tool's input schema and call again",
    ),
    "unknown_agent": ("BadRequest", "no agent has this id", "agent_list shows the agents"),
    "unknown_task": (
        "BadRequest",
        "the agent has no task with this id",
        "agent_get shows the agent's unfinished tasks",
    ),
    "unknown_run": ("BadRequest", "no team run has this id", "agent_list(scope='all') shows every run"),
    "unknown_item": (
        "BadRequest",
        "the inbox has no item with this id",
        "orchestrator inbox lists the items; for another project use orchestrator -C DIR inbox",
    ),
    "unknown_rule": (
        "BadRequest",
        "the project has no rule of approve --always with this id",
        "orchestrator approvals list shows the rules",
    ),
    "cannot_answer": (
        "BadRequest",
        "this item of the inbox cannot be answered in this way",
        "orchestrator inbox ID shows the commands that answer it",
    ),
    "not_allowed_to_answer": (
        "BadRequest",
        "only a human may answer here, or a master whose user has set approvals.master",
        "answer from a terminal of your own",
    ),
    "unknown_engine": ("BadRequest", "no engine has this name", "orchestrator doctor lists the engines"),
    "unknown_tool": ("BadRequest", "this connection offers no tool of this name", "tools/list shows the tools"),
    "unknown_resource": ("BadRequest", "no resource has this URI", "resources/templates/list shows the forms"),
    "bad_id": (
        "BadRequest",
        "an id has characters or a length that are not allowed",
        "use letters, digits, dot, dash and underscore",
    ),
    "path_escape": ("BadRequest", "a path leads out of the project", "give a path inside the project"),
    "payload_too_large": (
        "BadRequest",
        "a payload is over the limit",
        "write it to a file in the project (an agent: in its artifacts/) and pass the path",
    ),
    "not_your_task": (
        "BadRequest",
        "an event names another task than the one the agent holds",
        "report on the task you hold, or leave task_id out",
    ),
    "no_lease": ("BadRequest", "an event needs a task, and the agent holds none", "call wait_for_command"),
    "bad_event": ("BadRequest", "an event has fields that its type does not allow", "see emit_event's schema"),
    "not_for_agents": (
        "BadRequest",
        "only the master may make this call; a sub-agent or a squad member made it",
        "continue with your task; report with emit_event",
    ),
    "not_an_agent": (
        "BadRequest",
        "this connection is not the agent it names",
        "make the call from the agent's own process",
    ),
    "origin_unknown": (
        "BadRequest",
        "the process has no terminal and its parent has ended, so it could come from an agent",
        "run the command in a terminal, or start the AI CLI there",
    ),
    "trust_changed": (
        "Conflict",
        "the files have changed since they were shown",
        "look at them again: orchestrator trust",
    ),
    "web_token": (
        "BadRequest",
        "the web page has no valid token",
        "open the link that orchestrator web printed",
    ),
    "web_refused": (
        "BadRequest",
        "the web page does not serve this request",
        "open the link that orchestrator web printed, on this machine or through ssh -L",
    ),
    "no_terminal": (
        "BadRequest",
        "the link to the web page is a secret and is shown on a terminal only",
        "run orchestrator web in a terminal",
    ),
    "trust_refused": (
        "BadRequest",
        "only a human at a terminal can allow files, not an AI CLI or a program that it starts",
        "run orchestrator trust in a terminal of your own",
    ),
    "confirm_needed": (
        "BadRequest",
        "force needs confirm='<agent_id>'",
        "repeat the call with confirm set to the agent's id",
    ),
    "no_project": (
        "BadRequest",
        "the directory cannot be a project: it is / or the home directory",
        "start in the directory that the team shall work in",
    ),
    "bad_config": (
        "BadRequest",
        "a configuration file, variable or flag has an unknown key or a wrong value",
        "fix the named key; orchestrator config show explains every value",
    ),
    "bad_role": (
        "BadRequest",
        "the role's file cannot be used",
        "fix the named file (orchestrator roles lint), or take another role",
    ),
    "unknown_role": ("BadRequest", "no role has this id", "list_roles shows the roles"),
    "unknown_squad": (
        "BadRequest",
        "no squad has this id, or its results are no longer kept",
        "start the squad again: results are kept for squad_keep_s after they were last read, unread ones for gc_after_s",
    ),
    "unknown_spawn_run": (
        "BadRequest",
        "no spawn run of this home has this id",
        "smartspawn_run_list shows the runs; SMART_SPAWN_MCP_HOME chooses the home",
    ),
    "unknown_artifact": (
        "BadRequest",
        "the spawn run has no artifact of this node (yet)",
        "smartspawn_run_result lists the artifacts",
    ),
    "no_api_key": (
        "BadRequest",
        "a spawn run answered by the model API needs a key, and this connection has none",
        "set OPENROUTER_API_KEY where your CLI starts this server, or choose engine or agent; see docs/spawn-runs.md",
    ),
    "model_not_allowed": (
        "BadRequest",
        "MODEL_ALLOWLIST and MODEL_DENYLIST leave no model for this",
        "name another model, or change the lists where your CLI starts this server",
    ),
    "prompt_too_large": (
        "BadRequest",
        "the task and its context are longer than MAX_PROMPT_CHARS",
        "shorten them, or raise MAX_PROMPT_CHARS where your CLI starts this server",
    ),
    "bad_template": (
        "BadRequest",
        "a command template cannot be used",
        "fix the template at the named line and column; docs/squads.md shows its language",
    ),
    "prompt_too_long": (
        "BadRequest",
        "a value is longer than one argument of a program can be",
        "use <%= promptFile %> in the template, or begin it with the line: # stdin: prompt",
    ),
    "not_a_repository": (
        "BadRequest",
        "the project is not a git repository with a commit, so no worktree can be made",
        "create the agent without worktree, or run git init and commit",
    ),
    "no_worktree": ("BadRequest", "the agent has no worktree", "orchestrator worktree list shows the worktrees"),
    "no_gsd_project": (
        "BadRequest",
        "neither this directory nor one above it has a readable .planning/ or an index",
        "start in a GSD project or name it (project_root); for any other project run: orchestrator gsd index",
    ),
    "unknown_requirement": (
        "BadRequest",
        "no REQUIREMENTS.md, of this milestone or an archived one, has a requirement with this id",
        "gsd://project/requirements/pending lists the open ones",
    ),
    "unknown_phase": (
        "BadRequest",
        "neither ROADMAP.md nor a directory has this phase",
        "gsd_phase_status without arguments shows the current one",
    ),
    # who: the caller, after looking again
    "spawn_run_finished": ("Conflict", "the spawn run has ended already", "read it with smartspawn_run_result"),
    "home_newer": (
        "Conflict",
        "the home of the spawn runs was written by a newer version",
        "use that version, or another SMART_SPAWN_MCP_HOME",
    ),
    "task_exists": ("Conflict", "a task with this id and another payload exists", "use a new task_id"),
    "task_finished": ("Conflict", "the task has ended already", "read its terminal event with events_read"),
    "agent_ended": (
        "Conflict",
        "the agent is stopping, failed or deleted",
        "restart a failed agent, or create a new one",
    ),
    "item_over": (
        "Conflict",
        "the item of the inbox was answered, withdrawn or has changed; nothing was decided",
        "orchestrator inbox shows what waits now",
    ),
    "no_pane": (
        "Conflict",
        "the agent has no pane now: it has ended, or its pane was closed",
        "orchestrator logs AGENT shows what was kept of it",
    ),
    "merge_conflict": (
        "Conflict",
        "the agent's commits conflict with the branch of the project; nothing was changed",
        "merge by hand, or let the agent merge the project's branch into its own first",
    ),
    "replaced": ("Conflict", "a newer launch of this agent has replaced this process", "stop"),
    "window_taken": (
        "Conflict",
        "the window of the team run is gone, and another run uses the caller's window",
        "repeat the call in another tmux window",
    ),
    "entry_edited": (
        "Conflict",
        "what setup wrote into a CLI's configuration has been changed by hand",
        "look at the change; --force replaces or removes the entry anyway",
    ),
    "proto_mismatch": (
        "Conflict",
        "two installations of orchestrator use different protocol versions",
        "stop the other installation's daemon, or use one installation",
    ),
    "daemon_running": ("Conflict", "another daemon serves this project", "orchestrator daemon status shows it"),
    "worktree_dirty": (
        "Conflict",
        "a worktree has work that is in no branch",
        "commit or discard it in the worktree, then try again",
    ),
    "worktree_busy": (
        "Conflict",
        "a worktree is in use: its agent is alive, a git operation is running, or it is locked",
        "wait until that has ended",
    ),
    "worktree_taken": (
        "Conflict",
        "the path of the agent's worktree is taken, and what is there has work in it",
        "remove it (orchestrator worktree list shows it), or give the agent another name",
    ),
    # who: nobody, wait
    "web_busy": (
        "NotReady",
        "the web page gets too many requests, or too many pages are open",
        "wait a moment; the page tries again by itself",
    ),
    "queue_full": (
        "NotReady",
        "the agent has the maximum number of unfinished tasks",
        "wait for terminal events, then enqueue again",
    ),
    "daemon_down": (
        "NotReady",
        "the daemon does not answer",
        "repeat the call later; orchestrator daemon status shows the cause",
    ),
    "daemon_stopped": ("NotReady", "the daemon was stopped by hand", "run: orchestrator daemon start"),
    "config_busy": (
        "NotReady",
        "another program is writing the same configuration file",
        "run it again",
    ),
    "index_busy": ("NotReady", "another process is making the index of this project", "run it again"),
    # who: the operator
    "web_failed": (
        "Environment",
        "orchestrator web cannot listen at that address, or cannot use its TLS files",
        "give another port: orchestrator web --port 0",
    ),
    "no_room": (
        "Environment",
        "the window is too small for another agent pane",
        'make the window larger, delete an agent, or set overflow = "window" or layout = "focus"',
    ),
    "system_unsupported": (
        "Environment",
        "orchestrator cannot work on this system",
        "use it on Linux or macOS",
    ),
    "no_tmux": ("Environment", "tmux is missing or does not answer", "install tmux 3.3 or newer"),
    "pane_unknown": (
        "Environment",
        "the master's pane cannot be determined: its CLI shares one background process among several panes",
        "start Codex with --no-daemon, or set features.daemon_auto_start = false in its config.toml and end its background process",
    ),
    "tmux_failed": ("Environment", "tmux refused a command", "orchestrator doctor checks tmux"),
    "disk_full": ("Environment", "the disk is full; nothing was stored", "free space, then repeat the call"),
    "io_failed": (
        "Environment",
        "the operating system failed to write or read a file",
        "check the disk, and the permissions of the named path",
    ),
    "git_failed": (
        "Environment",
        "git is missing, too old, too slow, or refused",
        "run git status there, and repair what it says",
    ),
    "engine_missing": (
        "Environment",
        "the engine's program is not installed",
        "install it, or choose another engine",
    ),
    "config_unreadable": (
        "Environment",
        "a CLI's configuration file cannot be parsed; it was not changed",
        "fix the named line, or add the snippet by hand: orchestrator setup --print CLI",
    ),
    "not_ready": (
        "Environment",
        "the agent's CLI did not make its first call in time",
        "see the cause and the last lines of its pane; docs/troubleshooting.md has the remedies",
    ),
    "launch_failed": (
        "Environment",
        "the agent's program did not start",
        "read the last lines of its pane; orchestrator doctor checks the CLIs",
    ),
    "daemon_failed": (
        "Environment",
        "the daemon cannot start",
        "repair the named cause; orchestrator daemon status names its log",
    ),
    "run_dir_unsafe": (
        "Environment",
        "neither the run directory in /tmp nor the one in the state directory can be used",
        "make one of them yours, mode 0700; or set ORCHESTRATOR_STATE_DIR to a short absolute path that you can write",
    ),
    "state_dir_unsafe": (
        "Environment",
        "the state directory, which holds what you have allowed, belongs to another user or is open to others",
        "fix owner and mode (0700), or set ORCHESTRATOR_STATE_DIR to a directory of your own",
    ),
    "foreign_data": (
        "Environment",
        "team data was not made on this machine, or was changed by something other than orchestrator",
        "run orchestrator trust in a terminal: it lists what would be started and asks for your approval",
    ),
    "untrusted_setting": (
        "Environment",
        "a file of the project has settings that can start programs or weaken protection, and nobody has allowed them",
        "run orchestrator trust in a terminal: it shows the settings and asks for your approval",
    ),
    "home_unusable": (
        "Environment",
        "the home of the spawn runs cannot be used",
        "repair the named cause, or choose another home with SMART_SPAWN_MCP_HOME",
    ),
    "key_unsafe": (
        "Environment",
        "the file with the API key can be read or changed by others",
        "chmod 600 the named file, or set OPENROUTER_API_KEY",
    ),
    "gsd_failed": (
        "Environment",
        "the process that reads a project's planning and code graph ended, or took too long",
        "call again; the daemon's log says more",
    ),
    "internal": ("Environment", "a bug in orchestrator", "please report it with the daemon's log"),
    # who: the operator, before anything else runs
    "corrupt_home": (
        "Corrupt",
        "the database or an artifact of the spawn runs contains invalid or contradictory data",
        "keep a copy; see the named file and the backups next to it",
    ),
    "corrupt_index": (
        "Corrupt",
        "the index of a project's code contains invalid or contradictory data",
        "run: orchestrator gsd index --rebuild",
    ),
    "corrupt_log": (
        "Corrupt",
        "a log has a line that is damaged or contradicts the lines before it",
        "orchestrator doctor shows file and line",
    ),
    "unknown_version": (
        "Corrupt",
        "a record has a newer format or an unknown type",
        "use the version of orchestrator that wrote it, or a newer one",
    ),
}
"""Code -> (kind, what it means, default next step)."""
