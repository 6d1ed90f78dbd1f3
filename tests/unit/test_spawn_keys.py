"""The key of the model API: found where it may be, refused where others could read it, known again by a fingerprint."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.base.errors import Environment
from orchestrator.spawn import keys

KEY = "sk-or-v1-very-secret"


@pytest.fixture
def home(tmp_path):
    made = tmp_path / "home"
    made.mkdir(0o700)
    return made


def put(home, content=KEY + "\n", mode=0o600):
    path = home / "openrouter.key"
    path.write_text(content)
    path.chmod(mode)
    return path


def unsafe(call, *args):
    with pytest.raises(Environment) as found:
        call(*args)
    assert found.value.code == "key_unsafe"
    assert "secret" not in str(found.value.as_dict())


def test_the_environments_key_comes_first_then_the_files_then_none(home):
    assert keys.key_of({}, home) == ""
    put(home, f"  {KEY}\n")
    assert keys.key_of({}, home) == KEY
    assert keys.key_of({"OPENROUTER_API_KEY": "  "}, home) == KEY
    assert keys.key_of({"OPENROUTER_API_KEY": " other \n"}, home) == "other"
    put(home, "\n")
    assert keys.key_of({}, home) == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o660])
def test_a_file_that_others_may_touch_is_refused(home, mode):
    put(home, mode=mode)
    unsafe(keys.key_of, {}, home)


def test_a_file_that_is_no_plain_one_of_the_user_is_refused(home, monkeypatch):
    path = put(home)
    path.rename(home / "elsewhere")
    path.symlink_to("elsewhere")
    unsafe(keys.key_of, {}, home)
    path.unlink()
    os.mkfifo(path, 0o600)
    unsafe(keys.key_of, {}, home)
    path.unlink()
    path.mkdir(0o700)
    unsafe(keys.key_of, {}, home)
    path.rmdir()
    put(home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    unsafe(keys.key_of, {}, home)


@pytest.mark.parametrize("content", ["two secret words", "secret\nlines", "sécret", "secret\x01", "s" * 5000])
def test_what_cannot_be_a_key_is_refused_without_showing_it(home, content):
    put(home, content)
    unsafe(keys.key_of, {}, home)
    unsafe(keys.key_of, {"OPENROUTER_API_KEY": content}, home)


def test_a_fingerprint_tells_keys_apart_and_homes_and_does_not_hold_the_key(home, tmp_path):
    mine = keys.fingerprint(home, KEY)
    assert mine == keys.fingerprint(home, KEY)
    assert len(mine) == 64
    assert mine not in {keys.fingerprint(home, KEY + "x"), keys.fingerprint(tmp_path / "other", KEY)}
    assert keys.fingerprint(home, "") == ""
    assert (home / "salt").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == ["salt"]
    assert KEY.encode() not in (home / "salt").read_bytes()


def test_many_that_make_the_salt_at_once_get_the_same_one(home):
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: keys.fingerprint(home, KEY), range(64)))) == 1
    assert [path.name for path in home.iterdir()] == ["salt"]


def test_a_salt_that_another_makes_meanwhile_is_the_one_that_counts(home, monkeypatch):
    made, real = [], keys.replace

    def slow(path, data, **more):
        monkeypatch.setattr(keys, "replace", real)
        made.append(keys.fingerprint(home, KEY))
        real(path, data, **more)

    monkeypatch.setattr(keys, "replace", slow)
    assert [keys.fingerprint(home, KEY)] == made


def test_a_salt_others_may_read_or_of_another_size_is_refused(home):
    keys.fingerprint(home, KEY)
    (home / "salt").chmod(0o644)
    unsafe(keys.fingerprint, home, KEY)
    (home / "salt").chmod(0o600)
    (home / "salt").write_bytes(b"short")
    unsafe(keys.fingerprint, home, KEY)
