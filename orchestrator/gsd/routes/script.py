"""Finds HTTP routes in JavaScript and TypeScript: routers with methods, decorators, files that are routes. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator

from orchestrator.gsd.routes import handed
from orchestrator.gsd.routes.found import ANY, CALLS, METHODS, UNTOLD, Route, Scan, bounded, join
from orchestrator.gsd.routes.mounts_script import Resolve, middleware_of, mounted
from orchestrator.gsd.sources.call_text import CALL_CHARS, arguments, closing, keyword, literal
from orchestrator.gsd.sources.code import Text, ending

_VERBS = "get|post|put|patch|delete|del|head|options|all|any"
_CALL = re.compile(
    rf"(?<![\w$.])(?P<owner>[A-Za-z_$][\w$]{{0,80}})\s{{0,40}}\.\s{{0,8}}(?P<verb>{_VERBS}|use|route|register|mount|on)\s{{0,8}}(?P<open>\()"
)
_LINK = re.compile(rf"\s{{0,200}}\.\s{{0,8}}(?P<verb>{_VERBS}|use|route|register|mount|on)\s{{0,8}}(?P<open>\()")
"""A call on what the one before gave back."""
_MADE = re.compile(
    r"\b(?:const|let|var)\s{1,8}(?P<name>[\w$]{1,80})\s{0,8}(?::[^=\n]{1,80})?=\s{0,8}(?:await\s{1,4})?(?:new\s{1,4})?"
    r"(?P<made>(?:express\.Router|express|Router|fastify|Fastify|Hono|OpenAPIHono|Koa|KoaRouter|polka|restify\.createServer|Elysia|App|"
    r"router)\b)(?:<[^>\n]{0,200}>)?\s{0,8}(?P<open>\()"
)
_SERVERS = frozenset(
    {"express", "fastify", "Fastify", "Hono", "OpenAPIHono", "Koa", "polka", "restify.createServer", "Elysia", "App"}
)
_FRAMEWORK = re.compile(
    r"""(?:\bfrom\s{0,8}|\brequire\s{0,4}\(\s{0,8}|\bimport\s{0,8})["'](?P<name>express|fastify|hono|koa|@koa/router|koa-router|polka"""
    r"""|restify|elysia|@nestjs/common|next/server|next|@sveltejs/kit|h3|@hono/zod-openapi)(?:/[\w-]{1,60})?["']"""
)
_IMPORTED = re.compile(
    r"""\bimport\s{1,8}(?:type\s{1,4})?(?P<names>(?:[\w$]{1,100}\s{0,4},?\s{0,8})?(?:\{[^}]{0,2000}+\}|\*\s{1,4}as\s{1,4}[\w$]{1,100})?)\s{0,8}\bfrom\s{0,8}(?P<q>["'])(?P<spec>[^"'\n]{1,300})(?P=q)"""
    r"""|\b(?:const|let|var)\s{1,8}(?P<bound>[^=;\n]{1,500}?)\s{0,8}=\s{0,8}require\s{0,4}\(\s{0,8}(?P<r>["'])(?P<module>[^"'\n]{1,300})(?P=r)"""
)
_DEFAULT = re.compile(
    r"\bexport\s{1,4}default\s{1,4}(?:async\s{1,4})?(?:function\s{1,4})?([\w$]{1,80})|\bmodule\.exports\s{0,4}=\s{0,4}([\w$]{1,80})"
)
_OWN_EXPORT = re.compile(
    r"\bexport\s{1,4}(?:async\s{1,4})?(?:function\s{1,4}|const\s{1,4})(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|ALL)\b"
)
_LISTED_EXPORT = re.compile(r"\bexport\s{0,4}(?:const\s{0,4})?\{([^}]{0,1000})\}")
_OWN_HANDLER = re.compile(
    r"\bexport\s{1,4}default\s{1,4}(?:async\b|function\b|\()|\bmodule\.exports\s{0,4}=\s{0,4}(?:async\b|function\b|\()"
)
_PASSED_ON = re.compile(r"\bexport\s{0,4}\*")
_METHOD_TEST = re.compile(
    r"""\bmethod\s{0,4}(?:===?|!==?)\s{0,4}["'](GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)["']|\bcase\s{1,4}["'](GET|POST|PUT|PATCH|DELETE)["']"""
)
_CONTROLLER = re.compile(r"@Controller\s{0,4}(?P<open>\()")
_DECORATED = re.compile(r"@(?P<verb>Get|Post|Put|Patch|Delete|Head|Options|All)\s{0,4}(?P<open>\()")
_GLOBAL = re.compile(r"(?P<what>\.setGlobalPrefix|\.enableVersioning|\bRouterModule\.register)\s{0,4}(?P<open>\()")
_INNER = re.compile(
    r"(?:async\s{1,8})?(?:function\s{0,8}[\w$]{0,80}\s{0,8})?\(?\s{0,40}(?P<name>[A-Za-z_$][\w$]{0,80})\s{0,8}[,):=]"
)
_SWAGGER = re.compile(r"\bSwaggerModule\.setup\s{0,4}(?P<open>\()")
_GUARDS = re.compile(r"@Use(?:Guards|Interceptors|Pipes)\s{0,4}\(([^)\n]{1,200})\)")
_PLUGIN = re.compile(
    r"\b(?:export\s{1,4}default\s{1,4})?(?:async\s{1,4})?function\s{1,4}(?P<name>[\w$]{1,80})?\s{0,4}\(\s{0,4}(?P<owner>fastify|app|server|instance|router)\b"
)

_EITHER = frozenset({"Hono", "OpenAPIHono", "Elysia"})
"""One class for both: what is made of it is a server only while no other file imports it."""
_USUAL = frozenset({"app", "router", "server", "fastify", "api", "routes"})
_BASED = re.compile(r"\s{0,40}\.\s{0,8}basePath\s{0,4}\(")
_PREFIXED = re.compile(r"(?<![\w$.])(?P<name>[\w$]{1,80})\.prefix\s{0,4}(?P<open>\()")
_GIVEN = re.compile(
    r"[(,]\s{0,40}app\s{0,8}(?::[^,()=]{1,80})?(?:,[^()]{0,200})?\)\s{0,4}(?::[^{=\n]{1,60})?(?:=>|\{)"
)
"""A function that is given a server."""
_PAGES = re.compile(
    r"""(?:from\s{0,8}|require\(\s{0,8})["'](?:@?vue|react|preact|svelte|solid-js|@angular|pinia|nuxt)\b"""
)
_COMPUTED_CALL = re.compile(r"(?<![\w$.])(?P<owner>[A-Za-z_$][\w$]{0,80})\s{0,4}\[[^\]\n]{1,100}\]\s{0,4}\(")


def scan(text: Text, resolve: Resolve) -> Scan:
    """Every route of a file that is written out.

    Express, Koa, Fastify, Hono and the like; NestJS; Next, SvelteKit, Nuxt and Astro by the file's place. ``resolve``
    is the caller's, who knows the project's files.
    """
    found = Scan(text.path)
    by_place = _by_place(text)
    if by_place:
        found.routes += by_place
        found.frameworks.add(by_place[0].framework)
    code = text.code
    if by_place is not None and (passed := _PASSED_ON.search(code)):
        found.dynamic.append(text.line_of(passed.start()))
    if by_place:
        return found
    for one in _FRAMEWORK.finditer(code):
        found.frameworks.add(one["name"].strip("@").split("/")[0])
    _names(found, text, resolve)
    _routers(found, text)
    _calls(found, text, resolve)
    _nest(found, text)
    # Also one that a function was given, whatever else its file imports.
    given = (
        found.frameworks or found.apps or found.everywhere or (_GIVEN.search(text.bare) and not _PAGES.search(code))
    )
    came = _USUAL & found.names.keys() | ({"app"} if given else set())
    found.handed = handed.handed(found, text, {one["name"] for one in _MADE.finditer(code)} | came)
    return found


def _names(found: Scan, text: Text, resolve: Resolve) -> None:
    code = text.code
    for one in bounded(_IMPORTED.finditer(code), found, text):
        target = resolve(found.file, one["spec"] or one["module"])
        if not target:
            continue
        names = one["names"] or one["bound"]
        head, brace, rest = names.partition("{")
        plain = head.replace("* as", "").strip(" ,\n\t")
        if plain:
            found.names[plain] = (target, "")
        for part in rest.partition("}")[0].split(",") if brace else ():
            pieces = part.replace(" as ", ":").split(":")
            if pieces[-1].strip():
                found.names[pieces[-1].strip()] = (target, pieces[0].strip())
    for default in _DEFAULT.finditer(code):
        found.default = default[1] or default[2]


def _routers(found: Scan, text: Text) -> None:
    code = text.code
    for one in bounded(_MADE.finditer(code), found, text):
        name, told = one["name"], " ".join(arguments(code, one.start("open")))
        if one["made"] in _SERVERS:
            found.apps.add(name)
            if one["made"] in _EITHER:
                found.loose.add(name)
        _prefixed(found, name, keyword(told, "prefix"), bool(re.search(r"\bprefix\b", told)))
        end = closing(code, one.start("open"), CALL_CHARS)
        based = _BASED.match(code, end + 1) if end >= 0 else None
        if based:
            given = arguments(code, based.end() - 1)
            _prefixed(found, name, literal(given[0]) if given else None, True)
    for one in bounded(_PREFIXED.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        _prefixed(found, one["name"], literal(given[0]) if given else None, True)
    for plugin in _PLUGIN.finditer(code):
        found.prefixes.setdefault(plugin["owner"], "")
        if plugin["name"]:
            found.names[plugin["name"]] = (found.file, plugin["owner"])
    made = [one["name"] for one in _MADE.finditer(code)] + [one["owner"] for one in _PLUGIN.finditer(code)]
    found.mixed |= {name for name, times in Counter(made).items() if times > 1}


def _prefixed(found: Scan, name: str, prefix: str | None, told: bool) -> None:
    """What a router's own prefix is; one that is not written out makes the router one that cannot be followed."""
    if prefix:
        found.prefixes[name] = join(found.prefixes.get(name, ""), prefix)
    elif told and prefix is None:
        found.mixed.add(name)


def _calls(found: Scan, text: Text, resolve: Resolve) -> None:
    code = text.code
    known = bool(found.frameworks)
    made = {one["name"] for one in _MADE.finditer(code)} | set(found.prefixes)
    for one in bounded(_COMPUTED_CALL.finditer(code), found, text):
        if one["owner"] in made or (known and one["owner"] in _USUAL):
            found.dynamic.append(text.line_of(one.start()))
    for one in bounded(_CALL.finditer(code), found, text):
        owner, verb = one["owner"], one["verb"]
        likely = owner in made or (known and (owner in _USUAL or owner in found.names))
        if not (likely or owner in {"app", "router", "fastify"}):
            continue
        opening, line = one.start("open"), text.line_of(one.start())
        _call(found, text, (owner, verb, likely, line), opening, resolve)
        for link in _links(text, opening) if verb != "route" and owner in made else ():
            line = text.line_of(link.start("verb"))
            _call(found, text, (owner, link["verb"], likely, line), link.start("open"), resolve)
            if link["verb"] == "route":
                break


def _call(found: Scan, text: Text, called: tuple[str, str, bool, int], opening: int, resolve: Resolve) -> None:
    """One call on a router: a route, something that is put on it, or what cannot be told."""
    owner, verb, likely, line = called
    given = arguments(text.code, opening)
    path = literal(given[0]) if given else None
    if verb in {"use", "register", "mount"} or (verb == "route" and len(given) > 1 and path is not None):
        if likely:
            if verb == "register" and (inner := _INNER.match(given[0] if given else "")) and inner["name"] == owner:
                found.mixed.add(owner)  # a function's own router by the same name
            mounted(found, owner, given, line, resolve)
    elif verb == "route":
        _whole(found, text, owner, opening)
    elif verb == "on" and len(given) > 2:
        first, second = literal(given[0]), literal(given[1])
        if first is not None and second is not None:
            found.routes.append(_route(found, owner, (first, second), line, given[2:]))
        else:
            found.dynamic.append(line)
    elif path is not None and len(given) > 1 and (likely or path.startswith(("/", "*", ":"))):
        found.routes.append(_route(found, owner, (verb, path), line, given[1:]))
    elif path is None and len(given) > 1 and likely:
        found.dynamic.append(line)


def _links(text: Text, opening: int) -> Iterator[re.Match[str]]:
    """The calls that are chained to one: those behind its closing bracket, not those among its arguments."""
    for _ in range(CALLS):
        end = closing(text.bare, opening, CALL_CHARS)
        link = _LINK.match(text.bare, end + 1) if end >= 0 else None
        if link is None:
            return
        yield link
        opening = link.start("open")


def _route(found: Scan, owner: str, served: tuple[str, str], line: int, rest: list[str]) -> Route:
    verb, path = served
    method = {"DEL": "DELETE", "ALL": ANY}.get(verb.upper(), verb.upper())
    middleware = [name for part in rest[:-1] for name in middleware_of(part)]
    return Route(
        method, path, found.file, line, owner, tuple(middleware), next(iter(sorted(found.frameworks)), "script")
    )


def _whole(found: Scan, text: Text, owner: str, opening: int) -> None:
    """``app.route('/x').get(h).post(h)`` of Express, and Fastify's ``route({method, url})``."""
    given, line = arguments(text.code, opening), text.line_of(opening)
    if not given:
        return
    path = literal(given[0])
    if path is None:
        method, url = keyword(given[0], "method"), keyword(given[0], "url")
        if url and method:
            found.routes.append(_route(found, owner, (method, url), line, [given[0], ""]))
        elif given[0].startswith("{"):
            found.dynamic.append(line)
        return
    for link in _links(text, opening):
        line = text.line_of(link.start("verb"))
        if link["verb"] in {"use", "route", "register", "mount", "on"}:
            found.dynamic.append(line)
            break
        rest = arguments(text.code, link.start("open"))
        found.routes.append(_route(found, owner, (link["verb"], path), line, rest))


def _nest(found: Scan, text: Text) -> None:
    """NestJS: ``@Controller('users')`` over a class, ``@Get(':id')`` over its methods; the global prefix."""
    code = text.code
    for one in bounded(_GLOBAL.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        prefix = literal(given[0]) if given else None
        if one["what"] == ".setGlobalPrefix" and prefix is not None and len(given) == 1:
            found.everywhere.add(("nestjs", prefix))
        else:
            found.dynamic.append(text.line_of(one.start()))
            found.everywhere.add(("nestjs", "**"))
    for one in bounded(_SWAGGER.finditer(code), found, text):
        path = literal(given[0]) if (given := arguments(code, one.start("open"))) else None
        line = text.line_of(one.start())
        if path is None:
            found.dynamic.append(line)
            continue
        for below in (join(path, "**"), join("", f"{path}-json"), join("", f"{path}-yaml")):
            found.routes.append(Route(ANY, below, found.file, line, framework="swagger", opaque=True))
    if len(re.findall(r"\bNestFactory\.create\b", code)):
        found.apps.add("#nest")
    heads = [(one.start(), one) for one in bounded(_CONTROLLER.finditer(code), found, text)]
    for index, (start, head) in enumerate(heads):
        given = arguments(code, head.start("open"))
        prefix = literal(given[0]) if given else ""
        if prefix is None and given[0].startswith("{") and not re.search(r"\b(?:version|host)\b", given[0]):
            prefix = keyword(given[0], "path")
        owner = ""
        if prefix is None:
            found.dynamic.append(text.line_of(start))
            owner, prefix = "#controller", ""
        stop = heads[index + 1][0] if index + 1 < len(heads) else len(code)
        body = code.find("class ", start, stop)
        shared = _guards(code[max(0, start - 300) : max(start, body)])
        for one in bounded(_DECORATED.finditer(code, start, stop), found, text):
            inner = arguments(code, one.start("open"))
            path = literal(inner[0]) if inner else ""
            line = text.line_of(one.start())
            if path is None:
                found.dynamic.append(line)
                continue
            around = code[max(body, one.start() - 200) : one.start()].rpartition("}")[2]
            below = code[one.end() : one.end() + 300].partition("{")[0]
            guards = (*shared, *_guards(around), *_guards(below))
            method = ANY if one["verb"] == "All" else one["verb"].upper()
            found.routes.append(Route(method, join(prefix, path), text.path, line, owner, guards, "nestjs"))
            found.frameworks.add("nestjs")


def _guards(code: str) -> tuple[str, ...]:
    return tuple(part.strip() for found in _GUARDS.findall(code) for part in found.split(",") if part.strip())


# -- files that are routes ------------------------------------------------------------------------------------------


def _by_place(text: Text) -> list[Route] | None:
    """The routes of a file whose place is its path (Next, SvelteKit, Nuxt, Astro); None when it is none."""
    path = text.path
    parts = path.split("/")
    name = parts[-1]
    if _is_inside(parts):
        return None
    if ending(path) not in {".ts", ".js", ".tsx", ".jsx", ".mjs"}:
        return None
    if name.startswith("route.") and "app" in parts[:-1]:
        if any(part.startswith(("_", "(.")) for part in parts[parts.index("app") :]):
            return None  # a private folder, or a route that stands in for another
        return _exported(text, _url(parts[parts.index("app") + 1 : -1]), "next")
    if name.startswith("+server.") and "routes" in parts[:-1]:
        return _exported(text, _url(parts[parts.index("routes") + 1 : -1]), "sveltekit")
    if "pages" in parts[:-1]:
        below = parts[parts.index("pages") + 1 :]
        if below and below[0] == "api":
            own = _exported(text, _url([*below[:-1], _plain(name)]), "astro")
            if own:
                return own
            methods = _tested(text)
            line = _default_line(text)
            if not line:
                return None
            url = _url([*below[:-1], _plain(name)])
            return [Route(method, url, path, line, framework="next") for method in methods]
    if "server" in parts[:-1]:
        below = parts[parts.index("server") + 1 :]
        if (
            below
            and below[0] in {"api", "routes"}
            and "defineEventHandler" in text.code + text.code.replace("eventHandler", "defineEventHandler")
        ):
            pieces = name.split(".")
            verb = pieces[1].upper() if len(pieces) > 2 and pieces[1].upper() in METHODS else ANY
            url = _url([*(below[:-1] if below[0] == "api" else below[1:-1]), pieces[0]])
            return [Route(verb, url, path, _default_line(text) or 1, framework="nuxt")]
    return None


def _is_inside(parts: list[str]) -> bool:
    """Whether a path is one below a source directory that is not its own: ``src/lib/app/…``."""
    at = next((at for at, part in enumerate(parts) if part in {"app", "pages", "server", "routes"}), 0)
    return "src" in parts[: max(0, at - 1)] or "components" in parts[:at]


def _tested(text: Text) -> list[str]:
    """The methods a handler asks about; `UNTOLD` as well where it may answer others, `ANY` where it asks for none."""
    tests = list(_METHOD_TEST.finditer(text.code))
    methods = list(dict.fromkeys(one[1] or one[2] for one in tests))
    if methods:
        return methods if all("!=" in one[0] for one in tests) else [*methods, UNTOLD]
    named = _DEFAULT.search(text.code)
    name = re.escape(named[1] or named[2]) if named else "(?!)"
    own = _OWN_HANDLER.search(text.code) or re.search(
        rf"\bfunction\s{{1,4}}{name}\s{{0,4}}\(|\bconst\s{{1,4}}{name}\b[^=\n]{{0,80}}=\s{{0,4}}(?:async\s{{0,4}})?\(",
        text.code,
    )
    return [ANY] if own and not re.search(r"\bmethod\b", text.code) else [UNTOLD]


def _plain(name: str) -> str:
    return posixpath.splitext(name)[0]


def _url(parts: list[str]) -> str:
    kept = [
        part
        for part in parts
        if not (part.startswith("(") and part.endswith(")")) and part != "index" and not part.startswith("@")
    ]
    return "/" + "/".join(kept)


def _exported(text: Text, url: str, framework: str) -> list[Route]:
    found: dict[str, int] = {}
    for one in _OWN_EXPORT.finditer(text.code):
        found.setdefault(ANY if one[1] == "ALL" else one[1], text.line_of(one.start(1)))
    for listed in _LISTED_EXPORT.finditer(text.code):
        for part in listed[1].split(","):
            name = part.replace(":", " as ").split(" as ")[-1].strip()
            if name in METHODS:
                found.setdefault(name, text.line_of(listed.start()))
    return [Route(method, url, text.path, line, framework=framework) for method, line in found.items()]


def _default_line(text: Text) -> int:
    found = re.search(r"\bexport\s{1,4}default\b|\bmodule\.exports\b", text.code)
    return text.line_of(found.start()) if found else 0
