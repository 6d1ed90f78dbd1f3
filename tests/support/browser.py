"""Debian's Chromium, driven by playwright: pages that may reach nothing but the site, and what they complain of."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class Pages(NamedTuple):
    """A browser window: ``page`` is playwright's, ``complaints`` are errors of its console and foreign requests."""

    page: Any
    complaints: list[str]


def program() -> str | None:
    """The installed browser; None without one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.contextmanager
def opened(url: str, *, width: int = 1400, height: int = 900, dark: bool = False, **settings: Any) -> Iterator[Pages]:
    """A window of its own in a new browser, which reaches only the origin of ``url``."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    origin = "/".join(url.split("/")[:3])
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        try:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                ignore_https_errors=True,
                **settings,
            )
            page = context.new_page()
            page.on(
                "console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None
            )
            page.on("pageerror", lambda error: complaints.append(str(error)))

            def reach(route: Any) -> None:
                if route.request.url.startswith((origin, "blob:")):
                    route.continue_()
                else:
                    complaints.append(f"foreign request: {route.request.url}")
                    route.abort()

            context.route("**/*", reach)
            page.goto(url)
            yield Pages(page, complaints)
        finally:
            browser.close()
