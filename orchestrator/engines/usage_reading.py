"""What the four AI CLIs record of their model requests, as `ModelRequest`: a line of a transcript, an event. Pure.

Nothing of it is trusted: a line that is not of the expected form, or has an impossible number, is no request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from orchestrator.base.secret_masks import one_line
from orchestrator.core.model_usage import TOKENS_MAX, ModelRequest

ID_CHARS = 200
MODEL_CHARS = 100
UNNAMED = "unknown model"
COST_MAX = 1e6
THREADS = 100
"""Maximum number of further sessions that one line may name."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


class UsageLine(NamedTuple):
    """The content of one transcript line: a request, if any, and the model of the requests after it.

    ``threads`` are the ids of sessions that this session has started; each has its own transcript.
    """

    request: ModelRequest | None
    model: str
    threads: tuple[str, ...] = ()


class TranscriptUsage(NamedTuple):
    """How the requests of a CLI are read from its transcripts.

    Only a line that contains one of ``marks`` is read. ``further`` is a glob pattern, relative to the folder of a
    transcript, of files with requests of its subagents; ``{session}`` is the id of the session.
    """

    marks: tuple[bytes, ...]
    read: Callable[[Mapping[str, Any], str], UsageLine]
    further: str = ""


def claude_line(line: Mapping[str, Any], model: str) -> UsageLine:
    """Of Claude Code: each answer has its ``usage``; an answer of several blocks takes as many lines."""
    message = line.get("message")
    if line.get("type") != "assistant" or not isinstance(message, dict) or message.get("model") == "<synthetic>":
        return UsageLine(None, model)
    request_id = message.get("id") or line.get("requestId") or line.get("uuid")
    names = "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"
    counted = _counted(message.get("usage"), *names)
    return UsageLine(_request(request_id, message.get("model"), counted, line.get("timestamp")), model)


def codex_line(line: Mapping[str, Any], model: str) -> UsageLine:
    """Read a line of Codex. Each request has its own line; the model is in the first line of the turn.

    A thread that Codex starts as a subagent has its own rollout; the call that starts it names the thread.
    """
    said = line.get("payload")
    if not isinstance(said, dict):
        return UsageLine(None, model)
    item = said.get("item")
    if line.get("type") == "event_msg" and isinstance(item, dict) and item.get("type") == "CollabAgentToolCall":
        threads = item.get("receiver_thread_ids")
        named = threads[:THREADS] if isinstance(threads, list) else ()
        return UsageLine(None, model, tuple(thread for thread in named if isinstance(thread, str)))
    if line.get("type") == "turn_context":
        return UsageLine(None, _model(said.get("model")))
    if line.get("type") != "token_usage_record":
        return UsageLine(None, model)
    counted = _counted(
        said.get("usage"), "input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens"
    )
    if counted is not None:
        whole, cached, cache_write, output = counted
        counted = max(0, whole - cached - cache_write), cached, cache_write, output
    return UsageLine(_request(said.get("response_id"), model, counted, line.get("timestamp")), model)


def gemini_line(line: Mapping[str, Any], model: str) -> UsageLine:
    """Of Gemini CLI: the same answer is written several times, at first without its tokens."""
    tokens = line.get("tokens")
    counted = _counted(tokens, "input", "cached", "tool", "output", "thoughts")
    if line.get("type") != "gemini" or counted is None:
        return UsageLine(None, model)
    whole, cached, tool, output, thoughts = counted
    figures = max(0, whole - cached) + tool, cached, 0, output + thoughts
    return UsageLine(_request(line.get("id"), line.get("model"), figures, line.get("timestamp")), model)


def opencode_message(message: Mapping[str, Any]) -> ModelRequest | None:
    """Of opencode: a message as our plugin reports it, with ``tokens`` and ``cost``.

    opencode reports a cost of 0 for a model without a price in its table: that cost is not known.
    """
    tokens = message.get("tokens")
    counted = _counted(tokens, "input", "output", "reasoning")
    cache = _counted(tokens.get("cache", {}), "read", "write") if isinstance(tokens, dict) else None
    if counted is None or cache is None:
        return None
    figures = counted[0], cache[0], cache[1], counted[1] + counted[2]
    request = _request(message.get("id"), message.get("model"), figures, message.get("at"))
    return request._replace(cost=_cost(message.get("cost"))) if request is not None else None


def recorded_request(line: Mapping[str, Any]) -> ModelRequest | None:
    """Of our own record of a request: an object with the names of `ModelRequest`, ``id`` for its id."""
    counted, cost = _counted(line, "input", "cached", "cache_write", "output"), line.get("cost")
    request = _request(line.get("id"), line.get("model"), counted, line.get("at"))
    return request._replace(cost=_cost(cost)) if request is not None else None


CLAUDE = TranscriptUsage((b'"usage"',), claude_line, "{session}/subagents/agent-*.jsonl")
CODEX = TranscriptUsage((b'"token_usage_record"', b'"turn_context"', b'"CollabAgentToolCall"'), codex_line)
GEMINI = TranscriptUsage((b'"tokens"',), gemini_line, "{session}/*.jsonl")


def _counted(values: object, *names: str) -> tuple[int, ...] | None:
    """The numbers of these names, 0 for one that is missing; None if one of them cannot be a number of tokens."""
    if not isinstance(values, dict):
        return None
    numbers = [0 if values.get(name) is None else values[name] for name in names]
    valid = all(type(number) is int and 0 <= number <= TOKENS_MAX for number in numbers)
    return tuple(numbers) if valid else None


def _request(request_id: object, model: object, counted: tuple[int, ...] | None, at: object) -> ModelRequest | None:
    """The request with its four figures; None if it has no id or no tokens."""
    if not isinstance(request_id, str) or not request_id or counted is None or not any(counted):
        return None
    fresh, cached, cache_write, output = counted
    return ModelRequest(request_id[:ID_CHARS], _model(model), fresh, cached, cache_write, output, at=_time(at))


def _cost(cost: object) -> float | None:
    """The cost in USD; None if it is not known, as a 0 is."""
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        return None
    return float(cost) if 0 < cost <= COST_MAX else None


def _model(name: object) -> str:
    return one_line(name, MODEL_CHARS) or UNNAMED if isinstance(name, str) else UNNAMED


def _time(at: object) -> str:
    """The time if it is valid, else "". `datetime` refuses a thirteenth month, and a year after 9999 in any zone."""
    if not isinstance(at, str) or not _TIME.fullmatch(at):
        return ""
    try:
        datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return at
