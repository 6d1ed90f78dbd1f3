"""The daemon's log: one line per event on stderr, which is the run directory's log file, as logfmt or JSON.

Lines of libraries that use ``logging`` take the same form. No payload and no secret is ever logged.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import MutableMapping
from typing import Any, Literal

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter

LogFormat = Literal["logfmt", "json"]

_FIRST = ["timestamp", "level", "event"]


class _StderrLines(logging.Handler):
    """Writes to descriptor 2; a line that cannot be written at once is dropped: logging never blocks the daemon."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            os.write(2, self.format(record).encode(errors="replace") + b"\n")


def configure_log(level: str, form: LogFormat) -> None:
    """Write our events from ``level`` on, and those of libraries from ``warning`` on, to stderr."""
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*common, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = _StderrLines()
    handler.setFormatter(
        ProcessorFormatter(
            processors=[ProcessorFormatter.remove_processors_meta, *_renderers(form)], foreign_pre_chain=common
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("orchestrator").setLevel(logging.DEBUG)  # structlog has filtered its own already


def _renderers(form: LogFormat) -> list[Any]:
    if form == "json":
        return [structlog.processors.JSONRenderer(serializer=_json)]
    return [_visible, structlog.processors.LogfmtRenderer(key_order=_FIRST, drop_missing=True, bool_as_flag=False)]


def _json(event: dict[str, Any], **_: Any) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _visible(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # A human reads the log on a terminal: a pane's title or a file's name must not command it.
    return {
        key: value if isinstance(value, bool | int | None) else _printable(str(value)) for key, value in event.items()
    }


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
