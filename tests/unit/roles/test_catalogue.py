"""Roles: where they come from, what is read of a file, and that a bad file is named and hides nothing."""

import asyncio
import contextlib
import json
import os
import socket
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.engines.definition import Engine, Headless, HeadlessCommand, PreparedLaunch, RoleFolder
from orchestrator.roles import catalogue, heads, lint, role_files
from orchestrator.roles.catalogue import BrokenRole, Role
from orchestrator.roles.library import RoleLibrary
from tests.support.trusted_files import allow

SHIPPED = {
    "frontend-developer", "backend-developer", "qa-engineer", "architect", "reviewer", "researcher",
    "technical-writer", "devops-engineer", "gsd-planner", "gsd-executor", "gsd-verifier",
}  # fmt: skip


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def root(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    return place


def put(root, name, text="You work.\n"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def headed(head, body="You work."):
    return f"---\n{head}\n---\n\n{body}\n"


def own(found):
    return {role_id: role for role_id, role in found.roles.items() if role.source != "shipped"}


def engine(name, models="", headless=True):
    runs = Headless(lambda _: HeadlessCommand(("true",)), "told") if headless else None
    folder = RoleFolder(models) if models else None
    return Engine(name, lambda _: PreparedLaunch(("true",)), 60.0, headless=runs, role_folder=folder)


def code(call, *args):
    with pytest.raises(BadRequest) as caught:
        call(*args)
    return caught.value.code, caught.value


# -- where they come from ----------------------------------------------------------------------------------------------


def test_the_nearest_source_of_an_id_counts_and_the_others_are_said_to_be_shadowed(root):
    names = [".agents/roles/architect.md", "agents/architect.md", ".claude/agents/architect.md",
             ".gemini/agents/architect.md", ".codex/agents/architect.toml"]  # fmt: skip
    for name in names:
        text = f'developer_instructions = "from {name}"' if name.endswith("toml") else f"from {name}"
        put(root, name, text)
    for gone, name in enumerate(names):
        found = catalogue.read(root)
        assert (found.role("architect").body, found.role("architect").source) == (
            f"from {name}",
            name.rpartition("/")[0],
        )
        assert catalogue.body(root, "architect") == f"from {name}"
        assert [one.by for one in found.shadowed] == [name] * (len(names) - gone)
        (root / name).unlink()
    assert catalogue.read(root).role("architect").source == "shipped"


def test_the_shipped_roles_are_whole_and_name_nobodys_product(root):
    found = catalogue.read(root)
    assert set(found.roles) == SHIPPED
    assert not found.broken
    for role in found.roles.values():
        assert role.name == role.id
        assert role.description
        asks = role.id.startswith("gsd-")
        assert set(role.keys) == {"name", "description"} | ({"toolsets"} if asks else set())
        assert role.toolsets == (("gsd",) if asks else ())
        assert 40 <= len(role.body.splitlines()) <= 80
        assert role.body.isascii()
        words = role.body.lower()
        assert not [
            n for n in ("claude", "codex", "gemini", "cursor", "gpt", "react", "docker", "pytest") if n in words
        ]
        assert "nobody answers questions" in words


def test_a_given_directory_is_the_only_source_and_may_lie_outside(root, tmp_path, monkeypatch):
    put(root, ".agents/roles/inside.md")
    put(tmp_path, "elsewhere/only.md")
    put(tmp_path, "elsewhere/secret.toml", "x")
    (tmp_path / "elsewhere" / "linked.md").symlink_to(put(tmp_path, "third/place.txt", "Linked."))
    for given_as in (str(tmp_path / "elsewhere"), "../elsewhere", "../elsewhere/"):
        found = catalogue.read(root, given_as)
        assert set(found.roles) == {"only", "linked"}
        assert found.role("only").source == given_as.rstrip("/")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert set(catalogue.read(root, "~/elsewhere").roles) == {"only", "linked"}
    put(tmp_path, ".codex/agents/c.toml", 'developer_instructions = "C."')
    assert catalogue.read(root, "~/.codex/agents").role("c").body == "C."


def test_a_given_directory_that_is_one_of_the_projects_folders_is_called_as_that(root):
    put(root, ".claude/agents/one.md", headed("model: opus"))
    put(root, ".codex/agents/two.toml", 'developer_instructions = "Two."')
    put(root, ".agents/roles/three.md", headed("approval: all"))
    (root / "x").mkdir()
    one = catalogue.read(root, str(root / "x" / ".." / ".claude" / "agents")).role("one")
    assert (one.source, one.model_for(engine("claude", ".claude/agents"))) == (".claude/agents", "opus")
    assert catalogue.read(root, "./.codex/agents").role("two").body == "Two."
    allow(root)
    assert catalogue.read(root, str(root / ".agents" / "roles")).role("three").approval == "all"


@pytest.mark.parametrize("given_as", ["nowhere", "file.md", "with\0nul", "~nobody-of-that-name/x", "loop"])
def test_a_given_directory_that_is_none_is_refused_by_name(root, given_as):
    put(root, "file.md")
    (root / "loop").symlink_to("loop")
    found, error = code(catalogue.read, root, given_as)
    assert found == "bad_config"
    assert repr(given_as) in error.message
    json.dumps(error.as_dict())


def test_ids_are_file_names_with_any_characters_and_other_files_are_none(root):
    odd = ["two words", "v1.2", "ünïcode 役", "-dash", "a..", "a\nb", "$(id)", "x" * 200]
    for name in odd:
        put(root, f"agents/{name}.md", f"I am {name}")
    for name in (".hidden.md", ".md", "...md", "notes.txt", "noend", "UPPER.MD", "c.toml"):
        put(root, f"agents/{name}")
    put(root, ".codex/agents/readme.md")
    put(root, "agents/below/deeper.md")
    found = own(catalogue.read(root))
    assert set(found) == set(odd)
    assert all(role.body == f"I am {name}" for name, role in found.items())


@pytest.mark.parametrize(
    "role_id", ["../secret", "/etc/passwd", "below/deeper", "..", ".", "", "a\0b", "x" * 100_000]
)
def test_an_id_is_looked_up_and_never_made_into_a_path(root, role_id):
    put(root, "agents/below/deeper.md")
    put(root, "secret.md")
    put(root, ".agents/roles/a.md")
    assert code(catalogue.read(root).role, role_id)[0] == "unknown_role"
    assert catalogue.body(root, role_id) == ""


def test_an_unknown_role_names_what_is_near(root):
    found, error = code(catalogue.read(root).role, "frontend-develper")
    assert found == "unknown_role"
    assert "'frontend-developer'" in error.next_step


def test_projects_without_any_folder_and_files_in_place_of_folders_are_quiet(root):
    put(root, "agents", "a program")
    found = catalogue.read(root)
    assert (own(found), found.broken) == ({}, ())


# -- what is read of a file --------------------------------------------------------------------------------------------


def test_name_description_body_and_keys_come_out_of_a_file_as_plain_values(root):
    head = "name: The Tester\ndescription: >\n  Tests\n  all.\ntools: [Read, 'Bash(git *)']\nversion: 1.10\non: yes\nx:\nd: 2026-01-02"
    put(root, "agents/changelog.md", "\ufeff" + headed(head, "Body.\n\n---\n\nMore.").replace("\n", "\r\n"))
    role = catalogue.read(root).role("changelog")
    assert (role.name, role.description, role.body) == ("The Tester", "Tests all.", "Body.\n\n---\n\nMore.")
    assert (role.file, role.source, role.by_line) == ("agents/changelog.md", "agents", "")
    assert dict(role.keys) == {
        "name": "The Tester", "description": "Tests all.\n", "tools": ["Read", "Bash(git *)"], "version": "1.10",
        "on": "yes", "x": None, "d": "2026-01-02",
    }  # fmt: skip
    with pytest.raises(FrozenInstanceError):
        role.name = "x"
    with pytest.raises(TypeError):
        role.keys["name"] = "x"


@pytest.mark.parametrize(
    ("text", "name", "description", "body"),
    [
        ("Only text.", "r", "", "Only text."), ("", "r", "", ""), ("---\n---\nB", "r", "", "B"),
        ("---\n# nothing\n---  \nB", "r", "", "B"), (headed("name: ''\ndescription: [a]"), "r", "", "You work."),
        ("Text.\n---\nname: x\n---\n", "r", "", "Text.\n---\nname: x\n---"),
        (headed("name: ~\ndescription: null"), "r", "", "You work."),
        (headed("name: !!python/object/apply:os.system [touch x]"), "r", "", "You work."),
    ],
)  # fmt: skip
def test_what_a_file_does_not_say_is_its_id_or_empty(root, text, name, description, body):
    put(root, "agents/r.md", text)
    role = catalogue.read(root).role("r")
    assert (role.name, role.description, role.body, role.by_line) == (name, description, body, "")
    assert not (root / "x").exists()


EXAMPLES = """name: code-reviewer
description: Use this agent after code was written: it reviews. Examples:

<example>
Context: the user has written code
name: not this one
assistant: "I'll use the reviewer: now"
</example>
tools: *
model: sonnet
name: nor this one
and more"""


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        ("name: x\ndescription: Use it: often", {"name": "x", "description": "Use it: often"}),
        ("# c\nname: 'q'\ndescription: |\n  a: b\n bad", {"name": "q", "description": "a: b\nbad"}),
        ("tools: *", {"tools": "*"}), ('name: "\\ud800"', {"name": "\\ud800"}),
        ("name: a\nname: b", {"name": "a"}), ('a: "\\UFFFFFFFF"', {"a": "\\UFFFFFFFF"}),
    ],
)  # fmt: skip
def test_frontmatter_that_is_no_yaml_is_read_line_by_line_and_says_so(root, head, keys):
    put(root, "agents/r.md", headed(head))
    role = catalogue.read(root).role("r")
    assert (dict(role.keys), role.body) == (keys, "You work.")
    assert role.by_line


def test_examples_in_a_description_are_part_of_it_whatever_they_look_like(root):
    put(root, ".claude/agents/r.md", headed(EXAMPLES))
    role = catalogue.read(root).role("r")
    assert (role.name, role.keys["tools"], role.keys["model"]) == ("code-reviewer", "*", "sonnet")
    assert set(role.keys) == {"name", "description", "tools", "model"}
    assert role.description.startswith("Use this agent after code was written: it reviews.")
    assert "name: not this one" in role.description
    assert role.description.endswith("</example>")
    assert role.by_line.startswith("line 3: ")


def test_an_agent_of_codex_is_read_from_its_toml(root):
    text = 'name = "scout"\ndescription = "Looks."\nmodel = "m-1"\ndeveloper_instructions = """\nLook.\nTell.\n"""\n'
    put(root, ".codex/agents/look.toml", text + "when = 2026-01-02\nn = inf\nb = true\n[mcp_servers.x]\nport = 1\n")
    role = catalogue.read(root).role("look")
    assert (role.name, role.description, role.body) == ("scout", "Looks.", "Look.\nTell.")
    assert dict(role.keys) == {
        "name": "scout", "description": "Looks.", "model": "m-1", "when": "2026-01-02", "n": "inf", "b": True,
        "mcp_servers": {"x": {"port": 1}},
    }  # fmt: skip


# -- files that cannot be used -----------------------------------------------------------------------------------------

BOMBS = {
    "aliases": (headed("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"), "anchors or aliases"),
    "anchor": (headed("a: &a x"), "anchors or aliases"),
    "alias": (headed("a: *a"), "anchors or aliases"),
    "depth": (headed("a: " + "[" * 5000), "deeper than 16"),
    "nested": (headed("\n".join(" " * level + "a:" for level in range(100))), "deeper than 16"),
    "huge": (headed("a: " + "x" * (16 * 1024)), "16387 bytes; at most 16384"),
    "unclosed": ("---\nname: x\n\nBody", "a second line --- is missing"),
    "no keys": (headed("just a sentence"), "neither YAML nor lines"),
    "a list": (headed("- a\n- b"), "neither YAML nor lines"),
    "not UTF-8": (b"---\nname: \xff\n---\n", "is not UTF-8"),
    "UTF-16": ("name".encode("utf-16"), "is not UTF-8"),
    "NUL": ("a\0b", "NUL"),
    "too large": ("x" * (role_files.ROLE_MAX + 1), f"has {role_files.ROLE_MAX + 1} bytes"),
}
TOML_BOMBS = {
    "dotted": (".".join("a" * 30_000) + " = 1", "more than 20 parts"),  # half a minute for tomllib
    "table": ('["x"' + ' . "x"' * 10_000 + "]", "more than 20 parts"),
    "depth": ("a = " + "[" * 30_000, "RecursionError"),
    "deep": ("a = " + "[" * 30 + "]" * 30, "deeper than 16"),
    "digits": ("a = " + "9" * 60_000, "ValueError"),
    "hex digits": ("a = 0x" + "f" * 60_000, "ValueError"),
    "no TOML": ("---\nname: x\n---\n", "is not valid TOML: "),
    "no text": ("developer_instructions = 1", "no text"),
    "NUL": ('developer_instructions = "\\u0000"', "no text"),
}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [(".agents/roles/bad.md", *bomb) for bomb in BOMBS.values()]
    + [(".codex/agents/bad.toml", *bomb) for bomb in TOML_BOMBS.values()],
    ids=[*BOMBS, *(f"toml {name}" for name in TOML_BOMBS)],
)
def test_a_bad_file_is_named_with_its_reason_and_hides_no_other(root, name, text, why):
    put(root, name, text)
    put(root, "agents/good.md")
    found = catalogue.read(root)
    [bad] = found.broken
    assert (bad.id, bad.file) == ("bad", name)
    assert why in bad.reason
    assert set(own(found)) == {"good"}
    status, error = code(found.role, "bad")
    assert status == "bad_role"
    assert name in error.message
    assert code(catalogue.body, root, "bad")[0] == "bad_role"
    assert catalogue.body(root, "good") == "You work."


def test_a_broken_file_still_stands_before_farther_ones_of_its_id(root):
    put(root, ".agents/roles/architect.md", b"\xff")
    put(root, "agents/architect.md")
    found = catalogue.read(root)
    assert "architect" not in found.roles
    assert code(found.role, "architect")[0] == code(catalogue.body, root, "architect")[0] == "bad_role"
    assert len(found.shadowed) == 2


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "a directory"), (a_pipe, "no regular file"), (a_socket, "no regular file"),
        (lambda path: path.symlink_to("nowhere"), "cannot be read"),
        (lambda path: path.symlink_to(path.name), "cannot be read"),
        (lambda path: path.symlink_to("/etc/passwd"), "leads out of the project"),
        (lambda path: path.symlink_to("/dev/zero"), "leads out of the project"),
        (lambda path: path.symlink_to("../../../project-2.md"), "leads out of the project"),
    ],
    ids=["directory", "pipe", "socket", "nowhere", "loop", "out", "device", "beside"],
)  # fmt: skip
def test_what_is_no_file_of_the_project_is_broken_and_nothing_is_waited_for(root, make, said):
    put(root.parent, "project-2.md")
    (root / ".agents" / "roles").mkdir(parents=True)
    make(root / ".agents" / "roles" / "bad.md")
    [bad] = catalogue.read(root).broken
    assert (bad.id, bad.file) == ("bad", ".agents/roles/bad.md")
    assert said in bad.reason


def test_devices_and_endless_files_are_not_read_where_links_may_lead_anywhere(root, tmp_path):
    put(tmp_path, "given/good.md")
    for name in ("zero", "null", "stdin"):
        (tmp_path / "given" / f"{name}.md").symlink_to(f"/dev/{name}")
    with (tmp_path / "given" / "big.md").open("wb") as file:
        file.truncate(1 << 40)
    found = catalogue.read(root, str(tmp_path / "given"))
    assert set(found.roles) == {"good"}
    reasons = {one.id: one.reason for one in found.broken}
    assert reasons["zero"] == reasons["null"] == "cannot be read: it is no regular file"
    assert f"has {1 << 40} bytes" in reasons["big"]


def test_a_link_within_the_project_is_followed(root):
    put(root, "docs/tester.txt", "Test.")
    (root / ".agents" / "roles").mkdir(parents=True)
    (root / ".agents" / "roles" / "tester.md").symlink_to("../../docs/tester.txt")
    (root / ".claude").mkdir()
    (root / ".claude" / "agents").symlink_to("../.agents/roles")
    assert catalogue.read(root).role("tester").body == "Test."
    (root / "link").symlink_to(root)
    assert catalogue.read(root / "link").role("tester").body == "Test."


def test_a_name_that_is_not_utf8_is_broken_and_can_be_shown(root):
    put(root, "agents/good.md")
    put(root, os.fsdecode(b"agents/b\xff.md"))
    found = catalogue.read(root)
    assert found.broken == (BrokenRole("b\\xff", "agents/b\\xff.md", "has a name that is not UTF-8"),)
    assert set(own(found)) == {"good"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_what_may_not_be_read_is_said_and_an_unlisted_folder_may_hide_any_role(root):
    put(root, "agents/shut.md").chmod(0)
    [bad] = catalogue.read(root).broken
    assert bad == BrokenRole("shut", "agents/shut.md", "cannot be read: Permission denied")
    place = put(root, ".claude/agents/x.md").parent
    place.chmod(0)
    try:
        found = catalogue.read(root)
        assert BrokenRole("", ".claude/agents", "cannot be listed: Permission denied") in found.broken
        assert code(found.role, "x")[0] == code(catalogue.body, root, "x")[0] == "bad_role"
        assert found.role("architect").source == "shipped"
        assert code(catalogue.read, root, ".claude/agents")[0] == "bad_config"
    finally:
        place.chmod(0o700)


def test_a_folder_that_cannot_be_listed_may_hide_any_role(root, monkeypatch):
    put(root, ".claude/agents/x.md")
    listed = role_files.names

    def names(folder):
        if folder.label == ".claude/agents":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(role_files, "names", names)
    found = catalogue.read(root)
    assert found.broken == (BrokenRole("", ".claude/agents", "cannot be listed: Permission denied"),)
    assert code(found.role, "x")[0] == code(catalogue.body, root, "x")[0] == "bad_role"
    assert found.role("architect").source == "shipped"
    assert RoleLibrary(root).listing().broken == found.broken


def test_a_file_that_goes_while_the_folder_is_read_is_none(root, monkeypatch):
    put(root, "agents/there.md")
    listed = role_files.names
    monkeypatch.setattr(
        role_files, "names", lambda folder: [*listed(folder), *(["gone.md"] if folder.label == "agents" else [])]
    )
    found = catalogue.read(root)
    assert set(own(found)) == {"there"}
    assert found.broken == ()


HOSTILE = st.binary(max_size=400) | st.text(
    st.sampled_from("-:\n #&*[]{}!|>%@`\"'\\~?=.,\t\r\0aUxé<example>") | st.characters(), max_size=200
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


@settings(max_examples=300, deadline=None)
@given(HOSTILE, st.booleans(), st.booleans())
def test_any_bytes_make_a_role_or_a_broken_file_that_json_can_hold(scratch, content, as_toml, with_head):
    name = ".codex/agents/any.toml" if as_toml else "agents/any.md"
    other = "agents/any.md" if as_toml else ".codex/agents/any.toml"
    (scratch / other).unlink(missing_ok=True)
    put(scratch, name, b"---\n" + content + b"\n---\nBody" if with_head and not as_toml else content)
    found = catalogue.read(scratch)
    role = found.roles.get("any")
    assert (role is None) == bool(found.broken)
    if role is not None:
        said = [role.name, role.description, role.body, dict(role.keys), role.by_line]
        json.dumps(said, ensure_ascii=False, allow_nan=False).encode()
        assert "\0" not in role.body
        assert role.name
    lint.findings(found, [engine("claude", ".claude/agents")])


# -- models and approvals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "model", "for_claude", "for_codex"),
    [
        (".agents/roles", "m-1", "m-1", "m-1"), (".claude/agents", "opus", "opus", None),
        (".codex/agents", "gpt", None, "gpt"), ("agents", "m-1", None, None), ("shipped", "m-1", None, None),
        ("/home/u/.claude/agents", "opus", "opus", None), ("/x/my.claude/agents", "opus", None, None),
        (".agents/roles", "inherit", None, None), (".agents/roles", "", None, None), (".agents/roles", None, None, None),
        (".agents/roles", ["m"], None, None), (".agents/roles", "--yolo", None, None),
        (".agents/roles", "anthropic/claude-4.5:beta[1m]", "anthropic/claude-4.5:beta[1m]", "anthropic/claude-4.5:beta[1m]"),
    ],
)  # fmt: skip
def test_a_model_counts_for_the_cli_whose_folder_names_it_and_in_ours_for_all(source, model, for_claude, for_codex):
    role = Role("r", "r", "", "b", source, "f", {"model": model})
    assert role.model_for(engine("claude", ".claude/agents")) == for_claude
    assert role.model_for(engine("codex", ".codex/agents")) == for_codex
    if source != ".agents/roles":
        assert role.model_for(engine("cursor", "")) is None
        assert role.model_for(engine("shell", headless=False)) is None


@pytest.mark.parametrize("source", [".agents/roles", ".claude/agents", "agents", "shipped", "/x/.agents/roles"])
@pytest.mark.parametrize(
    ("said", "counts"), [("ask", "ask"), ("edits", "edits"), ("all", "all"), ("yes", None), (True, None)]
)
def test_only_our_own_folder_may_say_what_needs_no_approval(source, said, counts):
    role = Role("r", "r", "", "b", source, "f", {"approval": said}, allowed=True)
    assert role.approval == (counts if source == ".agents/roles" else None)
    foreign = replace(role, allowed=False)
    assert foreign.approval == ("ask" if source == ".agents/roles" and said == "ask" else None)
    withheld = source == ".agents/roles" and counts in ("edits", "all")
    assert foreign.withheld == (("approval",) if withheld else ())


# -- lint --------------------------------------------------------------------------------------------------------------


def test_lint_says_of_every_key_which_engines_take_no_notice_of_it(root):
    put(
        root,
        ".claude/agents/a.md",
        headed("name: a\ndescription: d\nmodel: opus\ntools: Read\ncolor:\napproval: all"),
    )
    put(root, ".agents/roles/b.md", headed("description: d\nmodel: m\napproval: all"))
    put(root, "agents/c.md", headed("description: d\nmodel: m"))
    put(root, "agents/d.md", headed("description: d\nmodel: inherit"))
    engines = [engine("claude", ".claude/agents"), engine("codex", ".codex/agents"), engine("shell", headless=False)]
    found = lint.findings(catalogue.read(root), engines)
    assert [(one.role, one.key, one.engines) for one in found if one.kind == "ignored"] == [
        ("c", "model", ("claude", "codex")), ("a", "model", ("codex",)), ("a", "tools", ("claude", "codex")),
        ("a", "approval", ("claude", "codex")),
    ]  # fmt: skip
    assert [one.message for one in found if one.kind == "ignored"][:2] == [
        "sets model, which is ignored by every engine", "sets model, which is ignored by codex",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "toolsets"),
    [
        ("agents/r.md", headed("toolsets: [gsd]"), ("gsd",)),
        ("agents/r.md", headed("toolsets: gsd"), ("gsd",)),
        ("agents/r.md", headed("toolsets:\n  - gsd\n  - gsd"), ("gsd",)),
        ("agents/r.md", headed("description: no: YAML\ntoolsets: ['gsd']"), ("gsd",)),
        (".codex/agents/r.toml", 'toolsets = ["gsd"]\ndeveloper_instructions = "x"', ("gsd",)),
        (".agents/roles/r.md", headed("toolsets: [team, gsd, squad]"), ("gsd",)),
        (".agents/roles/r.md", headed("toolsets: [team]"), ()),
        (".agents/roles/r.md", headed("toolsets: {gsd: 1}"), ()),
        (".agents/roles/r.md", headed("toolsets: [[gsd]]"), ()),
        (".agents/roles/r.md", headed("toolsets: GSD"), ()),
        (".agents/roles/r.md", headed("toolsets:"), ()),
        (".agents/roles/r.md", "You work.", ()),
    ],
)
def test_toolsets_are_heeded_in_every_folder_and_only_those_that_read(root, name, text, toolsets):
    put(root, name, text)
    assert catalogue.read(root).role("r").toolsets == toolsets


@pytest.mark.parametrize(
    ("said", "odd"),
    [
        ("[gsd]", None), ("gsd", None), ("", None), ("[]", None),
        ("[team, gsd]", "'team'"), ("squad, agent", "'squad', 'agent'"), ("{gsd: 1}", "no names"), ("[[gsd]]", "no names"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", [".agents/roles", ".claude/agents"])
def test_lint_tells_of_toolsets_that_no_agent_is_given_and_never_calls_the_key_ignored(root, folder, said, odd):
    put(root, f"{folder}/r.md", headed(f"description: d\ntoolsets: {said}"))
    found = lint.findings(catalogue.read(root), [engine("claude", ".claude/agents")])
    assert [(one.kind, one.key) for one in found] == ([("odd", "toolsets")] if odd else [])
    assert not odd or f"no agent gets: {odd}; those it can get: gsd" in found[0].message


def test_lint_names_what_is_broken_odd_empty_shadowed_and_read_line_by_line(root):
    put(root, ".agents/roles/bad.md", b"\xff")
    put(root, ".agents/roles/odd.md", headed("name: [x]\ndescription: d\nmodel: --all\napproval: sometimes"))
    put(root, ".agents/roles/empty.md", headed("description: d: e", ""))
    put(root, ".agents/roles/raised.md", headed("description: d\napproval: all"))
    put(root, "agents/odd.md")
    put(root, "agents/mute.md")
    found = [(one.kind, one.role, one.key) for one in lint.findings(catalogue.read(root), [engine("claude")])]
    assert found == [
        ("broken", "bad", ""), ("by_line", "empty", ""), ("empty", "empty", ""), ("odd", "odd", "name"),
        ("odd", "odd", "model"), ("odd", "odd", "approval"), ("untrusted", "raised", "approval"),
        ("odd", "mute", "description"), ("shadowed", "odd", ""),
    ]  # fmt: skip


def test_lint_has_nothing_to_say_of_what_ships(root):
    assert lint.findings(catalogue.read(root), [engine("claude", ".claude/agents")]) == []


@pytest.mark.parametrize(
    ("env", "directory", "warns"),
    [
        ({}, "", False), ({"AGENTS_DIRECTORY_PATH": "a"}, "a", False), ({"SQUAD_AGENTS_DIR": "b"}, "b", False),
        ({"AGENTS_DIRECTORY_PATH": "a", "SQUAD_AGENTS_DIR": "b"}, "a", True),
        ({"AGENTS_DIRECTORY_PATH": "a", "SQUAD_AGENTS_DIR": "a"}, "a", False),
        ({"AGENTS_DIRECTORY_PATH": "", "SQUAD_AGENTS_DIR": "b"}, "b", False),
    ],
)  # fmt: skip
def test_the_canonical_variable_wins_and_a_difference_is_said(env, directory, warns):
    found, warning = catalogue.directory_of(env)
    assert (found, bool(warning)) == (directory, warns)


# -- the library -------------------------------------------------------------------------------------------------------


class Later:
    """A clock for which everything on the disk happened long ago, or just now."""

    def __init__(self, by=timedelta(hours=1)):
        self.by = by

    def now(self):
        return datetime.now(UTC) + self.by


def test_the_library_reads_once_and_again_after_every_kind_of_change(root, monkeypatch):
    path = put(root, "agents/a.md", "one")
    other = put(root, "agents/b.txt", "two")
    reads = []
    read = catalogue.read
    monkeypatch.setattr(catalogue, "read", lambda *args: reads.append(args) or read(*args))
    library = RoleLibrary(root, Later())

    def seen(role_id="a"):
        """The body now; asked twice, and read at most once for that."""
        before = len(reads)
        first = library.listing()
        assert library.listing() is first
        assert len(reads) <= before + 1
        return first.roles[role_id].body if role_id in first.roles else None

    assert seen() == "one"
    assert len(reads) == 1
    stamp = path.stat()
    path.write_text("two")  # of the same size, and with its old times
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert seen() == "two"
    put(root, "agents/new.md", "three").replace(path)
    assert seen() == "three"
    path.unlink()
    assert seen() is None
    path.symlink_to("b.txt")
    assert seen() == "two"
    other.write_text("four")
    assert seen() == "four"
    put(root, ".agents/roles/a.md", "nearer")
    assert seen() == "nearer"
    (root / ".agents").rename(root / ".gone")
    assert seen() == "four"
    assert seen("architect")


def test_a_change_too_fast_for_the_file_systems_clock_is_seen(root, monkeypatch):
    path = put(root, "agents/a.md", "one")
    library = RoleLibrary(root, Later(timedelta(0)))
    stamp = role_files.fingerprint(role_files.folders(root))
    monkeypatch.setattr(role_files, "fingerprint", lambda _: stamp)
    assert library.listing().role("a").body == "one"
    path.write_text("two")
    assert library.listing().role("a").body == "two"


def test_the_library_keeps_the_directories_last_asked_for_and_refuses_one_that_is_gone(root):
    library = RoleLibrary(root, Later())
    for at in range(20):
        put(root, f"given-{at}/r{at}.md")
        assert set(library.listing(f"given-{at}").roles) == {f"r{at}"}
    assert len(library._kept) == 16
    assert "given-19" in library._kept
    (root / "given-19").rename(root / "gone")
    assert code(library.listing, "given-19")[0] == "bad_config"


@pytest.mark.anyio
async def test_watching_tells_each_newly_broken_file_once_wherever_it_comes_up(root):
    library = RoleLibrary(root)
    told = asyncio.Queue()
    put(root, "given/good.md")
    library.listing("given")
    before = sorted(os.walk(root))
    task = asyncio.create_task(library.watch(told.put_nowait))
    try:
        async with asyncio.timeout(60):
            await asyncio.to_thread(lambda: None)  # the watch has begun, without any of the project's folders
            assert sorted(os.walk(root)) == before, "watching must not litter"
            put(root, ".agents/roles/a.md", b"\xff")
            assert (await told.get()).file == ".agents/roles/a.md"
            put(root, ".agents/roles/b.md", "---\nname: x")
            assert (await told.get()).id == "b"
            put(root, ".agents/roles/a.md", "Good again.")
            put(root, ".agents/roles/c.md", b"\xff")
            assert (await told.get()).id == "c"
            put(root, ".agents/roles/a.md", b"\xff")
            assert (await told.get()).id == "a"
            put(root, "given/d.md", b"\xff")
            assert (await told.get()).file == "given/d.md"
            put(root, "later/e.md", b"\xff")
            library.listing("later")
            assert (await told.get()).file == "later/e.md"
            (root / "given").rename(root / "gone")
            gone = await told.get()
            assert (gone.file, gone.id) == ("given", "")
            assert told.empty()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.anyio
@pytest.mark.parametrize("refusal", [OSError(28, "No space left on device"), ImportError("Too many open files")])
async def test_watching_goes_on_where_the_kernel_grants_no_watches_or_no_library(root, monkeypatch, refusal):
    import watchfiles

    def refused(*_, **__):
        raise refusal

    monkeypatch.setattr(watchfiles, "awatch", refused)
    told = asyncio.Queue()
    task = asyncio.create_task(RoleLibrary(root).watch(told.put_nowait))
    try:
        async with asyncio.timeout(60):
            put(root, "agents/a.md", b"\xff")
            assert (await told.get()).id == "a"
            put(root, "agents/b.md", b"\xff")
            assert (await told.get()).id == "b"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_heads_alone_take_hostile_text_too():
    with pytest.raises(heads.UnusableRole):
        heads.markdown("---\n")
    assert heads.markdown("----\nx").body == "----\nx"
