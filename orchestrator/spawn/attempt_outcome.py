"""One attempt at a node: its prompt, its reservation, its record, its outcome.

Reads answers of earlier nodes from the home; writes nothing (the runner does).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Corrupt
from orchestrator.spawn import artifacts, costs, evaluation, node_prompts
from orchestrator.spawn.callers import caller_kind
from orchestrator.spawn.evaluation import GateVerdict
from orchestrator.spawn.model_table import ModelTable
from orchestrator.spawn.replies import backoff_s, masked
from orchestrator.spawn.run_data import (
    ArtifactRow,
    AttemptRow,
    AttemptState,
    EndedAttempt,
    Fault,
    Node,
    NodeRow,
    Price,
    Reply,
    RunPlan,
    RunRow,
)

Files = Mapping[str, ArtifactRow]
"""The artifacts of a run, by the ids of their nodes."""
KEPT_SHARE = Decimal("0.5")
"""A merge that would need more of the budget than this is not saved up for: the answers are put side by side."""
BYTES_PER_TOKEN = 4
NEXT = {
    "400": "check the model's id and the task; if the model reads or writes less than a call asks, lower "
    "MAX_PROMPT_CHARS and MAX_COMPLETION_TOKENS",
    "401": "check OPENROUTER_API_KEY",
    "402": "add credits to the key's account",
    "403": "the provider refuses this task or key; choose another model",
    "404": "name a model that the server offers, in `models` of the call or in MODEL_ALLOWLIST; check "
    "OPENROUTER_BASE_URL",
    "429": "wait, or choose another model",
    "network": "check the network and OPENROUTER_BASE_URL",
    "storage": "free disk space, or repair the home's directory",
    "timeout": "raise NODE_TIMEOUT_SECONDS, or choose a faster model",
    "refused": "choose another model, or change the task",
    "engine": "look at what its CLI says, or name another engine",
    "agent": "look at the agent's events, or name another agent",
}
"""What a user can do about a failed node (B4.42)."""


@dataclass(frozen=True)
class PreparedAttempt:
    """The prompt of one attempt and its maximum cost; ``price`` None: its caller has no price."""

    prompt: str
    reserved: Decimal
    price: Price | None


def new_token() -> str:
    """The name of an attempt."""
    return uuid.uuid4().hex


def prepared(
    home: Path, run: RunRow, row: NodeRow, rows: Mapping[str, NodeRow], files: Files, *, table: ModelTable
) -> PreparedAttempt:
    """The prompt of a node, with the answers of the nodes it needs, and its reservation. Raises as `text_of`."""
    node = row.node
    answers = [
        (need, rows[need].node.task, text_of(home, files, need))
        for need in node.needs
        if need in rows and rows[need].status == "completed"
    ]
    limit = run.settings.max_prompt_chars
    if node.kind == "merge":
        prompt = node_prompts.merge_prompt(run.request, node, answers, limit)
    elif node.kind == "evaluate":
        prompt = node_prompts.evaluate_prompt(run.request, answers[0][2], limit)
    else:
        prompt = node_prompts.task_prompt(run.request, node, answers, limit)
    if caller_kind(node.model) != "model":
        return PreparedAttempt(prompt, Decimal(0), None)
    price = table.price(node.model)
    size = len(prompt.encode()) + len(node.system.encode())
    return PreparedAttempt(prompt, costs.reserve(size, run.settings.max_completion_tokens, price), price)


def kept_for_merge(run: RunRow, merge: Node, table: ModelTable, limit: Decimal) -> Decimal:
    """The amount to keep for a merge of all possible answers; 0 if that is too much to keep."""
    if caller_kind(merge.model) != "model":
        return Decimal(0)
    answers = run.settings.max_completion_tokens * BYTES_PER_TOKEN * len(merge.needs)
    size = min(answers, run.settings.max_prompt_chars * BYTES_PER_TOKEN) + len(run.request.task.encode())
    reservation = costs.reserve(size, run.settings.max_completion_tokens, table.price(merge.model))
    return reservation if reservation <= limit * KEPT_SHARE else Decimal(0)


def text_of(home: Path, files: Files, node_id: str) -> str:
    """The answer of a completed node; Corrupt ``corrupt_home`` if its file is gone or was changed."""
    if node_id not in files:
        raise Corrupt("corrupt_home", f"the answer of {node_id} has no file")
    return str(orjson.loads(artifacts.read(home, files[node_id]))["output"])


def plan_document(run: RunRow, plan: RunPlan) -> bytes:
    """The artifact with the plan of the run, its planner, and what differs from the request."""
    nodes = [replace(node, task=_kept(run, node.task), system=_kept(run, node.system)) for node in plan.nodes]
    waves: dict[int, list[str]] = {}
    for node in nodes:
        waves.setdefault(node.wave, []).append(node.id)
    return orjson.dumps(
        {
            "runId": run.id,
            "mode": run.request.mode,
            "planner": plan.source,
            "notes": list(plan.notes),
            "waves": [{"wave": wave, "nodes": ids} for wave, ids in sorted(waves.items())],
            "nodes": [asdict(node) for node in nodes],
        },
        option=orjson.OPT_INDENT_2,
    )


def document(
    run: RunRow, row: NodeRow, attempt: AttemptRow, reply: Reply, *, key: str, at: str, price: Price | None
) -> bytes:
    """An answer as its artifact has it: never with the key, and redacted if configured."""
    text = _kept(run, reply.text.replace(key, artifacts.REDACTED) if key else reply.text)
    node = replace(row.node, task=_kept(run, row.node.task))
    cost, source = costs.final_cost(reply, price, attempt.reserved)
    return artifacts.document(
        run_id=run.id, node=node, reply=reply, output=text, cost=cost, cost_source=source,
        attempt=attempt.attempt, token=attempt.token, at=at,
    )  # fmt: skip


def _kept(run: RunRow, text: str) -> str:
    """A text as an artifact of that run holds it (REDACT_ARTIFACTS)."""
    return artifacts.redacted(text) if run.settings.redact else text


def recovered(row: NodeRow, attempt: AttemptRow, answer: Mapping[str, Any], at: str) -> EndedAttempt:
    """The end of an attempt whose answer reached the disk before its daemon died: as the file says it."""
    done = replace(
        attempt, state="done", cost=answer["costUsd"], cost_source=answer["costSource"],
        prompt_tokens=answer["tokens"]["prompt"], completion_tokens=answer["tokens"]["completion"], finished_at=at,
        model=answer["model"],
    )  # fmt: skip
    ended = replace(row, status="completed", error=None, finish_reason=answer["finishReason"], answered_by=done.model)
    return EndedAttempt(done, ended, "info", f"{done.model} had answered before the daemon ended")


def ended(
    run: RunRow,
    row: NodeRow,
    attempt: AttemptRow,
    outcome: Reply | Fault,
    *,
    table: ModelTable,
    left_s: float,
    now: datetime,
) -> EndedAttempt:
    """The effect of an outcome on the attempt and its node; ``left_s`` is the remaining time of the run."""
    price = table.price(row.node.model) if caller_kind(row.node.model) == "model" else None
    cost, source = costs.final_cost(outcome, price, attempt.reserved)
    state: AttemptState = "done"
    if isinstance(outcome, Fault):
        state = "canceled" if outcome.code == "canceled" else "failed"
    at = rfc3339(now)
    error = None if isinstance(outcome, Reply) else masked(outcome.message)
    done = replace(
        attempt, state=state, cost=cost, cost_source=source, prompt_tokens=outcome.prompt_tokens or 0,
        completion_tokens=outcome.completion_tokens or 0, finished_at=at, error=error,
        model=(outcome.model if isinstance(outcome, Reply) else "") or row.node.model,
    )  # fmt: skip
    if isinstance(outcome, Reply):
        ended = replace(
            row, status="completed", error=None, finish_reason=outcome.finish_reason, answered_by=done.model
        )
        message = f"{done.model} answered" + (f", cut off ({outcome.finish_reason})" if outcome.truncated else "")
        return EndedAttempt(done, ended, "info", message)
    if outcome.code == "canceled":
        return EndedAttempt(done, replace(row, status="canceled", error=error), "info", outcome.message)
    return _failed(run, row, outcome, done, left_s=left_s, now=now)


def _failed(
    run: RunRow, row: NodeRow, fault: Fault, done: AttemptRow, *, left_s: float, now: datetime
) -> EndedAttempt:
    tries = run.settings.retries + 1
    tried = row.retry_count + 1
    message = f"{row.node.model}: {masked(fault.message)} ({fault.code}; attempt {tried} of {tries})"
    if fault.retry and tried < tries:
        pause = backoff_s(row.retry_count, random.random(), fault.retry_after_s)
        if pause < left_s:
            retry_at = rfc3339(now + timedelta(seconds=pause))
            waits = replace(row, status="retry_pending", retry_at=retry_at, retry_count=tried, error=message)
            return EndedAttempt(done, waits, "warning", f"{message}; again in {pause:.1f} s")
        message += f"; the pause of {pause:.0f} s exceeds the time that the run has left"
    step = fault.next_step or NEXT.get(fault.code, "create the run again later, or choose another model")
    return EndedAttempt(done, replace(row, status="failed", error=f"{message}; next: {step}"), "error", message)


def verdict(home: Path, run: RunRow, rows: Mapping[str, NodeRow], files: Files) -> GateVerdict | None:
    """Whether the cheap answer passes: by rules, then by the evaluator if there is one; None: not known yet."""
    cheap = next((row for row in rows.values() if row.node.tier == "cheap"), None)
    if cheap is None or cheap.status in ("queued", "running", "retry_pending"):
        return None
    if cheap.status != "completed":
        return GateVerdict(passed=False, reasons=("the cheap model gave no answer",))
    text = text_of(home, files, cheap.node.id)
    by_rules = evaluation.gate(run.request.task, text, cheap.finish_reason, run.request.role.format)
    evaluator = next((row for row in rows.values() if row.node.kind == "evaluate"), None)
    if not by_rules.passed or evaluator is None:
        return by_rules
    return _second_opinion(home, files, evaluator, by_rules.reasons)


def _second_opinion(home: Path, files: Files, evaluator: NodeRow, reasons: tuple[str, ...]) -> GateVerdict | None:
    if evaluator.status in ("queued", "running", "retry_pending"):
        return None
    if evaluator.status != "completed":
        return GateVerdict(passed=True, reasons=(*reasons, "the evaluator gave no answer"))
    passed = evaluation.evaluator_verdict(text_of(home, files, evaluator.node.id))
    if passed is None:
        return GateVerdict(passed=True, reasons=(*reasons, "the evaluator's answer is neither PASS nor FAIL"))
    return GateVerdict(passed, (*reasons, f"the evaluator says {'PASS' if passed else 'FAIL'}"))
