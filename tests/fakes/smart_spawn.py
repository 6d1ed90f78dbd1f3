"""What the Smart Spawn API answers, in its real shapes (contract A4); served by tests/fakes/openrouter.py.

A rule may say ``reply`` (the answer verbatim) or, for /swarm, ``dag``: "cycle", "self", "unknown", "ids" (path
escapes), "duplicates", "many" (200 tasks), "empty", "types"; ``model``: null leaves the tasks without one.
"""

import re
from decimal import Decimal

TIERS = {"low": (0, 1), "medium": (0, 5), "high": (2, 20), "any": (0, 10**9)}
PHASES = ("research", "design", "implement", "test", "document", "deploy")
KINDS = ("coding", "reasoning", "creative", "research", "general", "fast-cheap", "vision")


def listed(model: str, prices: tuple[str, str, str]) -> dict:
    """A row of GET /v1/models."""
    prompt, completion, request = prices
    return {
        "id": model,
        "canonical_slug": model,
        "name": model.partition("/")[2],
        "created": 1_760_000_000,
        "description": "",
        "context_length": 131_072,
        "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
        "pricing": {"prompt": prompt, "completion": completion, "request": request, "image": "0"},
        "top_provider": {"context_length": 131_072, "max_completion_tokens": 16_384, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": ["max_tokens", "temperature"],
    }


def task_of(query: dict, body: dict) -> str:
    return str(query.get("task", "")) + str(body.get("task", ""))


def error(status: int, code: str, message: str) -> tuple[int, dict, dict]:
    return status, {"error": {"code": code, "message": message}}, {}


def answer(method: str, path: str, query: dict, body: dict, prices: dict, rule: dict) -> tuple[int, object, dict]:
    """Status, body and headers of one call."""
    at = path.removeprefix("/api/")
    form = {"status": "GET", "pick": "GET", "recommend": "GET", "roles/blocks": "GET"}.get(at, "POST")
    if at not in {"status", "pick", "recommend", "roles/blocks", "decompose", "swarm", "roles/compose"}:
        return error(404, "NOT_FOUND", f"no route {path}")
    if method != form:
        return error(404, "NOT_FOUND", f"no route {method} {path}")
    if "reply" in rule:
        return 200, rule["reply"], {}
    if at == "status":
        data = {"status": "ok", "lastRefresh": "2026-02-17T00:00:00.000Z", "modelCount": len(prices), "version": "1"}
        return 200, {"data": data}, {}
    if at == "roles/blocks":
        return 200, {"personas": [], "stack": [], "domains": [], "formats": [], "guardrails": [], "counts": {}}, {}
    task = task_of(query, body).strip()
    if form == "GET" and (len(task) > 200 or re.search(r"[\x00-\x1f\x7f]", task)):
        return error(400, "MISSING_PARAM", "task is too long or has control characters")
    if not task and not query.get("category"):
        return error(400, "MISSING_PARAM", "task is missing")
    asked = (query if form == "GET" else body).get("budget", "medium")
    if asked not in TIERS:
        return error(400, "INVALID_PARAM", f"budget {asked}")
    models = ranked(prices, asked, set(str(query.get("exclude", "")).split(",")))
    if form == "GET" and not models:
        return error(404, "NO_MODEL", "no model fits") if at == "pick" else (200, {"data": [], "meta": {}}, {})
    if at == "pick":
        low, high = TIERS[asked]
        more = {"benchmarkScore": 70, "personalScore": None, "budget": asked, "tier": {"min": low, "max": high}}
        return 200, {"data": {**models[0], **more, "candidateCount": len(models), "reason": "best of its tier"}}, {}
    if at == "recommend":
        rows = [{"model": one, "reason": "fits", "confidence": 0.8} for one in models[: int(query.get("count", 1))]]
        meta = {"task": "general", "taskRaw": task, "budget": asked, "candidatesConsidered": len(models)}
        return 200, {"data": rows, "meta": meta}, {}
    if at == "roles/compose":
        return 200, composed(task, body), {}
    parts = split(task)
    if "dag" not in rule and len(parts) < 2:
        return 200, {"decomposed": False, "reason": "the task has one part"}, {}
    model = models[0] if models and rule.get("model", "") is not None else None
    if at == "decompose":
        steps = [
            {"step": n, "task": part, "category": "general", "budget": asked, "model": model, "reason": "step"}
            for n, part in enumerate(parts, 1)
        ]
        found = {"totalSteps": len(steps), "steps": steps, "originalTask": task, "context": body.get("context")}
        return 200, {"decomposed": True, **found}, {}
    return 200, {"decomposed": True, "dag": dag(task, parts, asked, model, rule.get("dag", ""))}, {}


def ranked(prices: dict, budget: str, exclude: set[str]) -> list[dict]:
    """The models of that tier, the dearest first, each as /pick answers it."""
    low, high = TIERS[budget]
    rows = []
    for model, (prompt, completion, _) in prices.items():
        each = Decimal(prompt) * 10**6
        if low <= each <= high and model not in exclude:
            pricing = {"prompt": float(each), "completion": float(Decimal(completion) * 10**6)}
            provider, _, name = model.partition("/")
            rows.append({"id": model, "name": name, "provider": provider, "score": 80, "pricing": pricing})
    return sorted(rows, key=lambda row: -row["pricing"]["prompt"])


def split(task: str) -> list[str]:
    for rule in (r"(?:^|\n)\s*\d+[.)]\s+", r"(?:^|\n)\s*[-*]\s+", r";\s*", r"\n\s*\n"):
        parts = [part.strip() for part in re.split(rule, task) if part.strip()]
        if len(parts) > 1:
            return parts
    return [task]


def dag(task: str, parts: list[str], budget: str, model: dict | None, kind: str) -> dict:
    """A swarm's graph: each task needs those of the nearest phase before its own."""
    if kind == "many":
        parts = [f"Part {n} of: {task}" for n in range(1, 201)]
    phases = [next((n for n, word in enumerate(PHASES) if word in part.lower()), 0) for part in parts]
    order = sorted(set(phases))
    tasks = []
    for n, (part, phase) in enumerate(zip(parts, phases, strict=True), 1):
        wave = order.index(phase)
        needs = [f"swarm-{m}" for m, other in enumerate(phases, 1) if wave and other == order[wave - 1]]
        more = {"category": "general", "budget": budget, "persona": None, "model": model, "reason": "fits"}
        tasks.append({"id": f"swarm-{n}", "description": part, "dependsOn": needs, "wave": wave, **more})
    first, last = tasks[0], tasks[-1]
    match kind:
        case "cycle":
            first["dependsOn"], last["dependsOn"] = [last["id"]], [first["id"]]
        case "self":
            first["dependsOn"] = [first["id"]]
        case "unknown":
            last["dependsOn"] = ["swarm-999", "nobody"]
        case "ids":
            for one, bad in zip(tasks, ("../../x", "a/b\n", "CON.json", ".", "x" * 300), strict=False):
                one["id"] = bad
            last["dependsOn"] = ["../../x"] if last is not first else []
        case "duplicates":
            for one in tasks:
                one["id"] = "swarm-1"
        case "empty":
            tasks = []
        case "types":
            tasks = [{"id": 7, "description": None, "dependsOn": "swarm-1", "wave": "first"}, "no task", None]
    rows = [one for one in tasks if isinstance(one, dict) and isinstance(one.get("dependsOn"), list)]
    waves = sorted({one["wave"] for one in rows})
    return {
        "tasks": tasks,
        "waves": [
            {"wave": w, "taskIds": [one["id"] for one in rows if one["wave"] == w], "description": ""} for w in waves
        ],
        "edges": [{"from": need, "to": one["id"], "type": "phase"} for one in rows for need in one["dependsOn"]],
        "totalTasks": len(tasks),
        "totalWaves": len(waves),
        "originalTask": task,
        "context": None,
        "estimatedCost": {"low": 0.01, "high": 0.1},
    }


def composed(task: str, body: dict) -> dict:
    """A role as the API composes it: blocks, then the task."""
    persona = str(body.get("persona") or "")
    blocks = [f"You are a {persona}."] if persona else []
    blocks += [f"You know {one}." for one in [*body.get("stack", []), body.get("domain")] if one]
    blocks += [f"Answer as {body['format']}."] if body.get("format") else []
    blocks += [f"Always: {one}." for one in body.get("guardrails", [])]
    full = "\n\n".join([*blocks, f"---\n\n## Task\n\n{task}"]) if blocks else task
    return {
        "hasRole": bool(blocks),
        "persona": persona or None,
        "personaTitle": persona.title() or None,
        "stack": body.get("stack", []),
        "domain": body.get("domain"),
        "format": body.get("format"),
        "guardrails": body.get("guardrails", []),
        "wordCount": len(full.split()),
        "fullPrompt": full,
    }
