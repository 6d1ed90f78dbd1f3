"""The file that a CLI runs as its hook: ``python -IS .../orchestrator/hook.py``; `edge.cli_hook` does the work.

Python compiles a script at every start and a module once. For a hook that is held, that is a megabyte.
"""

import os
import sys

try:
    if not __package__:  # run as a script; our place comes last, for it is full of strangers
        sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120 - no pathlib
    from orchestrator.edge.cli_hook import main
except ImportError:  # Windows lacks some of these modules, and has no daemon that could answer
    os.write(1, b"{}\n")
    sys.exit(0)

if __name__ == "__main__":
    sys.exit(main())
