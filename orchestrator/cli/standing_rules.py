"""Commands about the rules that `approve --always` made."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import DaemonClient, project_here

app = options.app("Show and remove the rules that approve --always made.")


@options.command(app, "list", "orchestrator approvals list")
def list_rules(as_json: Json = False) -> None:
    """List the rules of this project: what is allowed without a question."""
    with DaemonClient(project_here(), start=True) as link:
        answer = link.ask("orchestrator/approval_rules", {})
    if as_json:
        output.print_json(answer)
        return
    output.table(
        ["RULE", "FOR", "COVERS", "IN", "MADE"],
        [
            [
                rule["id"],
                rule["kind"],
                rule["text"],
                rule["cwd"] if rule["kind"] != "edit" else "",
                output.age(rule["at"]),
            ]
            for rule in answer["rules"]
        ],
        whole_column=0,
        empty="there are no rules; make one: orchestrator approve ID --always",
    )


@options.command(app, "remove", "orchestrator approvals remove 5d0c77f0a1b2")
def remove(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The rule's id; see: orchestrator approvals list.")],
    as_json: Json = False,
) -> None:
    """Remove a rule: what it covers is asked again from now on."""
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        answer = link.ask("orchestrator/remove_approval_rule", {"rule": rule.strip().lower()})
    if as_json:
        output.print_json(answer)
    else:
        output.say_line(f"removed: {rule}")
