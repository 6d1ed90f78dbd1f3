"""Paths that a framework, or a package usual beside it, serves without a word in the project's source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ACCOUNTS = (
    r"log-?in|log-?out|register|password|forgot-password|reset-password|email/verif"
    r"|user/(?:password|profile|confirm|two)"
)
_BY_FRAMEWORK = {
    "fastapi": re.compile(r"(?:docs(?:/oauth2-redirect)?|redoc|openapi\.json)$"),
    "flask": re.compile(r"static/"),
    "quart": re.compile(r"static/"),
    "django": re.compile(r"(?:static|media)/"),
    "spring": re.compile(
        r"(?:actuator|oauth2|saml2|swagger-ui|v[23]/api-docs|h2-console|webjars)(?:[/.]|$)"
        r"|(?:error|log(?:in|out)|swagger-ui\.html|swagger-resources)(?:/|$)"
    ),
    "rails": re.compile(r"(?:rails|assets|packs)/|cable$"),
    "laravel": re.compile(
        rf"(?:sanctum|oauth|broadcasting|storage|livewire|telescope|horizon|nova|_ignition)(?:/|$)|(?:{_ACCOUNTS})"
    ),
    "next": re.compile(r"_next/"),
    "nuxt": re.compile(r"_nuxt/|_ipx/|__nuxt"),
}


def serves(frameworks: Iterable[str], path: str) -> str:
    """The first of the frameworks that may serve such a path by itself, below any prefix; ``""``: none."""
    parts = [part for part in path.lower().split("/") if part]
    below = ["/".join(parts[at:]) for at in range(min(len(parts), 6))]
    return next((one for one in frameworks if one in _BY_FRAMEWORK and any(map(_BY_FRAMEWORK[one].match, below))), "")
