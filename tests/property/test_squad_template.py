"""Any template, any value: the words are those of a naive reading, a real shell agrees, and no value is ever run."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.squad.command_template import load
from orchestrator.squad.member_command import check_sizes, render

SHELLS = [name for name in ("bash", "sh") if shutil.which(name)]
NAMES = ["prompt", "chatId", "cwd", "newChat", "nowhere"]
SHOW = 'show() { for word in "$@"; do printf \'%s\\0\' "$word"; done; }\n'

# Arguments cannot hold NUL; half a character pair has no bytes.
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
VALUE = st.one_of(
    st.just(""),
    st.text(CHARACTERS, max_size=12),
    st.lists(
        st.sampled_from(
            ["'", '"', "\\", "\n", "$(id)", "`id`", "$x", " ", "<%", "%>", "<%= cwd %>", "é", "🙂", "-n", "#"]
        ),
        max_size=6,
    ).map("".join),
)
VALUES = st.dictionaries(st.sampled_from(NAMES[:-1]), VALUE, max_size=4)


# -- templates that are made from what they mean ----------------------------------------------------------------------


@st.composite
def conditions(draw, depth=3):
    """The text of a condition, and a function that says what JavaScript makes of it: ('undefined', None) and so on."""
    kind = (
        draw(st.sampled_from(["name", "text", "constant", "not", "typeof", "and", "or", "same"])) if depth else "name"
    )
    gap = draw(st.sampled_from(["", " ", "\n "]))
    if kind == "name":
        name = draw(st.sampled_from(NAMES))
        return name, lambda values: ("string", values[name]) if name in values else ("undefined", None)
    if kind == "text":
        text = draw(st.sampled_from(["", "a", "undefined", "string", "true"]))
        quote = draw(st.sampled_from("'\""))
        return f"{quote}{text}{quote}", lambda values: ("string", text)
    if kind == "constant":
        word = draw(st.sampled_from(["undefined", "null", "true", "false"]))
        return word, lambda values: {
            "undefined": ("undefined", None),
            "null": ("object", None),
            "true": ("boolean", True),
            "false": ("boolean", False),
        }[word]
    left, first = draw(conditions(depth - 1))
    if kind == "not":
        return f"!{gap}({left})", lambda values: ("boolean", not first(values)[1])
    if kind == "typeof":
        return f"typeof ({left})", lambda values: ("string", first(values)[0])
    right, second = draw(conditions(depth - 1))
    if kind == "and":
        return f"({left}){gap}&&{gap}({right})", lambda values: second(values) if first(values)[1] else first(values)
    if kind == "or":
        return f"({left}){gap}||{gap}({right})", lambda values: first(values) if first(values)[1] else second(values)
    sign = draw(st.sampled_from(["===", "!=="]))
    return f"({left}){gap}{sign}{gap}({right})", lambda values: (
        "boolean",
        (first(values) == second(values)) is (sign == "==="),
    )


def no_tag(text):
    return "<%" not in text and "%>" not in text and not text.endswith(("<", "%"))


@st.composite
def segments(draw):
    """A part of a word: its text, and a function to (what arrives, whether it takes the word away)."""
    quote = draw(st.sampled_from(["", "'", '"']))
    if draw(st.booleans()):
        name = draw(st.sampled_from(NAMES))
        tag = draw(st.sampled_from(["<%={}%>", "<%= {} %>", "<%-\n{} %>"])).format(name)
        return f"{quote}{tag}{quote}", lambda values: (values.get(name, ""), not quote and not values.get(name))
    if not quote:
        text = draw(st.text("ab=/é.,:+-", min_size=1, max_size=4))
        return text, lambda values: (text, False)
    text = draw(st.text(CHARACTERS, max_size=6).filter(no_tag))
    # As the text of a template file: its line ends are \n.
    text = text.replace("\r", "").replace("'", "") if quote == "'" else text.replace("\r", "")
    written = re.sub(r'["\\$`]', r"\\\g<0>", text) if quote == '"' else text
    return f"{quote}{written}{quote}", lambda values: (text, False)


@st.composite
def lines(draw, depth=2):
    """Words and blocks of words: their text, and a function from values to the words."""
    texts, means = [], []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            asked, meaning = draw(conditions())
            then, yes = draw(lines(depth - 1))
            other, no = draw(st.one_of(st.just((None, lambda values: [])), lines(depth - 1)))
            otherwise = "" if other is None else f"<% }} else {{ %>{other}"
            texts.append(f"<% if ({asked}) {{ %>{then}{otherwise}<% }} %>")
            means.append(lambda values, meaning=meaning, yes=yes, no=no: (yes if meaning(values)[1] else no)(values))
        else:
            parts = draw(st.lists(segments(), min_size=1, max_size=3))
            texts.append("".join(text for text, _ in parts))

            def word(values, parts=parts):
                found = [mean(values) for _, mean in parts]
                return [] if any(gone for _, gone in found) else ["".join(text for text, _ in found)]

            means.append(word)
    gap = draw(st.sampled_from([" ", "\t ", " \\\n  "]))
    # A blank on either side: a block's first word is not to join the word before it.
    return f" {gap.join(texts)} ", lambda values: [word for mean in means for word in mean(values)]


@given(lines(), VALUES)
@settings(max_examples=100)
def test_the_words_are_those_of_a_naive_reading(made, values):
    text, meaning = made
    found = load(text, where="t").words(values)
    assert found == meaning(values)
    check_sizes(found)


@pytest.mark.parametrize("shell", SHELLS)
@given(lines(), VALUES)
@settings(max_examples=30)
def test_a_real_shell_hands_on_the_same_words(shell, made, values):
    text, meaning = made
    template = load(f"# shell: true\nshow {text}\n", where="t")
    argv = list(render(template, values, engine_command="", bash="bash" if shell == "bash" else None).argv)
    assert argv[0] == shell
    argv[-1] = SHOW + argv[-1]
    done = subprocess.run(argv, capture_output=True, check=True)
    assert done.stderr == b""
    assert done.stdout.decode().split("\0")[:-1] == meaning(values)


# -- templates of any text ------------------------------------------------------------------------------------------

OUTSIDE = ["a", "é", " ", "\t", "=", "\\\n", "\\ ", "\\a", "\\'", '\\"', "\\\\", "\\$"]
INSIDE = ["a", " ", "\n", "'", "\\\n", "\\a", "\\ ", "\\'", '\\"', "\\\\", "\\$", "\\`"]
WRITTEN = st.lists(
    st.one_of(
        st.sampled_from(OUTSIDE),
        st.text('a "\\$`\n;', max_size=4).map("'{}'".format),
        st.lists(st.sampled_from(INSIDE), max_size=4).map(lambda parts: f'"{"".join(parts)}"'),
    ),
    max_size=8,
).map("".join)


@given(WRITTEN)
@settings(max_examples=150)
def test_plain_text_is_parted_as_sh_parts_it(text):
    done = subprocess.run(["sh", "-c", f"{SHOW}show {text}\n"], capture_output=True, check=True)
    assert load(f"{text}\n", where="t").words({}) == done.stdout.decode().split("\0")[:-1]


TEXT = st.lists(
    st.one_of(
        st.sampled_from([
            "<%= prompt %>", "<% if (chatId) { %>", "<% if (!chatId) { %>", "<% } else { %>", "<% } %>",
            "<%", "%>", "<%=", "<% if (", ") { %>", "(", ")", "!", "&&", "===", "typeof ", "chatId", "{", "}",
            "'", '"', "\\", "`", "$", "#", "\n", " ", "\\\n", "\r\n", "|", ";", "<", ">", "&", "a", "é", "\0", "\ud800",
            "# shell: true\n", "# stdin: prompt\n", "# stdin:", "\\\n | jq -rc '.'\n", "\\\n | jq -rc '",
        ]),
        st.text(max_size=3),
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(st.sampled_from(["", "# shell: true\n"]), TEXT, VALUES)
@settings(max_examples=300)
def test_any_text_is_a_template_or_is_refused_with_a_place_inside_it(head, text, values):
    try:
        template = load(head + text, where="t")
    except BadRequest as error:
        assert error.code == "bad_template"
        rows = (head + text).removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        assert 1 <= error.facts["line"] <= len(rows)
        assert 1 <= error.facts["column"] <= len(rows[error.facts["line"] - 1]) + 1
        event("refused")
        return
    event("loaded")
    given_back = [template.script(values)] if template.shell else template.words(values)
    assert all(isinstance(word, str) for word in given_back)


SCRIPTS = st.lists(
    st.one_of(
        st.just("<%= prompt %>"),
        st.sampled_from([
            "<%= prompt %>", "<% if (prompt) { %>", "<% } %>", "'", '"', '"', "\\", "`", "$", "$(", "${", "$'", "${a:-",
            "((", "(", ")", "}", "{ ", "; }", "#", " #", "\n", " ", " ", ";", " | ", "<<a\n", "\na\n", "<", ">", "&", "[[ ",
            " ]]", "$[", "]", "a", "a", " : ", " : ", "case a in ", "a) ", ";; ", "esac", "if :; then ", "; fi", "!", "=",
            "'\"", "\"'", "\\\n", "~", "*", "@(", "a=(", "<(", "<<<",
        ]),
    ),
    min_size=1,
    max_size=12,
).map("".join)  # fmt: skip
RUN = ":>canary"
ATTACKS = [
    f"$({RUN})`{RUN}`",
    f"'$({RUN})'\"$({RUN})\"",
    f"'\n{RUN}\n'",
    f'"\n{RUN}\n"',
    f"\n{RUN}\n",
    f"\\';{RUN};#",
    f"a\n{RUN}\na\n{RUN}",
    f";{RUN};)",
    f"}};{RUN};",
    f"a[$({RUN})]",
    f"));{RUN};",
]


@pytest.mark.parametrize("shell", SHELLS)
@given(SCRIPTS, st.sampled_from(ATTACKS))
@example("a=(;<%= prompt %>", ATTACKS[2])
@settings(max_examples=150)
def test_no_script_that_loads_ever_runs_a_value(shell, text, attack):
    try:
        template = load(f"# shell: true\n{text}", where="t")
    except BadRequest:
        event("refused")
        return
    assume("prompt" in template.names)
    event("run")
    with tempfile.TemporaryDirectory() as directory:
        program = shutil.which(shell)
        script = template.script({"prompt": attack})
        subprocess.run(
            [program, "-c", script],
            cwd=directory,
            env={"PATH": directory},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert not (Path(directory) / "canary").exists(), script
