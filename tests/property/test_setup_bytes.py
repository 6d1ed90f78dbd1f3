"""Setup and its undoing on configuration files of any form: every byte of the user's stays, and comes back."""

import json
import tomllib
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from orchestrator.engines.table import SETUPS
from orchestrator.setup import jsonc, registration, text_change
from orchestrator.setup.entries import TOOLSETS

JSON_CLIS = [name for name, cli in SETUPS.items() if cli.form == "json"]
NAMES = st.sampled_from(
    ["a", "model", 'quo"te', "mcpServers", "mcp", "hooks", "Stop", "AfterAgent", "ünï", "", "//no", "GSD"]
)
SPACE = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "  ", "\n\n    "])
GAP = st.one_of(
    SPACE, SPACE, SPACE, st.sampled_from([" // a comment, } ]\n", "/* two\n lines */", " /**/ ", '// "x": 1\n'])
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-99, 99), st.sampled_from([0.5, 1e30, "s", "// no comment", "\\", '"'])
)

LISTS = (
    st.lists(st.sampled_from(TOOLSETS), min_size=1, unique=True).map(tuple).filter(lambda names: names != ("gsd",))
)


@st.composite
def rendered(draw, value):
    """A value as somebody might have typed it: comments, odd white space, trailing commas."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    items = list(value.items()) if isinstance(value, dict) else [(None, one) for one in value]
    out = draw(GAP)
    for number, (key, one) in enumerate(items):
        name = "" if key is None else json.dumps(key) + draw(SPACE) + ":" + draw(GAP)
        last = number == len(items) - 1
        comma = "," if not last or draw(st.booleans()) else ""
        out += name + draw(rendered(one)) + draw(GAP) + comma + draw(GAP)
    return ("{%s}" if isinstance(value, dict) else "[%s]") % out


@st.composite
def json_files(draw):
    """A file of a JSON CLI: None if there is none, the places where setup writes filled or not."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "", "{}", "{}\n", "{\n}\n", "{ }"]))
    tree = st.recursive(
        PLAIN, lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3), max_leaves=8
    )
    free = draw(
        st.dictionaries(NAMES.filter(lambda name: name not in {"mcpServers", "mcp", "hooks"}), tree, max_size=4)
    )
    servers = st.dictionaries(NAMES, st.just({"command": "x"}), max_size=2)
    groups = st.lists(st.just({"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}), max_size=2)
    for name in draw(st.permutations(["mcpServers", "mcp", "hooks"])):
        if draw(st.booleans()):
            free[name] = draw(
                st.dictionaries(st.sampled_from(["Stop", "AfterAgent", "X"]), groups, max_size=3)
                if name == "hooks"
                else servers
            )
    text = draw(GAP) + draw(rendered(free)) + draw(GAP)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


TOML_PARTS = st.sampled_from(
    [
        "# a comment\n", "\n", "\n\n", "[x]\ny = 1\n", "[profiles.a]\nb = [\n  1, # one\n\n  2,\n]\n",
        "[mcp_servers.other]\ncommand = 'c' # why\nargs = []\n", '[mcp_servers."a b"]\nurl = "u"\n[mcp_servers."a b".env]\nA = "1"\n',
        "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'true'\n", "[hooks.state.'a:stop:0:0']\ntrusted_hash = 'h'\n",
        '[notes]\ntext = """\n[mcp_servers.orchestrator]\nin a string\n"""\n',
    ]
)  # fmt: skip


@st.composite
def toml_files(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "", "\n", "# only this", "a = 1"]))
    head = draw(st.sampled_from(["", "model = 'x' # mine\n", "# top\n\nmodel = 'x'\n"]))
    text = head + "".join(draw(st.lists(TOML_PARTS, max_size=6, unique=True)))
    text = text[: -len("\n")] if text.endswith("\n") and draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def there_and_back(cli, before, order):
    entry, hooks = registration.parts_of(cli, order.draw(LISTS))
    renewed_and_back(cli, before, registration.parts_of(cli)[0])
    relisted_and_back(cli, before, order)
    gsd, _ = registration.parts_of(cli, ("gsd",))
    own = registration.settings_part()
    parts = [entry, *hooks, *([own] if cli.gsd_in_settings and order.draw(st.booleans()) else [gsd])]
    text = before
    for part in parts:
        text, done = text_change.put(cli, text, part)
        assert done.action == "added"
    assert [text_change.look(cli, text, part).state for part in parts] == ["current"] * len(parts)
    for part in parts:
        again, done = text_change.put(cli, text, part)
        assert (again, done.action) == (text, "kept")
    full = text
    for part in order.draw(st.permutations(parts)):
        text, done = text_change.take(cli, text, part)
        assert done.action == "removed"
    assert text == before
    return full


def renewed_and_back(cli, before, entry):
    """An entry of a version that told no limit is brought up to date, and taken out."""
    old, _ = registration.parts_of(replace(cli, raises=False))
    text, _ = text_change.put(cli, before, old)
    assert text_change.take(cli, text, entry)[0] == before
    text, done = text_change.put(cli, text, entry)
    assert done.action == ("updated" if cli.raises else "kept")
    assert text_change.look(cli, text, entry).state == "current"
    # An update of a TOML file ends its last line, and an empty file goes with the entry: no more than that.
    assert (text_change.take(cli, text, entry)[0] or "").rstrip("\r\n") == (before or "").rstrip("\r\n")


def relisted_and_back(cli, before, order):
    """Another list of toolsets in an entry of ours is an update, and whatever it offers it is taken out as ours."""
    first, second = (registration.parts_of(cli, order.draw(LISTS))[0] for _ in "12")
    once, _ = text_change.put(cli, before, first)
    assert text_change.take(cli, once, second)[0] == before
    text, done = text_change.put(cli, once, second)
    assert done.action == ("kept" if first == second else "updated")
    assert not done.edited
    assert text_change.look(cli, text, second).state == "current"
    assert (text_change.take(cli, text, first)[0] or "").rstrip("\r\n") == (before or "").rstrip("\r\n")


QUICK = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize("name", JSON_CLIS)
@QUICK
@given(before=json_files(), order=st.data())
def test_a_json_file_gets_its_bytes_back_and_keeps_all_else(name, before, order):
    cli = SETUPS[name]
    full = there_and_back(cli, before, order)
    if "\r\n" in (before or ""):
        assert full.count("\n") == full.count("\r\n")
    known = jsonc.read(before) if before else {}
    event("hooks" if "hooks" in known else "no hooks")
    event("comments" if "/*" in (before or "") else "no comments")
    for key, value in known.items():
        now = jsonc.read(full)[key]
        assert value == now or key in {"hooks", *cli.server_path}
    for kind in ("// a comment, } ]", "/* two"):
        assert full.count(kind) == (before or "").count(kind)


@QUICK
@given(before=toml_files(), order=st.data())
def test_a_toml_file_gets_its_bytes_back_and_keeps_all_else(before, order):
    full = there_and_back(SETUPS["codex"], before, order)
    event("in a string" if "in a string" in (before or "") else "plain")
    assert full.replace("\r\n", "\n").startswith((before or "").replace("\r\n", "\n"))
    tomllib.loads(full.replace("\r\n", "\n"))


@QUICK
@given(json_files())
def test_reading_agrees_with_json_where_json_can_read(text):
    try:
        wanted = json.loads(text or "0")
    except ValueError:
        event("only ours can")
        return
    event("both can")
    assert jsonc.read(text or "0") == wanted
