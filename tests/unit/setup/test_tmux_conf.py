"""`orchestrator setup tmux`: its lines in the user's tmux.conf, and every byte of the user's as it was."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import OrchestratorError
from orchestrator.cli import app
from orchestrator.setup import tmux_conf
from tests.support.tmux_server import PrivateServer, private_server

__all__ = ["private_server"]

THEME = "set -g status-right '#{?client_prefix,P,} \"%H\" ##x [a}b], #[fg=red]z'\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "ORCHESTRATOR_AGENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> str:
    assert app.main(["setup", "tmux", *args]) == status
    return "".join(capsys.readouterr())


def backups(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in home.glob("*.orchestrator-backup-*")]


def test_a_dry_run_shows_file_and_lines_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "--dry-run")
    assert str(home / ".tmux.conf") in shown
    for line in tmux_conf.lines():
        assert f"+ {line}\n" in shown
    assert list(home.iterdir()) == []


def test_the_lines_are_added_updated_kept_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".tmux.conf"
    file.write_text(THEME)
    file.chmod(0o640)
    run(capsys)
    first = file.read_text()
    assert first.startswith(THEME)
    assert backups(home) == [THEME.encode()]
    assert "nothing to change" in run(capsys)
    run(capsys, "--key", "M-o")
    assert "bind-key M-o display-popup" in file.read_text()
    assert "nothing to change" in run(capsys)
    run(capsys, "--key", "none")
    assert "bind-key" not in file.read_text()
    run(capsys, "--key", "T")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (first, 0o640)
    assert "would be removed" in run(capsys, "--remove", "--dry-run")
    run(capsys, "--uninstall")
    assert file.read_text() == THEME
    assert "nothing to change" in run(capsys, "--remove")


def test_the_file_of_another_installation_is_updated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys)
    file = home / ".tmux.conf"
    file.write_text(
        file.read_text().replace("orchestrator top --in-popup", "orchestrator  top").replace("'/", "'/old/")
    )
    assert "our lines updated" in run(capsys)
    assert "/old/" not in file.read_text()
    run(capsys, "--remove")
    assert not file.exists()


@pytest.mark.parametrize(
    "text",
    [
        None, "", "\n", "a", "a\n", "a\n\n", "a\r\nb\r\n", "\ufeffa\n", "set -g @x \\", "set -g @x \\\n", "x \\\\\n",
        "# ü ◐ 한\n", "\x0b\x0c\u2028\x85\n", "if-shell true {\n}\n", "a\n# >>> another >>>\nb\n# <<< another <<<\n",
    ],
)  # fmt: skip
def test_every_byte_comes_back(home: Path, text: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".tmux.conf"
    data = None if text is None else text.encode()
    if data is not None:
        file.write_bytes(data)
    run(capsys)
    run(capsys, "--remove")
    assert (file.read_bytes() if file.exists() else None) == data


@given(above=st.text("ab\\\n\r #'\ufeff", max_size=8), below=st.text("ab\\\n\r #", max_size=8))
def test_what_is_written_later_stays_and_never_joins_what_was_there(
    tmp_path_factory: pytest.TempPathFactory, above: str, below: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    file = home / ".tmux.conf"
    file.write_bytes(above.encode())
    tmux_conf.install({"HOME": str(home)})
    with file.open("ab") as more:
        more.write(below.encode())
    tmux_conf.remove({"HOME": str(home)})
    left = file.read_bytes().decode()
    assert left.startswith(above) and left.endswith(below)
    assert left == above + below or (below and left[len(above) : len(left) - len(below)] in ("\n", "\n\n"))


def test_lines_that_were_changed_by_hand_are_refused_unless_forced(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys)
    file = home / ".tmux.conf"
    file.write_text(file.read_text().replace("yellow", "red"))
    before = file.read_text()
    assert "entry_edited" in run(capsys, "--json", status=3)
    assert "entry_edited" in run(capsys, "--json", "--remove", status=3)
    assert file.read_text() == before
    run(capsys, "--force")
    assert "yellow" in file.read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("# <<< orchestrator setup tmux <<<\n", ""),
        lambda text: text + text,
        lambda text: text.replace("# >>> orchestrator setup tmux >>> (the file is new)\n", ""),
        lambda text: "\udcff" + text,
    ],
)
def test_a_file_whose_markers_are_damaged_is_left_alone(
    home: Path, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys)
    file = home / ".tmux.conf"
    file.write_text(damage(file.read_text()), errors="surrogateescape")  # type: ignore[operator]
    before = file.read_bytes()
    for words in ([], ["--remove"], ["--force"]):
        assert "config_unreadable" in run(capsys, "--json", *words, status=5)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("bind T kill-server", True),
        ("  bind-key -r 'T' next-window", True),
        ('bind -N "a note" T next-window', True),
        ("bind -T prefix T next-window", True),
        ("bind -n T next-window", False),
        ("bind -T root T next-window", False),
        ("# bind T next-window", False),
        ("bind t next-window", False),
        ("bind", False),
        ("bind -T", False),
        ("bind -N '", False),
    ],
)
def test_a_key_with_another_meaning_is_not_taken(
    home: Path, line: str, taken: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".tmux.conf"
    file.write_text(f"# first\n{line}\n")
    shown = run(capsys, "--json", status=3 if taken else 0)
    assert ("line 2 binds the key T" in shown) is taken
    run(capsys, "--key", "none")
    run(capsys, "--key", "T", "--force")
    assert "bind-key T display-popup" in file.read_text()


def test_the_file_is_the_last_that_tmux_reads_or_the_one_with_our_lines(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last, xdg = home / ".tmux.conf", home / ".config/tmux/tmux.conf", home / "xdg/tmux/tmux.conf"

    def where() -> Path:
        return tmux_conf.conf_file(dict(os.environ))

    assert where() == first
    for path in (last, first, xdg):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        assert where() == last
    last.unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert where() == xdg
    tmux_conf.install({"HOME": str(home)})
    assert where() == first


def test_a_link_is_followed_and_a_directory_is_an_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "tmux").write_text(THEME)
    (home / ".tmux.conf").symlink_to("dotfiles/tmux")
    run(capsys)
    assert (home / ".tmux.conf").is_symlink()
    assert (home / "dotfiles" / "tmux").read_text().startswith(THEME)
    (home / ".tmux.conf").unlink()
    (home / ".tmux.conf").mkdir()
    assert "io_failed" in run(capsys, "--json", status=5)


@pytest.mark.parametrize("key", ["", "ab", "#", "'", ";", "M-", "C-M-S-x-", "F13", "O O", "\n"])
def test_what_is_no_key_is_refused(key: str) -> None:
    if key:
        with pytest.raises(OrchestratorError) as caught:
            tmux_conf.lines(key)
        assert caught.value.code == "bad_argument"
    for good in ("o", "M-o", "C-S-F12", "5"):
        assert len(tmux_conf.lines(good)) == 2


def test_the_other_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--hooks"], ["--settings"], ["--toolsets", "gsd"]):
        assert "bad_argument" in run(capsys, "--json", *words, status=2)
    assert app.main(["setup", "claude", "--key", "T", "--dry-run", "--json"]) == 2
    capsys.readouterr()
    assert json.loads(run(capsys, "--print", "--json"))["snippets"][0]["text"] == "\n".join(tmux_conf.lines())


@pytest.mark.tmux
@pytest.mark.parametrize("theme", ["", THEME])
def test_tmux_takes_the_lines_and_reads_them_again_without_a_second_segment(
    home: Path, theme: str, private_server: PrivateServer
) -> None:
    file = home / ".tmux.conf"
    file.write_text(theme + "bind-key -n F5 display-message 'x' \\")
    tmux_conf.install(dict(os.environ))
    private_server.socket = private_server.socket._replace(config=str(file))
    pane = private_server.start()
    once = private_server.run("show-options", "-gv", "status-right")
    assert once.count("@orchestrator_needs") == 2
    assert once.endswith(theme[len("set -g status-right '") : -2])
    private_server.run("source-file", str(file))
    assert private_server.run("show-options", "-gv", "status-right") == once
    assert "top" in next(line for line in private_server.run("list-keys").split("\n") if "display-popup" in line)
    assert "F5" in private_server.run("list-keys", "-T", "root")

    def counted() -> bool:
        private_server.run("set-option", "-u", "-t", "=user:", "@orchestrator_needs")
        plain = private_server.show(pane, "#{T:status-right}")
        private_server.run("set-option", "-t", "=user:", "@orchestrator_needs", "2")
        return private_server.show(pane, "#{T:status-right}") == f"#[fg=yellow] ◐ 2 #[default]{plain}"

    assert counted() or counted(), "a minute may end in between, not two"
