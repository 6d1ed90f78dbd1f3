"""The payload of a new task: words, JSON, a command, a file, an editor; by what the agent's engine takes."""

import io
import stat

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.cli import task_payload
from orchestrator.cli.task_payload import Source, edited, given, payload_for, with_attachments

LOOK = "look at the login form"


def source(monkeypatch, *words, stdin="", terminal=False, **options):
    stream = io.StringIO(stdin)
    stream.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdin", stream)
    return given(list(words), **{"file": "", "command": "", "payload": "", **options})


def made(monkeypatch, engine, *words, **more):
    return payload_for(source(monkeypatch, *words, **more), "b", engine)


def code(monkeypatch, *words, engine="claude", **more):
    with pytest.raises(BadRequest) as caught:
        made(monkeypatch, engine, *words, **more)
    return caught.value.code


def test_words_are_a_task_for_ai_engines_and_the_command_of_the_shell(monkeypatch):
    assert made(monkeypatch, "claude", LOOK) == {"task": LOOK}
    assert made(monkeypatch, "claude", *LOOK.split()) == {"task": LOOK}
    assert made(monkeypatch, "command", LOOK) == {"task": LOOK}
    assert made(monkeypatch, "shell", "make test && echo $?") == {"command": "make test && echo $?"}
    assert made(monkeypatch, "shell", "grep", "two words", "file") == {"command": "grep 'two words' file"}
    assert made(monkeypatch, "an engine of a newer version", LOOK) == {"task": LOOK}


def test_a_command_is_refused_for_an_engine_that_takes_words(monkeypatch):
    assert made(monkeypatch, "shell", command="make test") == {"command": "make test"}
    for engine in ("claude", "codex", "gemini", "opencode", "command"):
        with pytest.raises(BadRequest) as caught:
            made(monkeypatch, engine, command="ls")
        assert caught.value.code == "bad_argument"
        assert "task add b " in caught.value.next_step, "the right form"


@pytest.mark.parametrize("words", [("-",), ()])
def test_standard_input_is_words_or_a_json_payload(monkeypatch, words):
    assert made(monkeypatch, "claude", *words, stdin="two\nlines\n") == {"task": "two\nlines"}
    assert made(monkeypatch, "claude", *words, stdin=' {"a": 1}\n') == {"a": 1}
    assert made(monkeypatch, "shell", *words, stdin="[1]") == [1]
    assert made(monkeypatch, "claude", *words, stdin="123") == {"task": "123"}
    assert made(monkeypatch, "claude", *words, stdin="[WIP] go on") == {"task": "[WIP] go on"}
    # What may be a damaged payload is never run.
    assert code(monkeypatch, *words, stdin='{"command": "rm', engine="shell") == "bad_argument"
    assert code(monkeypatch, *words, stdin=" \n") == "bad_argument"


def test_a_file_is_always_words(monkeypatch, tmp_path):
    file = tmp_path / "task.md"
    file.write_text('{"not": "a payload"}\n')
    assert made(monkeypatch, "claude", file=str(file)) == {"task": '{"not": "a payload"}'}
    assert made(monkeypatch, "shell", file="-", stdin="{ make; }") == {"command": "{ make; }"}
    file.write_bytes(b"\xff\xfe\x00")
    assert code(monkeypatch, file=str(file)) == "bad_argument"
    assert code(monkeypatch, file=str(tmp_path / "none")) == "bad_argument"
    assert code(monkeypatch, file=str(tmp_path)) == "bad_argument"
    monkeypatch.setattr(task_payload, "MAX_TEXT", 3)
    file.write_text("four")
    assert code(monkeypatch, file=str(file)) == "payload_too_large"


def test_only_one_source_may_be_given(monkeypatch):
    assert code(monkeypatch, "a", payload="1") == "bad_argument"
    assert code(monkeypatch, command="a", payload="1") == "bad_argument"
    assert code(monkeypatch, "a", file="x") == "bad_argument"
    assert code(monkeypatch, payload="{") == "bad_argument"
    assert code(monkeypatch, " ") == "bad_argument"


def test_on_a_terminal_without_words_an_editor_is_asked_for_them(monkeypatch, tmp_path):
    assert source(monkeypatch, terminal=True) == Source("editor")
    editor = tmp_path / "ed"
    editor.write_text(
        '#!/bin/sh\ncat "$2" > "$0.seen"; stat -c %a "$2" >> "$0.seen"; printf "# no\\nfix it\\n" > "$2"\n'
    )
    editor.chmod(stat.S_IRWXU)
    monkeypatch.setenv("VISUAL", f"{editor} --wait")
    with edited("b", "claude") as words:
        assert words == Source("words", "fix it")
    seen = (tmp_path / "ed.seen").read_text()
    assert "b (claude)" in seen
    assert seen.endswith("600\n"), "only the user may read it"
    assert payload_for(words, "b", "claude") == {"task": "fix it"}


@pytest.mark.parametrize("script", [":", 'printf "# only a remark\\n" > "$1"', "exit 1", ""])
def test_an_editor_without_words_queues_nothing(monkeypatch, tmp_path, script):
    editor = tmp_path / "ed"
    if script:
        editor.write_text(f"#!/bin/sh\n{script}\n")
        editor.chmod(stat.S_IRWXU)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(BadRequest), edited("b", "claude"):
        pytest.fail("nothing was written")
    assert [path.name for path in tmp_path.iterdir() if path != editor] == []


def test_words_of_an_editor_are_kept_if_the_task_is_refused(monkeypatch, tmp_path, capsys):
    editor = tmp_path / "ed"
    editor.write_text('#!/bin/sh\necho "an hour of work" > "$1"\n')
    editor.chmod(stat.S_IRWXU)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), edited("b", "claude"):
        raise KeyboardInterrupt
    [kept] = [path for path in tmp_path.iterdir() if path != editor]
    assert "an hour of work" in kept.read_text()
    assert str(kept) in capsys.readouterr().err


def test_attachments_are_named_to_an_ai_agent_and_a_directory_to_a_command():
    copied = {"directory": "/p/artifacts/attachments/t-1", "attachments": ["attachments/t-1/a.md"]}
    assert with_attachments({"task": "x"}, "claude", copied) == {"task": "x", "attachments": ["attachments/t-1/a.md"]}
    assert with_attachments({"command": "x", "env": {"A": "1"}}, "shell", copied) == {
        "command": "x", "env": {"A": "1", "ORCHESTRATOR_ATTACHMENTS": "/p/artifacts/attachments/t-1"},
    }  # fmt: skip
    with pytest.raises(BadRequest) as caught:
        with_attachments([1], "claude", copied)
    assert caught.value.code == "bad_argument"
