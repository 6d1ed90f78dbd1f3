"""What is read and told of source text: comments, tests, stubs, masks, patterns, the reader's bounds, routes of frameworks."""

import pytest

from orchestrator.gsd.evidence import checking, plan_pattern, wiring
from orchestrator.gsd.model import KeyLink
from orchestrator.gsd.ranked.ranking import likeness, sentences
from orchestrator.gsd.shown import code_line
from orchestrator.gsd.sources import text as source_text
from orchestrator.gsd.sources.cases import cases
from orchestrator.gsd.sources.code import Text, definitions, exports, is_test, kind_of, stubs, words
from orchestrator.gsd.sources.text import Source
from tests.support.gsd_trees import write


@pytest.mark.parametrize(
    ("path", "text", "kept"),
    [
        ("a.ts", "const a = 'x // y' // gone\n/* gone\ngone */ b", ["const a = 'x // y'", "b"]),
        ("a.ts", "const u = `http://x/${a}` // gone", ["const u = `http://x/${a}`"]),
        ("a.ts", "const r = /'/ // gone\nkept()", ["const r = /'/", "kept()"]),
        ("a.ts", "/* never closed\ngone", []),
        ("a.py", 'def f():\n    """gone"""\n    return """kept"""  # gone', ["def f():", 'return """kept"""']),
        ("a.py", '"""gone"""\nx = "# kept"', ['x = "# kept"']),
        ("a.rs", "fn f<'a>(x: &'a str) -> char { '\"' } // gone", ["fn f<'a>(x: &'a str) -> char { '\"' }"]),
        ("a.go", "x := `// kept` // gone", ["x := `// kept`"]),
        ("a.svelte", "<!-- gone --><p>kept</p>", ["<p>kept</p>"]),
        ("a.sql", "select 1 -- gone", ["select 1"]),
        ("a.txt", "# kept // kept", ["# kept // kept"]),
    ],
)
def test_comments_are_blanked_and_every_line_stays_where_it_is(path, text, kept):
    found = Text(path, text)
    assert [line.strip() for line in found.code.split("\n") if line.strip()] == kept
    assert len(found.code) == len(text)


def test_tests_are_known_by_what_they_say_and_whether_they_run():
    js = Text(
        "a.test.ts",
        "describe('cart', () => {\n  it('adds', f)\n  it.skip('drops', f)\n  xit('pays', f)\n})\ntest.todo('later', f)\n",
    )
    assert [(c.description, c.line, c.skipped) for c in cases(js)] == [
        ("cart: adds", 2, False), ("cart: drops", 3, True), ("cart: pays", 4, True), ("later", 6, True),
    ]  # fmt: skip
    py = Text(
        "test_a.py",
        "class T:\n    @pytest.mark.xfail\n    def test_one_thing(self): ...\nasync def test_two(): ...\n",
    )
    assert [(c.description, c.line, c.skipped) for c in cases(py)] == [("one thing", 3, True), ("two", 4, False)]
    rust = Text("a.rs", "fn no_test() {}\n#[tokio::test]\n#[ignore]\nasync fn slow_one() {}\n")
    assert [(c.description, c.line, c.skipped) for c in cases(rust)] == [("slow one", 4, True)]


@pytest.mark.parametrize(
    ("path", "yes"),
    [("src/a.test.ts", 1), ("tests/x.py", 1), ("a_test.go", 1), ("src/contest.ts", 0), ("latest/a.py", 0)],
)
def test_files_of_tests_are_known_by_name_or_place(path, yes):
    assert is_test(path) == bool(yes)


def test_stubs_are_grave_or_only_told():
    found = stubs(Text("a.py", "x = 1  # TODO: more\ndef f():\n    raise NotImplementedError\ndef g():\n    pass\n"))
    assert [(one.line, one.what, one.grave) for one in found] == [
        (1, "TODO", False),
        (3, "not implemented", True),
        (5, "pass", False),
    ]
    assert stubs(Text("a.tsx", '<input placeholder="Name" />\nconst todos = 1\n')) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/Button.tsx", "component"),
        ("src/api/users.ts", "route"),
        ("src/hooks/useX.ts", "hook"),
        ("db/schema.prisma", "schema"),
        ("a.py", "other"),
    ],
)
def test_the_fewest_lines_go_by_kind(path, kind):
    assert kind_of(path) == kind


def test_definitions_have_their_lines():
    js = Text(
        "a.ts", "export const a = 1\nexport { b as c, d }\nexport default class E {}\nmodule.exports = { f, g: h }\n"
    )
    assert {name: definitions(js)[name] for name in ("a", "c", "d", "E", "default", "f", "g")} == {
        "a": 1,
        "c": 2,
        "d": 2,
        "E": 3,
        "default": 3,
        "f": 4,
        "g": 4,
    }
    assert definitions(Text("a.py", "X: int = 1\nasync def f(): ...\nclass C: ...\n")) == {"X": 1, "f": 2, "C": 3}


@pytest.mark.parametrize(
    "line",
    [
        'const k = "sk-live-abcdefgh12345678"', "Authorization: Bearer abc123def456ghi", "url = 'postgres://u:hunter2xyz@h/db'",
        'password = "hunter2xyz"', "apiKey: 'hunter2xyz'", "DB_PASSWORD=hunter2xyz", 'client_secret => "hunter2xyz"',
        "ghp_abcdefghijklmnopqrstuvwxyz0123", "AKIAABCDEFGHIJKLMNOP",
    ],
)  # fmt: skip
def test_secrets_are_masked(line):
    shown = code_line(line)
    assert not any(secret in shown for secret in ("hunter2xyz", "abcdefgh", "abc123def", "ABCDEFGHIJ"))
    assert "…" in shown


@pytest.mark.parametrize(
    "line",
    [
        "const token = getToken(req)",
        "if (password === other) {",
        "class BasicAuthentication:",
        "tokens = lexer.tokens()",
    ],
)
def test_code_about_secrets_is_not_masked(line):
    assert code_line(f"  {line}  ") == line


def test_a_line_of_evidence_is_short_and_clean():
    assert len(code_line("x" * 10_000_000)) == 200
    assert code_line("a\0b\u202ec") == "a b c"


def test_words_of_identifiers():
    assert words("resetPassword_v2 HTTPServer naïve") == [
        "reset",
        "password",
        "v",
        "2",
        "http",
        "server",
        "na",
        "ï",
        "ve",
    ]


def test_sentences_are_compared_by_stems_but_not_by_denial_or_number():
    one, same, denied, five, ten = sentences(
        [
            "Users reset passwords",
            "A user can reset the password",
            "Users can't reset passwords",
            "lock after 5 tries",
            "lock after 10 tries",
        ]
    )
    assert likeness(one, same) == 1
    assert likeness(one, denied) == likeness(five, ten) == 0


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        ("fetch.*api/chat", "await fetch(`/api/chat`)", True), (r"import.*\{.*Foo.*\}", "import { Foo } from 'x'", True),
        (r"(get|post)\(", "app.put('/x')", False), ("x.+y", "xy", False), ("a|b.*c", "b-c", True), (r"use\w+\(", "useFoo()", True),
        ("app.post(", "app.post(", True), ("^import", " import", False), ("[\\s\\S]*z", "xyz", True),
    ],
)  # fmt: skip
def test_patterns_of_plans_mean_what_they_mean_in_javascript(pattern, line, found):
    assert plan_pattern.safe(pattern).found(line) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        r"(?=x)",
        r"(a)\1",
        "a?" * 30 + "a" * 30,
        "(a|a)" * 30,
        "a{0,99}" * 9 + "b",
        "x" * 300,
        r"\w*\w*\w*x",
    ],
)
def test_patterns_whose_cost_is_not_bounded_are_text(pattern):
    found = plan_pattern.safe(pattern)
    assert "literal text" in found.note
    assert not found.found("a" * 2000)


def test_a_reader_stops_at_its_budget_and_says_so(tmp_path):
    root = write(tmp_path, {f"{n}.py": "x = 1\n" for n in range(5)})
    few = Source(root, files=3)
    assert len(list(few.texts())) == 3
    assert few.searched == {"files": 3, "of": 5, "complete": False}
    small = Source(root, budget=7)
    assert len(list(small.texts())) == 2
    assert not small.complete
    assert len(list(Source(root).texts())) == 5


def test_what_was_searched_adds_up(tmp_path):
    files = {f"src/m{n}.py": f"x{n} = {n}\n" for n in range(4)}
    root = write(tmp_path, {**files, "src/binary.py": b"\0\0", "notes.md": "x", ".planning/STATE.md": "x"})
    source = Source(root)
    assert source.searched == {"files": 0, "of": 0, "complete": True}
    source.text(".planning/STATE.md")
    source.text("src/m1.py")
    next(source.texts())
    assert source.searched == {"files": 3, "of": 3, "complete": True}  # what the answer took, no planning among it
    list(source.texts())
    assert source.searched == {"files": 5, "of": 5, "complete": True}
    write(root, {"src/huge.py": "x" * ((1 << 20) + 1)})
    large, short, recalled = Source(root), Source(root, files=2), Source(root)
    list(large.texts())
    list(short.texts())
    recalled.recall(6)
    assert large.searched == {"files": 5, "of": 6, "complete": False}
    assert short.searched == {"files": 2, "of": 6, "complete": False}
    assert recalled.searched == {"files": 6, "of": 6, "complete": True}


def test_a_changed_file_is_read_again_and_a_vanished_one_left_out(tmp_path):
    root = write(tmp_path, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
    assert Source(root).text("a.py").raw == "a = 1\n"
    (root / "a.py").write_text("a = 22\n")
    source = Source(root)
    assert source.paths == ["a.py", "b.py"]
    (root / "b.py").unlink()
    assert [text.raw for text in source.texts()] == ["a = 22\n"]
    assert source.complete


def test_texts_are_kept_within_their_bytes():
    kept = source_text._Cache(limit=10_000)
    for number in range(50):
        kept.put(("r", str(number)), (0, 0, 0, 0), Text("a.py", "x" * 1000))
    assert kept._bytes <= 10_000
    assert kept.get(("r", "49"), (0, 0, 0, 0))[1]
    assert not kept.get(("r", "49"), (0, 0, 0, 1))[1]
    assert not kept.get(("r", "0"), (0, 0, 0, 0))[1]


@pytest.mark.parametrize(
    ("spec", "importer", "path", "leads"),
    [
        ("./auth", "src/app.ts", "src/auth.ts", True), ("../auth.js", "src/x/a.ts", "src/auth.ts", True), ("./auth", "lib/app.ts", "src/auth.ts", False),
        ("@/lib/db", "src/a.ts", "src/lib/db.ts", True), ("$lib/db", "src/a.ts", "src/lib/db.ts", True), ("./ui", "src/a.ts", "src/ui/index.ts", True),
        ("express", "src/a.ts", "src/express.ts", False), ("@scope/db", "src/a.ts", "src/db.ts", False),
    ],
)  # fmt: skip
def test_imports_lead_to_files(spec, importer, path, leads):
    assert wiring.leads_to(spec, importer, path) is leads


A = "export function makeThing() { return 1 }\n"
WIRED = [
    ({"b.ts": "import { makeThing } from './a'\nmakeThing()\n"}, "a.ts", True),
    ({"b.ts": "import { makeThing } from './a'\nconst data = 1\n"}, "a.ts", False),
    ({"b.ts": "import { makeThing } from './a'\nlog('makeThing')\n"}, "a.ts", False),
    ({"b.ts": "import './a'\n"}, "a.ts", True),
    ({"lib/index.ts": "export * from '../a'\n"}, "a.ts", None),
    ({"lib/index.ts": "export * from '../a'\n", "c.ts": "import { makeThing } from './lib'\nmakeThing()\n"}, "a.ts", True),
    ({"examples/b.ts": "import { makeThing } from '../a'\nmakeThing()\n"}, "a.ts", False),
    (
        {"one/lib/a.ts": A, "two/lib/a.ts": A, "two/page.tsx": "import { makeThing } from '@/lib/a'\nmakeThing()\n"},
        "one/lib/a.ts", False,
    ),
    (
        {"one/lib/a.ts": A, "two/lib/a.ts": A, "two/page.tsx": "import { makeThing } from '@/lib/a'\nmakeThing()\n"},
        "two/lib/a.ts", True,
    ),
    (
        {"one/lib/a.ts": A, "two/lib/a.ts": A, "two/page.tsx": "import { makeThing } from '../one/lib/a'\nmakeThing()\n"},
        "one/lib/a.ts", True,
    ),
    ({"p/m.py": "def make(): ...\n", "p/n.py": "from p.m import *\nmake()\n"}, "p/m.py", True),
    ({"p/m.py": "def make(): ...\n", "p/__init__.py": "from p.m import *\n"}, "p/m.py", None),
    ({"m.go": "func Make() {}\n", "n.go": "func Make() {}\n"}, "m.go", None),
    ({"m.go": "func MakeThing() {}\n", "n.go": "func f() { MakeThing() }\n"}, "m.go", True),
    ({"m.go": "func MakeThing() {}\n", "n.go": 'func f() { log("MakeThing") }\n'}, "m.go", None),
]  # fmt: skip


@pytest.mark.parametrize(("files", "path", "used"), WIRED)
def test_a_file_is_wired_by_another_that_uses_what_it_imports(tmp_path, files, path, used):
    source = Source(write(tmp_path, {"a.ts": A, **files}))
    assert wiring.wired(source, source.text(path)).used is used


LINKS = [
    # source, pattern, verified, target there
    ("import { send } from './mail';\nsend(1);\n", "send", True, True),
    ("import { send } from './mail';\n", "send", None, True),
    ("import { send } from './mail';\nsend(1);\n", "send", False, False),
    ("import { send } from './mail';\n", "import.*send", True, True),
    ("// send(1)\n", "send", False, True),
    ("const x = 1;\n", "a|", None, True),
    ("import { send } from './mail';\nsend(1);\n", "", True, True),
    ("const mail = 1;\n", "", None, True),
    ("const x = 1;\n", "", False, True),
]


@pytest.mark.parametrize(("text", "pattern", "verified", "there"), LINKS)
def test_a_key_link_is_a_use_of_a_file_that_is_there(tmp_path, text, pattern, verified, there):
    target = {"src/mail.ts": "export function post() {}\n"} if there else {}
    source = Source(write(tmp_path, {"src/app.ts": text, **target}))
    link = KeyLink("src/app.ts", "src/mail.ts", "call", pattern)
    assert checking.key_link(source, link).verified is verified


def test_a_name_in_a_string_is_no_definition_and_no_export():
    text = Text("a.ts", "const a = `\nexport const ghost = 1\n`\nexport { a }\n")
    assert set(definitions(text)) == {"a"}
    assert set(exports(text) or ()) == {"a"}
    assert exports(Text("a.ts", "export * from './b'\nexport const c = 1\n")) is None


def test_an_enum_that_is_const_has_its_own_name():
    ts = Text("a.ts", "export const enum Color {Red}\ndeclare const enum Inner {A}\nexport const enumerated = 1\n")
    assert definitions(ts) == {"Color": 1, "Inner": 2, "enumerated": 3}
    assert exports(ts) == {"Color": 1, "enumerated": 3}
