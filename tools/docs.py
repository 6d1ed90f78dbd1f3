"""Writes the parts of README.md and docs/ that repeat the code, so that they cannot differ from it.

``python tools/docs.py`` writes them, ``--check`` only says which pages are not current (exit 1). A page holds
``<!-- generated: NAME -->`` ... ``<!-- /generated -->``; what stands between is a function of ``PARTS``. The pictures
of docs/pictures/ are drawn by the code that draws spawn runs. It touches no other file, and needs no daemon.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import itertools
import re
import shlex
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
from pydantic import BaseModel

from orchestrator.base.errors import CODES, EXIT_CODES, BadRequest, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.cli import command_groups
from orchestrator.cli.app import app
from orchestrator.config.keys import Config, class_of, env_name, unit
from orchestrator.core import decisions, file_models, record_types, records, state, supervision
from orchestrator.edge import launch_stub, relay, request_limits
from orchestrator.edge.project_location import PER_CONNECTION
from orchestrator.engines.definition import Engine, Headless, HeadlessRun, Launch
from orchestrator.engines.table import ENGINES
from orchestrator.gsd import spawn_prompts, uris
from orchestrator.gsd import tools as gsd_tools
from orchestrator.journal.log_lines import encode
from orchestrator.journal.project_files import Paths
from orchestrator.protocol.tool_calls import Tool
from orchestrator.protocol.traffic import MAX_OPEN
from orchestrator.spawn import event_resource, run_picture
from orchestrator.spawn import tools as spawn_tools
from orchestrator.spawn.modes.mode_names import SpawnModeName
from orchestrator.squad import tools as squad_tools
from orchestrator.team import agent_tools
from orchestrator.team import tools as team_tools
from orchestrator.team.life.agent_plan import POLICIES
from orchestrator.team.roster.agent_views import full_of, row_of
from orchestrator.team.roster.broadcast import digest
from orchestrator.team.team_prompts import PROMPTS
from orchestrator.team.team_resources import TEMPLATES

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
WIDTH = 92
ARGV_SHOWN = 300  # a longer word of a command line is a prompt or a settings text
# `launch` and `mcp` are answered before the command line is loaded, by a usage text of their own.
OWN_USAGE = {("mcp",): relay.USAGE, ("launch",): launch_stub.USAGE}


def pages() -> list[Path]:
    """Every Markdown page of the documentation."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or " "


def code(text: object) -> str:
    return f"`{text}`"


# -- JSON Schema as tables ------------------------------------------------------------------------------------------


def kind_of(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    """The type of a value in a few words."""
    schema = resolved(schema, defs)
    if "anyOf" in schema:
        return " or ".join(kind_of(one, defs) for one in schema["anyOf"])
    if "const" in schema:
        return code(orjson.dumps(schema["const"]).decode())
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"])
    told = schema.get("type", "any JSON")
    kind = " or ".join(told) if isinstance(told, list) else str(told)
    if kind == "array":
        kind = "list of " + kind_of(schema.get("items", {}), defs)
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = "object of " + kind_of(schema["additionalProperties"], defs)
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        kind += f", above {schema['exclusiveMinimum']:g}" + (f" to {high:g}" if high is not None else "")
    elif low is not None:
        kind += f", {low} to {high}" if high is not None else f", at least {low}"
    low, high = schema.get("minLength", schema.get("minItems")), schema.get("maxLength", schema.get("maxItems"))
    if high is not None:
        what = "items" if "maxItems" in schema else "characters"
        kind += f", {low} to {high} {what}" if low else f", at most {high} {what}"
    return kind


def resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {**defs[schema["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema


@functools.cache
def meanings(owner: type[BaseModel]) -> dict[str, str]:
    """What the string under each field of a model says, its bases included: a meaning that stays off the wire."""
    found: dict[str, str] = {}
    for one in reversed(owner.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
            for field, below in itertools.pairwise(typing.cast("ast.ClassDef", body).body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        words = " ".join(text.split()).removesuffix(".")
                        found[name] = words[0].lower() + words[1:]
    return found


def inner(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's type holds, where it holds one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(inner, typing.get_args(annotation))), None)


def rows_of(
    schema: dict[str, Any], defs: dict[str, Any], owner: type[BaseModel] | None, prefix: str = ""
) -> Iterator[list[str]]:
    """One row per key: name, type, required or default, meaning; nested keys as ``task.payload``."""
    fields = {field.alias or name: (name, field) for name, field in owner.model_fields.items()} if owner else {}
    for key, given in schema.get("properties", {}).items():
        one = resolved(given, defs)
        if key in schema.get("required", ()):
            need = "yes"
        else:
            need = f"no, {code(orjson.dumps(one['default']).decode())}" if one.get("default") is not None else "no"
        name, field = fields.get(key, (key, None))
        meaning = given.get("description") or (meanings(owner).get(name, "") if owner else "")
        below = inner(field.annotation) if field else None
        yield [code(prefix + key), kind_of(one, defs), need, meaning]
        items = resolved(one.get("items", {}), defs)
        if "properties" in one and "$ref" not in given:
            yield from rows_of(one, defs, below, f"{prefix}{key}.")
        elif "properties" in items:
            yield from rows_of(items, defs, below, f"{prefix}{key}[].")


def keys(owner: type[BaseModel], schema: dict[str, Any] | None = None, without: frozenset[str] = frozenset()) -> str:
    """The keys of a model, as its schema, or the one that is given, shows them."""
    schema = owner.model_json_schema() if schema is None else schema
    own = {**schema, "properties": {k: v for k, v in schema["properties"].items() if k not in without}}
    rows = list(rows_of(own, schema.get("$defs", {}), owner))
    return table(["key", "type", "required", "meaning"], rows) if rows else "No keys of its own."


# -- tools, resources, prompts --------------------------------------------------------------------------------------


_UNSET = SimpleNamespace(config=Config)
"""A roster of which only the settings are looked at: their defaults."""


def master() -> dict[str, Tool]:
    # The table is built over a supervisor that only a call would use.
    return team_tools.build(SimpleNamespace(roster=_UNSET), None)  # type: ignore[arg-type]


def agent() -> dict[str, Tool]:
    """An agent's own tools; nothing of them runs here."""
    return agent_tools.build(_UNSET)  # type: ignore[arg-type]


def squad() -> dict[str, Tool]:
    """The squad toolset of a stateful connection: the other one lacks ``chatId``."""
    return squad_tools.build(None, "stateful")  # type: ignore[arg-type]


def smartspawn() -> dict[str, Tool]:
    """The toolset of spawn runs."""
    return spawn_tools.build(spawn_tools.SpawnToolDeps(None, None, None))  # type: ignore[arg-type]


def gsd() -> dict[str, Tool]:
    """The toolset of project intelligence."""
    return gsd_tools.build(None)  # type: ignore[arg-type]


def tools(rows: dict[str, Tool]) -> str:
    out = []
    for tool in rows.values():
        listed = tool.listed.model_dump(by_alias=True, exclude_none=True)
        hints = listed["annotations"]
        marks = ", ".join(
            f"{name} {str(hints[name]).lower()}"
            for name in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        )
        out += [f"### {tool.name}", f"*{tool.title}.* {tool.description}", f"Annotations: {marks}."]
        if listed.get("_meta"):
            out.append(f"`_meta`: `{orjson.dumps(listed['_meta']).decode()}`")
        out += ["Arguments:", keys(tool.arguments, listed["inputSchema"])]
        out += ["Answer:", keys(tool.answer, listed["outputSchema"])]
    return "\n\n".join(out)


ONLY_LIVE = ("window_id", "pid", "last_call_at")


def agent_keys() -> str:
    """What a row of agent_list and the meta of agent_get hold, from the functions that make them."""
    agent = state.Agent("a")
    row = row_of(agent, ("idle", ""), None, 0)
    told = {name: one.description or "" for name, one in file_models.Meta.model_fields.items()}
    told |= meanings(file_models.Meta)
    meta = [*full_of(agent, ("idle", ""), None, 0, Paths(ROOT)), *ONLY_LIVE]
    return table(
        ["key", "agent_list", "agent_get", "meaning"],
        [[code(key), "yes" if key in row else "", "yes", told[key]] for key in meta],
    )


def resources() -> str:
    return table(
        ["URI", "name", "type", "what"],
        [
            [code(uri), name, mime, about]
            for uri, name, mime, about in (*TEMPLATES, event_resource.TEMPLATE, *uris.ROWS, *uris.FORMS)
        ],
    )


def prompts() -> str:
    return table(
        ["prompt", "what"], [[code(name), about] for name, about in (PROMPTS | spawn_prompts.PROMPTS).items()]
    )


# -- the command line -----------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be run, with its path."""
    for name in command_groups.COMMANDS:
        one = command_groups.loaded(name)
        if hasattr(one, "commands"):
            yield from (((name, inner), command) for inner, command in one.commands.items())
        else:
            yield (name,), one


def help_of(path: tuple[str, ...]) -> str:
    if path in OWN_USAGE:
        return OWN_USAGE[path].strip()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        app([*path, "--help"], prog_name="orchestrator", standalone_mode=False, terminal_width=WIDTH)
    return out.getvalue().strip()


def cli() -> str:
    parts = [f"```text\n{help_of(())}\n```"]
    parts += [f"## {' '.join(path)}\n\n```text\n{help_of(path)}\n```" for path, _ in commands()]
    return "\n\n".join(parts)


# -- files ----------------------------------------------------------------------------------------------------------


def variants(union: Any) -> list[type[Any]]:
    """The models of a discriminated union."""
    return list(typing.get_args(typing.get_args(union)[0]))


# Shown once, above the records.
COMMON = frozenset({"v", "seq", "at", "type", "epoch", "by", "req", "crc"})


def record_tables(union: Any) -> str:
    out = []
    for model in variants(union):
        names = typing.get_args(model.model_fields["type"].annotation)
        about = " ".join((model.__doc__ or "").split())
        out += [f"#### {', '.join(names)}", about, keys(model, without=COMMON)]
    return "\n\n".join(out)


def common_keys() -> str:
    model = variants(records.OutboxRecord)[1]
    schema = model.model_json_schema()
    shown = {name: schema["properties"][name] for name in ("v", "seq", "at", "type", "epoch", "by", "req", "crc")}
    shown["type"] = {"type": "string"}
    return keys(model, {**schema, "properties": shown})


def example_records() -> dict[str, list[dict[str, Any]]]:
    """A short life, made by the code that makes every life: an inbox, an outbox and a broadcast."""
    agent, logs = state.Agent("builder"), {"inbox": [], "outbox": [], "broadcast": []}
    seconds = iter(range(60))

    def at() -> str:
        return f"2026-01-02T03:04:{next(seconds):02d}.000Z"

    def add(drafts: list[record_types.Draft]) -> None:
        for draft in drafts:
            log = logs[draft.log]
            record, line = encode(draft.fields, len(log) + 1)
            log.append(orjson.loads(line))
            state.apply(agent, draft.log, record)
            if draft.log == "outbox" and draft.type in record_types.BROADCAST_TYPES:
                told = logs["broadcast"]
                told.append(orjson.loads(encode(digest(agent.agent_id, record), len(told) + 1)[1]))

    spec = {
        "name": "Builder",
        "role": "runs the builds",
        "engine": "shell",
        "run_id": "run-20260102-030400-a1b2c3",
        "cwd": "/srv/shop",
        "policies": {name: Config.model_fields[name].default for name in POLICIES},
        "env_names": [],
    }
    limits, job = decisions.QueueLimits(), {"command": "make test"}
    add([supervision.starting("builder", at=at(), req="9f2c51d07be3a846:3", spec=spec)])
    add(decisions.ready(agent, at=at(), req=None))
    asked = decisions.enqueue(
        agent, task_id="t-1", payload=job, stored=None, limits=limits, req="9f2c51d07be3a846:4", at=at()
    )
    add(asked.drafts)
    add(
        list(
            decisions.next_command(
                agent, visible_inbox=1, waited_s=0, handed_out=0, limits=limits, at=at(), req="c:9"
            ).drafts
        )
    )
    for kind, payload in (("ack", None), ("result", {"exit_code": 0})):
        told = decisions.emit(agent, kind=kind, task_id="t-1", payload=payload, done=None, req="c:10", at=at())
        add(told.drafts)
    return logs


def example(log: str) -> Callable[[], str]:
    def part() -> str:
        lines = [orjson.dumps(record).decode() for record in example_records()[log]]
        return "```jsonl\n" + "\n".join(lines) + "\n```"

    return part


# -- errors, configuration, lifecycle, layout -----------------------------------------------------------------------


def limits_of_requests() -> str:
    bounds = request_limits
    rows = [
        [
            "size of a message",
            f"{bounds.MAX_LINE >> 20} MiB in one line",
            code(bounds.INVALID_REQUEST),
        ],
        [
            "nesting",
            f"{bounds.MAX_DEPTH} objects and arrays, the message included",
            code(bounds.INVALID_REQUEST),
        ],
        [
            "id",
            f"a string of at most {bounds.MAX_ID} whole characters, or an integer of {bounds.ID_BITS} bits",
            code(bounds.INVALID_REQUEST),
        ],
        ["`params`", "an object, null, or absent", code(bounds.INVALID_PARAMS)],
        ["an integer", f"{bounds.MAX_DIGITS} digits", code(bounds.PARSE_ERROR)],
        ["unanswered requests of one connection", f"{MAX_OPEN}; more are read after an answer", "none"],
    ]
    return table(["what", "limit", "error"], rows)


def errors() -> str:
    out = []
    for child in OrchestratorError.__subclasses__():
        rows = [[code(name), about, step] for name, (owner, about, step) in CODES.items() if owner is child]
        out += [f"## {child.kind}: exit {EXIT_CODES[child]}", (child.__doc__ or "").strip()]
        out.append(table(["code", "what it means", "next step"], rows))
    return "\n\n".join(out)


FROM_A_PROJECT = {"harmless": "counts", "acting": "once allowed", "own": "never"}


def config() -> str:
    properties = Config.model_json_schema()["properties"]
    rows = []
    for name, field in Config.model_fields.items():
        default = code(_toml(field.default))
        rows.append(
            [
                code(name),
                default,
                kind_of(properties[name], {}),
                unit(name),
                code(env_name(name)),
                FROM_A_PROJECT[class_of(name)],
                field.description or "",
            ]
        )
    return table(["key", "default", "values", "unit", "variable", "in a project", "meaning"], rows)


def config_example() -> str:
    lines = [f"{name} = {_toml(field.default)}" for name, field in Config.model_fields.items()]
    return "```toml\n" + "\n".join(lines) + "\n```"


def _toml(value: Any) -> str:
    return orjson.dumps(value).decode()  # the scalars in use look the same in both


def per_connection() -> str:
    return "\n".join(f"- `{name}`" for name in PER_CONNECTION)


def engines() -> str:
    rows = [
        [code(row.name), row.program or "part of orchestrator", f"{row.tool_limit_s:g}", row.about]
        for row in ENGINES.values()
    ]
    return table(["engine", "program", "longest tool call, s", "what"], rows)


EXAMPLE = Launch(
    agent_id="unit",
    role="tester",
    epoch=1,
    project="/srv/shop",
    cwd="/srv/shop",
    engine_dir="/srv/shop/.agents/agents/unit/engine",
    rules="<rules>",
    first="<first message>",
    again="<wake message>",
    session="<session id>",
    own=("orchestrator",),
    mcp=("orchestrator", "mcp", "--agent", "--project", "/srv/shop"),
    hook=("python3", "-IS", "<installation>/orchestrator/hook.py"),
    env={"HOME": "/srv"},
    model="<model>",
    command=("mycli", "--mcp", "{mcp}", "--prompt-file", "{prompt_file}"),
)
WAKES = {
    "hook": "its turn-end hook waits for the daemon",
    "plugin": "our plugin inside the CLI",
    "no": "not at all: it asks again and again",
}


def engine_rows() -> str:
    """One section per row: what it is, how it is launched, what it cannot do; all from the row itself."""
    return "\n\n".join(engine_row(row) for row in ENGINES.values())


def engine_row(row: Engine) -> str:
    kinds = list(dict.fromkeys(pattern.kind for pattern in row.patterns))
    facts = [
        ["program", code(row.program) if row.program else "none of its own"],
        [
            "tested",
            ", ".join(row.tested_versions) or ("yes" if row.tested else "**no**: from its documentation only"),
        ],
        ["idle agents are woken by", WAKES[row.parks]],
        ["one tool call may last", f"{row.tool_limit_s:g} s"],
        ["goes on with its session after a restart", "yes" if row.resumes else "no"],
        ["takes a model", "yes" if row.models else "no"],
        ["silence explained", ", ".join(code(kind) for kind in kinds) or "no"],
    ]
    wishes = {"model": EXAMPLE.model if row.models else None}
    shipped = dict.fromkeys(row.ships, "…")
    made = row.prepare(replace(EXAMPLE, shipped=shipped, **wishes))
    parts = [f"### `{row.name}`", row.about[:1].upper() + row.about[1:] + ".", table(["", ""], facts)]
    argv = " ".join(shlex.quote(word) if len(word) <= ARGV_SHOWN else "'…'" for word in made.argv)
    parts.append(f"Launched as:\n\n```text\n{argv}\n```")
    if made.env:
        parts.append("with the variables " + ", ".join(code(name) for name in made.env) + " added")
    if made.files or made.links:
        names = ", ".join(code(name) for name in (*made.files, *made.links))
        parts.append(f"and these files in the agent's `engine/`: {names}")
    if row.headless is not None:
        once = HeadlessRun(prompt="<prompt>", cwd=EXAMPLE.cwd)
        parts.append("In a squad:\n\n```text\n" + "\n".join(_squad_lines(row.headless, once)) + "\n```")
    if row.limits:
        parts.append("Limits:\n\n" + "\n".join(f"- {sentence}" for sentence in row.limits))
    return "\n\n".join(parts)


def diagram(edges: dict[tuple[str, str], str], first: str, ends: frozenset[str], start: str) -> str:
    """A Mermaid state diagram: one arrow per pair of states, labelled with its records."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, record), after in edges.items():
        arrows.setdefault((before, after), []).append(record)
    lines = [f"    [*] --> {first}: {start}"]
    lines += [f"    {a} --> {b}: {', '.join(labels)}" for (a, b), labels in arrows.items() if a != "new"]
    lines += [f"    {end} --> [*]" for end in sorted(ends)]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```"


def task_life() -> str:
    return diagram(state.TASK_EDGES, "queued", TERMINAL, "task (inbox)")


def agent_life() -> str:
    return diagram(state.LIFE_EDGES, "starting", frozenset({"deleted"}), "starting")


CHATS = ("4f1c2a90-6d0e-4a8b-9a57-0c4a3c1f7f10", "ses_4f1c2a906d0e4a8b9a570c4a3c")


def _squad_lines(headless: Headless, once: HeadlessRun) -> list[str]:
    """A member's command: without a chat, with a new one, and going on with it."""
    lines = [shlex.join(headless.create)] if headless.create else []
    for chat in CHATS:
        with contextlib.suppress(BadRequest):  # the ids of another CLI
            begun = replace(once, session=chat) if headless.chats == "chosen" else once
            runs = [headless.run(one).argv for one in (once, begun, replace(once, chat=chat))]
            return lines + [shlex.join(argv).replace(chat, "<chat id>") for argv in dict.fromkeys(runs)]
    raise AssertionError("no id of a chat fits the row")


def layout() -> str:
    """Every module with the first sentence of its docstring: its one job."""
    rows = []
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        if doc:  # package files are empty on purpose
            first = doc.split("\n\n")[0].replace("\n", " ")
            rows.append([code(path.relative_to(ROOT)), first.replace("``", "`")])
    return table(["file", "its one job"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "master-tools": lambda: tools(master()),
    "squad-tools": lambda: tools(squad()),
    "smartspawn-tools": lambda: tools(smartspawn()),
    "gsd-tools": lambda: tools(gsd()),
    "agent-tools": lambda: tools(agent()),
    "agent-keys": agent_keys,
    "resources": resources,
    "prompts": prompts,
    "cli": cli,
    "common-keys": common_keys,
    "inbox-records": lambda: record_tables(records.InboxRecord),
    "outbox-records": lambda: record_tables(records.OutboxRecord),
    "broadcast-records": partial(keys, records.BroadcastRecord),
    "inbox-example": example("inbox"),
    "outbox-example": example("outbox"),
    "broadcast-example": example("broadcast"),
    "meta-keys": partial(keys, file_models.Meta),
    "run-keys": partial(keys, file_models.RunFile),
    "launch-keys": partial(keys, file_models.LaunchFile),
    "squad-keys": partial(keys, file_models.SquadFile),
    "request-limits": limits_of_requests,
    "errors": errors,
    "config": config,
    "config-example": config_example,
    "per-connection": per_connection,
    "engines": engines,
    "engine-rows": engine_rows,
    "task-life": task_life,
    "agent-life": agent_life,
    "layout": layout,
}


def current(text: str) -> str:
    """The page's text with every generated block made anew; KeyError names an unknown block."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", text)


def pictures() -> dict[Path, str]:
    """The drawings that pages show: the graph of each mode of spawn runs."""
    modes = typing.get_args(SpawnModeName)
    return {
        ROOT / "docs" / "pictures" / f"{mode}.svg": run_picture.svg(run_picture.mode_picture(mode)) for mode in modes
    }


def stale() -> dict[Path, str]:
    """The pages and pictures that are not current, with what they should say."""
    drawn = pictures()
    found = {file: drawn[file] for file in drawn if not file.exists() or file.read_text("utf-8") != drawn[file]}
    for page in pages():
        text = page.read_text("utf-8")
        wanted = current(text)
        if wanted != text:
            found[page] = wanted
    return found


def main(arguments: list[str]) -> int:
    """Write the pages and pictures that are not current, or with ``--check`` name them; the exit status."""
    if arguments not in ([], ["--check"]):
        print("Usage: python tools/docs.py [--check]", file=sys.stderr)
        return 2
    found = stale()
    for page, wanted in found.items():
        name = page.relative_to(ROOT)
        if arguments:
            print(f"{name} is not current; run: python tools/docs.py", file=sys.stderr)
        else:
            page.parent.mkdir(exist_ok=True, parents=True)
            page.write_text(wanted, "utf-8")
            print(f"wrote {name}")
    return 1 if arguments and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
