"""A CLI's folder in the cache is whole or not there, whatever happens while it is made; npm is a stand-in here."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.e2e import clis

NPM = """#!/bin/sh
echo run >> "$COUNT"
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho {said}\\n' > node_modules/.bin/{command}
chmod +x node_modules/.bin/{command}
{last}
"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Puts an npm of ours on PATH and the cache into the test's directory; gives the number of its runs."""
    bins, count = tmp_path / "bin", tmp_path / "count"
    bins.mkdir()
    (bins / "node").write_text("#!/bin/sh\n")
    (bins / "node").chmod(0o755)
    env = {
        "PATH": f"{bins}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "COUNT": str(count),
        "ORCHESTRATOR_E2E_CACHE": str(tmp_path / "cache"),
    }
    monkeypatch.setattr(clis, "ENVIRON", env)
    monkeypatch.setenv("PATH", env["PATH"])

    def write(said: str = "0.169.0", last: str = "exit 0") -> None:
        (bins / "npm").write_text(NPM.format(said=said, command="codex", last=last))
        (bins / "npm").chmod(0o755)

    write()
    write.runs = lambda: len(count.read_text().split()) if count.exists() else 0
    return write


def left(place: Path) -> list[str]:
    return (
        sorted(path.name for path in place.parent.iterdir() if path.suffix != ".lock")
        if place.parent.exists()
        else []
    )


def test_a_cli_is_installed_once(npm):
    found = clis.program("codex")
    assert found == clis.folder("codex") / "node_modules" / ".bin" / "codex"
    assert clis.program("codex") == found
    assert npm.runs() == 1
    assert left(clis.folder("codex")) == ["codex@0.169.0"]


def test_many_at_once_install_once(npm):
    npm(last="sleep 0.2")
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(clis.program("codex"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert npm.runs() == 1


@pytest.mark.parametrize(
    ("said", "last", "sentence"),
    [("0.169.0", "echo no network >&2; exit 1", "no network"), ("0.1.0", "exit 0", "does not tell its version")],
)
def test_what_failed_leaves_nothing_and_the_next_try_installs(npm, said, last, sentence):
    npm(said, last)
    with pytest.raises(clis.Missing, match=sentence):
        clis.program("codex")
    assert left(clis.folder("codex")) == []
    npm()
    assert clis.program("codex").exists()


def test_a_folder_of_another_lock_file_is_replaced(npm):
    place = clis.folder("codex")
    place.mkdir(parents=True)
    (place / "package-lock.json").write_text("{}")
    (place / "stale").touch()
    clis.program("codex")
    assert not (place / "stale").exists()
    assert left(place) == ["codex@0.169.0"]


def test_no_npm_is_a_clear_sentence(npm, monkeypatch, tmp_path):
    monkeypatch.setitem(clis.ENVIRON, "PATH", str(tmp_path / "nothing"))
    with pytest.raises(clis.Missing, match="npm is not on PATH"):
        clis.program("codex")


@pytest.mark.parametrize("name", [cli.name for cli in clis.CLIS.values()])
def test_a_lock_file_pins_and_names_no_address(name):
    cli = next(cli for cli in clis.CLIS.values() if cli.name == name)
    text = (Path(clis.__file__).parent / "clis" / name / "package-lock.json").read_text()
    assert f'"version": "{cli.version}"' in text
    assert '"integrity"' in text
    assert "resolved" not in text
    assert "://" not in text
