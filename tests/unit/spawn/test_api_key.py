"""The key of the model API: found where it may be, refused where others could read it, known again by a fingerprint."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.base.errors import Environment
from orchestrator.spawn import api_key

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
    assert api_key.key_of({}, home) == ""
    put(home, f"  {KEY}\n")
    assert api_key.key_of({}, home) == KEY
    assert api_key.key_of({"OPENROUTER_API_KEY": "  "}, home) == KEY
    assert api_key.key_of({"OPENROUTER_API_KEY": " other \n"}, home) == "other"
    put(home, "\n")
    assert api_key.key_of({}, home) == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o660])
def test_a_file_that_others_may_touch_is_refused(home, mode):
    put(home, mode=mode)
    unsafe(api_key.key_of, {}, home)


def test_a_file_that_is_no_plain_one_of_the_user_is_refused(home, monkeypatch):
    path = put(home)
    path.rename(home / "elsewhere")
    path.symlink_to("elsewhere")
    unsafe(api_key.key_of, {}, home)
    path.unlink()
    os.mkfifo(path, 0o600)
    unsafe(api_key.key_of, {}, home)
    path.unlink()
    path.mkdir(0o700)
    unsafe(api_key.key_of, {}, home)
    path.rmdir()
    put(home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    unsafe(api_key.key_of, {}, home)


@pytest.mark.parametrize("content", ["two secret words", "secret\nlines", "sécret", "secret\x01", "s" * 5000])
def test_what_cannot_be_a_key_is_refused_without_showing_it(home, content):
    put(home, content)
    unsafe(api_key.key_of, {}, home)
    unsafe(api_key.key_of, {"OPENROUTER_API_KEY": content}, home)


def test_a_fingerprint_tells_keys_apart_and_homes_and_does_not_hold_the_key(home, tmp_path):
    mine = api_key.fingerprint(home, KEY)
    assert mine == api_key.fingerprint(home, KEY)
    assert len(mine) == 64
    assert mine not in {api_key.fingerprint(home, KEY + "x"), api_key.fingerprint(tmp_path / "other", KEY)}
    assert api_key.fingerprint(home, "") == ""
    assert (home / "salt").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == ["salt"]
    assert KEY.encode() not in (home / "salt").read_bytes()


def test_many_that_make_the_salt_at_once_get_the_same_one(home):
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: api_key.fingerprint(home, KEY), range(64)))) == 1
    assert [path.name for path in home.iterdir()] == ["salt"]


def test_a_salt_that_another_makes_meanwhile_is_the_one_that_counts(home, monkeypatch):
    made, real = [], api_key.replace

    def slow(path, data, **more):
        monkeypatch.setattr(api_key, "replace", real)
        made.append(api_key.fingerprint(home, KEY))
        real(path, data, **more)

    monkeypatch.setattr(api_key, "replace", slow)
    assert [api_key.fingerprint(home, KEY)] == made


def test_a_salt_others_may_read_or_of_another_size_is_refused(home):
    api_key.fingerprint(home, KEY)
    (home / "salt").chmod(0o644)
    unsafe(api_key.fingerprint, home, KEY)
    (home / "salt").chmod(0o600)
    (home / "salt").write_bytes(b"short")
    unsafe(api_key.fingerprint, home, KEY)
