"""What JavaScript puts on a router: another router below a prefix, middleware, or what cannot be told. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from orchestrator.gsd.routes.found import Mount, Scan
from orchestrator.gsd.sources.call_text import arguments, keyword, literal, name_of

Resolve = Callable[[str, str], str]
"""The file that a module's name means in a file; ``""`` for a package."""

_REQUIRED = re.compile(r"""^require\s{0,4}\(\s{0,8}(["'])([^"'\n]{1,300})\1\s{0,8}\)(?:\.(\w{1,80}))?$""")
_IMPORTED = re.compile(r"""^import\s{0,4}\(\s{0,4}(["'])([^"'\n]{1,300})\1\s{0,4}\)()$""")
_NAME = re.compile(r"^(?:require )?[\w$./@-]+$")
# What these names are put on a server for is to look at requests, not to answer them.
_LOOKS_ON = re.compile(
    r"(?i)middleware|guard|limit|logg|morgan|error|valid|cors|helmet|session|require|ensure|check|verify|parser"
    r"|compress|cookie|csrf|csurf|passport|json|urlencoded|multer|upload|multipart|favicon|locale|i18n|trac"
    r"|metric|telemetry|sentry|timing|timeout|secure|hpp|xss|sanitiz|cache|etag|sensible|formbody|allowedmethods"
    r"|authenti|authori[sz]|isauth|basicauth|withauth|authrequired|request.?id|user.?agent|tenant|jwt|redis|mongo|postgres|pino|winston|under.?pressure|method.?override"
)
_COMPUTED = re.compile(r"^`|[+]|^[A-Z][A-Z0-9_.]*$|(?i:prefix|path|base|url)")
_FUNCTION = re.compile(r"^(?:async\b|function\b|\(|[\w$]+\s{0,4}=>)")


def middleware_of(argument: str) -> Iterator[str]:
    """The names of what stands between a path and its handler."""
    if argument.startswith("["):
        yield from (name for part in arguments(argument, 0) if (name := name_of(part)))
    elif argument.startswith("{"):
        for key in ("preHandler", "onRequest", "preValidation"):
            found = re.search(rf"\b{key}\s{{0,8}}:\s{{0,8}}(\[[^\]]{{0,300}}\]|[\w.$]{{1,80}})", argument[:2000])
            if found:
                yield from (part.strip() for part in found[1].strip("[]").split(",") if part.strip())
    else:
        name = name_of(argument)
        if name:
            yield name


def mounted(found: Scan, owner: str, given: list[str], line: int, resolve: Resolve) -> None:
    """Takes in one ``owner.use(…)``, ``.register(…)``, ``.route('/x', …)``.

    A prefix that is not written out is noted as dynamic. A child that leads to no file of the project, and that is
    not known to look on only, is noted as one that serves: nothing below its prefix can be denied.
    """
    prefix = literal(given[0]) if given else None
    rest = [one for one in (given[1:] if prefix is not None else given) if "allowedMethods(" not in one]
    if rest and rest[-1].startswith("{"):
        told = keyword(rest[-1], "prefix")
        if told is None and re.search(r"\bprefix\b|\.\.\.", rest[-1]):
            found.dynamic.append(line)  # a prefix that is no literal: what is below it is not known
            return
        prefix = told or prefix
        rest = rest[:-1]
    if not rest:
        return
    if prefix is None and len(rest) > 1 and (_COMPUTED.search(rest[0]) or rest[0].startswith(("[", "/"))):
        found.dynamic.append(line)
        return
    last = next((one for one in reversed(rest) if ".routes()" in one), rest[-1]).strip()
    between = tuple(name for part in rest if part != last for name in middleware_of(part))
    child = re.sub(r"\.(?:routes|middleware|default)\(?\)?$|\(\)$", "", last)
    required = _REQUIRED.match(last) or _IMPORTED.match(last)
    if required:
        target = resolve(found.file, required[2])
        child = f"require {required[2]}"
        if target:
            found.names[child] = (target, required[3] or "")
    if not _NAME.match(child):
        called = re.match(r"^([\w$.]{1,200})\(", child)  # routes(db), usersRouter({ prefix })
        child = called[1] if called and called[1] != "require" else "#"
    found.mounts.append(
        Mount(owner, prefix or "", child, found.file, line, between, serves=_serves(found, last, child, prefix))
    )


def _serves(found: Scan, last: str, child: str, prefix: str | None) -> bool:
    if _FUNCTION.match(last):
        return not re.search(r"\bnext\b", last)
    head = child.partition(".")[0]
    # A file of the project was read: what it does not put on a router, it does not serve.
    if child in found.names or head in found.names:
        return False
    if "static" in last:
        return bool(prefix)  # files below a directory; without a prefix they are no endpoints
    return not _LOOKS_ON.search(last.partition("(")[0] if "(" in last else last)
