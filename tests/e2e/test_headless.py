"""The headless runs of the engines table with the real CLIs: their words alone, without a daemon."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from orchestrator.engines.definition import Headless, HeadlessRun
from orchestrator.engines.table import ENGINES
from tests.e2e import other_user
from tests.e2e.models.oneshot import prompts
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import START_S, World
from tests.support.stage import until

Done = subprocess.CompletedProcess[str]
AWKWARD = "{head} --help\r\n\t'one' \"two\" $HOME $(ls) `ls` {{env:HOME}} \\n \\ %s <b> é😀\u202e @nobody/here\n\n  # end \n"
# opencode needs ten seconds of processor time for each start, Gemini CLI three; what squads do with each of the four,
# test_squads.py runs every time.
QUICK = [pytest.param(kind, marks=[pytest.mark.slow] if kind in ("opencode", "gemini") else []) for kind in KINDS]
EDIT: dict[Kind, tuple[str, dict[str, Any]]] = {
    "claude": ("Write", {"file_path": "{file}", "content": "x\n"}),
    "codex": ("exec_command", {"cmd": "echo x > {file}"}),
    "gemini": ("write_file", {"file_path": "{file}", "content": "x\n"}),
    "opencode": ("write", {"filePath": "{file}", "content": "x\n"}),
}


def headless(kind: Kind) -> Headless:
    found = ENGINES[kind].headless
    assert found is not None
    return found


def run(world: World, kind: Kind, prompt: str, **wishes: Any) -> Done:
    """One run as a squad's member would be run."""
    made = headless(kind).run(HeadlessRun(prompt, str(world.root), env=world.env, **wishes))
    return world.run(*made.argv, given=made.stdin, **made.env)


def script(**parts: Any) -> str:
    return f"Please do this.\nSCRIPT: {json.dumps(parts)}\nThank you."


def begin(world: World, kind: Kind, prompt: str) -> tuple[str, Done]:
    """A new chat: its id, and its first run."""
    session = str(uuid.uuid4())
    done = run(world, kind, prompt, session=session)
    told = headless(kind).printed_chat_id
    return told(done.stdout, done.stderr) if told else session, done


@pytest.mark.parametrize("kind", QUICK)
def test_two_runs_at_once_answer_with_the_models_words_and_keep_nothing_of_each_other(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    world.used_before(kind)
    before = world.snapshot(kind)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, world, kind, script(hold="both", say=f"I am {name}.")) for name in ("one", "two")]
        until(lambda: world.models.count() == 2, START_S)
        world.models.brain.open("both")
        done = [each.result() for each in both]
    assert [(each.returncode, each.stdout) for each in done] == [(0, "I am one.\n"), (0, "I am two.\n")]
    assert [len(prompts(request.turn)) for request in world.models.select()] == [1, 1]
    assert world.snapshot(kind) == before


@pytest.mark.parametrize("kind", QUICK)
def test_a_chat_goes_on_by_its_id_while_another_one_begins(make_world: Callable[..., World], kind: Kind) -> None:
    world = make_world(kind)
    chat, first = begin(world, kind, "The word is mango.")
    other, second = begin(world, kind, "The word is plum.")
    assert (first.returncode, first.stdout) == (0, "I heard 1 prompt; now: The word is mango.\n")
    assert (second.returncode, second.stdout) == (0, "I heard 1 prompt; now: The word is plum.\n")
    assert chat != other
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", chat)
    again = run(world, kind, "-What was it?", chat=chat)
    assert (again.returncode, again.stdout) == (
        0, "I heard 2 prompts; before: The word is mango.; now: -What was it?\n",
    )  # fmt: skip
    long = "And now?\n" + " ".join(f"{count} plums" for count in range(20_000))
    third = run(world, kind, long, chat=chat, stdin=True)
    assert third.stdout == "I heard 3 prompts; before: The word is mango. | -What was it?; now: And now?\n"
    assert long in world.models.select()[-1].turn.messages[-1].text


@pytest.mark.parametrize("kind", QUICK)
def test_a_chat_that_is_not_there_is_an_error_before_the_model_is_asked(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    nowhere = "ses_2a1b3c4d5e6fAbCdEfGhIjKlMn" if kind == "opencode" else str(uuid.uuid4())
    done = run(world, kind, "Go on.", chat=nowhere)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr
    assert world.models.count() == 0


@pytest.mark.parametrize("kind", QUICK)
def test_prompts_of_any_form_and_length_arrive_as_they_are(make_world: Callable[..., World], kind: Kind) -> None:
    world = make_world(kind)
    for head in ("-x", "@nobody", "/help me"):
        prompt = AWKWARD.format(head=head)
        done = run(world, kind, prompt)
        assert done.returncode == 0, done.stderr
        assert prompt in world.models.select()[-1].turn.messages[0].text
    long = (AWKWARD.format(head="/clear") * 3000)[:200_000]
    done = run(world, kind, long, stdin=True)
    assert done.returncode == 0, done.stderr
    assert long in world.models.select()[-1].turn.messages[0].text


@pytest.mark.parametrize("kind", QUICK)
def test_an_api_that_refuses_the_request_makes_the_run_fail(make_world: Callable[..., World], kind: Kind) -> None:
    world = make_world(kind)
    world.models.brain.trouble(400, times=None)
    done = run(world, kind, "Hello.")
    assert done.returncode != 0
    assert "scripted trouble 400" in done.stdout + done.stderr


def of_a_careful_user(world: World, kind: Kind) -> None:
    """Have a CLI that may change files by itself ask before."""
    if kind == "codex":
        config = world.home / ".codex" / "config.toml"
        config.write_text(f'sandbox_mode = "read-only"\n{config.read_text()}')
    elif kind == "opencode":
        config = world.home / ".config" / "opencode" / "opencode.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "permission": {"edit": "ask"}}))


@pytest.mark.parametrize("kind", QUICK)
def test_files_are_changed_unasked_where_edits_are_approved_and_only_there(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    of_a_careful_user(world, kind)
    before = world.snapshot(kind)
    tool, arguments = EDIT[kind]
    for approval in ("ask", "edits"):
        file = world.root / f"{approval}.txt"
        filled = {key: value.format(file=file) for key, value in arguments.items()}
        done = run(world, kind, script(calls=[{"name": tool, "arguments": filled}], say="Done."), approval=approval)
        assert done.returncode == 0, done.stderr
        assert file.exists() == (approval == "edits"), done.stdout + done.stderr
    assert world.snapshot(kind) == before


SHELL: dict[Kind, tuple[str, dict[str, str]]] = {
    "claude": ("Bash", {"command": "touch {file}"}),
    "codex": ("exec_command", {"cmd": "touch {file}"}),
    "gemini": ("run_shell_command", {"command": "touch {file}"}),
    "opencode": ("bash", {"command": "touch {file}", "description": "touch"}),
}


@pytest.mark.parametrize("kind", QUICK)
def test_everything_is_done_unasked_where_all_is_approved(make_world: Callable[..., World], kind: Kind) -> None:
    world = make_world(kind, user=other_user.UID if kind == "claude" else 0)  # Claude Code refuses that to root
    tool, arguments = SHELL[kind]
    file = world.home / "made.txt"
    filled = {key: value.format(file=file) for key, value in arguments.items()}
    done = run(world, kind, script(calls=[{"name": tool, "arguments": filled}], say="Done."), approval="all")
    assert (done.returncode, done.stdout, file.exists()) == (0, "Done.\n", True), done.stderr


@pytest.mark.slow
def test_gemini_runs_in_a_folder_nobody_trusts_only_when_told_to(make_world: Callable[..., World]) -> None:
    world = make_world("gemini")
    (world.home / ".gemini" / "trustedFolders.json").write_text("{}")
    refused = run(world, "gemini", "Hello.")
    assert (refused.returncode, refused.stdout) == (55, "")
    assert "not running in a trusted directory" in refused.stderr
    assert run(world, "gemini", "Hello.", trust=True).stdout == "I heard 1 prompt; now: Hello.\n"
