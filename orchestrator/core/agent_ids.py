"""The id that is made of an agent's name: letters of other alphabets become ASCII. Pure."""
# ruff: noqa: RUF001  (letters that look like ASCII are what the table is for)

from __future__ import annotations

import re
import unicodedata

from orchestrator.base.errors import BadRequest

MAX_LENGTH = 60
UNWRITABLE = "agent"
"""The id of a name whose letters have no ASCII form, such as Hangul or Han; the roster makes it unique."""

_LETTERS = str.maketrans(
    {
        # German and Nordic; what NFKD takes apart by itself (é, å, ñ, ...) is not listed.
        "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o", "œ": "oe", "ł": "l", "đ": "d", "ð": "d",
        "þ": "th", "ħ": "h", "ı": "i", "ŋ": "ng",
        # Cyrillic: Russian, then the letters of other languages
        "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "i", "к": "k",
        "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
        "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya",
        "є": "ye", "і": "i", "ґ": "g", "ђ": "dj", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c", "џ": "dz",
        # Greek
        "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
        "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
        "χ": "ch", "ψ": "ps", "ω": "o",
    }
)  # fmt: skip


def ascii_form(name: str) -> str:
    """The name in ``[a-z0-9]`` and dashes, at most `MAX_LENGTH` long; empty if no letter of it has such a form."""
    # Composed first: an umlaut may be a letter and a combining mark.
    composed = unicodedata.normalize("NFC", name.lower()).translate(_LETTERS)
    plain = "".join(c for c in unicodedata.normalize("NFKD", composed) if not unicodedata.combining(c))
    return re.sub(r"[^a-z0-9]+", "-", plain.translate(_LETTERS)).strip("-")[:MAX_LENGTH].strip("-")


def slug(name: str) -> str:
    """The agent id that is made of a name: ``[a-z0-9][a-z0-9-]{0,59}``.

    Raises BadRequest ``bad_id`` if the name has no letter or digit.
    """
    agent_id = ascii_form(name)
    if agent_id:
        return agent_id
    if any(character.isalnum() for character in name):
        return UNWRITABLE
    raise BadRequest("bad_id", f"the name {name!r} has no letter or digit to make an id of")
