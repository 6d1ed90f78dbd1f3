"""axe-core, which judges how accessible a page is: pinned, and installed on first use beside the CLIs of these tests."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.e2e import clis

_HERE = Path(__file__).parent / "clis/axe-core"
VERSION = "4.14.1"
RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(each =>
  `${each.id} (${each.impact}): ${each.nodes.map(node => node.target.join(" ")).slice(0, 3).join("; ")}`))"""


def script() -> str:
    """The text of axe; raises ``clis.Missing`` if it cannot be installed."""
    place = clis.cache() / f"axe-core@{VERSION}"
    file = place / "node_modules/axe-core/axe.min.js"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock", timeout=300):
        if not file.exists():
            new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(_HERE / name, new / name)
            done = clis._run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], new)
            if done.returncode:
                raise clis.Missing(f"npm could not install axe-core: {done.stderr[:1000]}")
            shutil.rmtree(place, ignore_errors=True)
            new.rename(place)
    return file.read_text(encoding="utf-8")


def violations(page: Any) -> list[str]:
    """What axe finds wrong with a page of playwright, each as one line."""
    # In a world of its own: the policy of the page allows no script but its own.
    session = page.context.new_cdp_session(page)
    frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})["executionContextId"]
    code = f"{script()}\n;{RUN}"
    found = session.send(
        "Runtime.evaluate", {"expression": code, "contextId": world, "awaitPromise": True, "returnByValue": True}
    )
    assert "exceptionDetails" not in found, found
    lines: list[str] = found["result"]["value"]
    return lines
