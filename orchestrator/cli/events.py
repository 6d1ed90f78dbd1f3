"""Commands that print logs: an agent's events and a team run's broadcast."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orchestrator.cli import options
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.event_text import EventText
from orchestrator.cli.facts import LogPrinter, facts
from orchestrator.cli.options import AgentWord, Follow, Json, Last, RunId, Since
from orchestrator.cli.run_choice import choose_run, wait_for_run_of_pane
from orchestrator.faces.daemon_client import project_here


def events(agent: AgentWord, since: Since = 0, follow: Follow = False, last: Last = 0, as_json: Json = False) -> None:
    """Print the events of an agent.

    With --json one record per line.
    """
    place = project_here()
    source = facts(place)
    choice = chosen(source, agent)
    follow = follow and not choice.deleted  # nothing will follow
    log = LogPrinter(place, source, agent_id=choice.agent_id)
    EventText(place.root, choice.agent_id).show(log.records(since, last, follow=follow), as_json=as_json)


def broadcast(
    run: RunId = "",
    since: Since = 0,
    follow: Follow = False,
    last: Last = 0,
    as_json: Json = False,
    *,
    of_this_pane: Annotated[bool, typer.Option("--of-this-pane", hidden=True)] = False,
) -> None:
    """Print the digest of a team run.

    The broadcast has every terminal event and lifecycle change. With --json one record per line.
    """
    place = project_here()
    run_id = wait_for_run_of_pane(place) if of_this_pane else choose_run(place, run)
    records = LogPrinter(place, facts(place), run_id=run_id).records(since, last, follow=follow)
    EventText(place.root).show(records, as_json=as_json)


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    options.command(app, "events", "orchestrator events builder -n 20 -f")(events)
    options.command(app, "broadcast", "orchestrator broadcast -f --json | jq .type")(broadcast)
