"""What each tab of an agent shows, as lines. Reads files and asks git and the daemon; called in threads only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.core.attention import said
from orchestrator.faces.changed_files import guessed_changes
from orchestrator.faces.output_files import end_of, newest_output
from orchestrator.faces.payload_text import block
from orchestrator.faces.shell_hints import in_the_shell
from orchestrator.faces.task_lines import task_lines
from orchestrator.faces.top.tab_lines import TabLine, shown_line, without_secrets
from orchestrator.faces.top.top_face import PeopleRequester

LOG_LINES = 5000
MOST_LINES = 20_000
"""Lines of one tab; the rest is named and not drawn."""
LINE_MOST = 20_000
RUNS_COMMANDS = "shell"
_DIFF_STYLE = {"+": "green", "-": "red", "@": "cyan"}


class TabReader:
    """Reads the tabs of one project's agents. ``row`` is a row of the snapshot."""

    def __init__(self, root: Path, requests: PeopleRequester, *, ascii_only: bool = False) -> None:
        self._root = root
        self._requests = requests
        self._ascii = ascii_only
        self._ways: dict[str, Callable[[dict[str, Any]], list[TabLine]]] = {
            "screen": self._screen,
            "task": self._task,
            "result": self._result,
            "log": self._log,
            "diff": self._diff,
            "records": self._records,
        }

    def read(self, tab: str, row: dict[str, Any]) -> list[TabLine]:
        """The lines of a tab; what went wrong is a line too."""
        try:
            lines = self._ways[tab](row)
        except OrchestratorError as error:
            lines = [error.message, *filter(None, [in_the_shell(error.next_step, error.code)])]
        except OSError as error:
            lines = [f"{error.filename or 'a file'}: {error.strerror}"]
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES} more lines"]
        shown = [_bounded(shown_line(line)) if isinstance(line, str) else line for line in lines]
        return without_secrets(shown) or [[("nothing yet", "dim")]]

    def _screen(self, row: dict[str, Any]) -> list[TabLine]:
        lines = self._requests.screen(str(row["agent_id"]))
        while lines and not lines[-1].strip():
            lines.pop()
        return list(lines)

    def _task(self, row: dict[str, Any]) -> list[TabLine]:
        task_id = row.get("running_task_id") or (row.get("last_task") or {}).get("task_id")
        if not task_id:
            return [[("no task yet", "dim")]]
        return [*task_lines(self._history(row, str(task_id)), self._root, ascii_only=self._ascii)]

    def _result(self, row: dict[str, Any]) -> list[TabLine]:
        last = row.get("last_task") or {}
        if not last:
            return [[("no task has ended yet", "dim")]]
        task = self._history(row, str(last["task_id"]))
        head = f"{task['state']}: {task['title']} ({task['task_id']})"
        return [[(head, "bold")], *(block(task["result"]) if task["result"] is not None else ["without a payload"])]

    def _history(self, row: dict[str, Any], task_id: str) -> dict[str, Any]:
        from orchestrator.team.roster import task_views  # noqa: PLC0415  (loads the log readers)

        return task_views.task_of(self._root, str(row["agent_id"]), task_id)

    def _log(self, row: dict[str, Any]) -> list[TabLine]:
        meta = self._requests.meta(str(row["agent_id"]))
        if meta["engine"] == RUNS_COMMANDS:
            file = newest_output(Path(meta["paths"]["artifacts"]), str(row.get("running_task_id") or ""))
            return [*end_of(file, LOG_LINES)] if file is not None else []
        from orchestrator.team.recovery import explanation  # noqa: PLC0415  (loads the log readers)

        files = explanation.files_of(self._root, meta)
        lines: list[TabLine] = [[(f"{name}: {path}", "dim")] for name, path in files.items()]
        with contextlib.suppress(OrchestratorError):  # without a daemon or a pane its kept screen is all there is
            lines += self._requests.screen(str(row["agent_id"]), LOG_LINES)
        return lines

    def _diff(self, row: dict[str, Any]) -> list[TabLine]:
        from orchestrator.team.worktrees import changes  # noqa: PLC0415  (loads the git commands)

        try:
            change = changes.diff(self._root, str(row["agent_id"]))
        except BadRequest as error:
            if error.code != "no_worktree":
                raise
            return self._guessed(row)
        gone = "its worktree is gone: this shows the commits of its branch; uncommitted changes are lost"
        lines: list[TabLine] = [[(gone, "yellow")]] if change.gone else []
        lines += [[(f"new file, not added yet: {name}", "yellow")] for name in change.untracked]
        for text in change.text.decode("utf-8", "replace").removesuffix("\n").split("\n") if change.text else ():
            style = "bold" if text.startswith(("+++", "---", "diff ")) else _DIFF_STYLE.get(text[:1], "")
            lines.append([(shown_line(text.expandtabs(8)), style)])
        if change.cut:
            lines.append("the diff is longer than can be shown; see git diff in the worktree")
        return lines if change.text or change.untracked else [*lines, [("no changes", "dim")]]

    def _guessed(self, row: dict[str, Any]) -> list[TabLine]:
        guess = guessed_changes(self._root, row)
        head: list[TabLine] = [[(guess.says, "yellow")]]
        return [*head, [("none", "dim")]] if guess.files == [] else [*head, *(guess.files or [])]

    def _records(self, row: dict[str, Any]) -> list[TabLine]:
        from orchestrator.team.recovery import explanation  # noqa: PLC0415  (loads the log readers)

        why = explanation.of_agent(self._root, self._requests.meta(str(row["agent_id"])))
        lines: list[TabLine] = [[(shown_line(said(why["state"], why["reason"])), "bold")]]
        for proof in why["evidence"]:
            file = Path(proof["file"])
            shown = file.relative_to(self._root) if file.is_relative_to(self._root) else file
            says = f"  {proof['says']}" if proof["says"] else ""
            lines.append(f"{shown}:{proof['line']}  seq {proof['seq']}  {proof['at']}  {proof['type']}{says}")
        lines += [f"{name} {path}" for name, path in (why.get("files") or {}).items()]
        if why.get("next"):
            lines.append(str(why["next"]))
        return lines


def _bounded(line: str) -> str:
    return line if len(line) <= LINE_MOST else f"{line[:LINE_MOST]}… {len(line) - LINE_MOST} more characters"
