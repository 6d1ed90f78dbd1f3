"""The health check of spawn runs: key, planner API, database, artifacts, run queue, each tried alone (B4.25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from orchestrator.base.errors import OrchestratorError
from orchestrator.spawn import api_key, artifacts, ddl, home_location, run_settings, smart_spawn_client
from orchestrator.spawn.home import SpawnHome
from orchestrator.spawn.openrouter import origin

FIVE = (
    "openrouter_configured",
    "smart_spawn_api_reachable",
    "db_writable",
    "artifact_storage_writable",
    "worker_alive",
)


async def look(
    env: Mapping[str, str],
    opened: Callable[[], Awaitable[SpawnHome]],
    client: httpx2.AsyncClient | None,
    project: str,
) -> dict[str, Any]:
    """The five booleans, and under ``reasons`` why one is false; never raises for a problem that it checks.

    ``opened`` opens the home that ``env`` names; ``project`` is the daemon's.
    """
    answer: dict[str, Any] = dict.fromkeys(FIVE, False)
    reasons: dict[str, str] = {}
    try:
        chosen, path = run_settings.read(env), home_location.home_of(env)
        answer |= {"home": str(path), "openrouter_base_url": origin(chosen.base_url)}
    except OrchestratorError as error:
        return {**answer, "reasons": {"configuration": f"{error.message}; {error.next_step}"}}

    async def tried(name: str, work: Awaitable[str]) -> None:
        try:
            why = await work
        except OrchestratorError as error:
            why = error.message
        answer[name] = not why
        if why:
            reasons[name] = why

    async def key() -> str:
        usable_key = await asyncio.to_thread(api_key.key_of, env, path, project)
        return "" if usable_key else "OPENROUTER_API_KEY is not set, and the home has no openrouter.key"

    async def api() -> str:
        reached, why = await smart_spawn_client.reachable(chosen, client)
        return "" if reached else why

    async def database() -> str:
        home = await opened()
        await home.db.write(ddl.probe)
        return ""

    async def storage() -> str:
        await asyncio.to_thread(artifacts.probe, path)
        return ""

    async def worker() -> str:
        home = await opened()
        return "" if home.run_queue.alive else "the run queue has stopped; run: orchestrator daemon restart"

    for name, work in zip(FIVE, (key, api, database, storage, worker), strict=True):
        await tried(name, work())
    answer["planner"] = "smart-spawn-api" if answer["smart_spawn_api_reachable"] else "local"
    return {**answer, **({"reasons": reasons} if reasons else {})}
