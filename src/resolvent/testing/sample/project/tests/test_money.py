import unittest

from ledger.money import format_amount, parse_amount
from ledger.split import split


class Money(unittest.TestCase):
    def test_plain_amounts(self):
        self.assertEqual(parse_amount("3"), 300)
        self.assertEqual(parse_amount("12.5"), 1250)

    def test_nonsense_is_refused(self):
        for text in ("", "abc", "-1"):
            with self.assertRaises(ValueError):
                parse_amount(text)

    def test_amounts_are_written_for_people(self):
        self.assertEqual(format_amount(123450), "1,234.50")

    def test_even_split(self):
        self.assertEqual(split(900, 3), [300, 300, 300])


if __name__ == "__main__":
    unittest.main()
