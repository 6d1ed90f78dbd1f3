"""The settings of a host of a fleet, and when its way to the database is safe."""

import pytest
from pydantic import ValidationError

from orchestrator.base.errors import BadRequest
from orchestrator.config.fleet_values import FleetAcceptance
from orchestrator.config.keys import Config
from orchestrator.fleet.settings import (
    check_connection,
    passfile_unusable,
    reached_unsafely,
    settings_of,
    tls_missing,
)

NAMED = {"fleet_dsn": "host=/tmp dbname=f", "fleet_project": "shop", "fleet_host": "box"}


def test_the_settings_are_those_of_the_configuration_with_the_defaults_of_what_is_accepted():
    settings = settings_of(Config(**NAMED))
    assert (settings.dsn, settings.project, settings.host) == tuple(NAMED.values())
    assert (settings.places, settings.on_host_lost, settings.push) == (8, "wait", "")
    assert settings.accept == FleetAcceptance()
    accept = {"hosts": ["a"], "approval": "edits", "peek": False, "commands": {"b": "make -j2"}}
    settings = settings_of(
        Config(**NAMED, fleet_places=3, fleet_on_host_lost="move", fleet_push="origin", fleet_accept=accept)
    )
    assert (settings.places, settings.on_host_lost, settings.push) == (3, "move", "origin")
    assert settings.accept == FleetAcceptance(**accept)


@pytest.mark.parametrize("missing", NAMED)
def test_without_one_of_its_names_there_is_no_fleet(missing):
    assert settings_of(Config(**{**NAMED, missing: ""})) is None
    assert settings_of(Config()) is None


@pytest.mark.parametrize(
    ("dsn", "safe"),
    [
        ("postgresql://db.example/f", False),
        ("postgresql://db.example/f?sslmode=require", False),
        ("postgresql://db.example/f?sslmode=verify-ca", False),
        ("postgresql://db.example/f?sslmode=verify-full", True),
        ("postgresql://db.example/f?sslmode=verify%2Dfull", True),
        ("postgresql://db.example/f?sslmode=verify-full&ssl=true", False),
        ("postgresql://db.example/f?sslmode=verify-full&sslmode=disable", False),
        ("host=db.example sslmode=verify-full", True),
        ("host=db.example sslmode='verify-full'", True),
        ("host=db.example sslmode=disable", False),
        ("host=localhost", True),
        ("host=localhost.example", False),
        ("host=127.0.0.1", True),
        ("host=127.9.9.9", True),
        ("host=128.0.0.1", False),
        ("postgresql://[::1]:5433/f", True),
        ("postgresql://[::2]:5433/f", False),
        ("host=/run/postgresql", True),
        ("host=@abstract", True),
        ("postgresql://%2Frun%2Fpostgresql/f", True),
        ("postgresql:///f?host=/run/postgresql", True),
        ("postgresql://localhost/f?host=db.example", False),
        ("postgresql://localhost,db.example/f", False),
        ("postgresql://localhost,127.0.0.1/f", True),
        ("host=localhost hostaddr=10.0.0.1", False),
        ("host=db.example hostaddr=127.0.0.1", True),
        ("host=localhost,localhost hostaddr=127.0.0.1,10.0.0.1", False),
        ("host=localhost,db.example hostaddr=127.0.0.1,", False),
    ],
)
def test_only_a_proven_server_or_this_machine_is_safe(dsn, safe):
    assert (tls_missing(dsn) == "") is safe
    if not safe:
        with pytest.raises(BadRequest) as caught:
            check_connection(dsn)
        assert (caught.value.code, caught.value.facts["key"]) == ("bad_config", "fleet_dsn")


@pytest.mark.parametrize(
    ("host", "address", "sslmode", "safe"),
    [
        ("/run/postgresql", "", "prefer", True),
        ("@abstract", "", "", True),
        ("localhost", "127.0.0.1", "prefer", True),
        ("localhost", "::1", "disable", True),
        ("localhost", "10.0.0.1", "prefer", False),
        ("localhost", "", "prefer", False),
        ("db.example", "10.0.0.1", "require", False),
        ("db.example", "10.0.0.1", "verify-ca", False),
        ("db.example", "10.0.0.1", "verify-full", True),
    ],
)
def test_the_address_that_was_reached_counts_and_not_its_name(host, address, sslmode, safe):
    assert (reached_unsafely(host, address, sslmode) == "") is safe


def test_a_service_is_no_address():
    for dsn in ("service=team host=localhost", "postgresql://localhost/f?service=team"):
        with pytest.raises(ValidationError):
            Config(fleet_dsn=dsn)


def test_a_password_file_is_this_users_alone(tmp_path):
    file = tmp_path / "pgpass"
    dsn = f"host=/tmp passfile={file}"
    assert passfile_unusable("host=/tmp") == ""
    assert passfile_unusable(dsn), "missing"
    file.write_text("*:*:*:*:secret\n")
    for mode, good in ((0o600, True), (0o400, True), (0o640, False), (0o604, False), (0o620, False), (0o601, False)):
        file.chmod(mode)
        assert (passfile_unusable(dsn) == "") is good, oct(mode)
    file.chmod(0o644)
    with pytest.raises(BadRequest) as caught:
        check_connection(dsn)
    assert caught.value.code == "bad_config" and str(file) in caught.value.next_step
    file.chmod(0o600)
    check_connection(dsn)
    assert passfile_unusable("host=/tmp passfile=pgpass"), "whose directory?"
    assert passfile_unusable(f"host=/tmp passfile={tmp_path}"), "a directory"
