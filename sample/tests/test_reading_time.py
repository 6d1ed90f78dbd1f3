import unittest

from texttally.reading_time import WORDS_PER_MINUTE, seconds, shown


class ReadingTime(unittest.TestCase):
    def test_no_words_take_no_time(self):
        self.assertEqual(seconds(0), 0)

    def test_a_begun_second_counts(self):
        self.assertEqual(seconds(WORDS_PER_MINUTE + 1), 61)

    def test_a_minute_is_shown_as_one(self):
        self.assertEqual(shown(60), "1 min 0 s")
