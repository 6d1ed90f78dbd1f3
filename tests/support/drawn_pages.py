"""What a drawn page consists of, for tests: its tags, its attributes and its words."""

from html.parser import HTMLParser


class Seen(HTMLParser):
    """A page taken apart."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.words = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.words.append(data)


def seen(page):
    """The page taken apart; markup in its words would show as tags."""
    parser = Seen()
    parser.feed(page)
    return parser
