"""The story of the demo: a bug, a fix that plants a regression, a reviewer who sees it, and two more opinions."""

import json
from pathlib import Path
from typing import Any

Scene = dict[str, Any]

_THOUSANDS = """import unittest

from ledger.money import parse_amount


class Thousands(unittest.TestCase):
    def test_a_comma_groups_thousands(self):
        self.assertEqual(parse_amount("1,234.50"), 123450)
"""

_MILLIONS = """import unittest

from ledger.money import parse_amount


class Millions(unittest.TestCase):
    def test_commas_group_thousands_again_and_again(self):
        self.assertEqual(parse_amount("12,345,678.05"), 1234567805)
"""

_NO_CENTS = """import unittest

from ledger.money import parse_amount


class NoCents(unittest.TestCase):
    def test_a_comma_groups_thousands_without_cents_too(self):
        self.assertEqual(parse_amount("1,000"), 100000)
"""

_DECIMAL_COMMA = """import unittest

from ledger.money import parse_amount


class DecimalComma(unittest.TestCase):
    def test_a_comma_before_two_last_digits_is_a_decimal_comma(self):
        self.assertEqual(parse_amount("12,50"), 1250)
"""

_LOST_CENT = """import unittest

from ledger.split import split


class LostCent(unittest.TestCase):
    def test_no_cent_is_lost(self):
        self.assertEqual(sum(split(100, 3)), 100)
"""

_EMPTY = """import unittest

from ledger.money import parse_amount


class Empty(unittest.TestCase):
    def test_nothing_is_not_an_amount(self):
        with self.assertRaises(ValueError):
            parse_amount("  ")
"""

_FIRST_FIX = '''"""Read and write amounts of money as whole cents."""


def parse_amount(text):
    """Turn what a person typed into cents; ValueError when it is not an amount."""
    text = text.strip().replace(",", "")
    if not text:
        raise ValueError("no amount")
    whole, _, cents = text.partition(".")
    if not whole.isdigit() or (cents and not cents[:2].isdigit()):
        raise ValueError(f"not an amount: {text!r}")
    return int(whole) * 100 + int((cents + "00")[:2])


def format_amount(cents):
    """Write cents the way people read them."""
    return f"{cents // 100:,}.{cents % 100:02d}"
'''

_SECOND_FIX = _FIRST_FIX.replace(
    '    text = text.strip().replace(",", "")\n',
    '    text = text.strip()\n    if text[-3:-2] == ",":\n        text = text[:-3] + "." + text[-2:]\n'
    '    text = text.replace(",", "")\n',
)


def _reproducer(name: str, text: str) -> Scene:
    return {
        "command": f"python3 -m unittest tests.{name}",
        "files": [{"path": f"tests/{name}.py", "text": text}],
        "expect": {"pattern": r"^FAIL: .*$|AssertionError: .*|FAILED \(failures=1\)"},
        "timeout_s": 60,
    }


def _claim(description: str, reproducer: Scene, *, evidence: str, hurts: str) -> str:
    return (
        f"- Severity: P1\n  Description: {description}\n  Code evidence: {evidence}\n"
        f"  Reachability: the default way to use it\n  Blast radius: {hurts}\n"
        f"  reproducer:\n```json\n{json.dumps(reproducer)}\n```\n"
    )


ANALYZE: Scene = {
    "step": "analyze",
    "say": (
        "The README promises that a comma groups thousands; parse_amount turns every comma into a dot.\n"
        "VERDICT=NEED_FIX\nBEGIN_SOLUTION_DESIGN\n"
        "root_cause: parse_amount replaces every comma by a dot, so 1,234.50 is cut after 1.23\n"
        "severity: P1\napproach: take grouping commas out before the amount is split at the dot\n"
        "test_strategy: parse 1,234.50 and compare the cents\nrisks: amounts written with a decimal comma\n"
        "alternatives_rejected: the locale module, because amounts of both kinds come in one file\n"
        f"reproducer:\n```json\n{json.dumps(_reproducer('reproduce_thousands', _THOUSANDS))}\n```\n"
        "END_SOLUTION_DESIGN\n"
    ),
    "usage": {"usd": 0.021, "input_tokens": 5200, "output_tokens": 610},
}
VARIANTS: Scene = {
    "step": "variants",
    "say": (
        "Two other amounts that the README promises to read.\nVARIANTS\nBEGIN_VARIANTS\n"
        "- Variant: more than one comma\n  reproducer:\n"
        f"```json\n{json.dumps(_reproducer('variant_millions', _MILLIONS))}\n```\n"
        "- Variant: no cents behind it\n  reproducer:\n"
        f"```json\n{json.dumps(_reproducer('variant_no_cents', _NO_CENTS))}\n```\nEND_VARIANTS\n"
    ),
    "usage": {"usd": 0.008, "input_tokens": 2400, "output_tokens": 260},
}
IMPLEMENT: Scene = {
    "step": "implement",
    "write": {"ledger/money.py": _FIRST_FIX, "tests/test_thousands.py": _THOUSANDS},
    "say": "Commas are taken out before the amount is split.\nIMPLEMENTATION_SUCCESS\n",
    "usage": {"usd": 0.034, "input_tokens": 7100, "output_tokens": 900},
}
REVIEW_AGAIN: Scene = {
    "step": "review",
    "when": ["For these claims only"],
    "say": "parse_amount does refuse blank text; I misread the guard.\nNO_P0_P1\n",
    "usage": {"usd": 0.006, "input_tokens": 2100, "output_tokens": 80},
}
VERIFY: Scene = {
    "step": "verify",
    "say": (
        "BEGIN_TRIAGE\n- Finding: F2\n  Validity: valid\n  Origin: pre-existing\n  Difficulty: S\n  Risk: low\n"
        "  Scope: DEFER_CREATE_ISSUE\n  Rationale: split() is untouched here and loses the cent on the base too\n"
        "END_TRIAGE\nIN_SCOPE_P0_P1\nBEGIN_IN_SCOPE_P0_P1\n- Finding: F1\n  Validity: valid\n  Origin: introduced\n"
        "  Difficulty: S\n  Risk: low\n  Scope: FIX_IN_THIS_PR\n"
        "  Rationale: decimal commas worked before this change and are promised by the README\nEND_IN_SCOPE_P0_P1\n"
    ),
    "usage": {"usd": 0.012, "input_tokens": 3900, "output_tokens": 300},
}
FIX: Scene = {
    "step": "fix",
    "write": {"ledger/money.py": _SECOND_FIX, "tests/test_decimal_comma.py": _DECIMAL_COMMA},
    "say": "A comma before the last two digits is a decimal comma again.\nFIX_SUCCESS\n",
    "usage": {"usd": 0.019, "input_tokens": 5000, "output_tokens": 420},
}


def _reviews() -> list[Scene]:
    """The first change breaks decimal commas; the second one does not."""
    findings = "".join(
        [
            _claim(
                "12,50 is now read as 1250.00: decimal commas worked before this change",
                _reproducer("review_decimal_comma", _DECIMAL_COMMA),
                evidence="ledger/money.py:6 removes every comma, also the decimal one",
                hurts="every amount typed with a decimal comma is a hundred times too large",
            ),
            _claim(
                "split() loses a cent when the bill does not divide evenly",
                _reproducer("review_lost_cent", _LOST_CENT),
                evidence="ledger/split.py:8 drops the remainder of the division",
                hurts="the shares do not add up to the bill",
            ),
            _claim(
                "blank text is read as 0.00 instead of being refused",
                _reproducer("review_empty", _EMPTY),
                evidence="ledger/money.py:6 strips the text before the guard",
                hurts="empty fields are booked as nothing owed",
            ),
        ]
    )
    say = f"Three things.\nP0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n{findings}END_P0_P1_FINDINGS\n"
    usage = {"usd": 0.015, "input_tokens": 4800, "output_tokens": 700}
    clean: Scene = {"step": "review", "say": "Both kinds of comma are read as promised.\nNO_P0_P1\n", "usage": usage}
    clean |= {"holds": {"tests/test_decimal_comma.py": "1250"}}
    return [clean, {"step": "review", "say": say, "usage": usage}]


def true_story() -> list[Scene]:
    """Analysis, variants, a fix with a regression, a review with three claims, triage, a second fix, a clean review."""
    return [ANALYZE, VARIANTS, IMPLEMENT, REVIEW_AGAIN, *_reviews(), VERIFY, FIX]


def sabotaged(kind: str) -> list[Scene]:
    """Agents that say they did it: one leaves nothing behind, one leaves a comment."""
    claims = "Done, and all tests pass.\nIMPLEMENTATION_SUCCESS\n"
    if kind == "noop":
        return [ANALYZE, VARIANTS, IMPLEMENT | {"write": {}, "say": claims}]
    cosmetic = {"NOTES.md": "Thousands separators are handled.\n"}
    return [
        ANALYZE,
        VARIANTS,
        IMPLEMENT | {"write": cosmetic, "say": claims},
        {"step": "review", "say": "Looks right to me.\nNO_P0_P1\n"},
        {"step": "fix", "say": "It was fine all along.\nFIX_SUCCESS\n"},
    ]


def hooks_of(path: Path) -> Path:
    """The directory an agent that plays this story may write to, whoever it runs as."""
    hooks = path.with_suffix(".hooks")
    hooks.mkdir(exist_ok=True)
    hooks.chmod(0o777)
    return hooks


def write_story(path: Path, scenes: list[Scene]) -> Path:
    """Put a story where a scripted agent can read it, and beside it the directory it shares with us."""
    told = {"scenes": scenes, "hooks": str(hooks_of(path))}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path
