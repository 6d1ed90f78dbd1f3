"""What a person does about the chosen agent: answer it, go to its pane, give it work, cancel, restart."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from orchestrator.base.errors import OrchestratorError
from orchestrator.faces.pane_jump import attach_command, switches
from orchestrator.faces.shell_hints import in_the_shell
from orchestrator.faces.top.foreground import in_foreground
from orchestrator.faces.top.item_texts import DONE, given_text, item_for, item_lines, why_not
from orchestrator.faces.top.key_bindings import ACTIONS, KeyAction, keys_of
from orchestrator.faces.top.tab_lines import shown_line
from orchestrator.faces.top.top_dialogs import Choice, DialogField, ListDialog, TextDialog
from orchestrator.faces.top.top_face import TopFace
from orchestrator.faces.top.way_back import (
    Origin,
    bind_command,
    facts_command,
    listen_words,
    origin_of,
    table_of,
)

EXACT = "id:"
"""Before an agent's id on the command line: this agent, whatever the names of others."""
LATER = "prefix ; (a pane), prefix l (a window), prefix L (a session)"
LATER_ATTACHED = "prefix d"


class AgentActions:
    """The actions about the chosen agent, for a screen."""

    face: TopFace
    bindings: Mapping[str, KeyAction]
    draft = ("", "", "")
    """Text, title and files of a task that could not be queued, for the next attempt."""

    def _chosen_agent(self: Any) -> dict[str, Any] | None:
        row: dict[str, Any] | None = self.row
        if row is None:
            self.say("choose an agent first: j, k", "yellow")
        return row

    def _still_at(self: Any, agent_id: str) -> bool:
        """Whether this agent's row is still chosen. A late dialog must not take keys meant for something else."""
        return self.app.screen is self and self.prompt is None and (self.row or {}).get("agent_id") == agent_id

    # -- answers ----------------------------------------------------------------------------------------------------

    def do_approve(self) -> None:
        """Approve once, after the whole text was shown."""
        self._decide("approve", "approve it, once")

    def do_always(self) -> None:
        """Approve, now and later."""
        self._decide("always", "approve it, and make a rule for exactly this in this project")

    def do_deny(self) -> None:
        """Deny, with a reason that the agent reads."""
        self._decide("deny", "deny it", DialogField("reason for the agent; may be empty"))

    def do_release(self) -> None:
        """Let the CLI ask in its own pane."""
        self._decide("release", "let its CLI show its own dialog")

    def do_dismiss(self) -> None:
        """Dismiss an item."""
        self._decide("dismiss", "dismiss it from the inbox")

    def do_answer(self) -> None:
        """Answer a question."""
        self._decide("answer", "answer it")

    def _decide(self: Any, decision: str, does: str, *fields: DialogField) -> None:
        row, snapshot = self._chosen_agent(), self.face.snapshot
        if row is None or snapshot is None:
            return
        name = self.agent_name
        if not snapshot["live"]:
            self.say("no daemon answers, so nothing can be answered from here", "yellow")
            return
        item = item_for(snapshot["inbox"], row, decision)
        if item is None:
            questions = item_for(snapshot["inbox"], row, "answer") if decision == "approve" else None
            if questions is not None:
                self.do_answer()
            else:
                self.say(why_not(snapshot["inbox"], row, decision, name), "yellow")
            return
        if decision == "answer":
            asked = item.get("questions") or [{}]
            label = "an option's number or label, or your own words"
            fields = tuple(
                DialogField(f"{number}. {label}" if len(asked) > 1 else label) for number in range(1, len(asked) + 1)
            )
        title = f"{shown_line(name)} {item['kind']}"

        def done(values: list[str] | None) -> None:
            if values is None:
                return
            text = given_text(item, values) if decision == "answer" else "".join(values)

            def answered(_: Any) -> None:
                self.say(f"{name}: {DONE[decision]}: {item['text']}", "green")

            def refused(error: OrchestratorError) -> None:
                self.say(f"{name}: {error.message}", "bold red")

            self.face.in_thread(lambda: self.face.requests.answer(item["id"], decision, text), answered, refused)

        self.app.push_screen(TextDialog(title, item_lines(item), fields, does=does, item=item["id"]), done)

    # -- its pane ---------------------------------------------------------------------------------------------------

    def do_pane(self: Any) -> None:
        """Go to the agent's pane, zoomed; Esc, as the first key there, comes back."""
        row = self._chosen_agent()
        if row is None:
            return
        name = self.agent_name

        def refused(error: OrchestratorError) -> None:
            step = in_the_shell(error.next_step, error.code)
            self.say(f"{name}: {error.message}" + (f"; {step}" if step else ""), "yellow")

        def find(asked: dict[str, Any]) -> tuple[dict[str, Any], Origin]:
            pane = self.face.requests.ask("orchestrator/pane", asked)
            socket, pane_id = str(pane["tmux_socket"]), str(pane["tmux_pane_id"])
            here = switches(socket, os.environ.get("TMUX", ""))
            code, output = self.face.requests.run_quietly(facts_command(socket, pane_id, here=here))
            return pane, origin_of("" if code else output)

        def go(where: tuple[dict[str, Any], Origin]) -> None:
            pane, origin = where
            if not self._still_at(row["agent_id"]):
                return
            socket, pane_id = str(pane["tmux_socket"]), str(pane["tmux_pane_id"])
            inside = os.environ.get("TMUX", "")
            here = switches(socket, inside)
            command = attach_command(socket, pane_id, inside=inside)
            command += listen_words(origin, LATER if here else LATER_ATTACHED)
            bind = bind_command(socket, pane_id, origin, self.face.popup)
            self.face.key_tables.add((socket, table_of(origin)))

            def move() -> tuple[int, str]:
                self.face.requests.run_quietly(bind)
                return (0, "") if not here else self.face.requests.run_quietly(command)

            def went(answer: tuple[int, str]) -> None:
                if not here:
                    self._in_front(command, f"back from {name}")
                elif answer[0]:
                    self.say(f"{name}: tmux: {answer[1]}", "red")
                elif self.face.popup:
                    self.face.key_tables.clear()  # Esc opens the popup again
                    self.app.exit()

            self.face.in_thread(move, went, refused)

        asked = {"agent_id": row["agent_id"]}
        self.face.in_thread(lambda: find(asked), go, refused)

    def _in_front(self: Any, command: list[str], after: str, *, pause: bool = False) -> None:
        """Give the terminal to a program, and take it back at its end."""
        try:
            with self.app.suspend():
                code = in_foreground(command, self.face.root, pause=pause)
        except SuspendNotSupported:
            self.say("this terminal cannot be given to another program", "yellow")
            return
        except OSError as error:
            self.say(f"{command[0]}: {error.strerror}", "red")
            return
        self.say(after if not code else f"{after} (exit {code})")
        self.refresh()

    # -- its work ---------------------------------------------------------------------------------------------------

    def do_task(self: Any) -> None:
        """Queue a task for the agent."""
        row = self._chosen_agent()
        if row is None:
            return
        words = "the command" if row["engine"] == "shell" else "what to do"
        draft, self.draft = self.draft, ("", "", "")
        fields = (
            DialogField(words, draft[0], multiline=True),
            DialogField("short title; may be empty", draft[1]),
            DialogField("files to attach, as on a command line; may be empty", draft[2]),
        )
        agent_id, name = str(row["agent_id"]), self.agent_name

        def done(values: list[str] | None) -> None:
            if values is None:
                return
            text, title, files = values
            if not text.strip():
                self.say("no words were given; nothing was queued", "yellow")
                return
            try:
                paths = [str(Path(path).expanduser().absolute()) for path in shlex.split(files)]
            except ValueError as error:
                self.draft = (text, title, files)
                self.say(f"nothing was queued: {files!r} is not a list of files: {error}{self._words_kept()}", "red")
                return
            attach = [word for path in paths for word in ("--attach", path)]
            about = [f"--title={title.strip()}"] if title.strip() else []
            words = ("task", "add", EXACT + agent_id, "--file", "-", *about, *attach)
            self._run(*words, stdin=text, draft=(text, title, files))

        self.app.push_screen(TextDialog(f"new task for {shown_line(name)}", [], fields, does="queue it"), done)

    def do_cancel(self: Any) -> None:
        """Cancel a task of the agent: the running one, or one that is chosen."""
        row = self._chosen_agent()
        if row is None:
            return
        agent_id, name = str(row["agent_id"]), self.agent_name

        def confirm(task_id: str, title: str) -> None:
            def done(values: list[str] | None) -> None:
                if values is not None:
                    self._run("task", "cancel", EXACT + agent_id, task_id)

            lines = [shown_line(title), f"task {task_id}"]
            self.app.push_screen(TextDialog(f"cancel a task of {shown_line(name)}", lines, does="cancel it"), done)

        def choose(meta: dict[str, Any]) -> None:
            if not self._still_at(agent_id):
                return
            tasks = meta.get("tasks") or []
            if not tasks:
                self.say(f"{name} has no unfinished task", "yellow")
            elif len(tasks) == 1:
                confirm(str(tasks[0]["task_id"]), str(tasks[0]["title"]))
            else:
                choices = [Choice(str(t["task_id"]), shown_line(str(t["title"])), str(t["state"])) for t in tasks]
                titles = {choice.value: choice.name for choice in choices}

                def chosen(answer: tuple[str, str] | None) -> None:
                    if answer is not None:
                        confirm(answer[0], titles[answer[0]])

                self.app.push_screen(ListDialog("which task?", choices, does="choose it"), chosen)

        self.face.in_thread(lambda: self.face.requests.meta(agent_id), choose, lambda e: self.say(e.message, "red"))

    def do_restart(self: Any) -> None:
        """Restart the agent's CLI, after a question."""
        row = self._chosen_agent()
        if row is None:
            return
        agent_id = str(row["agent_id"])
        lines = [
            "Its CLI is ended and started again. Its queue stays.",
            "Its running task is delivered again, or fails.",
        ]

        def done(values: list[str] | None) -> None:
            if values is not None:
                self._run("agent", "restart", EXACT + agent_id)

        self.app.push_screen(TextDialog(f"restart {shown_line(self.agent_name)}", lines, does="restart it"), done)

    def _words_kept(self: Any) -> str:
        return f"; {keys_of('task', self.bindings)[0]} shows your text again"

    def _run(self: Any, *words: str, stdin: str = "", draft: tuple[str, str, str] | None = None) -> None:
        """Run one of our commands in a thread and show its output. ``draft``: the typed text, kept on failure."""
        self.say("…", "dim")

        def done(answer: tuple[int, str]) -> None:
            code, text = answer
            if code and draft is not None:
                self.draft = draft
                text += self._words_kept()
            self.say(shown_line(text.replace("\n", "; ")) or "done", "red" if code else "green")

        self.face.in_thread(
            lambda: self.face.requests.command(*words, stdin=stdin),
            done,
            lambda error: self.say(error.message, "red"),
        )

    # -- help and palette -------------------------------------------------------------------------------------------

    def do_help(self: Any) -> None:
        """All keys; Enter does what is chosen."""
        self._pick("keys", self._key_choices())

    def do_palette(self: Any) -> None:
        """Everything by its name: the actions, and the commands of the command line."""
        commands = [Choice(f"!{words}", words, says) for words, says in self.face.commands]
        self._pick("command", [*self._key_choices(), *commands], completes=True)

    def _key_choices(self: Any) -> list[Choice]:
        return [
            Choice(action.name, " ".join(keys_of(action.name, self.bindings)), f"{action.name}: {action.says}")
            for action in ACTIONS
        ]

    def _pick(self: Any, title: str, choices: list[Choice], *, completes: bool = False) -> None:
        def chosen(answer: tuple[str, str] | None) -> None:
            if answer is None:
                return
            value, typed = answer
            words = value.removeprefix("!") if value.startswith("!") else ""
            if typed.strip() and not value:
                words = typed.strip()
            if not words:
                self.do(value)
                return
            self._command(typed.strip() if typed.strip().startswith(words) else words)

        dialog = ListDialog(
            title, choices, does="do it; Tab completes" if completes else "do it", completes=completes
        )
        self.app.push_screen(dialog, chosen)

    def _command(self: Any, line: str) -> None:
        try:
            words = shlex.split(line.removeprefix("orchestrator "))
        except ValueError as error:
            self.say(f"{line!r} is not a command line: {error}", "red")
            return
        self._in_front(self.face.requests.command_line(*words), f"orchestrator {shown_line(line)}", pause=True)
