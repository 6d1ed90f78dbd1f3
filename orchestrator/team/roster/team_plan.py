"""The steps that bring a running team to the state of its team file. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.team.roster.team_file import TeamFileAgent

ANY_HOST = "any"
Do = Literal["keep", "create", "restart", "recreate", "leave", "end", "refuse"]


@dataclass(frozen=True)
class TeamStep:
    """What one agent needs. ``agent_id`` is the one there is; ``differs`` how it differs from its description.

    `create` with an ``agent_id`` waits for the end of that one first. `leave` is for an agent that is not described.
    `refuse`: something would have to be done, and ``why`` says what forbids it.
    """

    name: str
    do: Do
    agent_id: str | None = None
    differs: tuple[str, ...] = ()
    why: str = ""


def plan(
    described: Sequence[TeamFileAgent],
    living: Sequence[Mapping[str, Any]],
    root: Path,
    *,
    recreate: bool = False,
    prune: bool = False,
    force: bool = False,
) -> list[TeamStep]:
    """What brings the living agents of a window to the described state, in the order of the file, then the others.

    Pure. ``living`` are metas as agent_get shows them; an agent whose files cannot be trusted is ``{"agent_id",
    "name", "unreadable": why}``. An agent is the described one when its name is that key: ids have suffixes. Nothing
    that has unfinished tasks is ended without ``force``.
    """
    steps: list[TeamStep] = []
    described_ids: set[str] = set()
    for wanted in described:
        named = sorted((meta for meta in living if meta["name"] == wanted.name), key=_fitness, reverse=True)
        if named:
            described_ids.add(named[0]["agent_id"])
        steps.append(_for_described(wanted, named[0] if named else None, root, recreate=recreate, force=force))
    others = [meta for meta in living if meta["agent_id"] not in described_ids]
    return steps + [_for_other(meta, prune=prune, force=force) for meta in others]


_ORDER = {"stopping": 3, "failed": 2, "exited": 1}


def _fitness(meta: Mapping[str, Any]) -> tuple[bool, int, bool, str, str]:
    """Sort key for agents of one name; the agent that sorts last is the one that the name means.

    Running agents sort after others, then the agent whose id equals the name, then by age, the newest last.
    """
    order = _ORDER.get(str(meta.get("status")), 0)
    agent_id = str(meta["agent_id"])
    return "unreadable" not in meta, -order, agent_id == meta["name"], str(meta.get("created_at")), agent_id


def _for_described(
    wanted: TeamFileAgent, meta: Mapping[str, Any] | None, root: Path, *, recreate: bool, force: bool
) -> TeamStep:
    if meta is None:
        return TeamStep(wanted.name, "create")
    agent_id = str(meta["agent_id"])
    if "unreadable" in meta:
        return TeamStep(wanted.name, "refuse", agent_id, why=str(meta["unreadable"]))
    if meta["status"] == "stopping":
        return TeamStep(wanted.name, "create", agent_id)
    differs = tuple(_differences(wanted, meta, root))
    if differs and recreate:
        if _unfinished(meta) and not force:
            return TeamStep(wanted.name, "refuse", agent_id, differs, f"{_holds(meta)}: wait, or add --force")
        return TeamStep(wanted.name, "recreate", agent_id, differs)
    return TeamStep(wanted.name, "restart" if meta["status"] in ("failed", "exited") else "keep", agent_id, differs)


def _for_other(meta: Mapping[str, Any], *, prune: bool, force: bool) -> TeamStep:
    name, agent_id = str(meta["name"]), str(meta["agent_id"])
    if not prune or meta.get("status") == "stopping":
        return TeamStep(name, "leave", agent_id)
    if "unreadable" in meta:
        return TeamStep(name, "refuse", agent_id, why=str(meta["unreadable"]))
    if _unfinished(meta) and not force:
        return TeamStep(name, "refuse", agent_id, why=f"{_holds(meta)}: wait, or add --force")
    return TeamStep(name, "end", agent_id)


def _unfinished(meta: Mapping[str, Any]) -> int:
    return int(meta["queue_depth"]) + (meta["running_task_id"] is not None)


def _holds(meta: Mapping[str, Any]) -> str:
    count = _unfinished(meta)
    return f"it has {count} unfinished task{'s' * (count != 1)}"


def _differences(wanted: TeamFileAgent, meta: Mapping[str, Any], root: Path) -> Iterable[str]:
    """How an agent differs from its description; what the file leaves to the configuration is not compared."""
    there = meta.get("worktree") or {}
    pairs: list[tuple[str, Any, Any]] = [
        ("role", meta["role"], wanted.role),
        ("model", meta.get("model"), wanted.model),
        ("worktree", bool(there), wanted.worktree),
        ("env", list(meta.get("env_names") or []), sorted(wanted.env)),
    ]
    if wanted.engine is not None:
        pairs.append(("engine", meta["engine"], wanted.engine))
    if wanted.approval is not None:
        pairs.append(("approval", meta.get("approval"), wanted.approval))
    if wanted.command and meta["engine"] == "command":
        pairs.append(("command", list(meta.get("command") or []), list(wanted.command)))
    base = str(there.get("path") or root)
    there_host, host = str(meta.get("host") or ""), wanted.host
    if not there_host or f"{meta['cwd']}/".startswith(f"{base.rstrip('/')}/"):  # of another host only that is known
        pairs.append(("cwd", _below(meta["cwd"], base), _below(wanted.cwd, str(root))))
    if host == ANY_HOST:  # wherever it was placed
        host = there_host or host
    pairs.append(("host", there_host, host))
    policies = meta.get("policies") or {}
    pairs += [(f"policies.{key}", policies.get(key), value) for key, value in wanted.policies.items()]
    return [f"{key} is {_shown(is_)}, described is {_shown(target)}" for key, is_, target in pairs if is_ != target]


def _below(path: str, base: str) -> str:
    return posixpath.relpath(path, base)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else "yes" if value is True else "no" if value is False else repr(value)
