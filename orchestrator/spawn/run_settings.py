"""The settings of one connection's spawn runs, read from its environment and checked (B4.43).

Users set these in the `env` block by which their CLI starts our server. Each run keeps the
values of its creation, so that a later start of a daemon never changes how much a run may cost.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TypeVar
from urllib.parse import urlsplit

from orchestrator.spawn.home_location import bad
from orchestrator.spawn.run_data import RunSettings

T = TypeVar("T")
PARALLEL_MAX = 100
USD_MAX = Decimal(10_000)
SECONDS_MAX = 7 * 86_400.0
PROMPT_MAX = 10_000_000
TOKENS_MAX = 1_000_000
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


def read(env: Mapping[str, str]) -> RunSettings:
    """The settings of a connection; BadRequest ``bad_config`` names the variable that is wrong."""
    usual = RunSettings()

    def value(name: str, check: Callable[[str, str], T], otherwise: T) -> T:
        given = env.get(name, "").strip()
        return check(name, given) if given else otherwise

    return RunSettings(
        base_url=value("OPENROUTER_BASE_URL", _url, usual.base_url),
        planner_url=value("SMART_SPAWN_API_URL", _url_or_off, usual.planner_url),
        max_parallel_runs=value("MAX_PARALLEL_RUNS", _whole(PARALLEL_MAX), usual.max_parallel_runs),
        max_parallel_nodes=value("MAX_PARALLEL_NODES_PER_RUN", _whole(PARALLEL_MAX), usual.max_parallel_nodes),
        max_usd=value("MAX_USD_PER_RUN", _dollars, usual.max_usd),
        node_timeout_s=value("NODE_TIMEOUT_SECONDS", _seconds, usual.node_timeout_s),
        run_timeout_s=value("RUN_TIMEOUT_SECONDS", _seconds, usual.run_timeout_s),
        max_prompt_chars=value("MAX_PROMPT_CHARS", _whole(PROMPT_MAX), usual.max_prompt_chars),
        max_completion_tokens=value("MAX_COMPLETION_TOKENS", _whole(TOKENS_MAX), usual.max_completion_tokens),
        allow=value("MODEL_ALLOWLIST", _globs, usual.allow),
        deny=value("MODEL_DENYLIST", _globs, usual.deny),
        evaluator=value("CASCADE_EVALUATOR_MODEL", _model, usual.evaluator),
        redact=value("REDACT_ARTIFACTS", _yes, usual.redact),
    )


def _whole(most: int) -> Callable[[str, str], int]:
    def check(name: str, given: str) -> int:
        if not given.isascii() or not given.isdecimal() or len(given) > 12 or not 1 <= int(given) <= most:
            raise bad(name, given, f"1 .. {most}")
        return int(given)

    return check


def _seconds(name: str, given: str) -> float:
    found = float(given) if _NUMBER.fullmatch(given) else math.nan
    if not 0 < found <= SECONDS_MAX:
        raise bad(name, given, f"seconds above 0, at most {SECONDS_MAX:.0f}")
    return found


def _dollars(name: str, given: str) -> Decimal:
    try:
        found = Decimal(given) if _NUMBER.fullmatch(given) else Decimal(0)
    except InvalidOperation:
        found = Decimal(0)
    if not 0 < found <= USD_MAX:
        raise bad(name, given, f"dollars above 0, at most {USD_MAX}")
    return found


def _globs(name: str, given: str) -> tuple[str, ...]:
    found = tuple(glob for glob in re.split(r"[\s,]+", given) if glob)
    if not found or not all(glob.isprintable() for glob in found):
        raise bad(name, given, "globs of model ids, by commas or blanks apart")
    return found


def _model(name: str, given: str) -> str:
    if not given.isprintable() or len(given.split()) != 1:
        raise bad(name, given, "one model's id")
    return given


def _yes(name: str, given: str) -> bool:
    word = given.lower()
    if word not in YES | NO:
        raise bad(name, given, "true or false")
    return word in YES


def _url_or_off(name: str, given: str) -> str:
    return "" if given.lower() == "off" else _url(name, given)


def _url(name: str, given: str) -> str:
    """The URL without a slash at its end: https, or http to this machine; no name or password in it.

    A refused URL is not shown, because it may contain a password.
    """
    wanted = "an https:// URL without credentials, or an http:// one to this machine"
    try:
        parts = urlsplit(given)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise bad(name, "no URL", wanted) from None
    plain = given.isprintable() and given.isascii() and not any(mark in given for mark in " \\")
    if not plain or parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise bad(name, "not such a URL" if "@" in given else given, wanted)
    if "@" in parts.netloc:
        raise bad(name, "a URL with credentials", wanted)
    if parts.scheme == "http" and not _here(host):
        raise bad(name, given, wanted)
    return given.rstrip("/")


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
