"""The report on one text."""

from texttally.reading_time import seconds, shown
from texttally.sentences import sentences
from texttally.words import most_common, words


def facts(text: str) -> dict[str, int]:
    """The numbers of a text: words, different words, sentences, seconds to read."""
    found = words(text)
    return {
        "words": len(found),
        "different": len(set(found)),
        "sentences": len(sentences(text)),
        "seconds": seconds(len(found)),
    }


def report(name: str, text: str) -> str:
    """The lines that the command prints."""
    numbers = facts(text)
    often = ", ".join(f"{word} ({count})" for word, count in most_common(text))
    return "\n".join(
        [
            f"{name}: {numbers['words']} words, {numbers['different']} different, {numbers['sentences']} sentences",
            f"  most frequent: {often}",
            f"  reading time: {shown(numbers['seconds'])}",
        ]
    )
