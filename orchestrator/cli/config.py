"""The command that shows every setting, its value and its source. Reads only."""

from __future__ import annotations

import os
from typing import Any

from orchestrator.cli import options, output, trust
from orchestrator.cli.options import Json, Settings
from orchestrator.edge.project_location import PER_CONNECTION
from orchestrator.faces.daemon_client import project_here
from orchestrator.trust.untrusted_settings import untrusted_note

NOTE = "values come from the env block of the MCP client's server entry and apply to that connection only"

app = options.app("Show the settings and their sources.")


@options.command(app, "show", "orchestrator config show\norchestrator config show --set idle_exit_s=60")
def show(settings: Settings = [], as_json: Json = False) -> None:  # noqa: B006
    """Show every setting and its source.

    Also lists the variables that apply to one connection only.
    """
    from orchestrator.config import keys, sources  # noqa: PLC0415  (loads pydantic)

    place = project_here()
    loaded = sources.load(place.root, os.environ, options.pairs(settings, "--set"))
    shown: dict[str, dict[str, Any]] = {
        key: {
            "value": getattr(loaded.config, key),
            "default": field.default,
            "unit": keys.unit(key),
            "source": loaded.sources[key],
            "env": keys.env_name(key),
            "per_connection": False,
            "description": field.description,
        }
        for key, field in keys.Config.model_fields.items()
    }
    project = str(sources.project_file(place.root))
    for key, value in loaded.withheld.items():
        shown[key]["source"] += f"; {project} is not allowed"
        shown[key]["not_allowed"] = value
    for key in loaded.ignored:
        shown[key]["source"] += f"; {project} cannot set it"
    warning = untrusted_note({sources.PROJECT_FILE: list(loaded.withheld)} if loaded.withheld else {})
    trust.note(warning.get("untrusted"))
    files = {"user": str(sources.user_file(os.environ)), "project": project}
    if as_json:
        rows = [{"name": name, "per_connection": True} for name in PER_CONNECTION]
        output.print_json(
            {
                "project": str(place.root),
                "files": files,
                "keys": shown,
                "per_connection": rows,
                "note": NOTE,
                **warning,
            }
        )
        return
    output.table(
        ["KEY", "VALUE", "UNIT", "SOURCE", "MEANING"],
        [
            [key, _shown(row["value"]), row["unit"], row["source"], str(row["description"])]
            for key, row in shown.items()
        ],
    )
    output.say("")
    output.say(f"project file: {files['project']}\nuser file:    {files['user']}")
    output.say(f"\nper connection ({NOTE}):")
    for name in PER_CONNECTION:
        output.say(f"  {name}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == "" else str(value)
