"""`orchestrator web` at a terminal of a stage, and a client that reads its streams."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2

from tests.security.human import Human
from tests.support.stage import BOUND_S, until

LINK = re.compile(r"(https?://\S+)/#t=(\S+)")


class OpenSite(NamedTuple):
    """A running site: its address, the tokens of its links in their order, and the terminal it was started at."""

    url: str
    tokens: list[str]
    human: Human

    def client(self, token: str | None = None, **settings: Any) -> httpx2.Client:
        """A client with the first token, or the one that is given; "" for none."""
        given = self.tokens[0] if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, **settings)

    def page(self, text: str, **query: str) -> str:
        """Wait until a page shows the text; the HTML of all its parts."""
        with self.client() as client, client.stream("GET", "/events", params=query) as response:
            assert response.status_code == 200, response.read()
            shown: dict[str, dict[str, str]] = {}
            html, end = "", time.monotonic() + BOUND_S
            for name, value in events(response):
                if name == "page":
                    if "frame" in value:
                        shown = {"": {"frame": value["frame"]}}
                    for slot, change in value["slots"].items():
                        known = shown.get(slot, {}) | change["parts"]
                        shown[slot] = {key: known[key] for key in change["order"]}
                html = "\n".join(part for slot in shown.values() for part in slot.values())
                if text in html:
                    return html
                if time.monotonic() > end:
                    break
        raise AssertionError(f"no page with {text!r}, the last one: {html}")


def events(response: httpx2.Response) -> Iterator[tuple[str, Any]]:
    """The events of a stream: (name, value); a stream that is silent says so as ("", None)."""
    rest = ""
    for text in response.iter_text():
        *blocks, rest = (rest + text).split("\n\n")
        for block in blocks:
            match = re.fullmatch(r"event: (\w+)\ndata: (.*)", block)
            yield (match[1], json.loads(match[2])) if match else ("", None)


@contextlib.contextmanager
def opened_site(stage: Any, *args: str) -> Iterator[OpenSite]:
    """`orchestrator web` on a free port, until the block ends."""
    with Human(stage, "web", *(args if "--listen" in args else ("--port", "0", *args))) as human:
        until(lambda: "Ctrl-C ends" in human.see("") or re.search(r"ended with", human.see("")))
        links = LINK.findall(human.see(""))
        assert links, human.raw.decode(errors="replace")
        yield OpenSite(links[0][0], [token for _, token in links], human)
