"""`[fleet]` is put into a project's configuration and taken out again; every other byte stays."""

import tomllib

import pytest

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.fleet.fleet_section import with_fleet, without_fleet

VALUES = {"dsn": "host=db dbname=fleet user=a passfile=/s/a.pgpass", "project": "shop", "host": "box"}
TEXTS = ["", "# mine\n", 'engine = "shell"', 'engine = "shell"\n\n[other]\nx = 1\n', "# crlf\r\nplaces = 3\r\n"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("accepted", [(), ("laptop", "gpu")])
def test_what_was_there_stays_and_comes_back(text, accepted):
    new = with_fleet(text, VALUES, accepted)
    section = tomllib.loads(new.replace("\r\n", "\n"))["fleet"]
    assert {name: section[name] for name in VALUES} == VALUES
    assert section.get("accept", {}).get("hosts", []) == list(accepted)
    assert new.startswith(text)
    assert without_fleet(new).rstrip() == text.rstrip()


def test_a_repeated_call_changes_nothing():
    new = with_fleet("# mine\n", VALUES, ["laptop"])
    assert with_fleet(new, VALUES, ["laptop"]) == new
    assert with_fleet(new, VALUES) == new


@pytest.mark.parametrize("changed", [{"host": "other"}, {"project": "other"}, {"dsn": "host=elsewhere"}])
def test_another_host_or_fleet_is_never_overwritten(changed):
    with pytest.raises(Conflict) as caught:
        with_fleet(with_fleet("", VALUES), {**VALUES, **changed})
    assert caught.value.code == "other_fleet"


def test_who_is_accepted_is_never_widened_silently():
    with pytest.raises(Conflict) as caught:
        with_fleet(with_fleet("", VALUES, ["laptop"]), VALUES, ["gpu"])
    assert caught.value.code == "other_fleet"


@pytest.mark.parametrize("text", ["not toml", "a = {b = 1"])
def test_a_file_that_cannot_be_read_is_left_alone(text):
    for change in (lambda: with_fleet(text, VALUES), lambda: without_fleet(text)):
        with pytest.raises(BadRequest) as caught:
            change()
        assert caught.value.code == "bad_config"


def test_a_section_in_another_form_is_not_taken_out():
    with pytest.raises(BadRequest) as caught:
        without_fleet('fleet = {dsn = "host=db", project = "shop", host = "box"}\n')
    assert caught.value.code == "bad_config"


def test_a_host_that_comes_back_gets_the_login_of_its_new_role_and_keeps_the_rest():
    text = with_fleet("# mine\n", VALUES, ["laptop"]).replace("[fleet]\n", "[fleet]\nplaces = 3\n")
    new = {**VALUES, "dsn": "host=db dbname=fleet user=b passfile=/s/a.pgpass"}
    assert with_fleet(text, new, ["laptop"]) == text.replace("user=a", "user=b")
    written_by_hand = text.replace(f'"{VALUES["dsn"]}"', f"'{VALUES['dsn']}'")
    with pytest.raises(BadRequest) as caught:
        with_fleet(written_by_hand, new, ["laptop"])
    assert caught.value.code == "bad_config"
