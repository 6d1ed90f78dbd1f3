"""Words found by pieces and seams are exactly those that a plain look finds; sums across rows are sums."""

import random

import pytest

from orchestrator.gsd.graph.text_index import Names, Runs, Sums, bits, numbers
from orchestrator.gsd.graph.words import fold, keywords, singular

TEXTS = [
    "src/lib/userService.ts", "src/HTTPServer2.ts", "a/b_c/d-e.f", "Größe/ÄPFEL.ts", "naïve/İstanbul.py", "",
    "getABTest", "x", "12ab34CD", "日本語/ファイル.ts", "ΑΣΣΟΣ.md", "user_id2", "oAuth2Client", "🙂 smile", "a" * 300,
]  # fmt: skip


def rows(found):
    return set(numbers(found))


def made(rng, count):
    letters = "abAB_-/.12é "
    return ["".join(rng.choices(letters, k=rng.randint(0, 14))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_every_part_of_every_text_is_found_where_like_would_find_it(seed):
    rng = random.Random(seed)
    texts = TEXTS + made(rng, 60)
    runs = Runs(texts, fold)
    names = Names([[text] for text in texts], fold)
    words = {"zz", "ab", "a1", "_", "2", "/", ".ts", "rs", "serv", "st"}
    for text in texts:
        low = fold(text)
        for _ in range(4):
            at = rng.randint(0, max(0, len(low) - 1))
            words.add(low[at : at + rng.randint(1, 7)])
    for word in words - {""}:
        expected = {row for row, text in enumerate(texts) if word in fold(text)}
        assert rows(runs.matching(word)) == expected, word
        assert rows(sum(names.counts(word)[:1])) == expected, word


def test_counts_of_names_are_exact_beyond_a_byte():
    lists = [[f"getUser{number}" for number in range(300)], ["user", "USER", "other"], []]
    planes = Names(lists, fold).counts("user")
    counted = [sum((plane >> row & 1) << shift for shift, plane in enumerate(planes)) for row in range(3)]
    assert counted == [300, 2, 0]


def test_sums_add_and_come_out_greatest_first():
    sums = Sums()
    sums.add(0b0111, 10)
    sums.add(0b0011, 15)
    sums.add(0b0001, 5)
    assert list(sums.descending(0b1111)) == [(30, 1), (25, 2), (10, 4), (0, 8)]
    assert list(sums.descending(0b0101)) == [(30, 1), (10, 4)]
    for least in range(1, 40):
        assert sums.at_least(least) & 0b1111 == sum(
            1 << row for row, total in enumerate((30, 25, 10, 0)) if total >= least
        )
    assert list(Sums().descending(0)) == []


def test_bits_and_numbers_are_each_others_inverse():
    assert bits(10, ([0, 3], (9,))) == 0b1000001001
    assert list(numbers(0b1000001001)) == [0, 3, 9]
    assert bits(0, ()) == 0
    assert list(numbers(0)) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Where is the login handled?", ["login", "handled"]),
        ("getUserById", ["getuserbyid", "user"]),
        ("src/lib/db.ts", ["src/lib/db.ts", "db"]),
        ("./src\\lib\\Db.ts", ["src/lib/db.ts", "db"]),
        ("rate-limiting in auth", ["rate", "limiting", "auth"]),
        ("user_id", ["user_id", "user"]),
        ("what is the", ["what", "is", "the"]),
        ("Größe 語", ["größe", "語"]),
        ("auth AUTH Auth", ["auth"]),
        ("' OR 1=1; DROP TABLE nodes --", ["drop", "table", "nodes"]),
        ("!!! ???", []),
        ("%", []),
    ],
)
def test_keywords_of_a_question(query, expected):
    assert keywords(query) == expected


def test_a_plural_has_a_singular_where_it_is_plain():
    plurals = "keybindings policies classes indexes patches status analysis access tests logs böden get_items"
    assert [singular(word) for word in plurals.split()] == [
        "keybinding", "policy", "class", "index", "patch", "status", "analysis", "access", "test", "logs", "böden",
        "get_items",
    ]  # fmt: skip


def test_a_very_long_query_costs_little():
    assert len(keywords("wordy " * 100_000)) == 1
    assert len(keywords(" ".join(f"w{number}x" for number in range(500)))) == 12
