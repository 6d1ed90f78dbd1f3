"""Codes of errors about joining a fleet and about its machines; `errors` joins them with the others. Data only."""

from __future__ import annotations

FLEET_CODES: dict[str, tuple[str, str, str]] = {
    "owner_needed": (
        "BadRequest",
        "only the owner of the fleet's database may do this, and how it connects is not known here",
        "call it on the host of orchestrator fleet init, or add --dsn DSN",
    ),
    "other_fleet": (
        "Conflict",
        "the project is another host already, or a host of another fleet",
        "orchestrator fleet status shows it; orchestrator fleet leave takes it out",
    ),
    "other_checkout": (
        "Conflict",
        "the directory on the other machine is not a checkout of this project",
        "name another one: orchestrator host add --path DIR",
    ),
    "ssh_failed": (
        "Environment",
        "your ssh cannot reach the other machine",
        "try it: ssh BOX true; give other options with --ssh",
    ),
    "host_unfit": (
        "Environment",
        "the other machine lacks something that a host of the fleet needs",
        "repair the named cause there, then repeat the call",
    ),
    "fleet_driver": (
        "Environment",
        "[fleet] is set, and the driver of its database is not installed",
        "install it beside orchestrator: pip install 'orchestrator[fleet]'; then: orchestrator daemon restart",
    ),
    "host_has_agents": (
        "Conflict",
        "the host has agents of the fleet",
        "delete them; or, if its lease has expired: orchestrator host remove --lost",
    ),
    "host_exists": (
        "Conflict",
        "the fleet has a host with this name",
        "use another name, or remove that one: orchestrator host remove",
    ),
}
"""Code -> (kind, what it means, default next step)."""
