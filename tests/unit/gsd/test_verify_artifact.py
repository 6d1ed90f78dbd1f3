"""gsd_verify_artifact: endpoints, files, exports, components and tests, told from source alone."""

import os

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence.verify_answers import verify_artifact
from orchestrator.gsd.model import Artifact, Intel, MustHaves
from tests.support.gsd_code import AXUM, EXPRESS, FASTAPI, NEXT, planning, snapshot, write


def sought(root, files, text, check_type="any", **kinds):
    return verify_artifact(snapshot(write(root, files), **kinds), must_exist=text, check_type=check_type)


@pytest.mark.parametrize(
    ("files", "text", "location", "confidence"),
    [
        (EXPRESS, "POST /api/auth/reset-password endpoint", "src/routes/auth.ts:8", "high"),
        (EXPRESS, "GET /api/orders/{id}/items", "src/routes/orders.ts:3", "high"),
        (EXPRESS, "DELETE /api/auth/me", "src/routes/auth.ts:17", "high"),
        (EXPRESS, "GET /health", "src/app.ts:10", "high"),
        (FASTAPI, "POST /api/todos endpoint", "app/routers/todos.py:9", "high"),
        (FASTAPI, "GET /api/todos/:id", "app/routers/todos.py:14", "high"),
        (FASTAPI, "GET /api/users/me", "app/routers/users.py:4", "high"),
        (NEXT, "GET /api/users/:id", "app/api/users/[id]/route.ts:1", "high"),
        (NEXT, "PATCH /api/users/<int:id>", "app/api/users/[id]/route.ts:4", "high"),
        (NEXT, "POST /api/cart", "app/(shop)/api/cart/route.ts:2", "high"),
        (NEXT, "POST /api/legacy", "pages/api/legacy.ts:1", "high"),
        (NEXT, "GET /feed", "src/routes/feed/+server.ts:1", "high"),
        (AXUM, "POST /api/v1/todos", "src/routes/todos.rs:5", "high"),
        (AXUM, "GET /api/v1/todos/:id", "src/routes/todos.rs:6", "high"),
    ],
)
def test_an_endpoint_is_found_at_its_line_through_the_routers_around_it(tmp_path, files, text, location, confidence):
    found = sought(tmp_path, files, text)
    assert (found["exists"], found["location"], found["confidence"]) == (True, location, confidence)
    file, _, line = location.rpartition(":")
    assert found["evidence"][0]["code"] == (tmp_path / file).read_text().split("\n")[int(line) - 1].strip()


@pytest.mark.parametrize("files", [EXPRESS, FASTAPI, AXUM])
def test_what_stands_in_comments_and_docstrings_is_no_route(tmp_path, files):
    found = sought(tmp_path, files, "GET /ghost")
    assert (found["exists"], found["location"]) == (False, None)


def test_middleware_of_the_mount_and_of_the_route_is_told_in_order(tmp_path):
    assert sought(tmp_path, EXPRESS, "POST /api/auth/reset-password")["middleware"] == ["limit(5)"]
    assert sought(tmp_path, EXPRESS, "GET /api/orders/:id/items")["middleware"] == ["requireAuth"]
    assert sought(tmp_path / "b", FASTAPI, "POST /api/todos")["middleware"] == ["current_user"]


def test_a_path_with_another_method_is_denied_and_the_other_is_named(tmp_path):
    found = sought(tmp_path, EXPRESS, "PUT /health")
    assert found["exists"] is False
    assert found["candidates"] == [{"method": "GET", "path": "/health", "location": "src/app.ts:10"}]


def test_nothing_is_denied_without_a_framework(tmp_path):
    assert sought(tmp_path, {"a.py": "x = 1\n"}, "GET /x")["exists"] is None


def test_nothing_is_denied_after_a_search_that_was_not_complete(tmp_path):
    found = sought(tmp_path, {**EXPRESS, "src/huge.ts": "x" * (1 << 20) + "y"}, "GET /nowhere")
    assert (found["exists"], found["confidence"], found["searched"]["complete"]) == (None, "low", False)


def test_routes_that_are_remembered_count_as_searched(tmp_path):
    for path in write(tmp_path, EXPRESS).rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first, second = (verify_artifact(snapshot(tmp_path), must_exist="GET /nowhere") for _ in range(2))
    assert first["searched"] == second["searched"] == {"files": 8, "of": 8, "complete": True}


def test_nothing_is_denied_when_some_routes_are_no_literals(tmp_path):
    found = sought(
        tmp_path,
        {**EXPRESS, "src/more.ts": "import express from 'express'\nconst app = express()\napp.get(PATHS.x, h)\n"},
        "GET /nowhere",
    )
    assert found["exists"] is None
    assert "src/more.ts:3" in found["reason"]


def test_a_parameter_that_could_take_the_path_keeps_it_from_being_denied(tmp_path):
    assert sought(tmp_path, NEXT, "GET /api/users/42")["exists"] is None


def test_a_router_nobody_mounts_is_told_with_its_place_and_proves_nothing(tmp_path):
    files = {
        "src/api/auth.ts": "import { Router } from 'express'\nexport const r = Router()\nr.post('/reset', h1, h2)\n"
    }
    found = sought(tmp_path, files, "POST /api/auth/reset")
    assert (found["exists"], found["confidence"], found["location"], found["wired"]) == (
        None,
        "medium",
        "src/api/auth.ts:3",
        None,
    )
    other = {"lib/x.ts": "import { Router } from 'express'\nexport const r = Router()\nr.post('/reset', h1, h2)\n"}
    assert sought(tmp_path / "b", other, "POST /api/auth/reset")["exists"] is None


def test_the_intel_store_alone_proves_no_endpoint(tmp_path):
    intel = Intel(apis={"GET /api/x": {"method": "GET", "path": "/api/x", "file": "src/app.ts", "description": "x"}})
    found = sought(tmp_path, EXPRESS, "GET /api/x", intel=intel)
    assert (found["exists"], found["confidence"], found["location"]) == (None, "medium", "src/app.ts")


def test_a_stub_behind_an_endpoint_is_told(tmp_path):
    found = sought(tmp_path, FASTAPI, "GET /api/users/me")
    assert found["substantive"] is False


def test_files_have_three_levels(tmp_path):
    levels = ("exists", "substantive", "wired", "status")
    assert [sought(tmp_path, EXPRESS, "src/services/mail.ts")[k] for k in levels] == [True, True, True, "VERIFIED"]
    assert [sought(tmp_path, EXPRESS, "src/services/lonely.ts")[k] for k in levels] == [True, True, False, "ORPHANED"]
    assert [sought(tmp_path, EXPRESS, "src/services/stub.ts")[k] for k in levels] == [True, False, False, "STUB"]
    gone = sought(tmp_path, EXPRESS, "src/services/gone.ts")
    assert (gone["exists"], gone["confidence"]) == (False, "high")


def test_a_file_that_only_tests_import_is_orphaned(tmp_path):
    more = {"tests/lonely.test.ts": "import { lonelyService } from '../src/services/lonely'\nlonelyService(1)\n"}
    assert sought(tmp_path, EXPRESS | more, "src/services/lonely.ts")["status"] == "ORPHANED"


def test_all_that_a_plan_wants_a_file_to_contain_counts_but_not_in_comments(tmp_path):
    must = MustHaves(
        artifacts=(Artifact("src/services/mail.ts", contains="createTransport", also=("Sends the link",)),)
    )
    found = sought(tmp_path, EXPRESS, "src/services/mail.ts", planning=planning(must=must))
    assert found["substantive"] is False
    assert "contains 'Sends the link' only in a comment" in found["issues"]


def test_a_bare_name_is_looked_for_everywhere(tmp_path):
    found = sought(tmp_path, EXPRESS, "mail.ts", "file")
    assert (found["exists"], found["location"]) == (True, "src/services/mail.ts:2")
    assert sought(tmp_path, EXPRESS, "nothing.ts", "file")["exists"] is False


def test_what_a_plan_demands_of_a_file_counts(tmp_path):
    found = sought(tmp_path, EXPRESS, "src/routes/auth.ts", planning=planning())
    assert found["plan"]["id"] == "01-01"
    assert found["substantive"] is True


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("`sendResetMail` function", "src/services/mail.ts:5"),
        ("MailError", "src/services/mail.ts:3"),
        ("requireAuth middleware", "src/middleware/requireAuth.ts:3"),
    ],
)
def test_an_export_is_found_where_it_is_defined(tmp_path, text, location):
    assert sought(tmp_path, EXPRESS, text)["location"] == location


def test_a_name_that_no_file_has_is_denied_and_one_that_is_only_used_is_not(tmp_path):
    assert sought(tmp_path, EXPRESS, "`chargeCard`", "export")["exists"] is False
    assert sought(tmp_path, EXPRESS, "`createTransport`", "export")["exists"] is None


def test_a_component_that_returns_nothing_is_a_stub(tmp_path):
    found = sought(tmp_path, NEXT, "LoginForm component")
    assert (found["kind"], found["exists"], found["substantive"]) == ("component", True, False)


def test_a_skipped_test_proves_nothing(tmp_path):
    assert (
        sought(tmp_path, EXPRESS, "test that it sends users an email with a link")["location"]
        == "tests/auth.test.ts:3"
    )
    assert sought(tmp_path, EXPRESS, "locks the account after 5 attempts", "test")["exists"] is None
    assert sought(tmp_path, EXPRESS, "locks the account after 9 attempts", "test")["evidence"] == []


def test_evidence_shows_no_secret(tmp_path):
    found = sought(tmp_path, EXPRESS, "`API_KEY`")
    assert found["exists"] is True
    assert "abcdefgh" not in str(found)


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "src/../../x.ts", "a\\..\\..\\b.ts"])
def test_a_path_cannot_leave_the_project(tmp_path, path):
    with pytest.raises(BadRequest) as caught:
        sought(tmp_path, EXPRESS, path, "file")
    assert caught.value.code == "path_escape"


def test_a_link_out_of_the_project_is_not_followed_nor_denied(tmp_path):
    write(tmp_path / "out", {"secret.ts": "export const hidden = 1\n"})
    root = write(tmp_path / "in", EXPRESS)
    (root / "lib").symlink_to(tmp_path / "out")
    (root / "src" / "secret.ts").symlink_to(tmp_path / "out" / "secret.ts")
    for name in ("lib/secret.ts", "src/secret.ts"):
        found = verify_artifact(snapshot(root), must_exist=name, check_type="file")
        assert (found["exists"], found["evidence"]) == (None, [])
    assert verify_artifact(snapshot(root), must_exist="`hidden`", check_type="export")["exists"] is None


def test_odd_files_are_survived(tmp_path):
    root = write(
        tmp_path,
        {
            **EXPRESS,
            "bad.ts": b"\xff\xfe const \xe9\xe9 = 1\r\nexport const odd = 2\r\n",
            "nul.ts": b"\0\0",
            "long.ts": "a" * 900_000,
        },
    )
    os.mkfifo(root / "pipe.ts")
    found = verify_artifact(snapshot(root), must_exist="`odd`", check_type="export")
    assert found["location"] == "bad.ts:2"
    assert verify_artifact(snapshot(root), must_exist="pipe.ts", check_type="file")["exists"] is False


@pytest.mark.parametrize(
    ("text", "kind"), [("", "any"), ("  ", "any"), ("x" * 3000, "any"), ("x", "thing"), ("no path", "endpoint")]
)
def test_what_cannot_be_asked_is_refused(tmp_path, text, kind):
    with pytest.raises(BadRequest) as caught:
        sought(tmp_path, EXPRESS, text, kind)
    assert caught.value.code == "bad_argument"


@pytest.mark.parametrize(
    "text", ["\ud800 \0 \u202e x", "((((a+)+)+)+$", "' OR 1=1 --", 'NEAR( AND * ^"', "/" * 1999, "a." * 900, "`" * 99]
)
def test_hostile_questions_get_an_answer(tmp_path, text):
    found = sought(tmp_path, EXPRESS, text)
    str(found).encode()


CLAIMED = {
    # what is asked, of what kind, in which files: each looks like it is there, or gone, and is not sure to be
    "only defined, not exported": ("hiddenOne", "export", {"src/a.ts": "function hiddenOne() {}\nexport const b = 1\n"}),
    "only in a string": ("`ghostName`", "export", {"src/a.ts": "const a = `\nexport const ghostName = 1\n`\nexport { a }\n"}),
    "only in a test": ("`onlyHere`", "any", {"tests/a.test.ts": "export function onlyHere() {}\n"}),
    "only in an example": ("`onlyHere`", "any", {"examples/a.ts": "export function onlyHere() {}\n"}),
    "another spelling": ("dashboard", "any", {"src/D.tsx": "export function Dashboard() {}\n"}),
    "a word of a sentence": ("The invoices must exist", "any", {}),
    "with underscores": ("`payInvoice`", "any", {"src/a.py": "def pay_invoice(): ...\n"}),
    "in a comment": ("`payInvoice`", "any", {"src/a.ts": "// payInvoice goes here\n"}),
    "in configuration": ("`PAY_TOKEN_NAME`", "any", {"deploy.yaml": "env:\n  PAY_TOKEN_NAME: x\n"}),
    "a file of another ending": ("mail.tsx", "file", {}),
    "one of two files": ("src/app.ts and src/none.ts", "any", {}),
    "no name of a file": ("the mail file", "file", {}),
    "an empty file of tests": ("tests/a.test.ts", "test", {"tests/a.test.ts": ""}),
    "a test without a check": ("pays an invoice", "test", {"tests/a.test.ts": "it('pays an invoice', () => { pay(1) })\n"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMED)
def test_what_is_not_sure_is_not_claimed(tmp_path, case):
    asked, kind, files = CLAIMED[case]
    found = sought(tmp_path, EXPRESS | files, asked, kind)
    assert found["exists"] is (False if case == "one of two files" else None), found


def test_several_files_are_there_when_each_is(tmp_path):
    assert sought(tmp_path, EXPRESS, "src/app.ts and src/services/mail.ts")["exists"] is True


def test_an_endpoint_whose_handler_is_not_done_is_there_and_a_stub(tmp_path):
    text = EXPRESS["src/app.ts"] + "app.post('/pay', (req, res) => {\n  throw new Error('not implemented');\n});\n"
    files = {**EXPRESS, "src/app.ts": text}
    found = sought(tmp_path, files, "POST /pay")
    assert (found["exists"], found["substantive"]) == (True, False)
    assert sought(tmp_path, files, "GET /health")["substantive"] is not False


EXPORTING = {
    "export function wanted() {\n  return 1 + 1;\n}\n": True,
    "function wanted() {}\nexport { wanted };\n": True,
    "export const { wanted, other } = make();\n": True,
    "exports.wanted = () => 1;\n": True,
    "import { wanted } from './x';\nexport const other = wanted(1);\n": None,
    "export const other = call('wanted');\n": None,
    "function wanted() {}\nexport const other = 1;\n": None,
    "export * from './x';\n": None,
    "// export const wanted = 1\nexport const other = 1;\n": False,
}


@pytest.mark.parametrize("text", EXPORTING)
def test_a_name_that_a_plan_wants_exported_is_an_export_and_no_use_of_it(tmp_path, text):
    must = MustHaves(artifacts=(Artifact("src/w.ts", exports=("wanted",)),))
    found = sought(tmp_path, {"src/w.ts": text}, "src/w.ts", planning=planning(must=must))
    assert found["substantive"] is EXPORTING[text]


def test_a_demanded_call_in_a_string_is_no_call(tmp_path):
    must = MustHaves(artifacts=(Artifact("src/w.ts", contains="bcrypt.hash("),))
    only = {"src/w.ts": "export const a = 'bcrypt.hash(x) goes here';\n"}
    assert sought(tmp_path, only, "src/w.ts", planning=planning(must=must))["substantive"] is None
    real = {"src/w.ts": "export const a = bcrypt.hash(x);\n"}
    assert sought(tmp_path, real, "src/w.ts", planning=planning(must=must))["substantive"] is True
    path = MustHaves(artifacts=(Artifact("src/w.ts", contains="/api/chat"),))
    quoted = {"src/w.ts": "export const a = fetch('/api/chat');\n"}
    assert sought(tmp_path, quoted, "src/w.ts", planning=planning(must=path))["substantive"] is True


PY = {
    "src/auth.py": "import os\n\ndef login(user):\n    return os.environ[user]\n\nclass Session:\n    def end(self):\n        return 1\n",
    "src/main.py": "from src.auth import login\nlogin('x')\n",
    "src/open.py": "from .auth import *\n",
    "src/data.json": "{}",
    "tests/test_auth.py": "def test_login():\n    assert login(1) == 2\n\ndef test_logout():\n    pass\n",
}
TS = {
    "web/a.ts": "export function signIn() {}\nfunction hidden() {}\nexport default signIn\n",
    "web/b.ts": "function loose() {}\n",
    "web/c.ts": "export * from './a'\n",
    "web/Card.tsx": "export default () => <p>x</p>\n",
    "web/b/a.ts": "export const x = 1\n",
}
NAMED = {
    "src/auth.py exports login": True, "src/auth.py exports a login function": True, "`Session` is exported from src/auth.py": True,
    "src/auth.py has a function login(user)": True, "src/auth.py:login": True, "auth.py exports login": True,
    "src/auth.py exports logout": False, "src/auth.py exports login and logout": False, "auth.py exports logout": False,
    "The function refresh_token in src/auth.py": False, "src/auth.py defines the class Token": False,
    "src/gone.py exports login": False,
    # nobody can tell
    "src/auth.py exports `end`": None, "src/auth.py exports functions": None, "src/auth.py exports all that the API needs": None,
    "src/auth.py no longer exports login": None, "src/auth.py does not export `login`": None, "src/open.py exports login": None,
    "src/auth.py exports sessions": None, "web/a.ts exports x from web/b.ts": None,
    # scripts: a definition is no export
    "web/a.ts exports signIn": True, "web/a.ts defines hidden": True, "web/a.ts exports hidden": None, "web/b.ts exports loose": None,
    "web/c.ts exports signIn": None, "web/a.ts exports signOut": False, "the Card component in web/Card.tsx": True,
    # the file alone
    "src/auth.py": True, "src/auth.py is there": True,
}  # fmt: skip


@pytest.mark.parametrize("text", NAMED)
def test_a_name_that_a_file_is_said_to_have_is_looked_for_in_it(tmp_path, text):
    found = sought(tmp_path, PY | TS, text)
    assert found["exists"] is NAMED[text], found
    assert found["location"] is None or found["exists"] is not False


def test_the_names_of_a_file_are_told_each(tmp_path):
    found = sought(tmp_path, PY, "src/auth.py exports login, logout")
    assert (found["kind"], found["names"]) == ("export", {"login": True, "logout": False})
    assert found["reason"] == "src/auth.py does not export logout."
    assert sought(tmp_path, PY, "src/auth.py exports login")["location"] == "src/auth.py:3"


@pytest.mark.parametrize("kind", ["export", "component"])
@pytest.mark.parametrize(
    ("text", "exists"),
    [
        ("Users can log in with their password", None), ("src/auth.py", None), ("src/auth.py exports login", True),
        ("login (src/auth.py)", True), ("src/auth.py exports logout", False), ("login", True), ("`chargeCard`", False),
        ("the login function must be exported", True), ("Something exports a function named refresh_token", False),
    ],
)  # fmt: skip
def test_a_sentence_is_no_name(tmp_path, text, exists, kind):
    found = sought(tmp_path, PY, text, kind)
    assert (found["exists"], found["kind"]) == (exists, kind)
    if text.startswith("Users"):
        assert "names no identifier" in found["reason"]


TESTED = {
    # asked: whether it exists, where
    "tests/test_auth.py": (True, "tests/test_auth.py:1"), "./tests/test_auth.py": (True, "tests/test_auth.py:1"),
    "test_auth.py": (True, "tests/test_auth.py:1"), "tests/test_auth": (True, "tests/test_auth.py:1"),
    "tests/test_auth.py::test_login": (True, "tests/test_auth.py:1"), "tests/test_auth.py tests login": (True, "tests/test_auth.py:1"),
    "tests/test_auth.py covers logout": (None, None), "tests/test_auth.py::test_logout": (None, None),
    "tests/test_auth.py covers invoices": (None, "tests/test_auth.py:1"), "tests/test_auth.py::test_gone": (False, None),
    "tests/test_gone.py": (False, None), "src/auth.py": (None, "src/auth.py"),
}  # fmt: skip


@pytest.mark.parametrize("text", TESTED)
def test_a_path_of_tests_asks_for_that_file_and_what_is_in_it(tmp_path, text):
    found = sought(tmp_path, PY, text, "test")
    assert (found["exists"], found["location"]) == TESTED[text], found
    if text == "tests/test_auth.py":
        assert [one["test"] for one in found["evidence"]] == ["login"]


@pytest.mark.parametrize("kind", ["export", "component", "test"])
def test_a_tree_without_source_denies_no_name(tmp_path, kind):
    assert sought(tmp_path, {".planning/STATE.md": "x"}, "`login`", kind)["exists"] is None
