"""What came of an attack: what the attacker's program said, and what we make of it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from resolvent.domain.job import Branch, JobExit

Verdict = Literal["SAFE", "ESCAPED", "LIMITED", "FLAGGED", "NOT TRIED", "BROKEN"]


class Untried(Exception):
    """An attack is not possible here, so it says nothing about the walls."""


class Broken(Exception):
    """An attack that is possible here could not be made: what it should have shown is not shown."""


class Found(NamedTuple):
    """What came of an attack, and the evidence in a few words."""

    verdict: Verdict
    said: str


def safe(said: str) -> Found:
    return Found("SAFE", said)


def escaped(said: str) -> Found:
    return Found("ESCAPED", said)


def refused(found: Mapping[str, str], *, fine: Iterable[str] = ()) -> Found:
    """None of these may have been done; `fine`, if given, are the answers of the wall in question alone."""
    wrong = [f"{name}: {came}" for name, came in found.items() if came == "done" or (fine and came not in fine)]
    return escaped("; ".join(wrong)) if wrong else safe(", ".join(dict.fromkeys(found.values())))


class Report(NamedTuple):
    """What an attacker's program said, how it ended, and where it was."""

    job: str
    exit: JobExit
    output: str
    branch: Branch
    private: Path

    @property
    def said(self) -> Any:
        """Its last line; Broken when it said nothing that can be read."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            last = lines[-1] if lines else "nothing"
            raise Broken(f"the attack itself {self.exit.ending} {self.exit.exit}, saying: {last[:200]}") from None

    @property
    def taken(self) -> int:
        """How much a greedy one had when it was last heard of."""
        told = [line for line in self.output.splitlines() if line.startswith("taken ") and line[6:].isdigit()]
        return int(told[-1][6:]) if told else 0
