"""A launch as a row of the engines table gets it, in a place that does not exist: what a unit test begins with."""

from __future__ import annotations

from orchestrator.engines import table
from orchestrator.engines.definition import Launch

SECRET = "5ec2e7" * 5
HOME = "/home/ada"
PROJECT = f"{HOME}/p"
PLACE = f"{PROJECT}/.agents/agents/unit-1/engine"
OWN = ("/opt/o/bin/python", "-P", "-m", "orchestrator")
ENV = {
    "HOME": HOME,
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    **table.identity(agent_id="unit-1", epoch=1, secret=SECRET, project=PROJECT),
}
LAUNCH = Launch(
    agent_id="unit-1",
    role="tester",
    epoch=1,
    project=PROJECT,
    cwd=PROJECT,
    engine_dir=PLACE,
    rules="RULES of the loop, with \"quotes\", a 'tick', a \\, {braces}, {env:HOME}, a tab\t, é, 😀\nand a second line",
    first="FIRST message",
    again="AGAIN message",
    session="7d0f9ed5-6d5c-4c1e-9d6b-3f2f8f9b5a10",
    own=OWN,
    mcp=(*OWN, "mcp", "--agent", "--project", PROJECT),
    hook=("/opt/o/bin/python", "-IS", "/opt/my files/hook.py"),
    env=ENV,
)
