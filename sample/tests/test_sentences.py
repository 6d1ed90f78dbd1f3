import unittest

from texttally.sentences import sentences


class Sentences(unittest.TestCase):
    def test_an_empty_text_has_none(self):
        self.assertEqual(sentences("  "), [])

    def test_the_last_needs_no_full_stop(self):
        self.assertEqual(sentences("One. Two"), ["One.", "Two"])

    def test_a_line_end_separates_as_a_blank_does(self):
        self.assertEqual(sentences("One.\nTwo!"), ["One.", "Two!"])

    def test_a_title_ends_no_sentence(self):
        self.assertEqual(len(sentences("Mrs. Hudson knocked. Mr. Holmes slept.")), 2)
