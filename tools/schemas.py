"""Write the JSON Schemas of every file of the product to `.agents-schema/`, or check that they are current.

``python tools/schemas.py`` writes them; with ``--check`` it only says which ones are not current (exit 1). It
writes to `.agents-schema/` alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, the checkout's own package counts

from orchestrator.config.keys import Config  # noqa: E402
from orchestrator.core.schemas import SCHEMAS  # noqa: E402
from orchestrator.team.roster.team_file import TeamFile  # noqa: E402

PLACE = ROOT / ".agents-schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ABOUT = {
    "inbox": "One line of .agents/agents/<agent_id>/inbox.jsonl: what was asked of the agent.",
    "outbox": "One line of .agents/agents/<agent_id>/outbox.jsonl: what happened with the agent.",
    "broadcast": "One line of .agents/run/<run_id>/broadcast.jsonl: the digest of a team run.",
    "meta": ".agents/agents/<agent_id>/meta.json: what agent_get shows of the agent; a cache.",
    "run": ".agents/run/<run_id>/run.json: the tmux window of a team run, and what was changed of it.",
    "identity": ".agents/identity.json: which directory of team data this is.",
    "launch": ".agents/agents/<agent_id>/engine/launch.json (0600): what the launch stub executes.",
    "process": ".agents/agents/<agent_id>/engine/process.json: which process the agent's CLI is.",
    "collected": ".agents/agents/<agent_id>/collected.json: what is left of an agent whose data gc has removed.",
    "mirror": ".agents/agents/<agent_id>/mirror.json: which host owns the agent that this is a copy of.",
    "squad": ".agents/squads/<squad_id>/squad.json: the members of a squad, their processes, and what came of them.",
    "config": ".agents/config.toml and the user's config.toml, as JSON.",
    "team": ".agents/team.toml, as JSON: the team that orchestrator up brings about.",
}


def schemas() -> dict[str, str]:
    """The text of every schema file: name without its suffix -> JSON."""
    models: dict[str, dict[str, Any]] = {name: adapter.json_schema() for name, adapter in SCHEMAS.items()}
    models["config"] = Config.model_json_schema()
    models["team"] = TeamFile.model_json_schema()
    return {
        name: json.dumps({"$schema": DIALECT, "title": name, "description": ABOUT[name], **_body(model)}, indent=2)
        + "\n"
        for name, model in models.items()
    }


def _body(model: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key not in ("title", "description")}


def stale(place: Path = PLACE) -> list[str]:
    """The files of ``place`` that are missing, differ, or belong to no model; sorted."""
    wanted = {f"{name}.json": text for name, text in schemas().items()}
    found = {path.name: path.read_text(encoding="utf-8") for path in place.glob("*.json")} if place.is_dir() else {}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def write(place: Path = PLACE) -> None:
    """Make ``place`` current."""
    place.mkdir(exist_ok=True)
    wanted = schemas()
    for path in place.glob("*.json"):
        if path.stem not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (place / f"{name}.json").write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write, or check with ``--check``; the exit status."""
    if arguments == ["--check"]:
        for name in stale():
            print(f".agents-schema/{name} is not current; run: python tools/schemas.py", file=sys.stderr)
        return 1 if stale() else 0
    if arguments:
        print("Usage: python tools/schemas.py [--check]", file=sys.stderr)
        return 2
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
