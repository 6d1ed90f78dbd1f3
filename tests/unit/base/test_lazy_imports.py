"""A daemon imports the MCP SDK without what it never uses, and all of it can still be used."""

import subprocess
import sys

from orchestrator.base import lazy_imports


def python(code: str) -> list[str]:
    """What a fresh interpreter prints, in words."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


LIGHT = "from orchestrator.base.lazy_imports import lighten_sdk; lighten_sdk()\n"


def test_a_daemon_loads_neither_the_sdks_client_nor_its_high_level_server():
    loaded = python(LIGHT + "import sys, orchestrator.daemon.process; print(*sys.modules)")
    assert "mcp.server.lowlevel.server" in loaded
    assert not {"mcp.client.session", "mcp.server.mcpserver", "httpx2"} & set(loaded)


def test_a_name_that_only_an_init_defines_is_still_found_and_no_other():
    code = "import mcp.server.session, mcp; print(mcp.Client.__module__)\n"
    code += "from mcp.server import *; print(MCPServer.__name__)\n"
    code += "try: mcp.server.nothing\nexcept AttributeError: print('missing')"
    assert python(LIGHT + code) == ["mcp.client.client", "MCPServer", "missing"]


def test_a_record_is_checked_as_strictly_when_its_model_is_built_late():
    code = "from orchestrator.core.file_models import SCHEMAS\n"
    code += "for name in SCHEMAS: print(SCHEMAS[name].json_schema())\n"
    code += "try: SCHEMAS['run'].validate_python({'v': 2})\nexcept ValueError as error: print(error.errors())"
    assert python(LIGHT + code) == python(code)


def test_what_is_imported_already_or_not_installed_is_left_alone():
    code = "import mcp, sys; from orchestrator.base.lazy_imports import make_lazy\n"
    assert python(
        code + "make_lazy('mcp', 'no_such_package'); print(type(mcp).__name__, 'no_such_package' in sys.modules)"
    ) == [
        "module",
        "False",
    ]


def test_a_plain_module_is_no_package_and_is_left_alone():
    lazy_imports.make_lazy("this")
    assert "this" not in sys.modules
