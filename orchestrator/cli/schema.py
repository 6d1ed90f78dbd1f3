"""The command that prints the JSON Schemas of our files. Reads only."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from orchestrator.base import package_data
from orchestrator.cli import options, output
from orchestrator.cli.options import Json


def schema(
    name: Annotated[
        str,
        typer.Argument(help="Name of the schema; default: list all names.", autocompletion=package_data.schema_names),
    ] = "",
    as_json: Json = False,
) -> None:
    """Print a JSON Schema of our files.

    Without a name, lists all names.
    """
    if not name:
        names = package_data.schema_names()
        if as_json:
            output.print_json({"schemas": names})
        else:
            output.say("\n".join(names))
        return
    json_schema = package_data.schema(name)
    if as_json:
        output.print_json(json_schema)
    else:
        output.say(json.dumps(json_schema, indent=2, ensure_ascii=False))


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "schema", "orchestrator schema\norchestrator schema config > config.schema.json")(schema)
