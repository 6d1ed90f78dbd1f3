"""Finds HTTP routes in Go: net/http, chi, gin, echo, fiber and gorilla/mux, each on the router it is put on. Pure.

A router is known by its function and variable. One that is made where a server is started is served; one that a
function takes or gives back is followed to where that function is called.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from dataclasses import dataclass, field

from orchestrator.gsd.routes.found import ANY, METHODS, UNTOLD, Mount, Route, Scan, bounded, join
from orchestrator.gsd.sources.call_text import CALL_CHARS, arguments, closing, literal, name_of
from orchestrator.gsd.sources.code import Text

_FUNC = re.compile(
    r"(?m)^func\s{1,4}(?:\([^)\n]{0,200}\)\s{0,4})?(?P<name>\w{1,120})\s{0,4}(?:\[[^\]\n]{0,200}\])?(?P<open>\()"
)
_ROUTER = re.compile(
    r"(?P<name>\w{1,80})\s{1,4}\*?(?:gin\.(?:IRouter|IRoutes|RouterGroup|Engine)|chi\.(?:Router|Mux)|echo\.(?:Echo|Group)|fiber\.(?:Router|App)"
    r"|mux\.Router|http\.ServeMux)\b"
)
_WHOLE = re.compile(r"(?P<name>\w{1,80})\s{1,4}\*(?:gin\.Engine|echo\.Echo)\b")
"""A server as such: nothing can stand before its routes."""
_MADE = re.compile(
    r"(?P<name>\w{1,80})\s{0,4}:?=\s{0,4}(?P<made>gin\.(?:Default|New)|chi\.New(?:Router|Mux)|echo\.New|fiber\.New|mux\.NewRouter"
    r"|http\.NewServeMux)\s{0,4}\("
)
_GROUP = re.compile(
    r"(?P<name>\w{1,80})\s{0,4}:?=\s{0,4}(?P<owner>[\w.]{1,80})\.(?P<what>Group|PathPrefix|Route|With)\s{0,4}(?P<open>\()"
)
_CALL = re.compile(
    r"(?<![\w.])(?P<owner>\w{1,80}(?:\.\w{1,80}){0,2}?)(?:\.With\([^)\n]{0,200}\))?\.(?P<verb>HandleFunc|Handle|Get|Post|Put|Patch|Delete|Head|Options"
    r"|GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|Any|All|Add|Match|Method|MethodFunc|Mount|Route|Group|Static\w{0,6})\s{0,4}(?P<open>\()"
)
_PASSED = re.compile(r"(?<![\w.])(?P<child>(?:\w{1,80}\.)?\w{1,120})\s{0,2}(?P<open>\()")
_FRAMEWORK = re.compile(
    r"\"(?:github\.com/(?:go-chi/(?P<chi>chi)|gin-gonic/(?P<gin>gin)|labstack/(?P<echo>echo)|gofiber/(?P<fiber>fiber)|gorilla/(?P<mux>mux))|(?P<net>net/http))"
    r"[\w/.]{0,20}\""
)
_METHODS = re.compile(r"^\s{0,40}\.Methods\(([^)\n]{1,200})\)")
_SERVES = re.compile(
    r"\b(?:ListenAndServe\w{0,4}|Serve|RunTLS|StartTLS|ListenTLS)\s{0,4}\(|\.(?:Run|Start|Listen)\s{0,4}\(|\bhttp\.Server\{"
)
_TAKES = re.compile(r"(?i)rout|group|engine|mux|^[rge]$|^app$|^v\d|^api")
_PARAMETER = re.compile(r"^func\s{0,4}\(\s{0,4}(\w{1,80})\s")


@dataclass
class _Function:
    name: str
    start: int
    end: int
    routers: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    serves: bool = False


def scan(text: Text) -> Scan:
    """Every route of a file, with the groups, blocks and functions around it as routers that are mounted."""
    found = Scan(text.path)
    code = text.code
    used = {
        name.replace("net", "net/http")
        for one in _FRAMEWORK.finditer(code)
        for name, got in one.groupdict().items()
        if got
    }
    if not used:
        return found
    found.frameworks |= used if len(used) == 1 else used - {"net/http"}
    functions = _functions(found, text)
    starts = [one.start for one in functions]
    outside = _Function("", 0, len(code))

    def around(offset: int) -> _Function:
        at = bisect.bisect_right(starts, offset) - 1
        return functions[at] if at >= 0 else outside

    _groups(found, text, around)
    _calls(found, text, around)
    _passed(found, text, functions)
    return found


def _functions(found: Scan, text: Text) -> list[_Function]:
    code = text.code
    heads = list(bounded(_FUNC.finditer(code), found, text))
    names = Counter(one["name"] for one in heads)
    functions = []
    for index, one in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(code)
        brace = code.find("{", closing(code, one.start("open")), end)
        own = one["name"] if names[one["name"]] == 1 else f"{one['name']}@{one.start()}"
        function = _Function(own, one.start(), end, serves=bool(_SERVES.search(code, one.start(), end)))
        given = [router["name"] for router in _ROUTER.finditer(code, one.start("open"), max(brace, one.end()))]
        function.routers = {name: own if len(given) == 1 else f"{own}:{name}" for name in given}
        for whole in _WHOLE.finditer(code, one.start("open"), max(brace, one.end())):
            found.apps.add(function.routers[whole["name"]])
            found.prefixes[function.routers[whole["name"]]] = ""
        for made in _MADE.finditer(code, one.start(), end):
            name = made["name"]
            back = re.search(rf"\breturn\s{{1,4}}{re.escape(name)}\b", code[one.start() : end])
            served = function.name == "main" or function.serves
            key = function.name if back and not served and not given else f"{function.name}:{name}"
            if function.routers.get(name) == key:
                found.mixed.add(key)
            function.routers[name] = key
            found.prefixes[key] = ""
            if made["made"] == "http.NewServeMux":
                function.plain.add(name)
            if served:
                found.apps.add(key)
        functions.append(function)
    found.apps.add("http")
    found.prefixes["http"] = ""
    return functions


def _groups(found: Scan, text: Text, around: object) -> None:
    assert callable(around)
    for one in bounded(_GROUP.finditer(text.code), found, text):
        given = arguments(text.code, one.start("open"))
        function = around(one.start())
        path = "" if one["what"] == "With" else literal(given[0]) if given else None
        if given and given[0].startswith("func"):
            continue
        key = f"{function.name}:{one['name']}"
        parent = _owner(function, one["owner"])
        names = tuple(name for part in given[1:] if (name := name_of(part)))
        if path is None or (key in found.prefixes and function.routers.get(one["name"]) == key) or parent == key:
            found.mixed.add(key)
            found.dynamic.append(text.line_of(one.start()))
        else:
            found.mounts.append(Mount(parent, path, key, found.file, text.line_of(one.start()), names))
        function.routers[one["name"]] = key
        found.prefixes[key] = ""


def _owner(function: _Function, name: str) -> str:
    return "http" if name == "http" else function.routers.get(name, f"{function.name}:{name}")


def _calls(found: Scan, text: Text, around: object) -> None:
    assert callable(around)
    code = text.code
    framework = next(iter(sorted(found.frameworks)))
    blocks: list[tuple[int, int, str, str]] = []
    for one in bounded(_CALL.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        function, start, verb, line = around(one.start()), one.start(), one["verb"], text.line_of(one.start())
        owner = next(
            (key for begin, end, name, key in reversed(blocks) if begin < start < end and name == one["owner"]),
            _owner(function, one["owner"]),
        )
        known = owner in found.prefixes or one["owner"] in function.routers or owner.startswith("#")
        if not given or (one["owner"] == "http" and verb not in {"Handle", "HandleFunc"}):
            continue
        if (taken := _PARAMETER.match(given[-1])) and verb in {"Route", "Group"}:
            path = "" if len(given) == 1 else literal(given[0])
            key, end = f"#block{start}", closing(code, one.start("open"))
            blocks.append((one.start("open"), end if end >= 0 else len(code), taken[1], key))
            found.prefixes[key] = ""
            if path is None:
                found.mixed.add(key)
                found.dynamic.append(line)
            else:
                found.mounts.append(Mount(owner, path, key, found.file, line))
            continue
        if verb in {"Route", "Group"} or len(given) < 2:
            continue
        method = verb.upper() if verb.upper() in METHODS else ANY if verb in {"Any", "All"} else UNTOLD
        path = literal(given[0])
        if verb in {"Method", "MethodFunc", "Add", "Handle"} and (path or "").upper() in METHODS and len(given) > 2:
            method, path, given = str(path).upper(), literal(given[1]), given[1:]
        if path is None or verb == "Match":
            if known or verb not in {
                "Get",
                "Delete",
                "Head",
                "Options",
                "Patch",
                "Post",
                "Put",
                "Handle",
                "Add",
                "Match",
                "Method",
            }:
                found.dynamic.append(line)
            continue
        head, space, tail = path.partition(" ")
        if space and head in METHODS:
            method, path = head, tail.strip()
        if path and not path.startswith("/"):
            continue
        if verb.startswith("Static"):
            found.routes.append(Route("GET", join(path, "**"), text.path, line, owner, (), framework, opaque=True))
        elif verb == "Mount" or (verb == "Handle" and _stripped(given[1])):
            found.mounts.append(Mount(owner, path, _child(function, given[1]), text.path, line, serves=True))
        else:
            _put(found, text, Route(method, path, text.path, line, owner, (), framework), one.start("open"), given)
            if path.endswith("/") and (one["owner"] == "http" or one["owner"] in function.plain):
                below = join(path, "**")  # in net/http a path that ends with a slash takes all below it
                found.routes.append(Route(ANY, below, text.path, line, owner, (), framework, opaque=True))


def _put(found: Scan, text: Text, route: Route, opening: int, given: list[str]) -> None:
    end = closing(text.code, opening, CALL_CHARS)
    chained = _METHODS.match(text.code[end + 1 : end + 300]) if end >= 0 else None
    methods = [route.method]
    if chained:
        told = [m.strip(' "').replace("http.Method", "").upper() for m in chained[1].split(",")]
        methods = told if set(told) <= set(METHODS) else [UNTOLD]
    names = tuple(name for part in given[1:-1] if (name := name_of(part)))
    path = route.path.removesuffix("{$}")
    found.routes += [
        Route(method, path, route.file, route.line, route.owner, names, route.framework) for method in methods
    ]


def _stripped(argument: str) -> bool:
    return argument.startswith("http.StripPrefix") or bool(re.match(r"^\w+(?:Mux|Router|mux|router)$", argument))


def _child(function: _Function, argument: str) -> str:
    """The router that is mounted: a variable's, or what a function gives back."""
    argument = re.sub(r"^http\.StripPrefix\([^,]{0,200},\s{0,8}", "", argument)
    name = re.match(r"^[\w.]{1,200}", argument)
    plain = name[0] if name else "#"
    return function.routers.get(plain, plain)


def _passed(found: Scan, text: Text, functions: list[_Function]) -> None:
    """Calls that give a router to a function of the project, or that serve what one gives back."""
    for function in functions:
        served = function.serves or function.name == "main"
        if not served and not function.routers:
            continue
        own = f"{function.name}#served"
        if served:
            found.apps.add(own)
        for one in bounded(_PASSED.finditer(text.code, function.start, function.end), found, text):
            child, line = one["child"], text.line_of(one.start())
            given = arguments(text.code, one.start("open"))
            for part in given:
                grouped = re.match(r"^(?P<owner>[\w.]{1,80})\.Group\(\s{0,4}\"(?P<path>[^\"]{0,200})\"", part)
                name = grouped["owner"] if grouped else part
                if name in function.routers:
                    prefix = grouped["path"] if grouped else ""
                    found.mounts.append(Mount(function.routers[name], prefix, child, found.file, line))
            if any(_TAKES.search(part) for part in given):
                continue  # it gets a router from here: what it puts on it was followed above, or cannot be
            before = text.code[text.code.rfind("\n", 0, one.start()) + 1 : one.start()]
            if served and not re.search(
                r"\.(?:Mount|Handle\w*|Route|Group|Use)\s{0,4}\(|StripPrefix|^func\b", before
            ):
                found.mounts.append(Mount(own, "", child, found.file, line))
