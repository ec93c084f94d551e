"""Tests as the rules see them, whatever language they are written in."""

from typing import NamedTuple

Key = tuple[str, str, str, float]


class Assertion(NamedTuple):
    """One thing a test holds to be true."""

    kind: str
    # What is looked at, and what it must be; with local names and constants put in.
    subject: str
    expected: str = ""
    strength: float = 3.0
    # How far off it may be; 0 for not at all.
    slack: float = 0.0
    # Whether what is expected stands there as written, and what of it is no constant.
    literal: bool = False
    shape: str = ""
    # The conditions it is under, and whatever else in the test speaks of its names.
    guards: tuple[str, ...] = ()
    context: str = ""
    path: str = ""
    line: int = 1
    source: str = ""

    @property
    def key(self) -> Key:
        """Equal for assertions that hold the same."""
        return (self.kind, self.subject, self.expected, self.slack)


class Skip(NamedTuple):
    """A reason for a test not to be run, or not to count."""

    what: str
    condition: str = ""
    line: int = 1


class Case(NamedTuple):
    """One test."""

    path: str
    name: str
    line: int
    assertions: tuple[Assertion, ...] = ()
    skips: tuple[Skip, ...] = ()
    # Equal for tests that do the same; empty for one that does nothing.
    body: str = ""
    # False for what looks like a test but is not taken up by the runner.
    collected: bool = True
    # Numbers it waits for at most, by where they stand.
    limits: tuple[tuple[str, float, int], ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it can fail at all."""
        return self.collected and bool(self.body) and not any(not skip.condition for skip in self.skips)
