"""Parses the answer of a chat/completions server into a `Reply` or a `Fault`: bodies, event streams, errors in both.

Pure. No answer of a server makes it raise. The formats are from contract A7, the retry rules from issue 6.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from email.utils import mktime_tz, parsedate_tz
from typing import Any

from orchestrator.spawn.run_data import Fault, Reply
from orchestrator.spawn.usage import charged, cost_of, tokens_of

MESSAGE_CHARS = 300
WORD_CHARS = 200
READ_CHARS = 4096
"""Of a body that is no answer, so much is looked at to say what it is."""
BACKOFF_MOST_S = 30.0

_SECRET = re.compile(
    r"(?P<bearer>\bBearer\s+)[^\s\"',;]{6,}"
    r"|(?P<header>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic\s+)?)(?!bearer\b|basic\b)[^\s\"',;]{4,}"
    r"|\bsk-[\w-]{4,}"
    r"|\b(?:gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza)[\w-]{8,}",
    re.IGNORECASE,
)
# Codes that are words: OpenRouter and servers behind it say them in bodies and events of HTTP 200.
_WORDS = (
    ("rate_limit", 429),
    ("overloaded", 503),
    ("timeout", 408),
    ("insufficient", 402),
    ("auth", 401),
    ("invalid_api_key", 401),
    ("moderation", 403),
    ("content", 403),
    ("not_found", 404),
    ("invalid", 400),
    ("context_length", 400),
)


def masked(text: str, key: str = "") -> str:
    """The text with secrets taken out: ``sk-…``, ``Bearer …``, tokens of well-known makers, and ``key`` itself."""
    if key:
        text = text.replace(key, "…")

    def short(match: re.Match[str]) -> str:
        prefix = match["bearer"] or match["header"]
        return f"{prefix}…" if prefix else f"{match[0][:3]}…"

    return _SECRET.sub(short, text)


def message(text: str, key: str = "") -> str:
    """Text of another program as one line of at most 300 characters, without secrets."""
    # Masked before it is cut short: half a secret is not known as one.
    line = masked(" ".join(_clean(text[:READ_CHARS]).split()), key)
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 1] + "…"


def backoff_s(retry_count: int, jitter: float, retry_after_s: float | None = None) -> float:
    """Seconds to wait before the next attempt after ``retry_count`` retries: 1 s · 2ⁿ, at most 30 s (B4.29).

    ``jitter`` in 0..1 is drawn by the caller; it removes up to half of that. Never less than ``retry_after_s``.
    """
    full = min(BACKOFF_MOST_S, 2.0 ** min(retry_count, 10))
    return max(full * (1 - jitter / 2), retry_after_s or 0.0)


def retries(status: int, after_s: float | None) -> bool:
    """Whether an attempt that ended in this status is worth another: 408, 429, 5xx; 402 with Retry-After only."""
    return status in {408, 429} or 500 <= status < 600 or (status == 402 and after_s is not None)


def read_body(status: int, headers: Mapping[str, str], body: bytes, now: float, key: str = "") -> Reply | Fault:
    """What a whole response says; ``now`` in seconds since 1970, for a Retry-After that is a date.

    ``key`` is taken out of every message, whatever it looks like.

    ``reached`` is False for what ended before any generation for certain: a refusal (4xx but 408), a redirect, and
    any other status with the API's own error object.
    """
    if 200 <= status < 300:
        stream = Stream(headers, now, key)
        stream.feed(body)
        return stream.end()
    data = _parsed(body.decode("utf-8-sig", "replace"))
    error = data.get("error") if isinstance(data, dict) else None
    clean = isinstance(error, dict | str) and bool(error)
    if not clean:
        excerpt = body[:READ_CHARS].decode("utf-8", "replace")
        error = {"message": f"the server answered with status {status}: {excerpt}" if excerpt.strip() else ""}
    fault = charged(
        _fault(error, headers, now, key, status=status), data.get("usage") if isinstance(data, dict) else None
    )
    refused = status < 500 and status != 408
    return replace(fault, reached=not (refused or clean))


class Stream:
    """Reads the body of a response with status 2xx as it arrives, an event stream or plain JSON.

    Feed it until `complete`, or the end; then `end` returns the result. A stream that was cut off before its end is a
    Fault ``network``: a part of an answer does not count.
    """

    def __init__(self, headers: Mapping[str, str], now: float, key: str = "") -> None:
        self._headers = headers
        self._now = now
        self._key = key
        self._parts: list[bytes] = []  # what came since the last line ended
        self._data: list[str] = []  # data lines of the event that is being read
        self._plain: bool | None = None
        self._after_cr = False
        self._events = False
        self._broken = ""
        self._cut = False  # what is broken ends in the middle of its JSON
        self._error: Fault | None = None
        self._refusal = ""
        self._text: list[str] = []
        self._finish = ""
        self._model = ""
        self._usage: Mapping[str, Any] = {}
        self.complete = False

    @property
    def decided(self) -> bool:
        """Whether what came so far decides the outcome, whatever may still come: a finish reason, or an error."""
        return self.complete or bool(self._finish) or self._error is not None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, cut wherever the network cut them."""
        if not chunk:
            return
        if self._plain is None:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
            if not chunk:
                return
            # Every line of an event stream begins with a field's name or a colon.
            self._plain = chunk[:1] not in {b"d", b"e", b"i", b"r", b":"}
        if self._plain:
            self._parts.append(chunk)
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._parts.append(chunk)
            return
        lines = re.split(rb"\r\n|\n|\r", b"".join((*self._parts, chunk)))
        self._parts = [lines.pop()]
        for line in lines:
            self._line(line)

    def broken_off(self, fault: Fault) -> Fault:
        """The fault of a response that was not read to its end, with what it had reported of its cost."""
        return charged(fault, self._usage)

    def end(self) -> Reply | Fault:
        """What the response was, now that nothing more of it is read."""
        rest = b"".join(self._parts)
        self._parts.clear()
        if self._plain:
            self._whole(rest)
        elif self._plain is False and not self.complete:
            broken, cut = self._broken, self._cut
            self._line(rest)
            self._line(b"")
            self._broken, self._cut = broken, cut  # half an event at the end is no nonsense: the stream broke off
        return self._outcome()

    # -- reading -------------------------------------------------------------------------------------------------

    def _line(self, line: bytes) -> None:
        if self.complete:
            return
        if not line:
            data, self._data = self._data, []
            for event in _events(data):
                self._event(event)
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        self._events = self._events or name in {"", "data", "event", "id", "retry"}
        if name == "data":
            self._data.append(value.removeprefix(" "))

    def _event(self, data: str) -> None:
        if data.strip() == "[DONE]":
            self.complete = True
            return
        chunk = _parsed(data)
        if not isinstance(chunk, dict):
            self._not_json(data, "an event of the stream is not JSON")
            return
        self._take(chunk, "delta")

    def _whole(self, body: bytes) -> None:
        text = body.decode("utf-8", "replace")
        answer = _parsed(text)
        if not isinstance(answer, dict) or not ({"choices", "error"} & answer.keys()):
            self._not_json(text, "this is not the answer of a model API")
            return
        self._take(answer, "message")
        self.complete = True

    def _not_json(self, text: str, why: str) -> None:
        if not self._broken:
            self._cut = _is_cut(text)
            why = "the answer ends in the middle of its JSON" if self._cut else why
            self._broken = f"{why}: {text[:READ_CHARS]}"

    def _take(self, answer: Mapping[str, Any], place: str) -> None:
        """One chunk, or the whole body: its error, its text, its end, its usage."""
        if isinstance(answer.get("usage"), dict):
            self._usage = answer["usage"]
        self._model = self._word(answer.get("model")) or self._model
        self._wrong(answer.get("error"))
        choices = answer.get("choices")
        if choices is not None and not isinstance(choices, list):
            self._broken = self._broken or "its choices are no list"
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                self._broken = self._broken or "a choice is no object"
            elif choice.get("index") in (0, None):
                self._choice(choice, place)

    def _choice(self, choice: Mapping[str, Any], place: str) -> None:
        part = choice.get(place)
        part = part if isinstance(part, dict) else choice.get("message")
        if isinstance(part, dict):
            text = _text(part.get("content"))
            if text is None:
                self._broken = self._broken or "its content is neither text nor parts of text"
            elif text:
                self._text.append(text)
            if isinstance(part.get("refusal"), str):
                self._refusal += part["refusal"]
        self._finish = self._word(choice.get("finish_reason")) or self._finish
        self._wrong(choice.get("error"))
        if self._finish == "error":
            self._wrong({"message": "the model's provider failed"})

    def _word(self, name: object) -> str:
        """A name from the server, short enough to be stored and without the key; "" if it is not a name."""
        text = _clean(name[:READ_CHARS]) if isinstance(name, str) else ""
        return (text.replace(self._key, "…") if self._key else text)[:WORD_CHARS]

    def _wrong(self, error: object) -> None:
        if self._error is None and isinstance(error, dict | str) and error:
            self._error = _fault(error, self._headers, self._now, self._key)

    # -- judging -------------------------------------------------------------------------------------------------

    def _outcome(self) -> Reply | Fault:
        cost, prompt, completion = cost_of(self._usage), *tokens_of(self._usage)
        text = _clean("".join(self._text))

        def fault(code: str, why: str, *, retry: bool) -> Fault:
            return Fault(code, message(why, self._key), retry, None, True, cost, prompt, completion)

        if self._error is not None:
            return charged(self._error, self._usage)
        if self._broken:
            return fault("nonsense", self._broken, retry=self._cut)
        if not self.decided:
            if self._plain is False and not self._events:
                return fault("nonsense", "this is neither an event stream nor JSON", retry=False)
            return fault("network", "the stream broke off before the answer was finished", retry=True)
        if not text.strip():
            if self._finish == "content_filter" or self._refusal:
                return fault("refused", self._refusal or "the content filter withheld the answer", retry=False)
            return fault("empty", "the model answered with nothing", retry=True)
        return Reply(text, self._finish or "stop", self._model, prompt, completion, cost)


def _events(data: list[str]) -> Iterator[str]:
    """The events in the data lines between two blank lines: one by the standard; some servers forget the blanks."""
    whole = "\n".join(data)
    if len(data) > 1 and _parsed(whole) is None:
        yield from data
    elif whole.strip():
        yield whole


def _fault(error: Any, headers: Mapping[str, str], now: float, key: str, status: int = 0) -> Fault:
    """An error object of the API; with the HTTP status, if that says more than 200."""
    error_object: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    metadata = error_object.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    code = status or _status(error_object.get("code", error_object.get("type")))
    after = _retry_after(code, headers, metadata, now)
    words = [
        word for word in (error_object.get("message"), metadata.get("provider_name"), metadata.get("raw")) if word
    ]
    text = ": ".join(word for word in words if isinstance(word, str)) or f"the server answered with status {code}"
    return Fault(str(code), message(text, key), retries(code, after), after)


def _status(code: object) -> int:
    """The status an error's code stands for; what nobody knows is the fault of the provider: 502."""
    number = int(code) if isinstance(code, str) and re.fullmatch(r"\d{3}", code, re.ASCII) else code
    if isinstance(number, Decimal) and number == number.to_integral_value():
        number = int(number)
    if isinstance(number, int) and 400 <= number < 600:
        return number
    word = code.lower() if isinstance(code, str) else ""
    return next((status for name, status in _WORDS if name in word), 502)


def _retry_after(status: int, headers: Mapping[str, str], metadata: Mapping[str, Any], now: float) -> float | None:
    """In how many seconds the server wants to be asked again, wherever it said so (A7); None: it did not."""
    more = metadata.get("headers")
    more = more if isinstance(more, dict) else {}
    for delay in (_header(headers, "retry-after"), metadata.get("retry_after_seconds"), _header(more, "retry-after")):
        seconds = _seconds(delay, now)
        if seconds is not None:
            return seconds
    if status == 429:
        for where in (headers, more):
            reset = _number(_header(where, "x-ratelimit-reset"))
            if reset is not None:
                return max(0.0, reset / 1000 - now)
    return None


def _seconds(delay: object, now: float) -> float | None:
    seconds = _number(delay)
    if seconds is None and isinstance(delay, str):
        try:
            parts = parsedate_tz(delay)
            seconds = None if parts is None else mktime_tz(parts) - now
        except (ValueError, OverflowError):
            return None
    return None if seconds is None else max(0.0, seconds)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _header(headers: Mapping[str, Any], name: str) -> Any:
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _text(content: object) -> str | None:
    """The text of a content, be it a string, nothing, or a list of parts; None: it is none of these."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(part for part in parts if isinstance(part, str))


def _clean(text: str) -> str:
    """Text that can be written as UTF-8: halves of a character that two chunks brought are put together."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_cut(text: str) -> bool:
    """Whether a text begins as a JSON object and ends in the middle of it: the whole may come the next time."""
    body = text.strip()
    if not body.startswith("{"):
        return False
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return error.pos >= len(body) or not body.endswith("}") or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        pass
    return False


def _parsed(text: str) -> Any:
    """JSON with exact decimals, NaN and infinities included; None for what is none."""
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
