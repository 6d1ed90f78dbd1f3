"""gsd_verify_behavior: the ladder from found words to a passed verification, and what it never claims."""

import os

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence.verify import Found, behaviour
from orchestrator.gsd.evidence.verify_answers import verify_behavior
from orchestrator.gsd.model import Artifact, KeyLink, MustHaves, Row, Uat
from tests.support.gsd_code import EXPRESS, FASTAPI, MUST, planning, snapshot, write

TRUTH = "Users can reset their password via email"
REPORT = ".planning/phases/01-auth/01-VERIFICATION.md"


def shown(root, files, text=TRUTH, plans=None, **kinds):
    return verify_behavior(snapshot(write(root, files), plans), must_have=text, **kinds)


def verdict(found):
    return found["verified"], found["confidence"]


def test_a_passed_row_with_code_behind_it_is_true_and_high(tmp_path):
    report = {REPORT: "\n" * 9 + f"| 1 | {TRUTH} | ✓ VERIFIED | sk-abcdefgh12345678 |\n"}
    found = shown(tmp_path, EXPRESS | report, plans=planning(rows=[(TRUTH, "✓ VERIFIED")]))
    assert verdict(found) == (True, "high")
    assert found["evidence"][0] == {"file": REPORT, "line": 10, "code": f"| 1 | {TRUTH} | ✓ VERIFIED | … |"}
    assert found["plan"]["id"] == "01-01"
    assert [one["status"] for one in found["levels"]["artifacts"]] == ["VERIFIED", "VERIFIED"]
    assert found["levels"]["key_links"][0]["verified"] is True


def test_a_passed_row_that_says_less_than_asked_proves_nothing(tmp_path):
    rows = [("Users can reset their account password", "VERIFIED")]
    found = shown(
        tmp_path, EXPRESS, "Users can reset their account password via email", planning(rows=rows, must=MustHaves())
    )
    assert verdict(found) == (None, "medium")
    assert "nearly the same" in found["reason"]


UNTESTED = {path: text for path, text in EXPRESS.items() if not path.startswith("tests/")}
ROWS = [
    # asked, what a row says has passed, what may be said
    ("Users can reset their password via email", "Admin users can reset their password via email", (True, "medium")),
    (
        "Users reset the password of admins via email",
        "Admins reset the password of users via email",
        (None, "medium"),
    ),
    ("Users can turn password reset mails on", "Users can turn password reset mails off", (None, "medium")),
    (
        "Users can reset the password before the email",
        "Users can reset the password after the email",
        (None, "medium"),
    ),
    (
        "Users can send reset mails as HTML with a link",
        "Users can send reset mails as text with a link",
        (None, "medium"),
    ),
    ("Users can reset their password via email", "Users can reset their password via email only", (None, "medium")),
]


@pytest.mark.parametrize(("asked", "row", "expected"), ROWS)
def test_a_row_that_says_nearly_the_same_is_not_taken_for_it(tmp_path, asked, row, expected):
    plans = planning(rows=[(row, "✓ VERIFIED")], must=MustHaves())
    assert verdict(shown(tmp_path, UNTESTED, asked, plans)) == expected


def test_a_row_like_it_that_failed_speaks_against_one_that_passed(tmp_path):
    rows = [(TRUTH, "✓ VERIFIED"), ("Admin users can reset their own password via email", "✗ FAILED")]
    found = shown(tmp_path, EXPRESS, plans=planning(rows=rows, must=MustHaves()))
    assert found["verified"] is not True
    asked = "Users can reset their account password via email"
    plans = planning(rows=[("Users can reset their account password via text", "✗ FAILED")], must=MustHaves())
    alone = shown(tmp_path / "b", UNTESTED, asked, plans)
    assert verdict(alone) == (None, "low")
    assert "nearly the same" in alone["reason"]


def test_what_misses_of_another_truth_of_a_plan_does_not_deny_this_one(tmp_path):
    must = MustHaves(
        (*MUST.truths, "Invoices are archived"), (*MUST.artifacts, Artifact("src/archive.ts", "invoices"))
    )
    found = shown(tmp_path, EXPRESS, plans=planning(must=must))
    assert found["verified"] is None
    assert "src/archive.ts is MISSING" in found["reason"]
    assert verdict(shown(tmp_path, EXPRESS, "Invoices are archived", planning(must=must))) == (False, "high")


def test_a_structure_that_holds_without_a_word_of_it_in_code_proves_nothing(tmp_path):
    must = MustHaves(("Charges are limited to one per minute",), MUST.artifacts, MUST.key_links)
    found = shown(tmp_path, EXPRESS, "Charges are limited to one per minute", planning(must=must))
    assert verdict(found) == (None, "medium")


@pytest.mark.parametrize(
    "text",
    [
        "The app runs on node.js", "Users can save avatar.png", "src/legacy/db.ts is removed", "Reports go to out/report.json",
        "GET /unknown returns 404", "The build writes src/generated/client.ts", "dist/index.js is served",
        "Charges are made by POST https://api.stripe.com/v1/charges", "The old POST /api/charge is no longer there",
    ],
)  # fmt: skip
def test_a_name_in_a_sentence_that_may_not_be_there_denies_nothing(tmp_path, text):
    assert shown(tmp_path, EXPRESS, text)["verified"] is None


HOLLOW = {
    "nothing in it": "def test_user_creates_todo():\n    pass\n",
    "what always holds": "def test_user_creates_todo():\n    assert True\n",
    "only calls": "def test_user_creates_todo(client):\n    client.post('/todos')\n",
    "a skip inside": "def test_user_creates_todo(client):\n    pytest.skip('later')\n    assert client\n",
    "a skipped class": "@pytest.mark.skip\nclass TestTodos:\n    def test_user_creates_todo(self, client):\n        assert client\n",
    "a skipped module": "pytestmark = pytest.mark.skip\ndef test_user_creates_todo(client):\n    assert client\n",
    "a string": 'T = """\ndef test_user_creates_todo(client):\n    assert client\n"""\n',
    "a comment": "# def test_user_creates_todo(client):\n#     assert client\n",
}


@pytest.mark.parametrize("what", HOLLOW)
def test_a_test_that_shows_nothing_proves_nothing(tmp_path, what):
    files = {**FASTAPI, "tests/test_todos.py": HOLLOW[what]}
    assert shown(tmp_path, files, "User creates a todo")["verified"] is None


SAID = {
    "a string": "const text = 'User can archive an invoice';\n",
    "text of many lines": "const text = `\nuser archives\ninvoice\n`;\n",
    "a page": "export const P = () => <p>User can archive an invoice</p>;\n",
}


@pytest.mark.parametrize("what", SAID)
def test_words_that_are_only_shown_to_a_user_are_no_code_for_it(tmp_path, what):
    files = {**EXPRESS, "src/p.tsx": SAID[what], "examples/e.ts": "export function userArchivesInvoice() {}\n"}
    rows = [("User can archive an invoice", "✓ VERIFIED")]
    found = shown(tmp_path, files, rows[0][0], planning(rows=rows, must=MustHaves()))
    assert verdict(found) == (None, "low")
    more = {**files, "src/q.ts": "export function userArchivesInvoice() {}\n"}
    assert verdict(shown(tmp_path / "b", more, rows[0][0], planning(rows=rows, must=MustHaves()))) == (True, "high")


def test_a_row_about_something_like_it_says_nothing(tmp_path):
    rows = [("Users can delete their account via email", "VERIFIED")]
    found = shown(tmp_path, EXPRESS, plans=planning(rows=rows, must=MustHaves()))
    assert "verification" not in found


def test_a_test_that_says_most_of_it_is_no_proof():
    assert (behaviour(Found(test=0.7, code=1.0)).verified, behaviour(Found(test=0.7)).confidence) == (None, "medium")


def test_a_passed_row_without_any_source_is_not_believed(tmp_path):
    found = shown(tmp_path, {"readme.md": "x"}, plans=planning(rows=[(TRUTH, "VERIFIED")], must=MustHaves()))
    assert verdict(found) == (None, "low")


def test_a_planned_file_that_is_gone_denies_the_behaviour(tmp_path):
    files = {path: text for path, text in EXPRESS.items() if path != "src/services/mail.ts"}
    assert verdict(shown(tmp_path, files, plans=planning())) == (False, "high")
    assert verdict(shown(tmp_path, files, plans=planning(rows=[(TRUTH, "✓ VERIFIED")]))) == (False, "medium")
    moved = {**files, "src/mail/mail.ts": EXPRESS["src/services/mail.ts"]}
    assert shown(tmp_path / "b", moved, plans=planning())["verified"] is None


def test_an_export_that_is_gone_denies_the_behaviour(tmp_path):
    files = {**EXPRESS, "src/services/mail.ts": "export const a = 1\n" * 20}
    found = shown(tmp_path, files, plans=planning())
    assert verdict(found) == (False, "high")
    assert "sendResetMail of src/services/mail.ts" in found["reason"]


def test_an_incomplete_search_denies_nothing(tmp_path):
    files = {path: text for path, text in EXPRESS.items() if path != "src/services/mail.ts"}
    found = shown(tmp_path, {**files, "src/huge.ts": "x" * ((1 << 20) + 1)}, plans=planning())
    assert verdict(found) == (None, "low")
    assert found["searched"]["complete"] is False


def test_a_failed_row_denies_it_unless_gaps_were_closed_since(tmp_path):
    rows = [(TRUTH, "✗ FAILED")]
    found = shown(tmp_path, EXPRESS, plans=planning(rows=rows, must=MustHaves()))
    assert verdict(found) == (False, "medium")
    assert f"{REPORT}:10" in found["reason"]
    assert verdict(shown(tmp_path, EXPRESS, plans=planning(rows=rows, must=MustHaves(), gaps_closed=True))) == (
        None,
        "low",
    )


def test_a_human_who_found_an_issue_speaks_against_a_passed_row(tmp_path):
    plans = planning(rows=[(TRUTH, "VERIFIED")])
    phase = plans.phases[0]
    object.__setattr__(phase, "uat", Uat("u.md", tests=(Row(TRUTH, "issue", line=3),)))
    assert verdict(shown(tmp_path, EXPRESS, plans=plans)) == (None, "low")


def test_what_only_a_human_can_tell_is_left_to_one(tmp_path):
    plans = planning(
        rows=[("Something else entirely", "VERIFIED")], human=[TRUTH], status="human_needed", must=MustHaves()
    )
    found = shown(tmp_path, EXPRESS, plans=plans)
    assert verdict(found) == (None, "medium")
    assert "human" in found["reason"]


def test_structure_that_holds_is_true_and_medium_and_without_links_it_is_not(tmp_path):
    assert verdict(shown(tmp_path, EXPRESS, plans=planning())) == (True, "medium")
    files_only = MustHaves(MUST.truths, MUST.artifacts)
    without_tests = {path: text for path, text in EXPRESS.items() if not path.startswith("tests/")}
    assert verdict(shown(tmp_path / "b", without_tests, plans=planning(must=files_only))) == (None, "medium")


def test_a_broken_link_is_told(tmp_path):
    must = MustHaves(
        MUST.truths, MUST.artifacts, (KeyLink("src/routes/auth.ts", "src/services/mail.ts", "", r"queue\.push"),)
    )
    found = shown(tmp_path, EXPRESS, plans=planning(must=must))
    assert verdict(found) == (None, "low")
    assert found["levels"]["key_links"][0]["verified"] is False


def test_a_catastrophic_pattern_is_searched_as_text_and_denies_nothing(tmp_path):
    must = MustHaves(
        MUST.truths, MUST.artifacts, (KeyLink("src/routes/auth.ts", "src/services/mail.ts", "", r"((a+)+)+$"),)
    )
    files = {**EXPRESS, "src/routes/auth.ts": EXPRESS["src/routes/auth.ts"] + "// \n" + "a" * 5000 + "\n"}
    link = shown(tmp_path, files, plans=planning(must=must))["levels"]["key_links"][0]
    assert link["verified"] is None
    assert "literal text" in link["detail"]


def test_a_test_with_code_is_true_and_medium_and_was_not_run(tmp_path):
    found = shown(tmp_path, FASTAPI, "User creates a todo")
    assert verdict(found) == (True, "medium")
    assert found["evidence"][0] == {
        "test": "user creates todo", "description": "user creates todo", "file": "tests/test_todos.py", "line": 3,
    }  # fmt: skip


def test_a_skipped_test_and_keywords_prove_nothing(tmp_path):
    found = shown(tmp_path, FASTAPI, "User deletes a todo")
    assert found["verified"] is None
    assert found["notes"] == ["A test that would show it is skipped."]
    assert shown(tmp_path, EXPRESS, "makeResetLink email reset")["verified"] is None


def test_nothing_found_is_null_and_low_not_false(tmp_path):
    found = shown(tmp_path, EXPRESS, "Invoices are archived quarterly")
    assert verdict(found) == (None, "low")
    assert found["evidence"] == []


def test_the_opposite_and_other_numbers_are_not_taken_for_it(tmp_path):
    rows = [
        ("Users cannot reset their password via email", "VERIFIED"),
        ("Accounts lock after 5 failed attempts", "VERIFIED"),
    ]
    found = shown(tmp_path, EXPRESS, plans=planning(rows=rows, must=MustHaves()))
    assert "verification" not in found
    assert "verification" not in shown(
        tmp_path, EXPRESS, "Accounts lock after 10 failed attempts", planning(rows=rows)
    )


def test_a_file_or_endpoint_named_in_the_sentence_must_be_there(tmp_path):
    assert verdict(shown(tmp_path, EXPRESS, "Cards are charged by src/services/cards.ts")) == (False, "high")
    assert verdict(shown(tmp_path, EXPRESS, "Cards are charged with POST /api/charge")) == (False, "medium")
    assert shown(tmp_path, EXPRESS, "Mail is sent by POST /api/auth/reset-password")["named"][0]["exists"] is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/services/mail.ts exports sendResetMail", (True, "high")),
        ("src/services/mail.ts exports sendResetMail and MailError", (True, "high")),
        ("src/services/mail.ts exports sendInvoice", (False, "high")),
        ("src/services/cards.ts exports chargeCard", (False, "high")),
        ("cards.ts exports chargeCard", (None, "low")),
        ("src/services/mail.ts exports makeResetLink", (None, "low")),  # defined, not exported
        ("src/services/mail.ts no longer exports sendInvoice", (None, "low")),
        ("src/services/mail.ts exports invoices to PDF", (None, "low")),  # may be what it does
    ],
)
def test_a_name_that_the_sentence_says_a_file_has_is_looked_for_in_it(tmp_path, text, expected):
    assert verdict(shown(tmp_path, EXPRESS, text)) == expected


def test_what_decides_about_a_name_is_shown_alone(tmp_path):
    told = [one["file"] for one in shown(tmp_path, EXPRESS, "src/services/mail.ts exports sendResetMail")["evidence"]]
    assert set(told) == {"src/services/mail.ts"}
    assert shown(tmp_path, EXPRESS, "src/services/mail.ts exports sendInvoice")["evidence"] == []


def test_a_report_that_it_failed_counts_against_a_name_that_is_there(tmp_path):
    text = "src/services/mail.ts exports sendResetMail"
    plans = planning(rows=[(text, "✗ FAILED")], must=MustHaves())
    assert verdict(shown(tmp_path, EXPRESS, text, plans)) == (False, "medium")


def test_files_changed_since_the_verification_are_a_note_only(tmp_path):
    plans = planning(rows=[(TRUTH, "VERIFIED")])
    root = write(tmp_path, EXPRESS)
    for path in EXPRESS:
        os.utime(root / path, (1_700_000_000, 1_700_000_000))
    assert verify_behavior(snapshot(root, plans), must_have=TRUTH)["notes"] == []
    os.utime(root / "src/services/mail.ts", (1_800_000_000, 1_800_000_000))
    found = verify_behavior(snapshot(root, plans), must_have=TRUTH)
    assert "src/services/mail.ts" in found["notes"][0]
    assert verdict(found) == (True, "high")


def test_another_check_type_asks_for_the_thing(tmp_path):
    found = shown(tmp_path, EXPRESS, "src/services/stub.ts", check_type="file")
    assert verdict(found) == (False, "high")
    assert found["levels"] == {"exists": True, "substantive": False, "wired": False}
    assert verdict(shown(tmp_path, EXPRESS, "GET /health", check_type="endpoint")) == (True, "high")


def test_a_plan_that_names_files_outside_is_told_and_denies_nothing(tmp_path):
    must = MustHaves(MUST.truths, (Artifact("../../etc/passwd"),))
    found = shown(tmp_path, EXPRESS, plans=planning(must=must))
    assert found["levels"]["artifacts"][0]["exists"] is None
    assert "etc/passwd" not in str(found["evidence"])


@pytest.mark.parametrize("text", ["", " \n", "x" * 2001])
def test_what_cannot_be_asked_is_refused(tmp_path, text):
    with pytest.raises(BadRequest):
        shown(tmp_path, EXPRESS, text)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("code", [0.0, 0.7, 1.0])
def test_keywords_alone_never_verify_nor_deny(code, complete):
    assert behaviour(Found(code=code, complete=complete)).verified is None


def test_a_tree_of_planning_without_source_denies_nothing(tmp_path):
    found = shown(tmp_path, {"README.md": "x"}, plans=planning())
    assert verdict(found) == (None, "low")
    assert "no source files" in found["reason"]
    levels = found["levels"]
    assert [levels[name] for name in ("exists", "substantive", "wired")] == [None] * 3
    assert {(one["exists"], one["wired"], one["status"]) for one in levels["artifacts"]} == {
        (None, None, "UNCERTAIN")
    }
    assert [one["verified"] for one in levels["key_links"]] == [None]
    named = shown(tmp_path, {}, "Mail is sent by src/services/mail.ts")["named"]
    assert [one["exists"] for one in named] == [None]
