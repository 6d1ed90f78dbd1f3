"""Finds HTTP routes in Rust, Java, Kotlin and Ruby. Pure.

Rust: axum's ``.route``/``.nest``, actix and Rocket attributes. Spring. Rails' ``routes.rb`` with scopes,
namespaces and resources; Sinatra's blocks.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.gsd.routes.found import ANY, UNTOLD, Mount, Route, Scan, bounded, join
from orchestrator.gsd.sources.call_text import CALL_CHARS, arguments, closing, literal
from orchestrator.gsd.sources.code import Text

_VERB = re.compile(r"(?<![\w:])(?:[\w]{1,40}::){0,3}(get|post|put|patch|delete|head|options|any)\s{0,4}\(")
_RS_CALL = re.compile(r"\.\s{0,8}(?P<what>route|nest|merge|nest_service|route_layer|layer)\s{0,4}(?P<open>\()")
_RS_FN = re.compile(r"\bfn\s{1,4}(?P<name>\w{1,80})")
_RS_LET = re.compile(
    r"\blet\s{1,4}(?:mut\s{1,4})?(?P<name>\w{1,80})\s{0,4}(?::[^=\n]{1,80})?=\s{0,8}(?:\w{1,40}::){0,3}Router\s{0,4}::"
)
_RS_ATTRIBUTE = re.compile(
    r"#\[\s{0,4}(?:\w{1,40}::)?(?P<verb>get|post|put|patch|delete|head|options|route)\s{0,4}(?P<open>\()"
)
_RS_MOUNT = re.compile(r"\.mount\s{0,4}(?P<open>\()")
_RS_SERVE = re.compile(
    r"(?:\baxum::serve|\bServer::bind[^;]{0,200}?\.serve)\s{0,4}\((?:[^,;()]{0,100}(?:\([^()]{0,100}\))?[^,;()]{0,40},)?\s{0,8}(?P<app>\w{1,80})"
)
_RS_LET_CALL = re.compile(r"\blet\s{1,4}(?:mut\s{1,4})?\w{1,80}\s{0,4}=\s{0,4}(?P<child>[\w:]{1,200})\(")


def rust(text: Text) -> Scan:
    """Axum routers by function or variable, and attributes; ``main`` and what calls ``serve`` count as the server."""
    found = Scan(text.path)
    code = text.code
    if re.search(r"\baxum\b", code):
        found.frameworks.add("axum")
    for name in ("actix_web", "rocket", "poem", "warp"):
        if re.search(rf"\b{name}\b", code):
            found.frameworks.add(name)
    if not found.frameworks and "Router" not in code and not _RS_ATTRIBUTE.search(code):
        return found
    places = sorted([(one.start(), one["name"]) for one in [*_RS_FN.finditer(code), *_RS_LET.finditer(code)]])
    starts = [start for start, _ in places]
    for one in bounded(_RS_CALL.finditer(code), found, text):
        at = bisect.bisect_right(starts, one.start()) - 1
        owner = places[at][1] if at >= 0 else ""
        given = arguments(code, one.start("open"))
        line = text.line_of(one.start("what"))
        if one["what"] == "route" and len(given) > 1:
            path = literal(given[0])
            if path is None:
                found.dynamic.append(line)
                continue
            verbs = list(dict.fromkeys(verb.upper() for verb in _VERB.findall(_outside(given[1])))) or [UNTOLD]
            layers = tuple(re.findall(r"\.(?:route_)?layer\(\s{0,8}([^()\n]{1,80})", given[1]))
            found.routes += [
                Route(ANY if v == "ANY" else v, path, text.path, line, owner, layers, "axum") for v in verbs
            ]
            found.frameworks.add("axum")
        elif one["what"] in {"nest", "merge", "nest_service"} and given:
            prefix = literal(given[0]) if one["what"] != "merge" else ""
            child = re.sub(r"\(.*$", "", given[-1], flags=re.DOTALL).strip()
            if prefix is None:
                found.dynamic.append(line)
            else:
                named = child if re.match(r"^[\w:]+$", child) else "#"
                found.mounts.append(Mount(owner, prefix, named, text.path, line, serves=True))
    for one in bounded(_RS_ATTRIBUTE.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        path = literal(given[0]) if given else None
        function = _RS_FN.search(code, one.end(), one.end() + 600)
        if path is None or not path.startswith("/") or function is None:
            if found.frameworks & {"rocket", "actix_web"}:
                found.dynamic.append(text.line_of(one.start()))
            continue
        methods = [one["verb"]]
        if one["verb"] == "route":
            methods = re.findall(r"method\s{0,4}=\s{0,4}\"(\w{1,10})\"", " ".join(given)) or [UNTOLD]
        framework = "rocket" if "rocket" in found.frameworks else "actix_web"
        found.frameworks.add(framework)
        # The function is what is mounted (Rocket) or put in a scope (actix, which is not followed).
        found.routes += [
            Route(m.upper(), path, text.path, text.line_of(one.start()), f"fn {function['name']}", (), framework)
            for m in methods
        ]
    for one in bounded(_RS_MOUNT.finditer(code), found, text):
        given = arguments(code, one.start("open"))
        prefix = literal(given[0]) if given else None
        line = text.line_of(one.start())
        if prefix is None or len(given) < 2:
            found.dynamic.append(line)
            continue
        found.apps.add("#rocket")
        listed = re.match(r"^routes!\s{0,4}[\[(]([^\])]{0,4000})[\])]$", given[1], re.DOTALL)
        for child in listed[1].split(",") if listed else ["#"]:
            *modules, last = child.strip().split("::")
            if last:
                wanted = "::".join([*modules, f"fn {last}"]) if listed else "#"
                found.mounts.append(Mount("#rocket", prefix, wanted, text.path, line, serves=True))
    _rust_servers(found, code, places)
    return found


def _outside(code: str) -> str:
    """A chain of calls without their arguments."""
    kept, depth = [], 0
    for char in code:
        depth -= char in ")]}"
        kept.append(char if depth <= 0 else " ")
        depth += char in "([{"
    return "".join(kept)


def _rust_servers(found: Scan, code: str, places: list[tuple[int, str]]) -> None:
    """What is given to ``axum::serve``, or made in ``main``, is the server; what they call gives it its routes."""
    names = Counter(name for _, name in places)
    found.mixed |= {name for name, times in names.items() if times > 1}
    for index, (start, name) in enumerate(places):
        stop = places[index + 1][0] if index + 1 < len(places) else len(code)
        served = _RS_SERVE.search(code, start, stop)
        if served:
            known = {other for _, other in places[: index + 1]}
            found.apps.add(served["app"] if served["app"] in known else name)
        if name == "main":
            found.apps.add(name)
        if name == "main" or served:
            owner = name
            for call in _RS_LET_CALL.finditer(code, start, stop):
                found.mounts.append(
                    Mount(owner, "", call["child"], found.file, 1 + code.count("\n", 0, call.start()))
                )


_CLASS = re.compile(r"\b(?:class|interface)\s{1,4}\w")
_SPRING = re.compile(r"@(?P<verb>Get|Post|Put|Patch|Delete|Request)Mapping\b\s{0,4}(?P<open>\()?")


@dataclass(frozen=True)
class _Class:
    """A class of Java or Kotlin: where its name stands, its body; whether it is said to answer requests."""

    start: int
    opens: int
    end: int
    serves: bool


def _classes(text: Text) -> list[_Class]:
    """Every class of a file, in order of the text."""
    bare = text.bare
    ends: dict[int, int] = {}
    open_ones: list[int] = []
    for brace in re.finditer(r"[{}]", bare):
        if brace[0] == "{":
            open_ones.append(brace.start())
        elif open_ones:
            ends[open_ones.pop()] = brace.start()
    found = []
    for one in _CLASS.finditer(bare):
        opens = bare.find("{", one.end())
        before = re.sub(r"\([^()]{0,400}\)", "", bare[max(0, one.start() - 1000) : one.start()])
        head = re.split(r"[;}]", before)[-1]
        serves = bool(re.search(r"@\w{0,80}(?:Controller|Endpoint)\b", head))
        found.append(_Class(one.start(), opens, ends.get(opens, len(bare)), serves))
    return found


def spring(text: Text) -> Scan:
    """Spring: the class's ``@RequestMapping`` in front of its methods' mappings; ``@PreAuthorize`` as middleware."""
    found = Scan(text.path)
    code = text.code
    if re.search(r"@(?:FeignClient|HttpExchange)\b", code):
        return found  # such an interface asks, it does not answer
    if re.search(r"\baddPathPrefix\b|\bsetPathPrefix", code):
        found.everywhere.add(("spring", "**"))
    if "Mapping" not in code:
        return found
    classes = _classes(text)
    prefixes: dict[int, list[str]] = {}
    for one in bounded(_SPRING.finditer(code), found, text):
        found.frameworks.add("spring")
        given = arguments(code, one.start("open")) if one["open"] else []
        told = " ".join(given)
        paths = _spring_paths(given)
        line = text.line_of(one.start())
        end = closing(text.bare, one.start("open"), CALL_CHARS) + 1 if one["open"] else one.end()
        before_class = re.match(r"[^{;]{0,600}?\b(?:class|interface)\s", text.bare[max(end, one.end()) :][:600])
        if before_class:
            prefixes[max(end, one.end()) + before_class.end()] = paths
            if not paths:
                found.dynamic.append(line)
            continue
        inside = next((c for c in reversed(classes) if c.start < one.start() < c.end), None)
        above = next((p for at, p in prefixes.items() if inside and inside.start <= at <= inside.opens), [""])
        owner = "" if inside is not None and inside.serves and above else "#class"
        if not paths:
            found.dynamic.append(line)
            continue
        methods = (
            re.findall(r"RequestMethod\.([A-Z]{3,7})", told) if one["verb"] == "Request" else [one["verb"].upper()]
        )
        if one["verb"] == "Request" and not methods and "method" in told:
            methods = [UNTOLD]
        head = code[one.end() : one.end() + 600].partition("{")[0]
        guards = tuple(re.findall(r"@(PreAuthorize|Secured|RolesAllowed)\b", head))
        found.routes += [
            Route(m, join(prefix, path), text.path, line, owner, guards, "spring")
            for m in methods or [ANY]
            for prefix in above or [""]
            for path in paths
        ]
    return found


def _spring_paths(given: list[str]) -> list[str]:
    """The paths of a mapping; one of ``""`` where it names none; none where one of them is no literal."""
    found: list[str] = []
    for part in given:
        key = re.match(r"^(\w{1,40})\s{0,4}=\s{0,4}", part)
        if key and key[1] not in {"value", "path"}:
            continue
        bare = part[key.end() :] if key else part
        pieces = arguments(bare, 0) if bare.startswith(("{", "[")) else [bare]
        for piece in pieces:
            path = literal(piece)
            if path is None:
                return []
            found.append(path)
    return found or [""]


_RB_LINE = re.compile(
    r"^(?P<verb>get|post|put|patch|delete|match|resources?|namespace|scope|root|member|collection|concern|constraints|mount|devise_for|draw)\b"
    r"\s{0,8}(?P<rest>.{0,600})"
)
_RB_PATH = re.compile(
    r"""^\(?\s{0,4}(?:"(?P<double>[^"\n]{0,300})"|'(?P<single>[^'\n]{0,300})'|:(?P<symbol>\w{1,80}))"""
)
_RB_OPENS = re.compile(r"(?:\bdo\b|\{)(?:\s*\|[^|]*\|)?\s*$")
_RB_ONLY = re.compile(r"\bonly:\s{0,4}(%i\[[^\]]{0,200}\]|\[[^\]]{0,200}\]|:\w{1,20})")
_RB_EXCEPT = re.compile(r"\bexcept:\s{0,4}(%i\[[^\]]{0,200}\]|\[[^\]]{0,200}\]|:\w{1,20})")
_UP = "^"
_RB_DEEP = 100
_UNTOLD = "\0"
"""Around lines whose prefix is not known."""
_RB_QUIET = re.compile(
    r"^(?:$|Rails\.application\.routes\.draw\b|require\b|default_url_options\b|resolve\b|direct\b|\]|\)|\}|root\b)"
)


def rails(text: Text) -> Scan:
    """``config/routes.rb`` line by line, with the blocks around each; Sinatra's ``get '/x' do`` as well.

    Each line between ``routes.draw do`` and its end must be one that is known here, else it is noted as dynamic.
    """
    found = Scan(text.path)
    code = text.code
    sinatra = bool(re.search(r"require\s{1,4}[\"']sinatra|Sinatra::", code))
    if "routes.draw" not in code and not sinatra and "/routes/" not in text.path:
        return found
    found.frameworks.add("sinatra" if sinatra else "rails")
    engine = re.search(r"\bEngine\.routes\.draw\b", code)
    if re.search(r"require\s{1,4}[\"']sinatra[\"']", code):
        found.apps.add("#sinatra")  # a class of Sinatra::Base may be mounted anywhere
    around: list[str] = [_UNTOLD] if engine else []  # where an engine is mounted stands elsewhere
    for number, raw in enumerate(code.split("\n"), 1):
        line = raw.strip()[:800]
        if line == "}" and around:
            around.pop()
            continue
        opens = bool(_RB_OPENS.search(line)) or bool(re.match(r"^(?:if|unless|case|def|class|module|begin)\b", line))
        if line == "end" or line.startswith(("end ", "end.")):
            if around:
                around.pop()
            continue
        one = _RB_LINE.match(line)
        piece = ""
        if one is not None:
            piece = _rails_line(found, one, around, number, sinatra)
        elif not sinatra and not _RB_QUIET.match(line):
            found.dynamic.append(number)
        if opens:
            around.append(piece)
        if len(around) > _RB_DEEP:
            found.dynamic.append(number)  # nobody's routes: what follows is not read
            break
    return found


def _rails_line(found: Scan, one: re.Match[str], around: list[str], number: int, sinatra: bool) -> str:
    """Takes in one line of routes; what it puts in front of the lines of its block."""
    verb, rest = one["verb"], one["rest"]
    named = _RB_PATH.match(rest)
    path = next((one for one in named.groups() if one is not None), None) if named else None
    own = re.search(r"\bpath:\s{0,4}[\"']([^\"'\n]{0,200})", rest)
    if (path and "#{" in path) or (re.search(r"\bpath(?:_names)?:|\bshallow", rest) and not own):
        found.dynamic.append(number)
        return _UNTOLD
    prefix = _below(around + ([_UP] if re.search(r"\bon:\s{0,4}:collection\b", rest) else []))
    framework = next(iter(found.frameworks))
    owner = "#sinatra" if sinatra else "#scope" if _UNTOLD in around else ""

    def put(method: str, at: str) -> None:
        found.routes.append(Route(method, join(prefix, at), found.file, number, owner, (), framework))

    if verb in {"namespace", "scope"}:
        if (
            verb == "scope"
            and path is None
            and not re.match(r"^\(?\s{0,4}(?:module|path|as|controller|constraints):", rest)
        ):
            found.dynamic.append(number)
            return _UNTOLD
        if re.search(r"^\(?\s{0,4}path:|,\s{0,8}path:", rest) and not own:
            return _UNTOLD
        return own[1] if own else path or ""
    if verb == "root":
        put("GET", "/")
    elif verb in {"get", "post", "put", "patch", "delete", "match"}:
        _rails_verb(found, one, path, put, number)
    elif verb in {"resources", "resource"}:
        listed = re.match(r"^\(?\s{0,4}((?::\w{1,80}\s{0,4},?\s{0,4}){1,40})", rest)
        names = re.findall(r":(\w+)", listed[1]) if listed and not own else [path] if path else []
        if not names or re.search(r"\bconcerns:|\{", rest):
            found.dynamic.append(number)
        for name in names:
            base = own[1] if own else name
            if not _resources(rest, base, verb == "resources", put):
                found.dynamic.append(number)
        base = (own[1] if own else names[-1]) if names else ""
        return join(base, f":{base.rstrip('s')}_id") if verb == "resources" else base
    elif verb == "collection":
        return _UP
    elif verb in {"mount", "devise_for", "draw", "concern"}:
        below = re.search(r"(?:=>|\bat:)\s{0,4}[\"']([^\"'\n]{1,200})", rest) if verb == "mount" else None
        if below:
            found.routes.append(
                Route(ANY, join(join(prefix, below[1]), "**"), found.file, number, owner, (), framework, opaque=True)
            )
        else:
            found.dynamic.append(number)
    return ""


def _below(around: list[str]) -> str:
    path = ""
    for part in around:
        path = path.rpartition("/")[0] if part == _UP else path if part == _UNTOLD else join(path, part)
    return path


def _rails_verb(
    found: Scan, one: re.Match[str], path: str | None, put: Callable[[str, str], None], number: int
) -> None:
    verb, rest = one["verb"], one["rest"]
    if path is None:
        found.dynamic.append(number)
        return
    if verb != "match":
        put(verb.upper(), path)
        return
    via = rest.partition("via:")[2]
    told = re.findall(r"\b(get|post|put|patch|delete)\b", via)
    for method in told or [ANY if re.search(r":all\b", via) else UNTOLD]:
        put(method.upper(), path)


def _resources(rest: str, base: str, many: bool, put: Callable[[str, str], None]) -> bool:
    """Puts the routes of a resource; False when which of them it has is not written out."""
    item = join(base, ":id") if many else base
    every = {
        "index": ("GET", base), "create": ("POST", base), "new": ("GET", join(base, "new")), "show": ("GET", item),
        "edit": ("GET", join(item, "edit")), "update": ("PATCH", item), "destroy": ("DELETE", item),
    }  # fmt: skip
    only = _RB_ONLY.search(rest)
    left_out = _RB_EXCEPT.search(rest)
    if bool(only) != ("only:" in rest) or bool(left_out) != ("except:" in rest):
        return False
    names = (
        set(re.findall(r"\w{2,}", only[1]))
        if only
        else set(every) - set(re.findall(r"\w{2,}", left_out[1]) if left_out else ())
    )
    for name, (method, path) in every.items():
        if name in names and not (name == "index" and not many):
            put(method, path)
            if name == "update":
                put("PUT", path)
    return True
