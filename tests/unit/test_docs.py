"""The documentation against the code: nothing undocumented, no dead link, no example that would be refused."""

import json
import re
import shlex
import tomllib
from typing import get_args

import pytest
from pydantic import TypeAdapter

from orchestrator.base.errors import CODES, EXIT_CODES
from orchestrator.cli import command_groups
from orchestrator.config import sources
from orchestrator.config.keys import KEYS, Config, env_name
from orchestrator.core import record_types, records
from orchestrator.core.inbox_items import InboxItem, ItemKind
from orchestrator.core.notices import Notice
from orchestrator.edge.project_location import PER_CONNECTION, VERSION
from orchestrator.engines.table import ENGINES
from orchestrator.gsd import spawn_prompts, uris
from orchestrator.journal.log_lines import encode
from orchestrator.spawn import event_resource
from orchestrator.team.roster.team_file import TeamFile
from orchestrator.team.team_prompts import PROMPTS
from orchestrator.team.team_resources import TEMPLATES
from orchestrator.worker.shell_command import read_payload
from tests.support.page_blocks import command_lines
from tools import docs

ROOT = docs.ROOT
PAGES = docs.pages()
TOOLS = {**docs.master(), **docs.squad(), **docs.smartspawn(), **docs.gsd(), **docs.agent()}
COMMANDS = dict(docs.commands())
GROUPS = {name: command_groups.loaded(name) for name in command_groups.COMMANDS}
STATUSES = (
    "starting", "idle", "parked", "busy", "blocked", "stalled", "exited", "stopping", "failed", "deleted", "unknown",
)  # fmt: skip

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
OURS = ("orchestrator/", "tests/", "docs/", "tools/", "prompts/", "benchmarks/", ".agents-schema/", ".ci/")


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


each_page = pytest.mark.parametrize("page", PAGES, ids=names(PAGES))


def read(name):
    return (ROOT / name).read_text("utf-8")


def blocks(page, language):
    return [text for kind, text in FENCE.findall(page.read_text("utf-8")) if kind == language]


def prose(page):
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page):
    """The anchors of a page's headings, as Git hosts make them."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


# -- what repeats the code ------------------------------------------------------------------------------------------


def test_generated_parts_are_current():
    assert names(docs.stale()) == [], "run: python tools/docs.py"


def test_every_generated_part_stands_in_a_page():
    used = {name for page in PAGES for _, name, _ in docs.BLOCK.findall(page.read_text("utf-8"))}
    assert used == set(docs.PARTS)


def test_a_page_that_is_not_current_is_noticed(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: prompts -->\nold\n<!-- /generated -->\n")
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "pages", lambda: [page])
    assert docs.main(["--check"]) == 1
    assert docs.main([]) == 0
    assert "lead_team" in page.read_text()
    assert docs.main(["--check"]) == 0


# -- nothing undocumented -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_is_documented_with_its_options(path):
    _, _, rest = read("docs/reference/cli.md").partition(f"\n## {' '.join(path)}\n")
    section = rest.partition("\n## ")[0]
    assert section
    if path not in docs.OWN_USAGE:
        shown = [name for one in COMMANDS[path].params if not getattr(one, "hidden", False) for name in one.opts]
        assert [name for name in shown if name.startswith("-") and name not in section] == []
        assert "Example:" in section


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_is_documented_with_its_arguments(name):
    _, _, rest = read("docs/reference/tools.md").partition(f"\n### {name}\n")
    section = rest.partition("\n### ")[0].partition("\n## ")[0]
    assert [key for key in TOOLS[name].listed.input_schema["properties"] if f"| `{key}` |" not in section] == []


@pytest.mark.parametrize("page", ["docs/resent-calls.md", "docs/trust.md"])
def test_every_tool_has_its_place_in_the_tables_of_promises(page):
    rows = "\n".join(line for line in read(page).splitlines() if line.startswith("|"))
    wanted = (
        TOOLS
        if page == "docs/resent-calls.md"
        else {name: tool for name, tool in TOOLS.items() if name not in docs.agent()}
    )
    assert [name for name in wanted if f"`{name}`" not in rows] == []


def test_every_resource_and_prompt_is_documented():
    text = read("docs/reference/tools.md")
    assert [
        uri for uri, *_ in (*TEMPLATES, event_resource.TEMPLATE, *uris.ROWS, *uris.FORMS) if f"`{uri}`" not in text
    ] == []
    assert [name for name in (*PROMPTS, *spawn_prompts.PROMPTS) if f"`{name}`" not in text] == []


def test_every_error_code_and_exit_status_is_documented():
    text = read("docs/reference/errors.md")
    assert [name for name in CODES if f"| `{name}` |" not in text] == []
    assert [kind for kind, status in EXIT_CODES.items() if f"{kind.kind}: exit {status}" not in text] == []


def test_every_setting_engine_and_variable_is_documented():
    text = read("docs/reference/config.md")
    assert [key for key in KEYS if f"| `{key}` |" not in text or f"`{env_name(key)}`" not in text] == []
    assert [name for name in (*ENGINES, *PER_CONNECTION) if f"`{name}`" not in text] == []


def test_every_record_type_is_documented():
    text = read("docs/reference/files.md")
    heads = {name for head in re.findall(r"^#### (.+)$", text, re.MULTILINE) for name in head.split(", ")}
    assert heads == record_types.INBOX_TYPES | record_types.OUTBOX_TYPES


def test_every_key_and_kind_of_an_item_is_documented():
    page = read("docs/approvals.md")
    _, _, table = page.partition("| key of an item |")
    cells = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()[2:]]
    keys = InboxItem("", "error", "", "", "").as_dict()
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(keys)
    assert [kind for kind in get_args(ItemKind) if f"`{kind}`" not in page] == []


def test_every_status_is_explained():
    text = read("docs/lifecycle.md")
    assert [name for name in STATUSES if f"`{name}`" not in text] == []


def test_the_changelog_knows_this_version_or_what_comes():
    assert re.search(rf"^## \[(Unreleased|{re.escape(VERSION)})\]", read("CHANGELOG.md"), re.MULTILINE)


# -- links, paths, hosts --------------------------------------------------------------------------------------------


@each_page
def test_links_lead_somewhere(page):
    dead = []
    for target in LINK.findall(prose(page)):
        place, _, anchor = target.partition("#")
        found = (page.parent / place).resolve() if place else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            dead.append(target)
    assert dead == []


@each_page
def test_files_that_are_named_exist(page):
    dead = []
    for text in CODE.findall(prose(page)):
        name = text.split()[-1] if text.startswith("python ") else text
        if name.startswith(OURS) and not any(mark in name for mark in "<*$ "):
            dead += [] if (ROOT / name).exists() else [name]
    # The user's own files may be called anything; `orchestrator/config.toml` is one below ~/.config.
    assert [name for name in dead if name != "orchestrator/config.toml"] == []


@each_page
def test_make_targets_that_are_named_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.MULTILINE))
    commands = "\n".join([*CODE.findall(prose(page)), *blocks(page, "sh")])
    assert set(re.findall(r"\bmake ([a-z0-9-]+)", commands)) <= targets


@each_page
def test_no_host_and_no_path_of_a_machine_is_named(page):
    assert re.findall(r"https?://\S+|/(?:home|root|Users|work|mnt)/\S*", page.read_text("utf-8")) == []


# -- examples -------------------------------------------------------------------------------------------------------


@each_page
def test_json_examples_parse_and_records_fit_their_models(page):
    found = [json.loads(text) for text in blocks(page, "json")]
    found += [json.loads(line) for text in blocks(page, "jsonl") for line in text.splitlines()]
    for example in found:
        if "seq" in example:
            inbox = example["type"] in record_types.INBOX_TYPES
            model = records.BROADCAST if "ref" in example else records.INBOX if inbox else records.OUTBOX
            model.validate_python(example)
            draft = {key: value for key, value in example.items() if key not in ("v", "seq", "crc")}
            assert encode(draft, example["seq"])[0]["crc"] == example["crc"]
        elif "command" in example:
            read_payload(example, ROOT, ROOT)
        elif "notices" in example:
            assert [set(notice) for notice in example["notices"]] == [{*Notice._fields, "link"}]
        elif "mcpServers" in example:
            assert example["mcpServers"]["orchestrator"]["trust"] is False
        else:
            allowed = example["permissions"]["allow"]
            tools = [TOOLS[name.removeprefix("mcp__orchestrator__")] for name in allowed]
            assert not any(tool.destructive for tool in tools)


@each_page
def test_toml_examples_are_settings_that_load_or_registrations_of_known_tools(page):
    for text in blocks(page, "toml"):
        found = tomllib.loads(text)
        if "mcp_servers" in found:
            assert set(found["mcp_servers"]["orchestrator"].get("enabled_tools", ())) <= set(TOOLS)
        elif "agents" in found:
            TeamFile.model_validate(found)
        else:
            Config.model_validate(dict(sources._flat(found)))


@each_page
def test_commands_in_examples_exist_with_their_options(page):
    wrong = []
    for line in "\n".join(blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["orchestrator"]:
            path = next((words[1 : n + 1] for n in (1, 2) if tuple(words[1 : n + 1]) in COMMANDS), None)
            known = {name for one in COMMANDS[tuple(path)].params for name in one.opts} if path else set()
            if path is None or {word for word in words if word.startswith("-")} - known - {"--help"}:
                wrong.append(line)
    for text in CODE.findall(prose(page)):
        words = text.split()
        if words[0] == "orchestrator" and len(words) > 1 and words[1] in GROUPS:
            inner = getattr(GROUPS[words[1]], "commands", None)
            if inner is not None and len(words) > 2 and words[2] not in inner:
                wrong.append(text)
        elif words[0] == "orchestrator" and len(words) > 1 and words[1].isalpha():
            wrong.append(text)
    assert wrong == []


@each_page
def test_tool_calls_in_examples_would_be_accepted(page):
    for line in "\n".join(blocks(page, "text")).splitlines():
        name, brace, rest = line.partition(" {")
        if name in TOOLS and brace:
            TypeAdapter(TOOLS[name].arguments).validate_json("{" + rest)


def outline(page):
    """What two languages of a page must have in common, in order, section by section."""
    sections = re.split(r"^(?=#+ )", page.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return [
        {
            "heading": re.match(r"#+ (?:\d+\.)?", section)[0],
            "blocks": FENCE.findall(section),
            "rows": [len(re.findall(r"(?<!\\)\|", line)) for line in section.splitlines() if line.startswith("|")],
            "links": sorted(
                f"{(page.parent / place).resolve()}#{anchor}"
                for place, _, anchor in (target.partition("#") for target in LINK.findall(FENCE.sub("", section)))
            ),
            "words": sorted(set(CODE.findall(FENCE.sub("", section)))),
        }
        for section in sections
    ]


def test_both_quickstarts_have_the_same_sections_commands_rows_links_and_words_of_code():
    english, korean = outline(ROOT / "docs/quickstart.md"), outline(ROOT / "docs/ko/quickstart.md")
    assert [one["heading"] for one in english] == [one["heading"] for one in korean]
    for one, other in zip(english, korean, strict=True):
        assert one == other
    assert all(any(one[key] for one in english) for key in ("blocks", "rows", "links", "words"))


def test_the_worked_example_of_the_readme_is_the_tutorials():
    lines = [shlex.split(line, comments=True)[1:] for line in blocks(ROOT / "README.md", "console")[0].splitlines()]
    tutorial = [shlex.split(line) for line in command_lines("".join(blocks(ROOT / "docs/tutorial.md", "sh")))]
    assert [line for line in lines if line not in tutorial] == []
    assert len(lines) == 9


def test_the_readme_begins_with_the_two_commands():
    first = FENCE.search(read("README.md"))
    assert [line.split("#")[0].strip() for line in first[2].splitlines()] == ["make demo", "make test"]
