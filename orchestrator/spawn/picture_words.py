"""The texts in the drawing of a spawn run: amounts, durations, its critical path. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

PictureJson = Mapping[str, Any]
Span = tuple[float, float]


def dollars(value: object) -> str:
    """An amount as humans read it, ``-`` for one that is not known; a small one keeps what counts of it."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return "-"
    if not amount.is_finite():
        return "-"
    if 0 < amount < 1:
        return f"${amount:.4f}" if amount >= Decimal("0.0001") else "<$0.0001"
    return f"${amount:.2f}"


def seconds(value: object) -> str:
    """A duration as humans read it, ``-`` for one that is not known."""
    if not isinstance(value, int | float):
        return "-"
    if value < 60:
        return f"{value:.1f} s"
    whole = round(value)
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def repeats(node: PictureJson) -> str:
    """How often a node was tried again, and made again after a daemon's death; empty for one that went well."""
    attempts, reruns = node.get("attempts") or 0, node.get("reruns") or 0
    phrases = [f"{attempts} attempts" if attempts > 1 else "", f"re-run {reruns}x" if reruns else ""]
    return ", ".join(text for text in phrases if text)


def totals(run: PictureJson) -> list[str]:
    """What a run has come to, as short phrases: state, nodes, time, money, tokens, planner."""
    progress, cost = run.get("progress") or {}, run.get("cost") or {}
    phrases = [run.get("mode", ""), run.get("status", "")]
    if progress:
        phrases.append(f"{progress.get('done_nodes', 0)} of {progress.get('total_nodes', 0)} nodes done")
        phrases += [
            f"{progress[f'{kind}_nodes']} {kind}"
            for kind in ("running", "failed", "skipped")
            if progress.get(f"{kind}_nodes")
        ]
    if run.get("elapsed_s") is not None:
        phrases.append(seconds(run["elapsed_s"]))
    if cost.get("limit_usd") is not None:  # squads and agents have neither price nor count of tokens
        phrases += [f"{dollars(cost.get('usd'))} of {dollars(cost.get('limit_usd'))}", maybe_charged(cost)]
        phrases.append(f"{cost.get('prompt_tokens') or 0} + {cost.get('completion_tokens') or 0} tokens")
    if run.get("planner"):
        phrases.append(f"planned by {run['planner']}")
    return [text for text in phrases if text]


def maybe_charged(cost: PictureJson) -> str:
    """What may have been charged besides the known cost; empty if everything is known."""
    usd = cost.get("maybe_charged_usd")
    return f"{dollars(usd)} may have been charged" if usd else ""


_INSTANT = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d+)?)Z")


def instant(at: object) -> float | None:
    """An RFC 3339 UTC time in seconds since a common start; None if it is not one."""
    match = _INSTANT.fullmatch(str(at))
    if match is None:
        return None
    year, month, day, hour, minute = (int(match[n]) for n in range(1, 6))
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)  # the leap day is the last of its year
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
    return days * 86400.0 + hour * 3600 + minute * 60 + float(match[6])


def spans_of(picture: PictureJson) -> dict[str, Span]:
    """When each node that has started began and ended; what still runs ends with the last thing that is known."""
    run, nodes = picture["run"], picture["nodes"]
    known = [instant(fact.get(key)) for fact in (run, *nodes) for key in ("updated_at", "started_at", "finished_at")]
    last = max((at for at in known if at is not None), default=0.0)
    spans = {}
    for node in nodes:
        began, ended = instant(node.get("started_at")), instant(node.get("finished_at"))
        if began is not None:
            spans[node["node_id"]] = (began, max(began, last if ended is None else ended))
    return spans


def critical_path(nodes: Sequence[PictureJson], spans: Mapping[str, Span]) -> list[str]:
    """What decided when the run ended: from the last node back over what each waited for longest."""
    needs = {node["node_id"]: [need for need in node["needs"] if need in spans] for node in nodes}
    path: list[str] = []
    open_ = list(spans)
    while open_:
        path.append(max(open_, key=lambda node_id: spans[node_id][1]))
        open_ = [need for need in needs[path[-1]] if need not in path]
    return path[::-1]
