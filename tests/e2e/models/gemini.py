"""The Gemini API as Gemini CLI uses it: streamGenerateContent for the main loop, generateContent for side calls."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.models.turn import Call, Reply, Talk, Tool, Turn, parsed, sse, text_of


def read(path: str, body: dict[str, Any]) -> Turn:
    """A request to ``/v1beta/models/<model>:<method>``."""
    model, _, method = path.rsplit("/", 1)[-1].partition(":")
    stream = method.startswith("stream")
    talk = Talk()
    for index, content in enumerate(body.get("contents") or []):
        role = content.get("role", "user")
        for place, part in enumerate(content.get("parts") or []):
            if "functionCall" in part:
                call = part["functionCall"]
                key = call.get("id") or f"{index}.{place}"
                talk.call(Call(name=call["name"], arguments=parsed(call.get("args")), id=key))
            elif "functionResponse" in part:
                answer = part["functionResponse"]
                response = answer.get("response") or {}
                key = answer.get("id") or talk.unanswered(answer["name"])
                failed = "error" in response
                said = response.get("error") if failed else response.get("output", response)
                text = said if isinstance(said, str) else json.dumps(said)
                talk.result(key, text, failed=failed, name=answer["name"])
            elif not part.get("thought"):
                talk.text(role, part.get("text", ""))
    tools = tuple(
        Tool(
            name=one["name"],
            schema=one.get("parametersJsonSchema") or one.get("parameters") or {},
            description=one.get("description", ""),
        )
        for group in body.get("tools") or []
        for one in group.get("functionDeclarations") or []
    )
    system = text_of((body.get("systemInstruction") or {}).get("parts") or [])
    side = None if stream and tools else _side(body, system)
    return Turn("gemini", model, system, talk.messages(), tools, side_call=side, stream=stream)


def _side(body: dict[str, Any], system: str) -> str:
    config = body.get("generationConfig") or {}
    schema = json.dumps(config.get("responseJsonSchema") or config.get("responseSchema") or {})
    if "complexity_score" in schema:
        return "router"
    if "unproductive_state_confidence" in schema:
        return "judge"
    if "next_speaker" in schema:
        return "next_speaker"
    if "state_snapshot" in system + json.dumps(body.get("contents") or []):
        return "compression"
    return "summary"


SIDE_ANSWERS = {
    "router": json.dumps({"complexity_reasoning": "scripted", "complexity_score": 10}),
    "judge": json.dumps({"unproductive_state_analysis": "scripted", "unproductive_state_confidence": 0.1}),
    "next_speaker": json.dumps({"reasoning": "scripted", "next_speaker": "user"}),
}


def write(turn: Turn, reply: Reply) -> tuple[str, bytes]:
    """One chunk with everything."""
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text or not reply.calls else []
    parts += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.calls]
    tokens = reply.tokens or 0
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 10, "totalTokenCount": tokens + 10},
        "modelVersion": turn.model,
    }
    if turn.stream:
        return "text/event-stream", sse([(None, answer)])
    return "application/json", json.dumps(answer).encode()
