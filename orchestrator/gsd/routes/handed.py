"""Servers and routers that are handed to code from elsewhere, which may put routes on them. Pure.

What a package does with an ``app`` it is given is not read here. So all but those known to add no route count as a
sign that the project serves more than was found.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from orchestrator.gsd.routes.found import CALLS, Scan
from orchestrator.gsd.sources.code import Text

_BACK = 2000
"""So far before an argument the name of what is called is looked for."""
_DEEP = 3
_CALLED = re.compile(
    r"(?P<new>\bnew\s{1,4})?(?P<name>[A-Za-z_$][\w$]{0,80}(?:\s{0,8}\.\s{0,8}[\w$]{1,80}){0,5})\s{0,4}$"
)
_CHAINED = re.compile(r"\)\s{0,80}\.\s{0,8}(?P<name>[\w$]{1,80})\s{0,4}$")
_REQUIRED = re.compile(
    r"""\brequire\s{0,4}\(\s{0,8}["'](?P<spec>[^"'\n]{1,300})["']\s{0,8}\)(?:\.(?P<name>[\w$]{1,80}))?\s{0,4}$"""
)
_DEFINES = re.compile(r"\b(?:def|class|function\*?)\s{1,8}[\w$]{1,80}\s{0,4}$")
_BODY = re.compile(r"\s{0,8}(?:\{|=>|:[^\n{]{1,80}(?:\{|=>))")
"""What stands behind the parameters of a method or an arrow."""
_WORDS = frozenset({
    "if", "elif", "while", "for", "return", "await", "yield", "in", "not", "and", "or", "is", "assert", "with",
    "switch", "catch", "typeof", "del", "print", "function", "lambda", "else", "raise", "throw", "case",
    "async",
})  # fmt: skip
_SELF = frozenset({"self", "cls", "this", "super"})

# By the last name of what is called: it looks at requests, runs the server, or puts on it what is read elsewhere.
_QUIET = re.compile(
    r"(?i)(?!apply)\w*middleware|\w*logg(?:er|ing)|cors|migrate|sqlalchemy|marshmallow|bcrypt|mail|limiter|talisman|compress|cache"
    r"|loginmanager|jwtmanager|csrfprotect|babel|o?auth2?|session|argon2|moment|csrf|seasurf|gzip|whitenoise|proxyfix|assets"
    r"|s?print|str|repr|isinstance|type|id|len|hash|hasattr|getattr|setattr|vars|dir|list|tuple|set|dict|bool|callable|cast"
    r"|partial|wraps|run|run_app|run_simple|run_sync|serve|make_server|wsgiserver|gunicorn\w*|mangum|apprunner|config|server_close"
    r"|\w*testclient|\w*testserver|asyncclient|a?sgitransport|wsgitransport|asgiclient|lifespanmanager|celery|make_celery"
    r"|instrument_app|instrument|add_pagination|register_tortoise|bootstrap[45]?|init_sentry|get_openapi|use_route_names_as_operation_ids|simplify_operation_ids|create_engine"
    r"|create(?:secure)?server|serve|listen|request|supertest|handle|exports?|promisify|tonodelistener"
    r"|getrequestlistener|serverless\w*|setupexpresserrorhandler|closewithgrace|gracefulshutdown|createlightship|createdocument"
    r"|__init__|is\w{1,40}|\w*lifespan|wrap_app_handling_exceptions|run_asgi|create_task|generate_?specs?"
)
_QUIET_METHOD = re.compile(
    r"(?i)include_router|register_blueprint|add_subapp|add_routes|ready|close|json|send|render"
    r"|log|info|debug|warn|error|exception|resolve|stringify|keys|assign|freeze|push|append|extend|add|emit|once"
)
_PUTS = re.compile(r"(?i)use|register|routes?|nest|mount|host|blueprint|inject|decorate|bind|call|apply")
"""What a router does with another; of anything else it may be a package's way to take a server."""
_QUIET_WHOLE = re.compile(
    r"(?:https?|http2|spdy)\.Server|SwaggerModule\.\w{1,40}|aiohttp_(?:jinja2|session|cors|security)\.setup|app\.mount"
)
_INIT = re.compile(r"init_app|initApp")
_ALSO = re.compile(
    r"(?m)^[ \t]{0,80}(?:(?:export|const|let|var)[ \t]{1,4}){0,2}(?P<name>[A-Za-z_$][\w$]{0,80})[ \t]{0,8}"
    r"(?::[^=\n]{1,80})?=[ \t]{0,8}"
    r"(?:(?P<of>[A-Za-z_$][\w$]{0,80})[ \t]{0,8};?[ \t]{0,8}$"
    r"|(?:await[ \t]{1,4})?(?P<by>[A-Za-z_$][\w$]{0,80})(?P<last>\.[\w$]{1,80})?[ \t]{0,4}\()"
)
_FACTORY = re.compile(r"(?i)(?:create|make|build|get|init|setup)_?(?:\w{0,20}_)?(?:app|application|server)")
_QUIET_OBJECT = re.compile(
    r"(?i)_?(?:db|database|\w*sqlalchemy|migrate|ma|marshmallow|bcrypt|mail|login_?manager|login|lm|jwt\w*|cors|\w*cache|\w*limiter|csrf\w*"
    r"|babel|sess|session|talisman|compress|celery\w*|oauth|\w*redis\w*|sentry|moment|mongo\w*|argon2|ldap|principals?|executor)"
)


def handed(found: Scan, text: Text, routers: AbstractSet[str]) -> int:
    """The first line where one of the routers is an argument of a call of what is not the project's; 0: none.

    What a call of the project's own does with it stands in a file that is read as well.
    """
    bare = text.bare
    routers = routers | _also(found, bare, routers)
    names = sorted(re.escape(one) for one in routers if re.fullmatch(r"[A-Za-z_$][\w$]{0,80}", one))
    if not names:
        return 0
    whole = re.compile(
        rf"(?<=[(,={{\[:])\s{{0,40}}(?<![\w$.])(?P<name>(?:(?:self|this)\.)?(?:{'|'.join(names)}))(?=\s{{0,40}}[,)}}\]])"
    )
    own: dict[str, bool] = {}  # by the first name of what is called
    for count, one in enumerate(whole.finditer(bare)):
        opening = _opening(bare, one.start("name"))
        if count >= CALLS or (opening >= 0 and not _is_known(found, text, (opening, one.end()), own, routers)):
            return text.line_of(one.start("name"))
    return 0


def _also(found: Scan, bare: str, routers: AbstractSet[str]) -> set[str]:
    """Other names of the routers in this file, and what the project's own makers of servers gave it."""
    return {
        one["name"]
        for one in _ALSO.finditer(bare)
        if one["of"] in routers
        or (one["by"] in found.names and _FACTORY.fullmatch((one["last"] or one["by"]).lstrip(".")))
    }


def _opening(bare: str, at: int) -> int:
    """The bracket of the call around an argument, also of one in an object or a list; -1 where there is none."""
    depth = 0
    for before in range(at - 1, max(-1, at - _BACK), -1):
        char = bare[before]
        if char in ")]}":
            depth += 1
        elif char in "([{":
            if depth:
                depth -= 1
            elif char == "(":
                return before
            elif char == "{" and not re.search(r"[(,=:]\s{0,80}$", bare[max(0, before - 90) : before]):
                return -1  # a block, not an object
    return -1


def _is_known(
    found: Scan, text: Text, place: tuple[int, int], own: dict[str, bool], routers: AbstractSet[str]
) -> bool:
    opening, argument_end = place
    before = text.code[max(0, opening - 400) : opening]
    if _DEFINES.search(before):
        return True
    required = _REQUIRED.search(before)
    if required:
        return bool(
            required["spec"].startswith((".", "/", "@/", "~/"))
            or _QUIET.fullmatch(required["name"] or "")
            or _QUIET_WHOLE.fullmatch(f"{required['spec']}.{required['name']}")
        )
    chained = _CHAINED.search(before)
    if chained:
        return any(one.fullmatch(chained["name"]) for one in (_QUIET, _QUIET_METHOD, _PUTS))
    called = _CALLED.search(before)
    if called is None:
        return True  # brackets without a call
    name = re.sub(r"\s", "", called["name"])
    if name in _WORDS:
        return True
    end = _closing(text.bare, argument_end)
    if end >= 0 and not called["new"] and _BODY.match(text.bare, end + 1) and not text.path.endswith(".py"):
        return True  # the parameters of a method
    *objects, last = name.split(".")
    if _INIT.fullmatch(last):
        return bool(objects) and bool(_QUIET_OBJECT.fullmatch(objects[-1]))
    if _QUIET.fullmatch(last) or _QUIET_WHOLE.fullmatch(name) or (objects and _QUIET_METHOD.fullmatch(last)):
        return True
    root = name.partition(".")[0]
    if _PUTS.fullmatch(last) and (not routers.isdisjoint(objects) or root == "app"):
        return True
    if objects and found.names.get(root, ("", ""))[1][:1].islower():
        return False  # an object that a file of the project made, of a class that may be a package's
    if root not in own:
        own[root] = _is_own(found, text.code, root, _DEEP)
    return own[root]


def _closing(bare: str, at: int) -> int:
    depth = 0
    for after in range(at, min(len(bare), at + _BACK)):
        if bare[after] in "([{":
            depth += 1
        elif bare[after] in ")]}":
            if not depth:
                if bare[after] == ")":
                    return after
                continue
            depth -= 1
    return -1


def _is_own(found: Scan, code: str, name: str, deep: int) -> bool:
    """Whether a name is the project's own: imported from it, defined in the file, or made by such a one."""
    if name in found.names or name in _SELF:
        return True
    plain = re.escape(name)
    if re.search(rf"\b(?:def|class|function\*?)\s{{1,8}}{plain}(?![\w$])", code):
        return True
    made = re.search(
        rf"(?<![\w$.]){plain}\s{{0,8}}(?::[^=\n]{{1,80}})?=(?![=>])\s{{0,8}}(?:await\s{{1,4}})?(?:new\s{{1,4}})?"
        r"(?P<of>[A-Za-z_$][\w$]{0,80}|\()",
        code,
    )
    if made is None or not deep:
        return False
    if made["of"] in {"(", "async", "function"} or re.match(r"\s{0,4}=>", code[made.end() : made.end() + 10]):
        return True  # a function of the file
    return made["of"] != name and _is_own(found, code, made["of"], deep - 1)
