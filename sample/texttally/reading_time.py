"""How long it takes to read a text."""

WORDS_PER_MINUTE = 230


def seconds(words: int) -> int:
    """The time to read this many words, in whole seconds, rounded up.

    >>> seconds(230)
    60
    >>> seconds(1)
    1
    """
    return -(-words * 60 // WORDS_PER_MINUTE)


def shown(duration: int) -> str:
    """A duration in seconds as minutes and seconds.

    >>> shown(75)
    '1 min 15 s'
    >>> shown(8)
    '8 s'
    """
    minutes, rest = divmod(duration, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
