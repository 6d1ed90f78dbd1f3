"""Puts a small agent in the worker's place when this folder is on PYTHONPATH: Python imports it at every start.

The crash matrix kills daemons, not workers, and the worker's MCP SDK would cost it a second per agent.
"""

import os
import sys

if (
    sys.orig_argv[-1:] == ["worker"]
    and os.environ.get("ORCHESTRATOR_AGENT_SECRET")
    and "REAL_WORKER" not in os.environ  # an agent of that environment is the worker itself
):
    os.execv(sys.executable, [sys.executable, "-I", "-S", __file__.replace("sitecustomize", "agent")])
