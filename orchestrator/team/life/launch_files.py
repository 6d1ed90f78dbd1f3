"""Launch files: everything that one launch of an agent's CLI needs, written before its pane exists.

The engine decides what is needed (pure). This file reads the user's files for it and writes only into the agent's
`engine/` directory; the user's own files are never changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base import entropy, failpoints, package_data, toolsets
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.core import prompts
from orchestrator.edge import project_location, temporary_directories
from orchestrator.engines import table
from orchestrator.engines.definition import Engine, Launch, PreparedLaunch, UserFiles
from orchestrator.journal.project_files import failure, make_dir, read_json, replace
from orchestrator.roles import catalogue
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.seals import KEY

WORD_MAX = 128 * 1024 - 1
"""The longest single argument that Linux allows, whatever the total limit."""
USER_FILE_MAX = 4 << 20
"""The largest settings file that is read; a CLI's own settings are never larger."""


def write(roster: Roster, entry: AgentEntry, spec: Mapping[str, Any], epoch: int, base: Mapping[str, str]) -> None:
    """Write engine/launch.json (0600) and the engine's own files, with a fresh secret for this epoch.

    ``spec`` is from the `starting` record; ``base`` is the environment before the engine's variables and ours. Raises
    ``Environment`` if the disk or a file of the user cannot be used, ``BadRequest`` if the role or the user's own
    settings for that CLI make a launch impossible.
    """
    # The agent must reach this daemon, not start another one or one with another state directory.
    base = {**base, **{name: os.environ[name] for name in project_location.PLACES if name in os.environ}}
    row = table.engine(str(spec["engine"]))
    secret = entropy.token_hex(16)
    root = str(roster.root)
    ours = table.identity(agent_id=entry.agent_id, epoch=epoch, secret=secret, project=root)
    chosen = temporary_directories.VARIABLE in spec.get("env_names", ())
    name = temporary_directories.name_of_agent(entry.agent_id)
    ours |= roster.temporary.variables(name, base, chosen=chosen)
    prepared = row.prepare(_launch(roster, entry, spec, epoch, {**base, **ours}))
    longest = max(len(os.fsencode(word)) for word in prepared.argv)
    if longest > WORD_MAX:
        message = f"{row.name} takes its rules on its command line: {longest} bytes, and Linux allows {WORD_MAX}"
        raise BadRequest("bad_role", message, f"make the role {spec['role']!r} shorter")
    place = roster.paths.engine_dir(entry.agent_id)
    _write_files(place, prepared)
    launch = {
        "epoch": epoch,
        "argv": list(prepared.argv),
        "env": {**base, **prepared.env, **ours},
        "cwd": spec["cwd"],
        "secret": secret,
        "base_env": dict(base),
        "session": prepared.session,
    }
    sealed = roster.paths.provenance.sealed(launch, "agent", entry.agent_id, "launch")
    replace(roster.paths.launch(entry.agent_id), orjson.dumps(sealed), mode=0o600)
    entry.secret, entry.session = secret, prepared.session
    failpoints.passed("launch:written")


def read(roster: Roster, entry: AgentEntry) -> dict[str, Any]:
    """The content of launch.json; empty if missing or not written on this machine, because it decides what runs."""
    try:
        content = read_json(roster.paths.launch(entry.agent_id))
    except OrchestratorError:
        return {}
    owned = roster.paths.provenance.owns(content, "agent", entry.agent_id, "launch")
    return {key: value for key, value in content.items() if key != KEY} if owned else {}


def command_line(command: Sequence[str], configured: str) -> tuple[str, ...]:
    """The argv template of engine `command`: the caller's, else the configured line; split without a shell."""
    if command:
        return tuple(command)
    try:
        return tuple(shlex.split(configured))
    except ValueError as error:
        raise BadRequest("bad_config", f"the setting `command` is no command line: {error}") from error


def check_program(row: Engine, command: Sequence[str], path: str, whose: str) -> None:
    """Environment ``engine_missing`` unless the engine's program is on that PATH, which is that of ``whose``."""
    program = row.program or (command[0] if command else "")
    if program and shutil.which(program, path=path) is None:
        raise Environment("engine_missing", f"{program} is not on the PATH of {whose}")


def _launch(roster: Roster, entry: AgentEntry, spec: Mapping[str, Any], epoch: int, env: Mapping[str, str]) -> Launch:
    row = table.engine(str(spec["engine"]))
    cwd, root = str(spec["cwd"]), str(roster.root)
    files, dirs = _looked_up(row.reads(env, cwd))
    role = str(spec["role"])
    words = {
        "agent_id": entry.agent_id,
        "role": role,
        "project": root,
        "cwd": cwd,
        "artifacts": str(roster.paths.artifacts(entry.agent_id)),
    }
    rules = prompts.render(package_data.prompt("agent"), words)
    tree = spec.get("worktree")
    if tree:
        rules = f"{rules.rstrip()}\n\n{prompts.worktree_rule(tree['path'], tree['branch'])}"
    queries = toolsets.tools_of(spec.get("toolsets") or ())
    if queries:
        rules = f"{rules.rstrip()}\n\n{prompts.queries_rule(queries)}"
    body = catalogue.body(roster.root, role)
    if body:
        rules += f"\n\n# Your role: {role}\n\n{body}"
    resume = entry.state.resume if entry.state.epoch == epoch and row.resumes else None
    return Launch(
        agent_id=entry.agent_id,
        role=role,
        epoch=epoch,
        project=root,
        cwd=cwd,
        engine_dir=str(roster.paths.engine_dir(entry.agent_id)),
        rules=rules.strip(),
        first=prompts.first_message(entry.agent_id, role),
        again=prompts.wake_message(entry.agent_id),
        session=entropy.uuid4(),
        own=tuple(project_location.own_command()),
        mcp=tuple(project_location.own_command("mcp", "--agent", "--project", root)),
        hook=tuple(project_location.hook_command()),
        env=env,
        resume=resume,
        model=spec.get("model"),
        approval=str(spec.get("approval") or "ask"),
        trust=roster.config().trust,
        command=tuple(spec.get("command") or ()),
        queries=queries,
        files=files,
        dirs=dirs,
        shipped={name: package_data.plugin(name) for name in row.ships},
    )


def _looked_up(wanted: UserFiles) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The wanted user files and directory listings that exist; an unreadable file counts as absent."""
    files: dict[str, str] = {}
    for name in (*wanted.files, *_inside(wanted.within)):
        try:
            if Path(name).stat().st_size <= USER_FILE_MAX:
                files[name] = Path(name).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue
    dirs: dict[str, tuple[str, ...]] = {}
    for name in wanted.dirs:
        try:
            dirs[name] = tuple(sorted(path.name for path in Path(name).iterdir()))
        except OSError:
            continue
    return files, dirs


def _inside(within: Sequence[tuple[str, str]]) -> list[str]:
    paths: list[str] = []
    for folder, ending in within:
        try:
            paths += sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(ending))
        except OSError:
            continue
    return paths


def _write_files(place: Path, prepared: PreparedLaunch) -> None:
    for name, text in prepared.files.items():
        make_dir((place / name).parent)
        replace(place / name, text.encode(), mode=0o600)
    for name, target in prepared.links.items():
        make_dir((place / name).parent)
        link = place / name
        try:
            if link.is_symlink() or link.is_file():  # some CLIs replace a file by renaming over it, even a link
                link.unlink()
            if not link.is_dir():  # made by the agent itself
                link.symlink_to(target)
        except OSError as error:
            raise failure(link, error) from error
