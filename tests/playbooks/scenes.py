"""Scenes the tests of resolve put together."""

import json
from typing import Any

from resolvent.testing.demo_story import Scene
from resolvent.testing.stage import scene

REPRODUCER = {"command": "grep -q good value.txt", "expect": {"exit": 1}}


def design(reproducer: dict[str, Any] | None = REPRODUCER, *, severity: str = "P1") -> str:
    """A NEED_FIX verdict."""
    named = f"```json\n{json.dumps(reproducer)}\n```" if reproducer else ""
    return (
        "VERDICT=NEED_FIX\nBEGIN_SOLUTION_DESIGN\nroot_cause: the value is bad\n"
        f"severity: {severity}\napproach: make it good\ntest_strategy: read it\nrisks: none\nalternatives_rejected: none\n"
        + (f"reproducer:\n{named}\n" if reproducer else "reproducer: none it is only text\n")
        + "END_SOLUTION_DESIGN"
    )


def claim(description: str, command: str | None, *, severity: str = "P1") -> str:
    """One item of a findings block."""
    shown = f"```json\n{json.dumps({'command': command})}\n```" if command else "none it is a matter of taste"
    between = "\n" if command else " "
    return (
        f"- Severity: {severity}\n  Description: {description}\n  Code evidence: value.txt:1 says so\n"
        f"  Reachability: always\n  Blast radius: everybody\n  reproducer:{between}{shown}"
    )


def findings(*claims: str) -> str:
    """A P0_P1_FINDINGS verdict."""
    return "\n".join(["P0_P1_FINDINGS", "BEGIN_P0_P1_FINDINGS", *claims, "END_P0_P1_FINDINGS"])


ANALYZE = scene("analyze", design())
IMPLEMENT = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n"})
CLEAN = scene("review", "NO_P0_P1")
STORY: list[Scene] = [ANALYZE, IMPLEMENT, CLEAN]
