"""Asking the Smart Spawn API for the plan of a run, and planning here when it gives none (B4.5, C38).

Talks HTTP with the client it is given, and with nothing else. No key is ever sent to that API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import orjson

from orchestrator.spawn import local_planner, node_prompts, run_plan
from orchestrator.spawn.model_table import ModelTable
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.modes.spawn_mode import PlanStep
from orchestrator.spawn.run_data import RequestedRole, RunBudget, RunPlan, RunRequest, RunSettings
from orchestrator.spawn.run_plan import PlannerAnswer

CALL_S = 5.0
ALL_S = 15.0
STATUS_S = 3.0
MOST_SENT = 1 << 20
"""Bytes of a body the API takes (A4)."""
MOST_READ = 4 << 20
MOST_TASK = 200
"""UTF-16 units of a task in a GET: more, or a control character, is answered with 400 (A4, C39)."""
_TASK_OF_ROLE = "\n\n---\n\n## Task\n\n"

_FAULTS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError, TypeError, RuntimeError)


class _UnusableReply(Exception):
    """The API gave no usable answer; the text says why, without anything that was sent."""


async def make_plan(
    request: RunRequest, settings: RunSettings, table: ModelTable, client: httpx2.AsyncClient | None
) -> RunPlan:
    """The plan of a run, by the Smart Spawn API or else by the local planner, as its source and notes say.

    Each call may take 5 s, all together 15 s. Every failure of the API (no answer, an error, invalid or empty data)
    leads to the local planner; malformed parts of an answer are repaired, and the API stays the source. BadRequest as
    `run_plan.check_named_models`, and ``model_not_allowed`` if no model is left.
    """
    run_plan.check_named_models(request, settings)
    answer, notes = None, []
    if settings.planner_url:
        try:
            async with asyncio.timeout(ALL_S):
                answer = await _Api(request, settings, client).planned()
        except TimeoutError:
            notes = [f"the Smart Spawn API was too slow ({ALL_S:.0f} s in all): planned here"]
        except _UnusableReply as why:
            notes = [f"the Smart Spawn API gave no usable plan ({why}); the local planner was used"]

    def plan() -> RunPlan:
        return run_plan.plan_of(request, settings, table, answer or run_plan.local(request, notes))

    return await asyncio.to_thread(plan)  # a long task takes seconds


async def reachable(settings: RunSettings, client: httpx2.AsyncClient | None) -> tuple[bool, str]:
    """Whether the Smart Spawn API answers ``GET /status`` within 3 s, and its answer or the reason (B4.25)."""
    if not settings.planner_url:
        return False, "switched off: SMART_SPAWN_API_URL is off"
    try:
        body = await _call(settings, client, "GET", "status", within_s=STATUS_S)
    except _UnusableReply as why:
        return False, str(why)
    data = _mapping(body.get("data"))
    status, count = data.get("status"), data.get("modelCount")
    if not isinstance(status, str):
        return False, "the answer does not come from a Smart Spawn API"
    return True, f"{_text(status)[:40]}, {count} models" if isinstance(count, int) else _text(status)[:40]


class _Api:
    """The API as a mode's `PlannerApi`, for the plan of one run; gathers notes."""

    def __init__(self, request: RunRequest, settings: RunSettings, client: httpx2.AsyncClient | None) -> None:
        self.request, self.settings, self.client = request, settings, client
        self.notes: list[str] = []
        self.called = False

    async def planned(self) -> PlannerAnswer | None:
        """The steps from the API; None: the mode makes no request."""
        steps = await mode_of(self.request.mode).ask(self)
        system = await self._role()
        if not self.called:
            return None
        if steps is None:
            steps = (await asyncio.to_thread(run_plan.local, self.request)).steps
        return PlannerAnswer("smart-spawn-api", steps, system, tuple(self.notes))

    async def picked(self, name: str, budget: RunBudget, exclude: str = "") -> PlanStep:
        """As `PlannerApi.picked`."""
        params = {"task": brief(self.request.task), "budget": budget, **({"exclude": exclude} if exclude else {})}
        data = _mapping((await self._get("pick", params)).get("data"))
        model = _text(data.get("id"))
        if not model:
            raise _UnusableReply("/pick: no model in the answer")
        return PlanStep(name, self.request.task, model=model, reason=_text(data.get("reason"))[:300], budget=budget)

    async def recommended(self, name: str) -> tuple[PlanStep, ...]:
        """As `PlannerApi.recommended`."""
        count = local_planner.answer_count(self.request)
        params = {"task": brief(self.request.task), "budget": self.request.budget, "count": str(count)}
        rows = _list((await self._get("recommend", params)).get("data"), "/recommend")
        steps: list[PlanStep] = []
        for row in map(_mapping, rows[:count]):
            model = _text(_mapping(row.get("model")).get("id"))
            if model:
                reason = _text(row.get("reason"))[:300]
                steps.append(PlanStep(f"{name}-{len(steps) + 1}", self.request.task, model=model, reason=reason))
        if not steps:
            raise _UnusableReply("/recommend: no model in the answer")
        return tuple(steps)

    async def decomposed(self) -> tuple[PlanStep, ...]:
        """As `PlannerApi.decomposed`."""
        body = await self._post("decompose", {"task": _text(self.request.task), "budget": self.request.budget})
        if not _split(body, "/decompose"):
            return ()
        steps: list[PlanStep] = []
        for row in map(_mapping, _list(body.get("steps"), "/decompose")):
            step = self._step(row, f"step-{len(steps) + 1}", row.get("task"))
            if step is not None:
                steps.append(step)
        return self._some(steps, "/decompose")

    async def swarmed(self) -> tuple[PlanStep, ...]:
        """As `PlannerApi.swarmed`."""
        parallel = min(8, max(1, self.settings.max_parallel_nodes))
        arguments = {"task": _text(self.request.task), "budget": self.request.budget, "maxParallel": parallel}
        body = await self._post("swarm", arguments)
        if not _split(body, "/swarm"):
            return ()
        steps: list[PlanStep] = []
        for row in map(_mapping, _list(_mapping(body.get("dag")).get("tasks"), "/swarm")):
            step = self._step(row, _text(row.get("id")) or f"swarm-{len(steps) + 1}", row.get("description"))
            if step is not None:
                steps.append(step)
        return self._some(steps, "/swarm")

    def _step(self, row: Mapping[str, Any], name: str, task: Any) -> PlanStep | None:
        text = _text(task).strip()
        if not text:
            self.notes.append(f"{name[:60]}: the planner gave it no task; it is left out")
            return None
        needs = row.get("dependsOn") or []
        if not isinstance(needs, list) or not all(isinstance(need, str) for need in needs):
            self.notes.append(f"{name[:60]}: dependsOn is not a list of ids; only its ids are kept")
        known = tuple(_text(need) for need in needs if isinstance(need, str)) if isinstance(needs, list) else ()
        budget = row.get("budget")
        return PlanStep(
            name,
            text,
            known,
            _text(_mapping(row.get("model")).get("id")),
            _text(row.get("reason"))[:300],
            next((tier for tier in ("low", "medium", "high", "any") if tier == budget), None),
        )

    def _some(self, steps: list[PlanStep], path: str) -> tuple[PlanStep, ...]:
        if not steps:
            raise _UnusableReply(f"{path}: no step in the answer")
        return tuple(steps)

    async def _role(self) -> str:
        """The role as the API composes it, and the words of it that it does not know, as they are."""
        words = self.request.role
        fields = words.model_dump(exclude_defaults=True)
        if self.request.role_body or not fields:
            return ""
        body = await self._post("roles/compose", {"task": brief(self.request.task), **fields})
        written = body.get("fullPrompt")
        if not isinstance(body.get("hasRole"), bool) or not isinstance(written, str):
            raise _UnusableReply("/roles/compose: wrong types in the answer")
        if not body["hasRole"]:
            return ""
        rest = RequestedRole(
            persona="" if isinstance(body.get("personaTitle"), str) else words.persona,
            stack=tuple(word for word in words.stack if word not in _known(body.get("stack"))),
            domain=words.domain if body.get("domain") != words.domain else "",
            format=words.format if body.get("format") != words.format else "",
            guardrails=tuple(word for word in words.guardrails if word not in _known(body.get("guardrails"))),
        )
        return f"{_text(written).partition(_TASK_OF_ROLE)[0].strip()}\n\n{node_prompts.role(rest)}".strip()

    async def _get(self, path: str, params: Mapping[str, str]) -> Mapping[str, Any]:
        self.called = True
        return await _call(self.settings, self.client, "GET", path, params=params, within_s=CALL_S)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.called = True
        try:
            sent = orjson.dumps(body)
        except TypeError:
            raise _UnusableReply(f"/{path}: what was asked cannot be written as JSON") from None
        if len(sent) > MOST_SENT:
            raise _UnusableReply(f"/{path}: the task exceeds the limit of 1 MiB")
        return await _call(self.settings, self.client, "POST", path, sent=sent, within_s=CALL_S)


def brief(task: str) -> str:
    """A task as a GET may carry it: on one line, without control characters, at most 200 UTF-16 units (C39)."""
    line = " ".join("".join(char if char.isprintable() else " " for char in task).split())
    return line.encode("utf-16-le", "replace")[: 2 * MOST_TASK].decode("utf-16-le", "ignore").strip() or "task"


async def _call(
    settings: RunSettings,
    client: httpx2.AsyncClient | None,
    method: str,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    sent: bytes | None = None,
    within_s: float,
) -> Mapping[str, Any]:
    """One call; `_UnusableReply` whatever goes wrong. No client: the environment did not let one be made."""
    if client is None:
        raise _UnusableReply("the proxy or the certificates that the environment names cannot be used")
    # A request of its own, not the client's: whatever headers and credentials that one has stay out of it.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "orchestrator"}
    if sent is not None:
        headers["Content-Type"] = "application/json"
    try:
        async with asyncio.timeout(within_s):
            request = httpx2.Request(
                method,
                f"{settings.planner_url.rstrip('/')}/{path}",
                params=params,
                content=sent,
                headers=headers,
                extensions={"timeout": httpx2.Timeout(within_s).as_dict()},
            )
            answer = await client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                raw = await _read(answer, path)
            finally:
                await answer.aclose()
    except TimeoutError:
        raise _UnusableReply(f"/{path}: no answer within {within_s:.0f} s") from None
    except _FAULTS as error:
        raise _UnusableReply(f"/{path}: {type(error).__name__}") from None
    try:
        body = orjson.loads(raw)
    except ValueError:
        raise _UnusableReply(f"/{path}: the answer is no JSON") from None
    if not isinstance(body, dict):
        raise _UnusableReply(f"/{path}: the answer is no JSON object")
    return body


async def _read(answer: httpx2.Response, path: str) -> bytes:
    if answer.status_code != 200:
        raise _UnusableReply(f"/{path}: HTTP {answer.status_code}")
    # Not unpacked: a small answer could become a huge one.
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise _UnusableReply(f"/{path}: the answer is packed, though that was not asked for")
    raw = bytearray()
    async for piece in answer.aiter_bytes():
        raw += piece
        if len(raw) > MOST_READ:
            raise _UnusableReply(f"/{path}: the answer is over {MOST_READ >> 20} MiB")
    return bytes(raw)


def _split(body: Mapping[str, Any], path: str) -> bool:
    split = body.get("decomposed")
    if not isinstance(split, bool):
        raise _UnusableReply(f"{path}: wrong types in the answer")
    return split


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _UnusableReply(f"{path}: wrong types in the answer")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _known(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _text(value: Any) -> str:
    """A text without what no prompt and no file can hold; not a text: empty."""
    if not isinstance(value, str):
        return ""
    return _CONTROL.sub(" ", value.replace("\r\n", "\n")).encode("utf-8", "replace").decode()
