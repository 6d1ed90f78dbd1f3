"""Which modules a command line loads, in a process of its own."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CODE = """
import os, sys
from orchestrator.cli.app import main
before = " ".join(sys.modules)
os.write(2, f"\\nSTATUS {main(sys.argv[1:])}\\n{before}\\n{' '.join(sys.modules)}".encode())
"""
HEAVY = {
    "asyncio", "httpx2", "libtmux", "mcp", "mcp_types", "opentelemetry", "psycopg", "pydantic", "rich", "structlog",
    "textual", "tree_sitter", "uvicorn", "orchestrator.daemon", "orchestrator.fleet", "orchestrator.gsd",
    "orchestrator.protocol",
}  # fmt: skip
"""What takes longer to load than a command to run."""


def loaded(
    line: Sequence[str], env: dict[str, str] | None = None, cwd: Path | None = None
) -> tuple[set[str], set[str]]:
    """The modules that every command pays for, and all that are loaded when this one has run."""
    argv = [sys.executable, "-P", "-c", CODE, *line]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, cwd=cwd, check=True)
    before, after = done.stderr.rpartition("\nSTATUS ")[2].split("\n")[1:]
    return set(before.split()), set(after.split())
