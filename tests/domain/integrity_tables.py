"""What the tables of the integrity tests share: rows of before, after and the rules that must fire."""

from textwrap import dedent
from typing import NamedTuple

from resolvent.domain.integrity import Altered, inspected


class Row(NamedTuple):
    """One change to one file, and exactly the rules that it breaks."""

    what: str
    old: str | None
    new: str | None
    rules: tuple[str, ...] = ()
    path: str = "tests/test_money.py"


def altered(path: str, old: str | None, new: str | None) -> Altered:
    return Altered(path=path, old=None if old is None else dedent(old), new=None if new is None else dedent(new))


def rules(*files: Altered) -> list[str]:
    return sorted({hit.rule for hit in inspected(files)})


def in_test(what: str, old: str, new: str, *expected: str) -> Row:
    """A row of two bodies of one Python test."""
    return Row(what, _wrapped(old), _wrapped(new), expected)


def _wrapped(body: str) -> str:
    lines = dedent(body).strip("\n").split("\n")
    return "import pytest\nfrom money import split\n\n\ndef test_split():\n" + "".join(
        f"    {line}\n" for line in lines
    )
