import json
import unittest
from pathlib import Path

from texttally.report import facts, report

TEXTS = Path(__file__).parents[1] / "texts"
EXPECTED = json.loads((TEXTS / "expected.json").read_text(encoding="utf-8"))


class Report(unittest.TestCase):
    def test_the_numbers_of_each_text(self):
        for name, numbers in EXPECTED.items():
            with self.subTest(name):
                self.assertEqual(facts((TEXTS / name).read_text(encoding="utf-8")), numbers)

    def test_the_report_names_the_file_and_its_numbers(self):
        self.assertEqual(
            report("a.txt", "One two. Two!"),
            "a.txt: 3 words, 2 different, 2 sentences\n  most frequent: two (2), one (1)\n  reading time: 1 s",
        )
