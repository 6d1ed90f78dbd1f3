"""Finds HTTP routes in Python: Flask, FastAPI, Starlette, Django, aiohttp. Pure."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from orchestrator.gsd.routes import handed
from orchestrator.gsd.routes.found import ANY, METHODS, UNTOLD, Mount, Route, Scan, bounded, join
from orchestrator.gsd.sources.call_text import arguments, closing, keyword, literal
from orchestrator.gsd.sources.code import Text

_FRAMEWORK = re.compile(
    r"(?m)^[ \t]{0,40}(?:from|import)[ \t]{1,8}(flask|fastapi|starlette|django|aiohttp|quart|sanic"
    r"|litestar|bottle|falcon|tornado)\b"
)
_DECORATOR = re.compile(
    r"(?m)^[ \t]{0,80}@(?P<owner>[A-Za-z_][\w.]{0,80})\.(?P<verb>get|post|put|patch|delete|head|options|route"
    r"|api_route|websocket)"
    r"\s{0,4}(?P<open>\()"
)
_MADE = re.compile(
    r"(?m)^[ \t]{0,80}(?P<name>\w{1,80})[ \t]{0,8}(?::[^=\n]{1,80})?=[ \t]{0,8}(?:[a-z_]{1,40}\.)?"
    r"(?P<made>FastAPI|Flask|Quart|Sanic|Starlette|Bottle|APIRouter|Blueprint|Router|RouteTableDef|Application|AppRouter)\s{0,4}(?P<open>\()"
)
_ROUTERS = frozenset({"APIRouter", "Blueprint", "Router", "RouteTableDef"})
_INCLUDED = re.compile(
    r"\b(?P<owner>\w{1,80})\.(?P<what>include_router|register_blueprint|blueprint|mount|add_subapp|add_routes)\s{0,4}(?P<open>\()"
)
_ADDED = re.compile(
    r"\b(?P<owner>\w{1,80}(?:\.router)?)\.(?P<verb>add_url_rule|add_api_route|add_route|add_get|add_post|add_put"
    r"|add_patch|add_delete)"
    r"\s{0,4}(?P<open>\()"
)
_LISTED = re.compile(
    r"(?<![\w.])(?P<what>path|re_path|url|Route|Mount|web\.(?:get|post|put|patch|delete|head))\s{0,4}(?P<open>\()"
)
_IMPORTED = re.compile(
    r"(?m)^[ \t]{0,40}from[ \t]{1,8}(?P<base>[.\w]{1,300})[ \t]{1,8}import[ \t]{1,8}"
    r"(?P<names>\([^)]{0,4000}\)|[^\n#]{1,1000})"
    r"|^[ \t]{0,40}import[ \t]{1,8}(?P<module>[\w.]{1,300})(?:[ \t]{1,8}as[ \t]{1,8}(?P<alias>\w{1,80}))?"
)
_INCLUDE = re.compile(
    r"^include\s{0,4}\(\s{0,8}\(?\s{0,8}(?:([\"'])(?P<module>[\w.]{1,200})\1|(?P<name>[\w.]{1,200}))"
)
# What a listed route belongs to: the list or server that is being written when it comes.
_BELONGS = re.compile(
    r"(?m)^(?P<name>\w{1,80})[ \t]{0,8}(?::[^=\n]{1,80})?\+?=(?!=)"
    r"|^[ \t]{1,80}(?P<inner>\w{1,80})[ \t]{0,8}(?:\+="
    r"|=[ \t]{0,8}\[|=[ \t]{0,8}(?:web\.Application|Starlette|FastAPI|Router)\b)"
    r"|^[ \t]{0,80}(?P<more>\w{1,80})\.(?:append|extend|insert|add_routes|router\.add_routes)\s{0,4}\("
)
_ROOT = re.compile(r"(?m)^[ \t]{0,40}ROOT_URLCONF[ \t]{0,8}=[ \t]{0,8}[\"']([\w.]{1,200})[\"']")
_COMPUTED = re.compile(r"^(?:\*\*|(?:url_)?prefix\s{0,8}=\s{0,8}(?![rRbBuU]?[\"']))")
_PATTERNS = re.compile(
    r"(?m)^[ \t]{0,40}urlpatterns[ \t]{0,8}"
    r"(?:(?::[^=\n]{1,80})?\+?=(?!=)|\.(?P<call>append|extend|insert)\s{0,4}(?P<open>\())\s{0,80}"
)
# What stands behind a list and is no end of the line: another list that is added, or something unknown.
_MORE = re.compile(r"[ \t]{0,80}\\?\s{0,80}\+\s{0,80}|[ \t]{0,80}(?=[^\s)])")
_CALLED = re.compile(
    r"(?<![@\w.])(?P<owner>[A-Za-z_]\w{0,80})\.(?:get|post|put|patch|delete|route|api_route)\s{0,4}\("
)
_OTHER_APP = re.compile(
    r"(?m)^[ \t]{0,40}app[ \t]{0,8}(?::[^=\n]{1,80})?=[ \t]{0,8}"
    r"(?:\w{1,80}\.){0,3}(?:Typer|Celery|C?Tk|Q\w{0,30}Application)\s{0,4}\("
)
"""An ``app`` that answers no requests."""
_CONVERTER = re.compile(r"\(\?P<(\w{1,80})>[^)]{0,200}\)")

Module = Callable[[str, str], str]
"""The file that a dotted module means in a file; ``""`` for one from elsewhere."""


def scan(text: Text, module: Module) -> Scan:
    """Every route of a file whose path is a literal."""
    found = Scan(text.path)
    code = text.code
    found.frameworks |= {one[1] for one in _FRAMEWORK.finditer(code)}
    if not found.frameworks and not re.search(
        r"urlpatterns|ROOT_URLCONF|@|\.(?:add_|register_|include_)|_app\b|\b(?:router|blueprint|api|app|bp)\b", code
    ):
        return found
    for one in bounded(_IMPORTED.finditer(code), found, text):
        _name(found, one, module)
    made = Counter(one["name"] for one in _MADE.finditer(code))
    found.mixed |= {name for name, times in made.items() if times > 1}
    for one in bounded(_MADE.finditer(code), found, text):
        _made(found, one, arguments(code, one.start("open")), text.line_of(one.start()))
    _decorated(found, text)
    _called(found, text)
    for one in bounded(_INCLUDED.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        if given and not (one["what"] == "add_routes" and given[0].startswith("[")):
            _include(found, one["owner"], given, text.line_of(one.start()))
    _added(found, text)
    _listed(found, text, module)
    came = set() if _OTHER_APP.search(code) else {"app"}  # also one that a function was given
    routers = (found.apps | set(made) | came) - {"urlpatterns"}
    found.handed = handed.handed(found, text, routers)
    if "DispatcherMiddleware" in code:
        found.everywhere |= {(framework, "**") for framework in found.frameworks}  # it may put a prefix before all
    root = _ROOT.search(code)
    if root:
        found.apps.add("#django")
        found.names["ROOT_URLCONF"] = (module(found.file, root[1]), "urlpatterns")
        found.mounts.append(Mount("#django", "", "ROOT_URLCONF", found.file, text.line_of(root.start()), serves=True))
    return found


def _made(found: Scan, one: re.Match[str], given: list[str], line: int) -> None:
    """A server or router with its own prefix and, as Starlette's, the list of its routes."""
    name = one["name"]
    prefix = next((value for part in given for key in ("prefix", "url_prefix") if (value := keyword(part, key))), "")
    if one["made"] in _ROUTERS:
        if any(_COMPUTED.match(part) for part in given):
            found.dynamic.append(line)
            found.mixed.add(name)
        found.prefixes[name] = prefix
    else:
        found.apps.add(name)
    for part in given:
        listed = re.match(r"^routes\s{0,4}=\s{0,4}(\w{1,80})$", part)
        if listed:
            found.mounts.append(Mount(name, "", listed[1], found.file, line, serves=True))


def _include(found: Scan, owner: str, given: list[str], line: int) -> None:
    """A router put on another. One whose prefix is no literal is not followed: its routes' paths are not known."""
    if any(_COMPUTED.match(part) for part in given):
        found.dynamic.append(line)
        return
    first = literal(given[0])
    told = next((value for part in given for key in ("url_prefix", "prefix") if (value := keyword(part, key))), None)
    child = given[1] if first is not None and len(given) > 1 else given[0]
    child = child.partition("=")[2].strip() if re.match(r"^\w+\s{0,4}=", child) else child
    if first is None and len(given) > 1 and re.match(r"^(?:f[\"']|[A-Z_]+$|.*\+)", given[0]):
        found.dynamic.append(line)  # mount(PREFIX, app)
        return
    name = re.match(r"^[\w.]{1,200}", child)
    replaces = told is not None and any(part.startswith("url_prefix") for part in given)
    found.mounts.append(
        Mount(owner, told or first or "", name[0] if name else "#", found.file, line, replaces=replaces, serves=True)
    )


def _name(found: Scan, one: re.Match[str], module: Module) -> None:
    if one["module"]:
        target = module(found.file, one["module"])
        if target:
            found.names[one["alias"] or one["module"]] = (target, "")
        return
    base = module(found.file, one["base"])
    for part in one["names"].strip("()").split(","):
        name, _, alias = part.strip().partition(" as ")
        dotted = one["base"] + ("" if one["base"].endswith(".") else ".") + name.strip()
        below = module(found.file, dotted) if name.strip() else ""
        if below:
            found.names[alias.strip() or name.strip()] = (below, "")
        elif base and name.strip():
            found.names[alias.strip() or name.strip()] = (base, name.strip())


def _framework(found: Scan) -> str:
    return next(iter(sorted(found.frameworks)), "python")


def _methods(given: list[str]) -> list[str]:
    for part in given:
        listed = re.match(r"^methods\s{0,4}=\s{0,4}(?:[\[({]([^\])}]{0,200}))?", part)
        if listed:
            told = [piece.strip(" \"'\n").upper() for piece in (listed[1] or "").split(",") if piece.strip()]
            return told if told and set(told) <= set(METHODS) else [UNTOLD]
    return []


def _decorated(found: Scan, text: Text) -> None:
    code = text.code
    known = set(found.apps) | set(found.prefixes)
    for one in bounded(_DECORATOR.finditer(code), found, text):
        owner = one["owner"]
        usual = owner in {"app", "router", "api", "bp", "blueprint"} or owner.partition(".")[0] in found.names
        if not found.frameworks and not usual:
            continue
        given = arguments(code, one.start("open"))
        line = text.line_of(one.start("owner"))
        path = literal(given[0]) if given else None
        path = (
            path
            if path is not None
            else next((v for p in given for k in ("path", "rule") if (v := keyword(p, k)) is not None), None)
        )
        if path is None:
            if owner in known or usual:
                found.dynamic.append(line)
            continue
        verb = one["verb"]
        methods = _methods(given) or ["GET"]
        if verb not in {"route", "api_route"}:
            methods = ["GET" if verb == "websocket" else verb.upper()]
        middleware = _around(code, one.start(), one.start("open"), given)
        for method in methods:
            found.routes.append(Route(method, path, text.path, line, owner, middleware, _framework(found)))


def _called(found: Scan, text: Text) -> None:
    """``app.get(path)(handler)``: a decorator that is called by hand; what it serves is not read."""
    known = set(found.apps) | set(found.prefixes)
    for one in bounded(_CALLED.finditer(text.bare), found, text):
        if one["owner"] in known:
            found.dynamic.append(text.line_of(one.start()))


def _around(code: str, start: int, opening: int, given: list[str]) -> tuple[str, ...]:
    """What guards a route: ``dependencies=[Depends(x)]``, and other decorators next to it."""
    found = [
        name
        for part in given
        if part.startswith("dependencies")
        for name in re.findall(r"Depends\(\s{0,4}([\w.]{1,80})", part)
    ]
    below = code[opening : opening + 2000].partition("def ")[0]
    found += re.findall(r"(?m)^[ \t]{0,40}@([\w.]{1,80})", below)
    above = code[max(0, start - 600) : start].rsplit("\n\n", 1)[-1]
    found += [
        name
        for name in re.findall(r"(?m)^[ \t]{0,40}@([\w.]{1,80})", above)
        if not re.search(r"\.(?:get|post|put|patch|delete|route)$", name)
    ]
    signature = code[opening : opening + 3000]
    head = signature.find("def ")
    if head >= 0:
        found += [
            re.sub(r"^\w+\s*:.*?=\s*", "", name)
            for name in re.findall(r"Depends\(\s{0,4}([\w.]{1,80})", signature[head:].split(":\n", 1)[0])
        ]
    return tuple(
        dict.fromkeys(name for name in found if not re.search(r"\.(?:get|post|put|patch|delete|route)$", name))
    )


def _added(found: Scan, text: Text) -> None:
    for one in bounded(_ADDED.finditer(text.code), found, text):
        given = arguments(text.code, one.start("open"))
        path = literal(given[0]) if given else None
        line = text.line_of(one.start())
        owner, framework = one["owner"].removesuffix(".router"), _framework(found)
        verb = one["verb"].removeprefix("add_").upper()
        if one["verb"] == "add_route" and len(given) > 2 and (path or "").upper() in METHODS:
            served = literal(given[1])
            verb, path = str(path).upper(), served
        if path is None:
            found.dynamic.append(line)
            continue
        default = [UNTOLD] if verb == "ROUTE" or any("as_view(" in part for part in given) else ["GET"]
        for method in [verb] if verb in METHODS else _methods(given) or default:
            found.routes.append(Route(method, path, text.path, line, owner, (), framework))


def _listed(found: Scan, text: Text, module: Module) -> None:
    """Django's ``urlpatterns`` (with ``include``), Starlette's ``routes``, aiohttp's ``add_routes``."""
    code = text.code
    django = "urlpatterns" in code or ("django" in found.frameworks and re.search(r"\b(?:re_)?path\s{0,4}\(", code))
    if not django and not found.frameworks & {"starlette", "aiohttp", "fastapi"}:
        return
    if django:
        found.dynamic += [text.line_of(start) for start in _unwritten(text)]
        found.default = "urlpatterns"
        found.prefixes["urlpatterns"] = ""
        if "ROOT_URLCONF" not in code and "admin.site.urls" in code and text.path.endswith("urls.py"):
            found.apps.add("urlpatterns")
    belongs = [(one.start(), one["name"] or one["inner"] or one["more"]) for one in _BELONGS.finditer(code)]
    starts = [start for start, _ in belongs]
    inside: list[tuple[int, int, str]] = []
    for one in bounded(_LISTED.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        line = text.line_of(one.start())
        path = literal(given[0]) if given else None
        what = one["what"]
        if (what in {"path", "re_path", "url"}) != bool(django) or len(given) < 2:
            continue
        at = bisect.bisect_right(starts, one.start()) - 1
        owner = next(
            (name for start, end, name in reversed(inside) if start < one.start() < end),
            belongs[at][1] if at >= 0 else "#list",
        )
        if path is None:
            found.dynamic.append(line)
            continue
        if what in {"re_path", "url"}:
            path = _CONVERTER.sub(r"<\1>", path).strip("^$")
        if what == "Mount":
            inner = next((part for part in given[1:] if re.match(r"^routes\s{0,4}=\s{0,4}\[", part)), "")
            child = f"#mount{one.start()}" if inner else given[1].partition("=")[2].strip() or given[1]
            if inner:
                end = closing(code, one.start("open"))
                inside.append((one.start("open"), end if end >= 0 else len(code), child))
                found.prefixes[child] = ""
            name = re.match(r"^[\w.#]{1,200}", child)
            child = name[0] if name else "#"
            found.mounts.append(Mount(owner, path, child, text.path, line, serves=True))
        elif given[1].startswith("include"):
            _included(found, Mount(owner, path, "#", text.path, line, serves=True), given[1], module)
        elif "admin.site.urls" in given[1]:
            found.routes.append(Route(ANY, join(path, "**"), text.path, line, owner, (), "django", opaque=True))
        else:
            loose = [UNTOLD] if django or re.search(r"^(?:\w+\.)*[A-Z]", given[1]) else ["GET"]
            methods = [what[4:].upper()] if what.startswith("web.") else _methods(given) or loose
            found.routes.extend(
                Route(method, path, text.path, line, owner, (), _framework(found)) for method in methods
            )


def _unwritten(text: Text) -> Iterator[int]:
    """Where Django's ``urlpatterns`` are given anything but a list of single calls of ``path``: it is not read."""
    code = text.bare
    for one in _PATTERNS.finditer(code):
        at = one.end()
        if one["call"]:
            stop = closing(code, one.start("open"))
            if one["call"] == "append" and _is_path(code[at:stop].strip().rstrip(",")):
                continue
            if one["call"] != "extend" or code[at : at + 1] != "[":
                yield one.start()
                continue
        while True:
            end = closing(code, at) if code[at : at + 1] in {"[", "("} else -1
            if end < 0 or not all(_is_path(part) for part in _parts(code[at + 1 : end])):
                yield one.start()
                break
            rest = _MORE.match(code, end + 1)
            if rest is None:
                break
            at = rest.end()


def _is_path(part: str) -> bool:
    """Whether an element of a list is one call of ``path``, ``re_path`` or ``url``."""
    call = re.match(r"(?:re_path|path|url)\s{0,4}\(", part)
    return call is not None and closing(part, call.end() - 1) == len(part) - 1


def _parts(code: str) -> Iterator[str]:
    """What stands between the commas of a list, without what is empty."""
    depth = start = 0
    for at, char in enumerate(code):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            if part := code[start:at].strip():
                yield part
            start = at + 1
    if part := code[start:].strip():
        yield part


def _included(found: Scan, mount: Mount, argument: str, module: Module) -> None:
    """Django's ``include``: of another module's patterns, of a list of this one, of a router's ``urls``."""
    told = _INCLUDE.match(argument)
    child = (told["module"] or told["name"]) if told else "#"
    child = "#" if child.endswith(".urls") and told and told["name"] else child  # a router's: it makes them itself
    if told and told["module"]:
        found.names.setdefault(child, (module(found.file, child), "urlpatterns"))
    found.mounts.append(replace(mount, child=child))
