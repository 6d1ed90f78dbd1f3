"""Codes of errors about a fleet: its database, its hosts, its agents. Data only; as in `error_codes`."""

from __future__ import annotations

FLEET_CODES: dict[str, tuple[str, str, str]] = {
    "owner_needed": (
        "BadRequest",
        "only the owner of the fleet's database may do this, and how it connects is not known here",
        "call it on the host of orchestrator fleet init, or add --dsn DSN",
    ),
    "host_unknown": ("BadRequest", "the fleet has no host with this name", "orchestrator host list shows the hosts"),
    "no_fleet": (
        "BadRequest",
        "host was given or the agent belongs to a fleet, and this daemon belongs to none",
        "set fleet_dsn, fleet_project and fleet_host, or leave host out",
    ),
    "host_draining": (
        "BadRequest",
        "the host is drained: it takes no new agents",
        "name another host, or any; orchestrator host list shows the hosts",
    ),
    "refused_by_host": (
        "BadRequest",
        "the host does not accept this from the host that asked for it",
        "let it accept this there: [fleet.accept] in the configuration of that host",
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
    "host_taken": (
        "Conflict",
        "another machine, or a copy of this one, is this host of the fleet",
        "end the other one; if this one replaces it, on another host: orchestrator host remove NAME --lost, then host add",
    ),
    "project_taken": (
        "Conflict",
        "another repository has this project name in the fleet's database",
        "choose another name: --project, or fleet_project in [fleet]",
    ),
    "cursor_old": (
        "Conflict",
        "the run has got another home, and its broadcast was derived anew",
        "read from since_seq 0, and pass the gen of the answer from then on",
    ),
    "not_home": ("Conflict", "another host is the home of the team run", "repeat the call at that host"),
    "host_alive": (
        "Conflict",
        "the host's lease has not expired, so it is not lost",
        "orchestrator host list shows it",
    ),
    "fenced": (
        "Conflict",
        "the agent has moved to another host, so what this host says of it does not count",
        "ask again: agent_get shows the agent's host",
    ),
    "fleet_away": (
        "NotReady",
        "the fleet's database does not answer",
        "repeat the call later; orchestrator fleet status",
    ),
    "host_away": (
        "NotReady",
        "the host does not renew its lease, so nobody answers there",
        "repeat the call later; orchestrator host list shows the hosts",
    ),
    "no_host": (
        "NotReady",
        "no live host of the fleet has the engine and a free place",
        "repeat the call later; orchestrator host list shows the hosts",
    ),
    "too_early": (
        "NotReady",
        "this host has not renewed its own lease for long enough to declare another one lost",
        "repeat the call later",
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
    "fleet_denied": (
        "Environment",
        "the fleet's database refuses this host: its user, its password or its rights",
        "check fleet_dsn and its passfile, or add the host again: orchestrator host add",
    ),
    "fleet_unreachable": (
        "Environment",
        "the fleet's database cannot be found, or it is not the one that its certificate names",
        "check host, database and TLS files in fleet_dsn",
    ),
    "fleet_full": (
        "Environment",
        "the disk of the fleet's database is full; nothing was stored",
        "free space on the machine of the database, then repeat the call",
    ),
    "fleet_failed": (
        "Environment",
        "the fleet's database refused a statement that it should accept",
        "orchestrator fleet doctor; the log of the database says more",
    ),
    "pooler_refused": (
        "Environment",
        "a connection pooler stands between this host and the fleet's database, so news would be lost",
        "let fleet_dsn name PostgreSQL itself",
    ),
    "tls_required": (
        "Environment",
        "the connection to the fleet's database is not protected",
        "set sslmode=verify-full in fleet_dsn, and sslrootcert where the system does not know the authority",
    ),
    "no_postgres": (
        "Environment",
        "a PostgreSQL server for a demo or a test cannot be run here",
        "install PostgreSQL 15 or newer (Debian: apt-get install postgresql)",
    ),
    "schema_newer": (
        "Environment",
        "the fleet's database was upgraded by a newer version",
        "install that version on this host",
    ),
    "schema_missing": (
        "Environment",
        "the database has no tables of a fleet",
        "make them: orchestrator fleet init --dsn DSN",
    ),
    "schema_older": (
        "Environment",
        "the fleet's database has the tables of an older version",
        "upgrade it: orchestrator fleet init",
    ),
    "schema_foreign": (
        "Environment",
        "the database has a schema orchestrator_fleet of another program",
        "give the fleet a database of its own",
    ),
    "server_unsupported": (
        "Environment",
        "the database server is older than PostgreSQL 15, or its database has another encoding than UTF8",
        "use PostgreSQL 15 or newer, and a database made with: createdb -E UTF8 -T template0",
    ),
    "forked": (
        "Corrupt",
        "an agent's log here and its mirror in the fleet's database contradict each other",
        "keep a copy of the agent's directory; orchestrator verify --fleet shows where they differ",
    ),
}
"""Code -> (kind, what it means, default next step)."""
