"""Words of a text: which there are, and how often each occurs."""

import re
from collections import Counter

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def words(text: str) -> list[str]:
    """The words of a text in their order, in lower case.

    >>> words("Don't panic, Arthur: 42 is well-known.")
    ["don't", 'panic', 'arthur', 'is', 'well-known']
    """
    return [found.lower() for found in WORD.findall(text)]


def most_common(text: str, number: int = 3) -> list[tuple[str, int]]:
    """The most frequent words with their counts; of equally frequent words, the first in the alphabet comes first.

    >>> most_common("the cat and the dog and the bird", 2)
    [('the', 3), ('and', 2)]
    """
    counts = Counter(words(text))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:number]
