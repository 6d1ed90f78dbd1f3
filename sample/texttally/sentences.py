"""Sentences of a text: where each ends."""

import re

END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+")
TITLES = ("Dr.", "Mr.", "Mrs.", "Prof.")


def sentences(text: str) -> list[str]:
    """The sentences of a text; a title such as "Dr." does not end one.

    >>> sentences("Dr. Watson came in. Who was it? Nobody!")
    ['Dr. Watson came in.', 'Who was it?', 'Nobody!']
    """
    found: list[str] = []
    for piece in END.split(text.strip()):
        if found and found[-1].endswith(TITLES):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found
