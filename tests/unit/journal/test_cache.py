"""The cache of checkpoints: what it says is proven, or it says that it is broken."""

import os
import random
import shutil
import sqlite3
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.journal.cache import PIECE, WAL_BYTES, BrokenCache, Cache, CacheItem, discard
from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import Seal

SEAL = Seal(DirectoryIdentity("0" * 32, b"k" * 32, Path("/none")), "cache")
KEYS = [f"t{n}" for n in range(400)]


def value(key):
    return f'[1,2,"{key}",3]'.encode()


def item(owner="agent:a", keys=(), body=b"body", anew=False):
    return CacheItem(owner, body, [(key, value(key)) for key in keys], anew)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.sqlite"


@pytest.fixture
def cache(path):
    made = Cache.open(path, 1, SEAL)
    yield made
    made.close()


def told(cache, key, owner="agent:a"):
    """What the cache says of a key: its value, None for absent, or that it is broken."""
    try:
        return cache.find(owner, key)
    except BrokenCache:
        return "broken"


def test_it_keeps_checkpoints_and_archived_keys_and_is_private(cache, path):
    cache.save([item(keys=KEYS[::2]), item("agent:b", body=b"other"), CacheItem("run:r", b"refs", None)])
    assert cache.checkpoint("agent:a") == b"body"
    assert cache.checkpoint("agent:b") == b"other"
    assert cache.checkpoint("run:r") == b"refs"
    assert cache.checkpoint("agent:c") is None
    assert [cache.find("agent:a", key) for key in KEYS] == [
        value(k) if n % 2 == 0 else None for n, k in enumerate(KEYS)
    ]
    assert cache.find("agent:b", "t0") is None
    assert sorted(cache.owners()) == ["agent:a", "agent:b", "run:r"]
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_empty_key_is_nobodys(cache):
    cache.save([item(keys=KEYS[:3]), item("agent:b")])
    assert cache.find("agent:a", "") is None
    assert cache.find("agent:b", "") is None


def test_keys_may_come_in_any_order_and_in_many_saves(cache):
    order = list(KEYS)
    random.Random(1).shuffle(order)
    for at in range(0, len(order), 7):
        cache.save([item(keys=order[at : at + 7])])
        known = set(order[: at + 7])
        assert all((cache.find("agent:a", key) is not None) == (key in known) for key in KEYS[::5])
    assert [cache.find("agent:a", key) for key in KEYS] == [value(key) for key in KEYS]
    assert cache.find("agent:a", "a") is None
    assert cache.find("agent:a", "zz") is None


@pytest.mark.parametrize("before", [[], KEYS[100:300:3]])
def test_any_number_of_keys_is_stored_piece_by_piece(cache, before):
    """Between two pauses no more than a piece is read and stored, so neither the loop nor the memory pays for more."""
    cache.save([item(keys=before)])
    keys = sorted(KEYS + [f"u{n}" for n in range(1000)])
    read, at_pauses = [], [0]

    def archived():
        for key in keys:
            read.append(key)
            yield key, value(key)

    cache.save([CacheItem("agent:a", b"body", archived())], pause=lambda: at_pauses.append(len(read)))
    assert max(later - earlier for earlier, later in pairwise([*at_pauses, len(read)])) <= PIECE
    assert [cache.find("agent:a", key) for key in keys] == [value(key) for key in keys]


def test_what_was_saved_outlives_the_process_and_another_form_does_not_read_it(cache, path):
    cache.save([item(keys=KEYS)])
    copy = path.with_name("copy.sqlite")
    for suffix in ("", "-wal"):  # as kill -9 leaves it
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    for file in (copy, path):
        if file == path:
            cache.close()
        again = Cache.open(file, 1, SEAL)
        assert again.find("agent:a", "t7") == value("t7")
        again.close()
        other = Cache.open(file, 2, SEAL)
        assert other.owners() == []
        other.close()


def test_a_save_that_fails_keeps_nothing_of_it(cache):
    cache.save([item(keys=["a"])])

    def dies():
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        cache.save([item(keys=["b"], body=b"new")], before_commit=dies)
    assert cache.checkpoint("agent:a") == b"body"
    assert cache.find("agent:a", "b") is None
    cache.save([item(keys=["b"], body=b"new")])
    assert cache.find("agent:a", "b") == value("b")


def test_no_room_is_told_and_passes(cache):
    cache._writer.execute("PRAGMA max_page_count = 12")
    with pytest.raises(OSError, match="full"):
        cache.save([item(keys=KEYS, body=b"x" * 200_000)])
    assert cache.checkpoint("agent:a") is None
    cache._writer.execute("PRAGMA max_page_count = 100000")
    cache.save([item(keys=KEYS)])
    assert cache.find("agent:a", "t1") == value("t1")


def test_anew_and_gone_forget(cache):
    cache.save([item(keys=["a", "b"]), item("agent:b", keys=["c"])])
    cache.save([item(keys=["d"], anew=True)], gone=["agent:b"])
    assert [told(cache, key) for key in ("a", "b", "d")] == [None, None, value("d")]
    assert cache.checkpoint("agent:b") is None
    assert cache.owners() == ["agent:a"]
    with pytest.raises(BrokenCache):  # nobody asks for an owner that was never saved: something is missing
        cache.find("agent:b", "c")


def test_a_key_saved_twice_with_one_value_is_one_and_with_another_is_refused(cache):
    cache.save([item(keys=["a"])])
    cache.save([item(keys=["a", "b"])])
    assert told(cache, "b") == value("b")
    with pytest.raises(BrokenCache):
        cache.save([CacheItem("agent:a", b"", [("a", b"else")])])


def test_a_wal_grown_large_is_carried_into_the_file(cache, path):
    for n in range(3):
        cache.save([item(keys=[f"k{n}"], body=random.Random(n).randbytes(WAL_BYTES // 2))])
    assert path.stat().st_size > WAL_BYTES // 2
    assert path.with_name("cache.sqlite-wal").stat().st_size < WAL_BYTES


def test_a_link_is_not_followed(path, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"")
    path.symlink_to(tmp_path / "elsewhere")
    cache = Cache.open(path, 1, SEAL)  # the link is what is thrown away
    cache.save([item(keys=["a"])])
    cache.close()
    assert (tmp_path / "elsewhere").read_bytes() == b""
    assert not path.is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_right_to_write_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BrokenCache):
        Cache.open(tmp_path / "cache.sqlite", 1, SEAL)
    tmp_path.chmod(0o700)


def test_a_directory_in_its_place_is_told(path):
    path.mkdir()
    with pytest.raises(BrokenCache):
        Cache.open(path, 1, SEAL)


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_what_is_no_cache_is_replaced(path, content):
    path.write_bytes(content)
    cache = Cache.open(path, 1, SEAL)
    cache.save([item(keys=["a"])])
    assert told(cache, "a") == value("a")
    cache.close()


def test_another_database_is_replaced(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE checkpoint (owner, body, crc)")
    other.commit()
    other.close()
    cache = Cache.open(path, 1, SEAL)
    assert cache.owners() == []
    cache.close()


def test_an_older_file_beside_a_newer_wal_is_noticed(cache, path):
    """The file alone was put back while the WAL of the killed daemon stayed: their pages do not belong together."""
    cache.save([item(keys=["k0"])])
    cache._carry_over(0)
    old = path.read_bytes()
    cache.save([item(keys=["k1"])])
    cache._carry_over(0)
    cache.save([item(keys=["k2"])])
    wal = path.with_name("cache.sqlite-wal").read_bytes()
    new = path.read_bytes()
    for name, file, beside, kept in (("a", new, wal, True), ("b", old, wal, False)):
        mixed = path.with_name(f"{name}.sqlite")
        mixed.write_bytes(file)
        mixed.with_name(f"{name}.sqlite-wal").write_bytes(beside)
        again = Cache.open(mixed, 1, SEAL)
        assert again.owners() == (["agent:a"] if kept else [])
        again.close()


def test_a_broken_cache_stays_broken_and_is_removed_at_its_end(cache, path):
    cache.save([item(keys=KEYS)])
    cache._writer.execute("UPDATE archived SET value = 'x' WHERE key = 't7'")
    assert told(cache, "t8") == value("t8")
    assert told(cache, "t7") == "broken"
    assert told(cache, "t8") == "broken"
    with pytest.raises(BrokenCache):
        cache.save([item(keys=["new"])])
    cache.close()
    assert not path.exists()


def test_a_row_that_is_gone_is_noticed(cache):
    cache.save([item(keys=KEYS)])
    cache._writer.execute("DELETE FROM archived WHERE key = 't7'")
    assert told(cache, "t8") == value("t8")
    assert told(cache, "t7") == "broken"


@pytest.mark.parametrize("seed", range(8))
def test_whatever_byte_changes_no_answer_is_wrong(path, seed):
    """Bytes of the closed file are changed at random: each answer afterwards is right, or is that it is broken."""
    cache = Cache.open(path, 1, SEAL)
    cache.save([item(keys=KEYS[::2]), item("agent:b", keys=KEYS[1::2], body=b"b" * 3000)])
    cache.close()
    good = path.read_bytes()
    dice, outcomes = random.Random(seed), {"right": 0, "broken": 0}
    for _ in range(60):
        spoilt = bytearray(good)
        for _ in range(dice.choice([1, 1, 3, 20])):
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
        path.write_bytes(spoilt)
        try:
            cache = Cache.open(path, 1, SEAL)
        except BrokenCache:
            outcomes["broken"] += 1
            continue
        for n in (0, 1, 2, 7, 8, 100, 199, 200, 201, 398, 399, *(dice.randrange(400) for _ in range(5))):
            for owner, odd in (("agent:a", 0), ("agent:b", 1)):
                right = value(KEYS[n]) if n % 2 == odd else None
                got = told(cache, KEYS[n], owner)
                assert got in (right, "broken"), (owner, n, got)
                outcomes["right" if got == right else "broken"] += 1
        try:
            assert cache.checkpoint("agent:b") in (None, b"b" * 3000)
        except BrokenCache:
            outcomes["broken"] += 1
        cache.close()
        discard(path)
    assert all(outcomes.values()), outcomes
