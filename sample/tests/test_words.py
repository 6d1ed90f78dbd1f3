import unittest

from texttally.words import most_common, words


class Words(unittest.TestCase):
    def test_an_empty_text_has_none(self):
        self.assertEqual(words(""), [])

    def test_punctuation_and_numbers_are_no_words(self):
        self.assertEqual(words("Yes - 7 of 9, please!"), ["yes", "of", "please"])

    def test_apostrophes_and_hyphens_join(self):
        self.assertEqual(words("It's a well-known fact"), ["it's", "a", "well-known", "fact"])

    def test_words_of_other_languages(self):
        self.assertEqual(words("Über 한국어 été"), ["über", "한국어", "été"])

    def test_equally_frequent_words_come_in_the_order_of_the_alphabet(self):
        self.assertEqual(most_common("b a b a c"), [("a", 2), ("b", 2), ("c", 1)])
