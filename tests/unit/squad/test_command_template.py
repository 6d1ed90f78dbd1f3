"""Command templates: what each construct gives, what is refused and where, and what a shell makes of a script."""

import re
import shutil
import subprocess

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.squad.command_template import MAX_BYTES, load
from orchestrator.squad.member_command import Rendered, check_sizes, render
from orchestrator.squad.template_expressions import MAX_DEPTH

HOSTILE = 'it\'s "q"\n$(touch x) `id` ${HOME} \\ \\\\ \\n * ~ # ; | & < > <% if (x) { %> %> é 🙂 \t '
SEED = (
    "cursor-agent --approve-mcps --model composer-1 --print \\\n"
    "<% if (chatId) { %> --resume <%= chatId %> <% } %> \\\n"
    'agent "<%= prompt %>"\n'
)
# The shapes of the templates that Gs Squad 1.5.0 shipped, with programs of our own.
OLD = {
    "cursor": (
        "cursor-agent --approve-mcps --model=composer-1 --print"
        "<% if (typeof chatId !== undefined && chatId) { %> --resume <%= chatId %><% } %>"
        ' agent "<%= prompt %>"\n\n'
    ),
    "claude": (
        "claude -p --output-format=json"
        '<% if (typeof chatId !== undefined && chatId) { %> --session-id "<%= chatId %>"<% } %>'
        ' "<%= prompt %>" \\\n  | jq -rc \'.words[] | select(. != "no")\'\n\n'
    ),
    "codex": (
        "codex exec --json<% if (typeof chatId !== undefined && chatId) { %> resume <%= chatId %><% } %>"
        ' "<%= prompt %>" \\\n  | jq -rc \'\n      if (.words | length) > 0 then\n        .words[]\n'
        "      else\n        empty\n      end\n    '\n\n"
    ),
    "codex chat": 'codex exec --json "" \\\n  | jq -rc \'.words[1:][] | "\\(. | length)"\'\n\n',
}
BASH = shutil.which("bash")


def words(text, **values):
    return load(text, where="t").words(values)


def refused(text, where="t"):
    with pytest.raises(BadRequest) as caught:
        load(text, where=where)
    assert caught.value.code == "bad_template"
    return caught.value


def at(text):
    facts = refused(text).facts
    return facts["line"], facts["column"]


def truth(expression, **values):
    return words(f"<% if ({expression}) {{ %>yes<% }} else {{ %>no<% }} %>", **values) == ["yes"]


# -- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\tc\n\nd\n", ["a", "b", "c", "d"]),
        ("", []),
        ("  \n ", []),
        ("'a  b' \"c  d\"", ["a  b", "c  d"]),
        ("a'b'\"c\"d", ["abcd"]),
        ("'' \"\" x", ["", "", "x"]),
        ("a''", ["a"]),
        ("'a\\nb' 'a\"b' \"a'b\"", ["a\\nb", 'a"b', "a'b"]),
        ('"\\" \\\\ \\$ \\` \\n \\x"', ['" \\ $ ` \\n \\x']),
        ("\\a \\\\ \\' \\\" a\\ b", ["a", "\\", "'", '"', "a b"]),
        ("a \\\n b", ["a", "b"]),
        ("a\\\nb", ["ab"]),
        ('"a\\\nb"', ["ab"]),
        ("'a\\\nb'", ["a\\\nb"]),
        ("'a\nb' \"c\nd\"", ["a\nb", "c\nd"]),
        ("a \\ \nb", ["a", " ", "b"]),
        ("\\| '|' \"<>&;\" \\;", ["|", "|", "<>&;", ";"]),
        ("$HOME $(x) `y` * ~ # {a,b} !", ["$HOME", "$(x)", "`y`", "*", "~", "#", "{a,b}", "!"]),
        ("a\r\nb \\\r\nc\r\n", ["a", "b", "c"]),
        ("\ufeffa b", ["a", "b"]),
        ("a\u00a0b\u2003c", ["a\u00a0b\u2003c"]),
    ],
)
def test_text_is_parted_as_a_shell_would_but_expands_nothing(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <%= x %> b", ["a", HOSTILE, "b"]),
        ("a <%- x %> b", ["a", HOSTILE, "b"]),
        ("<%=x%>", [HOSTILE]),
        ("<%=\n x\t%>", [HOSTILE]),
        ('"<%= x %>"', [HOSTILE]),
        ("'<%= x %>'", [HOSTILE]),
        ("--id=<%= x %>.", [f"--id={HOSTILE}."]),
        ('a"b <%= x %> c"d', [f"ab {HOSTILE} cd"]),
        ("<%= x %><%= x %>", [HOSTILE * 2]),
        ("<%= x %> <%= x %>", [HOSTILE] * 2),
    ],
)
def test_a_value_arrives_as_it_is_wherever_its_tag_stands(text, expected):
    assert words(text, x=HOSTILE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <%= x %> b", ["a", "b"]),
        ("a --resume=<%= x %> b", ["a", "b"]),
        ("a <%= y %><%= x %> b", ["a", "b"]),
        ("a '<%= x %>'<%= x %> b", ["a", "b"]),
        ('a "<%= x %>" b', ["a", "", "b"]),
        ("a '<%= x %>' b", ["a", "", "b"]),
        ('a --resume="<%= x %>" b', ["a", "--resume=", "b"]),
        ("<%= x %>", []),
    ],
)
@pytest.mark.parametrize("value", [{"x": ""}, {}], ids=["empty", "undefined"])
def test_an_unquoted_empty_value_takes_its_word_with_it_and_a_quoted_one_stays(text, expected, value):
    assert words(text, y="y", **value) == expected


def test_an_unquoted_value_of_blanks_is_no_empty_one():
    assert words("a <%= x %>", x=" ") == ["a", " "]


# -- conditions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("full", True),
        ("empty", False),
        ("nowhere", False),
        ("zero", True),
        ("undefined", False),
        ("null", False),
        ("true", True),
        ("false", False),
        ("''", False),
        ('"x"', True),
        ("!nowhere", True),
        ("!!full", True),
        ("full && empty", False),
        ("full || empty", True),
        ("empty || nowhere || full", True),
        ("true || false && false", True),
        ("(true || false) && false", False),
        ("full === 'a'", True),
        ('full === "b"', False),
        ("full !== 'b'", True),
        ("!full === false", True),
        ("!(full === 'b')", True),
        ("nowhere === undefined", True),
        ("nowhere === null", False),
        ("null === null", True),
        ("empty === false", False),
        ("yes === true", False),
        ("typeof nowhere === 'undefined'", True),
        ("typeof nowhere === undefined", False),
        ("typeof nowhere !== undefined", True),
        ("typeof full === 'string'", True),
        ("typeof true === 'boolean'", True),
        ("typeof !full === 'boolean'", True),
        ("typeof null === 'object'", True),
        ("typeof typeof full === 'string'", True),
        ("(full && 'b') === 'b'", True),
        ("(empty || 'b') === 'b'", True),
        ("(nowhere && 'b') === undefined", True),
        ("full === 'a' === true", True),
        ("true === (full === 'a') !== false", True),
        ("'it\\'s' === \"it's\"", True),
        ("'a\\\\' === 'a\\\\'", True),
        ("\n full\n &&\t full ", True),
        ("$a_1 === '1'", True),
    ],
)
def test_conditions_mean_what_they_mean_in_javascript(expression, expected):
    assert truth(expression, full="a", empty="", zero="0", yes="true", **{"$a_1": "1"}) is expected


def test_blocks_nest_and_take_one_branch():
    text = "a<% if (x) { %> b<% if (y) { %>'c d'<% } else { %> e<% } %><% } else { %> f<% } %> g"
    assert words(text, x="1", y="1") == ["a", "bc d", "g"]
    assert words(text, x="1") == ["a", "b", "e", "g"]
    assert words(text) == ["a", "f", "g"]


def test_a_block_may_stand_inside_quotes_and_hold_whole_quotes():
    text = '"a<% if (x) { %> <%= x %>" "<% } %>" <% if (x) { %>\'b\'<% } %>'
    assert words(text, x="1") == ["a 1", "", "b"]
    assert words(text) == ["a"]


def test_the_names_are_those_of_values_and_conditions():
    assert load("<%= a %><% if (b && typeof c === 'd') { %><%- e %><% } %>", where="t").names == set("abce")


# -- the first lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stdin", "shell", "expected"),
    [
        ("# stdin: prompt\na", True, False, "a"),
        ("#stdin:prompt\na", True, False, "a"),
        ("# Stdin: prompt \r\na", True, False, "a"),
        ("# shell: true\na", False, True, "a"),
        ("# about\n\n# stdin: prompt\n \t\n# shell: true\na", True, True, "a"),
        ("#!/bin/sh\n# author: me <%= x\n#\na", False, False, "a"),
        ("a # stdin: prompt", False, False, None),
        ("a\n# shell: true", False, False, None),
    ],
)
def test_leading_lines_are_directives_or_comments(text, stdin, shell, expected):
    found = load(text, where="t")
    assert (found.stdin, found.shell) == (stdin, shell)
    if expected is not None:
        assert (found.script({}) if shell else " ".join(found.words({}))) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [("# stdin: task\na", (1, 10)), ("# a\n# shell: yes", (2, 10)), ("# shell:", (1, 9)), ("# stdin: a b", (1, 10))],
)
def test_a_directive_with_another_value_is_refused(text, place):
    assert at(text) == place


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a <% if (x) { %>", (1, 3)),
        ("a\n b <% if (x) { %> <% if (y) { %> <% } %>", (2, 4)),
        ("a <% } %>", (1, 3)),
        ("<% if (x) { %><% } %><% } %>", (1, 22)),
        ("a <% } else { %>", (1, 3)),
        ("<% if (x) { %><% } else { %><% } else { %><% } %>", (1, 29)),
        ("a\n<%= x", (2, 1)),
        ("a <%", (1, 3)),
        ("<%>", (1, 1)),
        ("a %>", (1, 3)),
        ("<%= x %> %>", (1, 10)),
        ("<% %>", (1, 1)),
        ("<%= %>", (1, 1)),
        ("<%= x y %>", (1, 1)),
        ("<%= 'x' %>", (1, 1)),
        ("<%= x || y %>", (1, 1)),
        ("<%= true %>", (1, 1)),
        ("<%= undefined %>", (1, 1)),
        ("<%= this %>", (1, 1)),
        ("<%= x.y %>", (1, 6)),
        ("<%= x; %>", (1, 6)),
        ("<%= x -%>", (1, 7)),
        ("<%_ x %>", (1, 1)),
        ("<%# x %>", (1, 3)),
        ("<%% x %>", (1, 3)),
        ("<% x %>", (1, 1)),
        ("<% for (x) { %>", (1, 1)),
        ("<% if x { %>", (1, 1)),
        ("<% if (x) %>", (1, 1)),
        ("<% if () { %><% } %>", (1, 8)),
        ("<% if (x) { } %>", (1, 1)),
        ("<% } else if (x) { %>", (1, 1)),
        ("<% if (x)) { %><% } %>", (1, 9)),
        ("<% if ((x) { %><% } %>", (1, 8)),
        ("<% if (x y) { %><% } %>", (1, 10)),
        ("<% if (x &&) { %><% } %>", (1, 12)),
        ("<% if (&& x) { %><% } %>", (1, 8)),
        ("<% if (x) && (y) { %><% } %>", (1, 9)),
        ("<% if (x == y) { %><% } %>", (1, 10)),
        ("<% if (x != y) { %><% } %>", (1, 11)),
        ("<% if (x =\n== y) { %><% } %>", (1, 10)),
        ("<% if (\n  x + 1) { %><% } %>", (2, 5)),
        ("<% if (1) { %><% } %>", (1, 8)),
        ("<% if (x(y)) { %><% } %>", (1, 9)),
        ("<% if (x[0]) { %><% } %>", (1, 9)),
        ("<% if (while) { %><% } %>", (1, 8)),
        ("<% if ('x) { %><% } %>", (1, 8)),
        ("<% if ('a\nb') { %><% } %>", (1, 8)),
        ("<% if ('\\n') { %><% } %>", (1, 8)),
        ("<% if (`x`) { %><% } %>", (1, 8)),
        ("<% if (x === '%>') { %><% } %>", (1, 14)),
        ("a 'b", (1, 3)),
        ('a\n"b <%= x %>\n', (2, 1)),
        ("<% if (x) { %>'<% } %>'", (1, 1)),
        ("<% if (x) { %>'a'<% } else { %>\"<% } %>", (1, 1)),
        ("'<% if (x) { %>'<% } else { %>'<% } %>", (1, 2)),
        ("'<% if (x) { %>'\"<% } %>'", (1, 2)),
        ("a \\", (1, 3)),
        ("a \\<%= x %>", (1, 3)),
        ('"\\<% if (x) { %>"', (1, 2)),
        ("a\0", (1, 2)),
        ("a\ud800", (1, 2)),
        ("a | b", (1, 3)),
        ("a; b", (1, 2)),
        ("a &", (1, 3)),
        ("a <b", (1, 3)),
        ("a\n <% if (x) { %>'|' 2>b<% } %>", (2, 21)),
        ("# comment\n\na >b", (3, 3)),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_what_is_not_of_the_language_is_refused_with_its_place(text, place, newline):
    assert at(text.replace("\n", newline)) == place


def test_a_refusal_names_the_file_and_the_place_in_its_sentence_and_as_facts():
    error = refused("a\nb | c", where="templates/run-agent.template")
    assert error.facts == {"file": "templates/run-agent.template", "line": 2, "column": 3}
    assert "templates/run-agent.template, line 2, column 3" in error.message
    assert "# shell: true" in error.next_step


@pytest.mark.parametrize(
    "opening",
    [
        lambda n: "<% if (x) { %>" * n + "<% } %>" * n,
        lambda n: f"<% if ({'(' * (n - 1)}x{')' * (n - 1)}) {{ %><% }} %>",
        lambda n: f"<% if ({'!' * (n - 1)}x) {{ %><% }} %>",
        lambda n: f"<% if ({'typeof ' * (n - 1)}x) {{ %><% }} %>",
    ],
)
def test_nesting_is_bounded_where_it_recurses(opening):
    words(opening(MAX_DEPTH), x="1")
    for beyond in (MAX_DEPTH + 1, 3000):
        refused(opening(beyond))


@pytest.mark.parametrize("chain", ["x" + "&&x" * 20_000, "x" + "||x" * 20_000, "x" + "===x" * 15_000])
def test_chains_may_be_as_long_as_the_template(chain):
    words(f"<% if ({chain}) {{ %>a<% }} %>")


def test_the_length_is_bounded_in_bytes():
    assert words("é" * (MAX_BYTES // 2)) == ["é" * (MAX_BYTES // 2)]
    assert at("é" * (MAX_BYTES // 2) + "a") == (1, 1)
    assert len(words("a <%= x %>" * 6_000, x="b")) == 6_001
    refused("<% " * 20_000)
    refused("'" * 60_001)


# -- the seeds' and the old tool's templates -----------------------------------------------------------------------


def test_the_seeds_example_gives_the_right_words_with_and_without_a_chat():
    head = ["cursor-agent", "--approve-mcps", "--model", "composer-1", "--print"]
    assert words(SEED, prompt=HOSTILE) == [*head, "agent", HOSTILE]
    assert words(SEED, prompt=HOSTILE, chatId="") == [*head, "agent", HOSTILE]
    assert words(SEED, prompt=HOSTILE, chatId="c-1") == [*head, "--resume", "c-1", "agent", HOSTILE]


@pytest.fixture
def path(tmp_path):
    """A PATH with engines that print their own words as JSON, and fail where the prompt says so."""
    for name in ("claude", "codex"):
        program = tmp_path / name
        program.write_text(
            "#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps({'words': [sys.argv[0].split('/')[-1],"
            " *sys.argv[1:]]}))\nsys.exit(3 if 'fail' in sys.argv else 0)\n"
        )
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"}


def run(rendered, env=None):
    assert isinstance(rendered, Rendered)
    return subprocess.run(rendered.argv, capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("bash", [BASH, None], ids=["bash", "sh"])
@pytest.mark.skipif(shutil.which("jq") is None, reason="the old templates need jq")
def test_templates_in_the_shapes_of_the_old_tool_work_as_they_are(path, bash):
    def printed(name, **values):
        template = load(OLD[name], where=name)
        assert template.shell
        return run(render(template, values, engine_command="", bash=bash), path).stdout

    assert words(OLD["cursor"], prompt="p", chatId="c")[-4:] == ["--resume", "c", "agent", "p"]
    assert words(OLD["cursor"], prompt="p")[-3:] == ["--print", "agent", "p"]
    begin = "claude\n-p\n--output-format=json\n"
    assert printed("claude", prompt=HOSTILE, chatId="c") == f"{begin}--session-id\nc\n{HOSTILE}\n"
    assert printed("claude", prompt=HOSTILE) == f"{begin}{HOSTILE}\n"
    assert printed("codex", prompt=HOSTILE, chatId="c") == f"codex\nexec\n--json\nresume\nc\n{HOSTILE}\n"
    assert printed("codex", prompt=HOSTILE) == f"codex\nexec\n--json\n{HOSTILE}\n"
    assert printed("codex chat") == "4\n6\n0\n"


@pytest.mark.skipif(BASH is None or shutil.which("jq") is None, reason="needs bash and jq")
def test_an_engine_that_fails_is_not_hidden_by_the_jq_behind_it(path):
    template = load(OLD["claude"], where="t")
    assert run(render(template, {"prompt": "fail"}, engine_command="", bash=BASH), path).returncode == 3
    assert run(render(template, {"prompt": "go"}, engine_command="", bash=BASH), path).returncode == 0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a | jq -rc '.'\n", (1, 3)),
        ("a \\\n | jq -r '.'\n", (2, 2)),
        ("a \\\n | jq -rc '.' | b\n", (2, 2)),
        ("a \\\n | jq -rc '.' x\n", (2, 2)),
        ("a \\\n | jq -rc '<%= x %>'\n", (2, 2)),
        ('a \\\n | jq -rc "."\n', (2, 2)),
        ("a \\\n | grep '.'\n", (2, 2)),
        ("a; b \\\n | jq -rc '.'\n", (1, 2)),
        ("a | b \\\n | jq -rc '.'\n", (1, 3)),
        ("a 2>x \\\n | jq -rc '.'\n", (1, 4)),
        ("<% if (x) { %>a \\\n | jq -rc '.'\n", (1, 1)),
        ("a 'b \\\n | jq -rc '.'\n", (1, 3)),
        ("a \\\\\n | jq -rc '.'\n", (1, 3)),
    ],
)
def test_any_other_pipe_needs_the_first_line(text, place):
    assert at(text) == place


# -- with a shell ---------------------------------------------------------------------------------------------------


SHELLS = pytest.mark.parametrize(
    "shell",
    [pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=name)) for name in ("bash", "sh")],
)


def shown(text, shell, **values):
    """The words that a real shell gives a program called ``show``, NUL behind each."""
    script = load(f"# shell: true\n{text}", where="t").script(values)
    show = 'show() { printf "%s\\0" "$@"; }\n'
    done = subprocess.run([shell, "-c", show + script], capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@SHELLS
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show <%= x %>", [HOSTILE]),
        ('show "<%= x %>"', [HOSTILE]),
        ("show '<%= x %>'", [HOSTILE]),
        ("show --id=<%= x %>.", [f"--id={HOSTILE}."]),
        ("show \"a <%= x %> b\" 'c <%= x %> d'", [f"a {HOSTILE} b", f"c {HOSTILE} d"]),
        ('show "\\$<%= x %>" \\$"<%= x %>"', [f"${HOSTILE}", f"${HOSTILE}"]),
        ('show "$(echo "a)\' # b")" <%= x %>', ["a)' # b", HOSTILE]),
        ('show "$( (echo "a"); echo \'b)\' # it\'s )\n)" "<%= x %>"', ["a\nb)", HOSTILE]),
        ('show "$( (echo a); echo \'b"\')" "<%= x %>"', ['a\nb"', HOSTILE]),
        ("show $(echo a)#b <%= x %>", ["a#b", HOSTILE]),
        ("show `echo 'a\"'` <%= x %>", ['a"', HOSTILE]),
        ('show "${NOWHERE:-a b}" "<%= x %>"', ["a b", HOSTILE]),
        ("show a # it's <a> comment\nshow <%= x %>", ["a", HOSTILE]),
        ("show a \\\n# it's\nshow <%= x %>", ["a", HOSTILE]),
        ("show a#b \\# '#' <%= x %>", ["a#b", "#", "#", HOSTILE]),
        ("(show a; show <%= x %>) | cat && show b 2>&1", ["a", HOSTILE, "b"]),
        ('f() { show "$1"; }; f <%= x %>', [HOSTILE]),
        ("if true; then\n  show <%= x %>\nfi", [HOSTILE]),
        ('y=<%= x %>; show "$y"', [HOSTILE]),
        ('case <%= x %> in a) show a;; *) show "<%= x %>";; esac', [HOSTILE]),
        ("show a \\\n <% if (x) { %><%= x %><% } %>", ["a", HOSTILE]),
        ("show a <% if (y) { %><%= x %><% } else { %>'b c'<% } %>", ["a", "b c"]),
    ],
)
def test_a_real_shell_gives_the_program_each_value_as_it_is(text, expected, shell):
    assert shown(text, shell, x=HOSTILE) == expected


@SHELLS
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show a <%= x %> b", ["a", "b"]),
        ("show a --id=<%= x %> b", ["a", "b"]),
        ("show a --id=<%= x %>; show b<%= x %> c", ["a", "c"]),
        ("show a <%= x %><%= y %> b", ["a", "b"]),
        ('show "$(echo a b)"<%= x %> c', ["c"]),
        ('show a "<%= x %>" b', ["a", "", "b"]),
        ("show '<%= x %>' --id='<%= x %>'", ["", "--id="]),
    ],
)
def test_an_empty_value_is_the_same_to_a_script_as_to_a_command(text, expected, shell):
    assert shown(text, shell, x="", y="y") == expected


@SHELLS
@pytest.mark.parametrize("value", ["if", "2", "{", "!", "-n", "a=b", "~", "*", "alias"])
def test_a_value_is_never_a_word_of_the_shells_own(value, shell):
    assert shown("show <%= x %> <%= x %>>&1", shell, x=value) == [value, value]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a $(b <%= x %>)", (2, 7)),
        ('a "$(b <%= x %>)"', (2, 8)),
        ("a \"$(b '<%= x %>')\"", (2, 9)),
        ("a $(b <% if (x) { %>c<% } %>)", (2, 7)),
        ("a `b <%= x %>`", (2, 6)),
        ('a "`b <%= x %>`"', (2, 7)),
        ("a ${b:-<%= x %>}", (2, 3)),
        ("a ${b:-'c'} <%= x %>", (2, 3)),
        ("a $((<%= x %>))", (2, 3)),
        ("a $[<%= x %>]", (2, 3)),
        ("((a = 1))", (2, 1)),
        ("a $'b'", (2, 3)),
        ("a $<%= x %>", (2, 3)),
        ('a "$<% if (x) { %>(b)<% } %>"', (2, 4)),
        ("a \\<%= x %>", (2, 3)),
        ("a <<b\n<%= x %>\nb\n", (2, 3)),
        ("<% if (x) { %>a<% } %><b", (2, 23)),
        ("a <<% if (x) { %><b<% } %>", (2, 18)),
        ("a # b <%= x %>", (2, 7)),
        ("a # b <% if (x) { %>\n<% } %>", (2, 7)),
        ("<% if (x) { %><% } %># a", (2, 22)),
        ("<% if (x) { %>a; (<% } %>(a))", (2, 26)),
        ("a=(b <%= x %>)", (2, 3)),
        ("a=\\\n(b <%= x %>)", (3, 1)),
        ("a $(case x in b) c;; esac)", (2, 5)),
        ("a $(b", (2, 3)),
        ("a `b", (2, 3)),
        ("a 'b", (2, 3)),
        ('a "$(b"', (2, 4)),
    ],
)
def test_a_script_in_which_a_tags_quotes_would_be_doubtful_is_refused(text, place):
    assert at(f"# shell: true\n{text}") == place


# -- the command ----------------------------------------------------------------------------------------------------


def argv(text, engine="", bash="bash", **values):
    return list(render(load(text, where="t"), values, engine_command=engine, bash=bash).argv)


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        ("claude -p x", "", ["claude", "-p", "x"]),
        ("claude -p x", "   ", ["claude", "-p", "x"]),
        ("claude -p x", "claude", ["claude", "-p", "x"]),
        ("claude -p x", "/opt/bin/claude", ["/opt/bin/claude", "-p", "x"]),
        ("/opt/bin/claude -p x", "/opt/bin/claude", ["/opt/bin/claude", "-p", "x"]),
        ("-p x", "claude", ["claude", "-p", "x"]),
        ("agent -p", "claude", ["claude", "agent", "-p"]),
        ("claude -p", "npx claude", ["npx", "claude", "-p"]),
        ("npx claude -p", "npx claude", ["npx", "claude", "-p"]),
        ("claude -p", "python3 '/a b/claude'", ["python3", "/a b/claude", "-p"]),
        ("claude -p", "claude --model opus", ["claude", "--model", "opus", "-p"]),
        ("'claude' -p", "claude", ["claude", "-p"]),
        ("'npx claude' -p", " npx claude ", ["npx", "claude", "-p"]),
        ("", "claude -p", ["claude", "-p"]),
        ('"<%= x %>" claude', "claude", ["claude", "claude"]),
    ],
)
def test_the_engine_command_takes_the_place_of_its_own_name_or_comes_first(text, engine, expected):
    assert argv(text, engine, x="claude") == expected


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        ("claude -p | b", "", "claude -p | b"),
        ("claude -p | b", "claude", "claude  -p | b"),
        ("claude -p | b", "'/a b/claude'", "'/a b/claude'  -p | b"),
        ("\n \\\n'claude' -p", "npx claude", "npx claude  -p"),
        ("npx claude -p", "npx claude", "npx claude  -p"),
        ("claude|b", "claude", "claude |b"),
        ("claude$x -p", "claude", "claude claude$x -p"),
        ("-p | b", "claude", "claude -p | b"),
        ("-p | b", "", " -p | b"),
    ],
)
def test_the_same_holds_for_the_first_word_of_a_script(text, engine, expected):
    assert argv(f"# shell: true\n{text}", engine) == ["bash", "-o", "pipefail", "-c", expected]
    assert argv(f"# shell: true\n{text}", engine, bash=None) == ["sh", "-c", expected]


@pytest.mark.parametrize(
    "text", ["", "# stdin: prompt\n", "<%= x %>", "# shell: true\n \n", "'' a", "<% if (x) { %>a<% } %>"]
)
def test_a_template_that_gives_no_command_is_refused(text):
    with pytest.raises(BadRequest) as caught:
        argv(text)
    assert caught.value.code == "bad_template"
    assert caught.value.facts == {"file": "t", "line": 1, "column": 1}


def test_an_engine_command_with_open_quotes_is_refused():
    with pytest.raises(BadRequest) as caught:
        argv("a", "claude 'x")
    assert caught.value.code == "bad_config"


def test_a_command_knows_whether_the_prompt_goes_to_its_input():
    assert render(load("# stdin: prompt\na -", where="t"), {}, engine_command="", bash=None) == Rendered(
        ("a", "-"), True
    )


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("a" * 131_072, "prompt_too_long"),
        ("é" * 65_536, "prompt_too_long"),
        ("a\0b", "bad_argument"),
        ("a\ud800", "bad_argument"),
    ],
)
def test_a_word_the_kernel_would_refuse_is_refused_before_and_named_by_its_place(word, code):
    with pytest.raises(BadRequest) as caught:
        check_sizes(["a", "b", word])
    assert (caught.value.code, caught.value.facts["place"]) == (code, 2)
    assert "word 2" in caught.value.message


def test_the_longest_word_is_still_accepted_by_us_and_by_the_kernel():
    longest = ["true", "é" * 65_535 + "a"]
    check_sizes(longest)
    assert subprocess.run(longest, check=False).returncode == 0
    with pytest.raises(OSError, match=re.escape("Argument list too long")):
        subprocess.run(["true", "é" * 65_536], check=False)
