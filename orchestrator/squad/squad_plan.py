"""Plan what each squad member runs: its prompt, directory and commands. All plans are complete before any spawn.

Reads only its arguments and whether programs and directories exist; starts nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.engines.definition import Headless, HeadlessRun, RunRecord
from orchestrator.engines.table import ENGINES
from orchestrator.journal.project_files import confine
from orchestrator.roles.catalogue import Role
from orchestrator.squad import member_command, member_prompt, squad_files
from orchestrator.squad.command_template import Template
from orchestrator.squad.squad_settings import SquadSettings
from orchestrator.trust.untrusted_settings import untrusted

CHAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""A chat's id: it becomes a word on a command line, and must never look like an option."""
BESIDE_BYTES = 64
"""Room for what stands beside a prompt in its word: --prompt=."""
_PROGRAMS = ", ".join(sorted(row.program for row in ENGINES.values() if row.headless))
NO_ENGINE = f"set ENGINE ({_PROGRAMS}), or RUN_TEMPLATE_PATH; see docs/squads.md"


@dataclass(frozen=True)
class MemberRequest:
    """One member as the caller requested it."""

    role_id: str
    task: str
    cwd: str | None = None
    chat_id: str | None = None
    visible: bool = False


@dataclass(frozen=True)
class MemberCommand:
    """One command of a member, and what comes on its standard input; None: nothing."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str | None = None


@dataclass(frozen=True)
class PlanInputs:
    """What all members of a call share: the project, the environment, the user's settings."""

    root: Path
    settings: SquadSettings
    env: Mapping[str, str]
    approval: str = "ask"
    trust: bool = False


@dataclass(frozen=True)
class MemberPlan:
    """One member's commands. ``place`` is its directory below the squad's."""

    member_id: str
    request: MemberRequest
    role: Role
    cwd: Path
    prompt: str
    place: Path
    inputs: PlanInputs
    uuid: str
    program: str = ""  # the first word of what it runs

    @property
    def new_chat(self) -> bool:
        """Whether a chat begins with this run."""
        return self.inputs.settings.stateful and self.request.chat_id is None

    @property
    def prompt_file(self) -> Path:
        return self.place / squad_files.PROMPT

    def creation(self) -> tuple[str, MemberCommand | None]:
        """How a new chat gets its id: the id itself, or the command that prints it; neither: the run prints it."""
        settings, headless = self.inputs.settings, self._headless()
        if settings.create is not None:
            return "", self._rendered(settings.create, "")
        if headless is None:
            self._refuse_untrusted()
            raise BadRequest(
                "bad_config",
                "STATE_MODE is stateful, but no setting defines how to start a chat",
                "set CREATE_CHAT_TEMPLATE_PATH, or ENGINE",
            )
        if headless.chats == "chosen":
            return self.uuid, None
        if headless.chats == "created":
            return "", MemberCommand(self._own(headless.create), {})
        return "", None

    def run(self, chat: str) -> MemberCommand:
        """The command that answers the prompt, in the chat with that id if there is one."""
        settings, row = self.inputs.settings, self.inputs.settings.row
        if settings.run is not None:
            return self._rendered(settings.run, chat)
        if row is None or row.headless is None:
            self._refuse_untrusted()
            if settings.engine_command:
                message = f"ENGINE_COMMAND is {settings.engine_command!r}, and no preset knows how it is called"
                raise BadRequest("bad_config", message, "set RUN_TEMPLATE_PATH, or ENGINE")
            raise BadRequest("bad_config", "no setting names the CLI that runs squad members", NO_ENGINE)
        chats = row.headless.chats
        begins = self.new_chat and (chats == "chosen" or (chats == "printed" and settings.create is None))
        once = HeadlessRun(
            prompt=self.prompt,
            cwd=str(self.cwd),
            session=(chat or self.uuid) if begins else "",
            chat="" if begins else chat,
            approval=self.role.approval or self.inputs.approval,
            trust=self.inputs.trust,
            model=self.role.model_for(row),
            env=self.inputs.env,
        )
        # Some take it as a part of a word.
        room = member_command.MAX_WORD_BYTES - BESIDE_BYTES
        long = len(os.fsencode(self.prompt)) > room and row.headless.long_prompt == "stdin"
        ran = row.headless.run(replace(once, stdin=long))
        argv = self._own(ran.argv)
        member_command.check_sizes(argv)
        return MemberCommand(argv, ran.env, ran.stdin)

    def chat_id_from(self, stdout: str, stderr: str) -> str:
        """The id of the chat that a run started, from its output; "" if it is not there."""
        headless = self._headless()
        if headless is None or headless.printed_chat_id is None:
            return ""
        return headless.printed_chat_id(stdout, stderr)

    def beginning(self) -> tuple[Path, RunRecord | None]:
        """The place in which this member must begin undisturbed, and the record of it; see `Headless`."""
        settings, headless = self.inputs.settings, self._headless()
        if settings.run is None and headless is not None:
            if headless.opening is not None:
                record = headless.opening(self.inputs.env)
                return Path(record.folder), record
            if headless.record is not None and settings.stateful:
                return self.cwd, headless.record(self.inputs.env, self.request.chat_id or self.uuid)
        return self.cwd, None

    def _headless(self) -> Headless | None:
        row = self.inputs.settings.row
        return row.headless if row is not None else None

    def _refuse_untrusted(self) -> None:
        """Nothing else says what to run; where the project's template would, it is for the user to allow it."""
        if self.inputs.settings.withheld:
            raise untrusted(dict.fromkeys(self.inputs.settings.withheld, ("template",)))

    def _own(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """A preset's words, with ENGINE_COMMAND in the place of its program."""
        own = shlex.split(self.inputs.settings.engine_command)
        return (*own, *argv[1:]) if own else argv

    def _rendered(self, template: Template, chat: str) -> MemberCommand:
        row = self.inputs.settings.row
        values = {
            "prompt": self.prompt,
            "chatId": chat,
            "cwd": str(self.cwd),
            "roleId": self.request.role_id,
            "task": self.request.task,
            "promptFile": str(self.prompt_file),
            "generatedUuid": self.uuid,
            "model": (self.role.model_for(row) if row is not None else None) or "",
        }
        if self.new_chat:
            values["newChat"] = "true"
        rendered = member_command.render(
            template,
            {name: value for name, value in values.items() if value},
            engine_command=self.inputs.settings.engine_command,
            bash=shutil.which("bash", path=self.inputs.env.get("PATH")),
        )
        member_command.check_sizes(rendered.argv)
        return MemberCommand(rendered.argv, {}, self.prompt if rendered.stdin else None)


def make(inputs: PlanInputs, request: MemberRequest, role: Role, member_id: str, place: Path) -> MemberPlan:
    """The plan of one member. BadRequest, or Environment ``engine_missing``: nothing has been spawned then."""
    cwd = confine(inputs.root, request.cwd or ".", what="cwd")
    if not cwd.is_dir():
        raise BadRequest("bad_argument", f"cwd {request.cwd!r} is not a directory")
    if request.chat_id is not None and not CHAT.fullmatch(request.chat_id):
        raise BadRequest("bad_id", f"chatId {request.chat_id[:80]!r} must match {CHAT.pattern}")
    if not inputs.settings.stateful:
        text = member_prompt.stateless(role.body, request.task)
    elif request.chat_id is None:
        text = member_prompt.new_chat(role.body, request.task)
    else:
        text = member_prompt.existing_chat(request.task)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest("bad_argument", "the task contains a lone surrogate, which is not valid Unicode") from None
    if "\0" in text:
        raise BadRequest("bad_argument", "the task or the role contains a NUL byte")
    plan = MemberPlan(member_id, request, role, cwd, text, place, inputs, str(uuid.uuid4()))
    chat = request.chat_id or ""
    if plan.new_chat:
        chat, create = plan.creation()
        if create is not None:
            _check_program(create, plan)
            chat = plan.uuid  # of the same form as the one that will be printed
    run = plan.run(chat)
    _check_program(run, plan)
    return replace(plan, program=run.argv[0])


def _check_program(command: MemberCommand, plan: MemberPlan) -> None:
    program = command.argv[0]
    if "/" in program:
        there = os.access(plan.cwd / program, os.X_OK) and not (plan.cwd / program).is_dir()
    else:
        there = shutil.which(program, path={**plan.inputs.env, **command.env}.get("PATH", os.defpath)) is not None
    if not there:
        raise Environment("engine_missing", f"the squad's program {program} was not found")
