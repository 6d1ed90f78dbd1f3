"""What a host keeps on its disk, and how it connects by a user of its own."""

import stat

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.config import sources
from orchestrator.config.fleet_values import dsn_parts
from orchestrator.fleet import host_files
from orchestrator.trust import allowed
from orchestrator.trust.allowed import Allowed


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "project"
    (root / ".agents").mkdir(parents=True)
    return root


def test_a_password_is_for_its_user_alone(tmp_path):
    path = host_files.write_passfile("shop", "box", "role", "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "*:*:*:role:secret\n"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:pass@db.example:6000/fleet?sslmode=verify-full&sslrootcert=/a%20b/c",
        r"host=db.example port=6000 dbname=fleet user=me password='p\' s' sslmode=verify-full sslrootcert='/a b/c'",
    ],
)
def test_a_host_connects_to_the_same_server_by_a_login_of_its_own(dsn, tmp_path):
    made = host_files.dsn_of_role(host_files.parts_of(dsn), "role", tmp_path / "it's")
    assert dsn_parts(made) == {
        "host": "db.example", "port": "6000", "dbname": "fleet", "user": "role", "sslmode": "verify-full",
        "sslrootcert": "/a b/c", "passfile": str(tmp_path / "it's"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "Box", "-a", "a b", "a" * 64, "a/b", "ä"])
def test_a_name_that_the_settings_refuse_is_refused_first(name):
    with pytest.raises(BadRequest) as caught:
        host_files.check_name("host", name)
    assert caught.value.code == "bad_argument"


def test_what_is_written_is_allowed(root):
    file = root / ".agents" / "config.toml"
    file.write_text("# mine\n")
    file.chmod(0o640)
    assert host_files.write_config(root, lambda text: text + "x = 1\n")
    assert file.read_text() == "# mine\nx = 1\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert Allowed(root).counts(sources.PROJECT_FILE, file.read_bytes())


def test_what_a_stranger_wrote_is_not_allowed_with_the_rest(root):
    file = root / ".agents" / "config.toml"
    file.write_text('approval = "all"\n')
    with pytest.raises(Environment) as caught:
        host_files.write_config(root, lambda text: text + "places = 1\n")
    assert caught.value.code == "untrusted_setting"
    assert file.read_text() == 'approval = "all"\n'


def test_a_call_after_a_crash_goes_on(root):
    """Allowed and not written yet: the next call writes it."""
    file = root / ".agents" / "config.toml"
    file.write_text('approval = "all"\n')
    new = b'approval = "all"\n# more\n'
    allowed.allow(root, {sources.PROJECT_FILE: new}, "2026-11-27T00:00:00.000Z")
    assert host_files.write_config(root, lambda text: text + "# more\n")
    assert file.read_bytes() == new


def test_addresses_are_kept_and_forgotten():
    host_files.keep_address("shop", "box", {"address": "me@box"})
    host_files.keep_address("shop", "gpu", {"address": "me@gpu"})
    host_files.keep_address("shop", "box", None)
    assert host_files.addresses("shop") == {"gpu": {"address": "me@gpu"}}
