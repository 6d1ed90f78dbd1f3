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
        text = env.get(name, "").strip()
        return check(name, text) if text else otherwise

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
    def check(name: str, text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 12 or not 1 <= int(text) <= most:
            raise bad(name, text, f"1 .. {most}")
        return int(text)

    return check


def _seconds(name: str, text: str) -> float:
    seconds = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 < seconds <= SECONDS_MAX:
        raise bad(name, text, f"seconds above 0, at most {SECONDS_MAX:.0f}")
    return seconds


def _dollars(name: str, text: str) -> Decimal:
    try:
        amount = Decimal(text) if _NUMBER.fullmatch(text) else Decimal(0)
    except InvalidOperation:
        amount = Decimal(0)
    if not 0 < amount <= USD_MAX:
        raise bad(name, text, f"dollars above 0, at most {USD_MAX}")
    return amount


def _globs(name: str, text: str) -> tuple[str, ...]:
    globs = tuple(glob for glob in re.split(r"[\s,]+", text) if glob)
    if not globs or not all(glob.isprintable() for glob in globs):
        raise bad(name, text, "globs of model ids, by commas or blanks apart")
    return globs


def _model(name: str, text: str) -> str:
    if not text.isprintable() or len(text.split()) != 1:
        raise bad(name, text, "one model's id")
    return text


def _yes(name: str, text: str) -> bool:
    word = text.lower()
    if word not in YES | NO:
        raise bad(name, text, "true or false")
    return word in YES


def _url_or_off(name: str, text: str) -> str:
    return "" if text.lower() == "off" else _url(name, text)


def _url(name: str, text: str) -> str:
    """The URL without a slash at its end: https, or http to this machine; no name or password in it.

    A refused URL is not shown, because it may contain a password.
    """
    wanted = "an https:// URL without credentials, or an http:// one to this machine"
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise bad(name, "no URL", wanted) from None
    plain = text.isprintable() and text.isascii() and not any(mark in text for mark in " \\")
    if not plain or parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise bad(name, "not such a URL" if "@" in text else text, wanted)
    if "@" in parts.netloc:
        raise bad(name, "a URL with credentials", wanted)
    if parts.scheme == "http" and not _here(host):
        raise bad(name, text, wanted)
    return text.rstrip("/")


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
