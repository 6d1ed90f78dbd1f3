"""A daemon imports the MCP SDK without what it never uses, and all of it can still be used."""

import subprocess
import sys

from orchestrator.base import lazy_imports


def python(code: str, *arguments: str) -> list[str]:
    """What a fresh interpreter prints, in words."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


LIGHT = "from orchestrator.base.lazy_imports import lighten_sdk; lighten_sdk()\n"


def test_a_daemon_loads_neither_the_sdks_client_nor_its_high_level_server():
    loaded = python(LIGHT + "import sys, orchestrator.daemon.process; print(*sys.modules)")
    assert "mcp.server.lowlevel.server" in loaded
    over_http = {"starlette", "sse_starlette", "mcp.server.auth", "mcp.server.streamable_http", "http.client"}
    assert not {"mcp.client.session", "mcp.server.mcpserver", "httpx2", *over_http} & set(loaded)


def test_a_daemon_does_not_load_what_colours_a_log_or_serves_over_http_or_runs_models_for_somebody():
    code = "import sys; sys.argv = ['orchestrator', 'daemon', 'run', '--lock-fd', 'x']\n"
    code += "from orchestrator.__main__ import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    loaded = python(code)
    assert "orchestrator.daemon.process" in loaded
    spawn = {f"orchestrator.spawn.{name}" for name in ("runs", "tools", "squad_and_agent_callers", "run_data")}
    assert not {"rich", "uvicorn", "psycopg", "orchestrator.fleet", *spawn} & set(loaded)


def test_what_serves_over_http_can_be_imported_beside_a_server_that_was_loaded_without_it():
    code = "import mcp.server.lowlevel.server as server, mcp.server.auth, starlette.applications\n"
    code += "print(starlette.applications.Starlette().__class__.__name__, bool(mcp.server.auth.__file__))\n"
    code += "try: server.Server('s').streamable_http_app()\nexcept ImportError: print('refused')"
    assert python(LIGHT + code) == ["Starlette", "True", "refused"]


def test_a_light_server_answers_clients_of_every_era_as_any_other_does():
    code = "import asyncio, mcp_types as types\nfrom mcp import Client\nfrom mcp.server.lowlevel import Server\n"
    code += "tool = types.Tool(name='t', input_schema={'type': 'object'})\n"
    code += "async def listed(ctx, params): return types.ListToolsResult(tools=[tool])\n"
    code += "async def talk(mode):\n  server = Server('s', version='1', instructions='i', on_list_tools=listed)\n"
    code += "  async with Client(server, mode=mode) as client:\n    tools = await client.list_tools()\n"
    code += (
        "    for answer in (client.server_info, client.server_capabilities, tools): print(answer.model_dump_json())\n"
    )
    code += "    print(client.protocol_version, client.instructions)\n"
    code += "for mode in ('legacy', 'auto'): asyncio.run(talk(mode))"
    light = python(LIGHT + code)
    assert light == python(code)
    assert {"2025-11-25", "2026-07-28"} <= set(light)


def test_a_module_gets_empty_classes_for_what_it_does_not_use_yet_and_the_real_ones_if_it_does(tmp_path):
    for name, text in {
        "goods.py": "class Goods: pass",
        "shop/__init__.py": "",
        "shop/shelf.py": "from goods import Goods",
        "shop/till.py": "from shop.shelf import Goods\nsold = Goods()",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = f"import sys; sys.path.append({str(tmp_path)!r})\nfrom orchestrator.base import lazy_imports\n"
    code += "lazy_imports.import_without(sys.argv[1], ['goods'])\n"
    code += "print('goods' in sys.modules, bool(sys.modules['shop.shelf'].Goods.__init__ is object.__init__))"
    assert python(code, "shop.shelf") == ["False", "False"]
    assert python(code, "shop.till") == ["True", "True"]


def test_what_was_missing_for_a_while_can_be_imported_afterwards_and_what_was_there_stays():
    code = "import this, sys; from orchestrator.base.lazy_imports import missing\n"
    code += "with missing('this', 'colorsys'):\n  import this\n  try: import colorsys\n"
    code += "  except ImportError as error: print(type(error).__name__)\n"
    code += "import colorsys; print(colorsys.__name__, 'this' in sys.modules)"
    assert python(code)[-3:] == ["ModuleNotFoundError", "colorsys", "True"]


def test_a_name_that_only_an_init_defines_is_still_found_and_no_other():
    code = "import mcp.server.session, mcp; print(mcp.Client.__module__)\n"
    code += "from mcp.server import *; print(MCPServer.__name__)\n"
    code += "try: mcp.server.nothing\nexcept AttributeError: print('missing')"
    assert python(LIGHT + code) == ["mcp.client.client", "MCPServer", "missing"]


def test_a_record_is_checked_as_strictly_when_its_model_is_built_late():
    code = "from orchestrator.core.schemas import SCHEMAS\n"
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
