"""What a member's pane shows: two files as they grow, whatever bytes they hold, until the member has ended."""

import io
import os
import subprocess
import sys
import threading

import pytest

from orchestrator.base.platform import process_facts
from orchestrator.edge import member_viewer, project_location
from tests.support.tmux_server import until

BOUND_S = 60


class Screen:
    """A pane over bytes in memory, and one file that a test writes."""

    def __init__(self, path, style=member_viewer.PLAIN):
        self.bytes = io.BytesIO()
        self.pane = member_viewer.ViewerTerminal(self.bytes)
        self.path = path
        self.file = member_viewer.Growing(path, style)

    def add(self, data):
        with self.path.open("ab") as file:
            file.write(data)

    def look(self):
        """What one look prints."""
        before = len(self.bytes.getvalue())
        self.file.look(self.pane)
        return self.bytes.getvalue()[before:].decode()


@pytest.fixture
def screen(tmp_path):
    return Screen(tmp_path / "out")


def test_each_look_prints_what_is_new_and_nothing_twice(screen):
    assert screen.look() == "", "the file is not there yet"
    screen.add(b"one\ntwo")
    assert screen.look() == "one\ntwo"
    assert screen.look() == ""
    screen.add(b" and more\n")
    assert screen.look() == " and more\n"


def test_a_character_written_in_two_parts_is_printed_once_it_is_whole(screen):
    emoji = "😀".encode()
    screen.add(b"a" + emoji[:2])
    assert screen.look() == "a"
    screen.add(emoji[2:] + b"b")
    assert screen.look() == "😀b"


def test_bytes_that_are_no_text_are_replaced(screen):
    screen.add(b"a\xff\xfeb\x00c\n")
    assert screen.look() == "a\ufffd\ufffdb\u2400c\n"


def test_half_a_character_at_the_end_is_shown_as_one_that_cannot_be_read(screen):
    screen.add("ü".encode()[:1])
    assert screen.look() == ""
    screen.file.finish(screen.pane)
    assert screen.bytes.getvalue().decode() == "\ufffd"


def test_colours_pass_also_in_two_parts_and_nothing_else_acts_on_the_terminal(screen):
    screen.add(b"\x1b[31mred\x1b[0")
    assert screen.look() == "\x1b[31mred"
    screen.add(b"m\x1b[2J\x1b]52;c;Zm9v\x07\x9b\r\n\t.")
    assert screen.look() == "\x1b[0m\u241b[2J\u241b]52;c;Zm9v\u2407\ufffd\r\n\t."


def test_an_escape_without_an_end_is_not_held_for_ever(screen):
    screen.add(b"\x1b[" + b"1;" * 100)
    assert screen.look().startswith("\u241b[1;1;")


def test_who_is_far_behind_goes_on_with_the_end_and_says_so(screen):
    with screen.path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 30)
        file.write(b"the end\n")
    printed = screen.look()
    said, _, rest = printed.partition("\n")
    assert f"[{(1 << 30) + 8 - member_viewer.KEPT} bytes are not shown; the whole output is in {screen.path}]" in said
    assert printed.endswith("the end\n")
    assert len(rest) <= member_viewer.KEPT + len(member_viewer.PLAIN)


def test_a_file_cut_short_is_read_from_its_beginning(screen):
    screen.add(b"a long line\n")
    screen.look()
    screen.path.write_bytes(b"new\n")
    assert screen.look() == "new\n"


def test_a_file_that_is_removed_is_shown_to_its_end(screen):
    with screen.path.open("ab", buffering=0) as writer:
        writer.write(b"a\n")
        screen.look()
        screen.path.unlink()
        writer.write(b"b\n")
        assert screen.look() == "b\n"


def test_the_second_file_is_dim_and_does_not_run_into_an_unfinished_line(screen, tmp_path):
    errors = member_viewer.Growing(tmp_path / "err", member_viewer.DIM)
    (tmp_path / "err").write_bytes(b"warning\n")
    screen.add(b"no end")
    screen.look()
    errors.look(screen.pane)
    screen.add(b" yet\n")
    screen.look()
    told = screen.bytes.getvalue().decode()
    assert told == f"no end\n{member_viewer.DIM}warning\n{member_viewer.PLAIN} yet\n"


# -- the program ----------------------------------------------------------------------------------------------------


class Member:
    """A process that lives until it is told to end, and the program that shows its files."""

    def __init__(self, base):
        self.out, self.err = base / "out", base / "err; $(odd)"
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.began = process_facts.start_time(self.process.pid)
        self.shown = b""
        self.viewer = None

    def show(self, began=None):
        asked = ["--pid", str(self.process.pid), "--start", str(began or self.began), str(self.out), str(self.err)]
        self.viewer = subprocess.Popen(
            project_location.own_command("show", *asked), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while data := os.read(self.viewer.stdout.fileno(), 1 << 16):
            self.shown += data

    def end(self):
        self.process.stdin.close()
        self.process.wait(BOUND_S)

    def close(self):
        for one in (self.process, self.viewer):
            if one is not None:
                one.kill()
                one.wait()
        self.process.stdin.close()
        if self.viewer is not None:
            self.reader.join(BOUND_S)
            self.viewer.stdout.close()


@pytest.fixture
def member(tmp_path):
    one = Member(tmp_path)
    yield one
    one.close()


def test_it_ends_after_the_member_with_all_that_was_written_and_a_word_where_it_is(member):
    member.show()
    member.out.write_bytes(b"first\n")
    until(lambda: b"first\n" in member.shown)
    member.err.write_bytes(b"warned\n")
    until(lambda: b"warned\n" in member.shown)
    with member.out.open("ab") as file:
        file.write(b"last words without an end")
    member.end()
    assert member.viewer.wait(BOUND_S) == 0
    member.reader.join(BOUND_S)
    *lines, said, rest = member.shown.decode().split("\n")
    assert (lines[-1], rest) == (f"{member_viewer.PLAIN}last words without an end", "")
    assert str(member.out) in said
    assert f"'{member.err}'" in said


def test_it_goes_on_for_what_outlives_the_member_until_that_falls_silent(screen, monkeypatch):
    looks = iter(
        [
            b"a\n",
            *[b""] * (member_viewer.LAST_LOOKS - 1),
            b"b\n",
            *[b""] * (member_viewer.LAST_LOOKS - 1),
            b"",
            b"never\n",
        ]
    )

    class Time:
        sleep = staticmethod(lambda _: screen.add(next(looks)))

    monkeypatch.setattr(member_viewer, "time", Time)
    member_viewer.follow(os.getpid(), 1, [screen.file], screen.pane)
    assert screen.bytes.getvalue() == b"a\nb\n"


def test_another_process_under_the_members_pid_is_not_the_member(member):
    member.show(began=member.began + 1)
    assert member.viewer.wait(BOUND_S) == 0
    assert member.process.poll() is None


def test_a_process_that_nobody_has_waited_for_has_ended(member):
    member.show()
    member.process.stdin.close()
    assert member.viewer.wait(BOUND_S) == 0
    assert member.process.returncode is None


def test_a_terminal_that_is_gone_ends_it_without_a_word(member):
    read, write = os.pipe()
    os.close(read)
    member.out.write_bytes(b"x\n")
    asked = ["--pid", str(member.process.pid), "--start", str(member.began), str(member.out)]
    done = subprocess.run(
        project_location.own_command("show", *asked), stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE,
        timeout=BOUND_S, check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [[], ["--pid", "1", "x"], ["--pid", "x", "--start", "1", "f"]])
def test_words_it_does_not_know_are_answered_with_its_usage(words):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "show", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Usage: " in done.stderr or "usage: " in done.stderr
