"""The files of spawn runs: written whole, proven when read, never outside of the home, without secrets."""

import json
import random
import string
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest, Corrupt, Environment
from orchestrator.base.secret_masks import without_tokens
from orchestrator.spawn import artifacts
from orchestrator.spawn.run_data import ArtifactRow, Reply
from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import Seal
from tests.support.spawns import AT, node

IDENTITY = DirectoryIdentity("0" * 32, b"k" * 32, Path("nowhere"))
SEAL = Seal(IDENTITY, "spawn", "r1", "answer:a")
REPLY = Reply("the answer é", "length", "real/model", 3, 4, Decimal("0.1"))


def kept(home, data=b"data", name="a.json"):
    path, size, digest = artifacts.write(home, "r1", name, data)
    return ArtifactRow("a", "raw", path, size, digest, AT)


def document(**more):
    values = {
        "run_id": "r1", "node": node("a"), "reply": REPLY, "output": REPLY.text, "cost": Decimal("0.1"),
        "cost_source": "usage", "attempt": 2, "token": "tok", "at": AT,
    }  # fmt: skip
    return artifacts.document(**values | more)


# -- files ------------------------------------------------------------------------------------------------------


def test_an_artifact_is_read_as_it_was_written_and_is_the_users_alone(tmp_path):
    home = tmp_path / "home"
    row = kept(home, b"\0\xff" * 1_000_000)
    assert row.path == "artifacts/r1/a.json"
    assert artifacts.read(home, row) == b"\0\xff" * 1_000_000
    assert (home / row.path).stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in (home / "artifacts", home / "artifacts/r1")} == {0o700}
    assert [path.name for path in (home / "artifacts/r1").iterdir()] == ["a.json"]
    again = kept(home, b"new")
    assert artifacts.read(home, again) == b"new"


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\nb", "x" * 200, "r1:a.json", "é"]
)
def test_a_name_that_is_no_plain_one_is_refused(tmp_path, name):
    for args in (("r1", name), (name, "a.json")):
        with pytest.raises(BadRequest) as found:
            artifacts.write(tmp_path, *args, b"")
        assert found.value.code == "bad_id"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", ["artifacts", "artifacts/r1"])
def test_nothing_is_written_through_a_directory_that_is_a_link(tmp_path, link):
    home = tmp_path / "home"
    (home / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "target").mkdir()
    (home / link).symlink_to(tmp_path / "target")
    with pytest.raises(Environment) as found:
        artifacts.write(home, "r1", "a.json", b"x")
    assert found.value.code == "home_unusable"
    assert not list((tmp_path / "target").iterdir())


def test_a_link_in_the_place_of_the_file_is_replaced_not_followed(tmp_path):
    home = tmp_path / "home"
    row = kept(home)
    (home / row.path).unlink()
    (home / row.path).symlink_to(tmp_path / "target")
    assert artifacts.read(home, kept(home)) == b"data"
    assert not (tmp_path / "target").exists()


def _changed(path):
    path.write_bytes(b"datb")


def _longer(path):
    path.write_bytes(b"data ")


def _gone(path):
    path.unlink()


def _a_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [_changed, _longer, _gone, _a_directory])
def test_a_file_that_is_not_what_was_written_is_named(tmp_path, harm):
    row = kept(tmp_path)
    harm(tmp_path / row.path)
    with pytest.raises((Corrupt, Environment)) as found:
        artifacts.read(tmp_path, row)
    assert found.value.facts["file"].endswith("artifacts/r1/a.json")
    assert found.value.code == ("io_failed" if harm is _a_directory else "corrupt_home")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "artifacts/../../secret", "link/secret", "a\0b"])
def test_a_rows_path_is_never_followed_out_of_the_home(tmp_path, path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_bytes(b"data")
    (home / "link").symlink_to(tmp_path)
    with pytest.raises(Corrupt) as found:
        artifacts.read(home, replace(kept(home), path=path))
    assert found.value.code == "corrupt_home"


# -- documents --------------------------------------------------------------------------------------------------


def test_a_document_has_the_originals_keys_and_ours():
    assert json.loads(document()) == {
        "runId": "r1", "nodeId": "a", "model": "real/model", "task": "t", "output": "the answer é",
        "tokens": {"prompt": 3, "completion": 4, "total": 7}, "costUsd": 0.1, "costSource": "usage",
        "finishReason": "length", "truncated": True, "attempt": 2, "token": "tok", "finishedAt": AT,
    }  # fmt: skip


@pytest.mark.parametrize("cost", [None, "0", "0.1234567890123456789012345", "1E-12", "12", "1E+2"])
def test_what_a_dead_daemon_left_is_found_with_its_cost_to_the_last_digit(tmp_path, cost):
    cost = None if cost is None else Decimal(cost)
    row = kept(tmp_path, artifacts.sealed(document(cost=cost), SEAL))
    found = artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL)
    assert found["costUsd"] == cost
    assert (found["output"], found["attempt"], found["token"]) == ("the answer é", 2, "tok")
    assert (found["path"], found["bytes"], found["sha256"]) == (row.path, row.bytes, row.sha256)


WRONG = [
    b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, document(run_id="r2"), document(node=node("b")),
    document(token=None), document(attempt="2"), document().replace(b'"output": "the answer', b'"output": 7, "x": "'),
    document().replace(b'"costUsd": 0.1', b'"costUsd": NaN'), document().replace(b'"prompt": 3', b'"prompt": null'),
    document().replace(b'"costUsd": 0.1', b'"costUsd": -0.1'),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_is_none_of_our_documents_is_not_adopted(tmp_path, at):
    kept(tmp_path, artifacts.sealed(WRONG[at], SEAL))
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL) is None


def test_a_document_that_no_daemon_of_this_machine_wrote_is_not_adopted(tmp_path):
    whole = artifacts.sealed(document(), SEAL)
    for data in (document(), whole.replace("é".encode(), b"e"), whole + b" ", whole[:-5] + b"00" + whole[-3:]):
        kept(tmp_path, data)
        assert artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL) is None
    kept(tmp_path, whole)
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", Seal(IDENTITY, "another scope")) is None
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", None) is None
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL)
    assert json.loads(whole) == json.loads(document()) | {"mac": json.loads(whole)["mac"]}


def test_without_a_document_there_is_nothing_to_adopt(tmp_path):
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL) is None
    kept(tmp_path, artifacts.sealed(document(), SEAL))
    (tmp_path / "artifacts/r1/a.json").rename(tmp_path / "x")
    (tmp_path / "artifacts/r1/a.json").symlink_to("/etc/passwd")
    assert artifacts.unrecorded_answer(tmp_path, "r1", "a", SEAL) is None


# -- secrets ----------------------------------------------------------------------------------------------------

SECRETS = [
    "sk-or-v1-0123456789abcdef", "sk-proj-aB_3-aaaaaaaaaa", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18,
    "github_pat_" + "A1" * 20, "xoxb-1234567890-abcdef", "AIza" + "x" * 35, "hf_" + "b" * 34, "glpat-" + "c" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip
PERSONAL = [
    "jane.doe+x@example.co.uk", "192.168.0.17", "2001:db8::ff00:42:8329", "4111 1111 1111 1111", "5500-0000-0000-0004",
    "+1 415 555 0132", "+82 10-1234-5678", "(415) 555-0132", "415-555-0132", "010-1234-5678",
]  # fmt: skip
PLAIN = [
    "task-management-system-for-all", "disk-usage-of-the-host", "2026-11-22T19:06:23.000Z", "12:30:45", "std::vector",
    "a :: b", "version 1.2.3", "1234567890123456", "0.1234567890123", "bearer of bad news", "3 + 4 = 7", "#12345678",
    "user@host", "https://example.com/a:b@c", "+1.512", "1,234,567,890", "C:\\x", "sk-", "commit 0123456789abcdef0123",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_whatever_stands_around_it(secret):
    for form in ("{}", "key={} end", '"{}"', "a\n{}\nb", "({}),"):
        assert artifacts.redacted(form.format(secret)) == form.format("[redacted]")
        assert without_tokens(form.format(secret)) == form.format("…")


def test_a_bearer_token_and_a_password_in_a_url_are_masked_and_what_they_are_is_still_told():
    assert artifacts.redacted("Authorization: Bearer abc.def-123456") == "Authorization: Bearer [redacted]"
    assert artifacts.redacted("https://joe:s3cret@host/x") == "https://joe:[redacted]@host/x"


@pytest.mark.parametrize("text", PERSONAL)
def test_what_belongs_to_a_person_is_redacted_but_not_masked(text):
    for form in ("{}", "call {} now", '"{}"', "x\n{}\ny", "({})."):
        assert artifacts.redacted(form.format(text)) == form.format("[redacted]")
        assert without_tokens(form.format(text)) == form.format(text)


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_looks_a_little_like_it_stays(text):
    assert artifacts.redacted(text) == text


@given(st.text("a1x0@.:+-()/ \nBearsk_é", max_size=60))
def test_any_text_is_redacted_and_twice_changes_no_more(text):
    once = artifacts.redacted(text)
    assert artifacts.redacted(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "1",
        "1.",
        "1 ",
        ":",
        "1:",
        "eyJ",
        "sk-",
        "a@",
        "-----BEGIN PRIVATE KEY-----",
        "://a",
        "0 1",
        "+1",
        "(1)",
    ],
)
def test_a_long_answer_made_to_be_slow_is_done_in_one_go(unit):
    """Quadratic work on this much text would hang the test for hours."""
    artifacts.redacted(unit * (1_000_000 // len(unit)))


def test_a_long_ordinary_answer_is_redacted():
    rng = random.Random(1)
    text = "".join(rng.choices(string.ascii_letters + " \n.,", k=500_000)) + " mail a@b.example"
    assert artifacts.redacted(text).endswith("mail [redacted]")
