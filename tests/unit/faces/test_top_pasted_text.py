"""What is pasted into top is text, whatever it contains, and what is typed stays keys."""

from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.drivers import linux_driver

from orchestrator.faces.top.pasted_text import BEGIN, END, ESCAPE_SHOWN, PastedText, SafePasteParser, install

EVIL = "echo hi\r\x1b[31mred\x1ba\r\x1b[2J\x1b\x1b[<0;1;1M last"


def events_of(*pieces):
    parser = SafePasteParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_a_paste_with_escapes_is_one_text_and_no_key():
    (pasted,) = events_of(BEGIN + EVIL + END)
    assert isinstance(pasted, events.Paste)
    assert pasted.text == EVIL.replace("\x1b", ESCAPE_SHOWN)


def test_a_paste_in_pieces_stays_one_text():
    data = BEGIN + EVIL + END + "q"
    for at in range(1, len(data)):
        pasted, key = events_of(data[:at], data[at:])
        assert pasted.text == EVIL.replace("\x1b", ESCAPE_SHOWN)
        assert key.key == "q"


@given(st.lists(st.sampled_from(["a", "\x1b", "[", "2", "0", "~", BEGIN, END, "1"]), max_size=30), st.data())
def test_pieces_give_what_the_whole_gives(parts, data):
    whole = "".join(parts)
    pasted, out, at = PastedText(), "", 0
    while at < len(whole):
        step = data.draw(st.integers(1, 5))
        out += pasted.harmless(whole[at : at + step])
        at += step
    once = PastedText().harmless(whole)
    assert out == once
    assert once.replace(ESCAPE_SHOWN, "\x1b") == whole[: len(once)]  # an END that is not whole yet waits


def test_typed_keys_are_passed_on_at_once():
    pasted = PastedText()
    assert [pasted.harmless(key) for key in ("\x1b", "[A", "j", "\x1b[", "B")] == ["\x1b", "[A", "j", "\x1b[", "B"]


def test_the_driver_of_terminals_uses_it(monkeypatch):
    monkeypatch.setattr(linux_driver, "XTermParser", None)
    install()
    assert linux_driver.XTermParser is SafePasteParser
