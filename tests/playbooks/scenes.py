"""Scenes the tests of resolve put together."""

import json
from typing import Any

from resolvent.testing.demo_story import Scene
from resolvent.testing.stage import scene

REPRODUCER = {"command": "grep -q good value.txt || { echo the value is bad; exit 1; }", "expect": {"exit": 1}}
DESIGN = {
    "root_cause": "the value is bad",
    "approach": "make it good",
    "test_strategy": "read it",
    "risks": "somebody liked it bad",
    "alternatives_rejected": "hiding the file",
}


def design(reproducer: dict[str, Any] | None = REPRODUCER, *, severity: str = "P1", **other: str) -> str:
    """A NEED_FIX verdict."""
    keys = "".join(f"{key}: {text}\n" for key, text in (DESIGN | {"severity": severity} | other).items())
    return f"VERDICT=NEED_FIX\nBEGIN_SOLUTION_DESIGN\n{keys}{named(reproducer)}END_SOLUTION_DESIGN"


def valid(suggestion: str, reproducer: dict[str, Any] | None = REPRODUCER) -> str:
    """A VALID verdict, in the older words."""
    return f"VERDICT=VALID\nBEGIN_SOLUTION_SUGGESTION\n{suggestion}\n{named(reproducer)}END_SOLUTION_SUGGESTION"


def named(reproducer: dict[str, Any] | None) -> str:
    """The lines that name a reproducer, or say that there is none."""
    if reproducer is None:
        return "reproducer: none it is only text\n"
    return f"reproducer:\n```json\n{json.dumps(reproducer)}\n```\n"


def claim(description: str, command: str | None, *, severity: str = "P1") -> str:
    """One item of a findings block."""
    return (
        f"- Severity: {severity}\n  Description: {description}\n  Code evidence: value.txt:1 says so\n"
        f"  Reachability: always\n  Blast radius: everybody\n  {named({'command': command} if command else None)}"
    ).rstrip()


def findings(*claims: str) -> str:
    """A P0_P1_FINDINGS verdict."""
    return "\n".join(["P0_P1_FINDINGS", "BEGIN_P0_P1_FINDINGS", *claims, "END_P0_P1_FINDINGS"])


def placed(finding: str, scope: str, *, why: str = "it is so", validity: str = "valid") -> str:
    """A verifier's word on one finding."""
    return (
        f"- Finding: {finding}\n  Validity: {validity}\n  Origin: unknown\n  Difficulty: S\n  Risk: low\n"
        f"  Scope: {scope}\n  Rationale: {why}"
    )


def triage(*others: str, here: tuple[str, ...] = ()) -> str:
    """A verdict of the verifier: what is to be fixed here, and the other findings."""
    said = ["BEGIN_TRIAGE", *others, "END_TRIAGE"] if others else []
    in_scope = ["IN_SCOPE_P0_P1", "BEGIN_IN_SCOPE_P0_P1", *here, "END_IN_SCOPE_P0_P1"]
    return "\n".join([*said, *(in_scope if here else ["NO_IN_SCOPE_P0_P1"])])


ANALYZE = scene("analyze", design())
IMPLEMENT = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n"})
CLEAN = scene("review", "NO_P0_P1")
STORY: list[Scene] = [ANALYZE, IMPLEMENT, CLEAN]

# A change that breaks something, an old bug beside it, and a false alarm.
BREAKS = claim("other.txt was changed", "grep -q same other.txt || { echo other was changed; exit 1; }")
OLD = claim("there is no third file", "test -e third.txt || { echo no third file; exit 1; }")
ALARM = claim("the value is empty", "test -s value.txt && echo the value is there")
BREAKING = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "other.txt": "broken\n"})
THREE_CLAIMS = scene(
    "review", f"I looked at everything.\n{findings(BREAKS, OLD, ALARM)}", holds={"other.txt": "broken"}
)
WITHDRAWN = scene("review", "NO_P0_P1", when=["For these claims only"])
VERIFY = scene(
    "verify",
    triage(
        placed("F2", "DEFER_CREATE_ISSUE", why="`third.txt` was never there"),
        here=(placed("F1", "FIX_IN_THIS_PR", why="this change did it"),),
    ),
)
FIX = scene("fix", "FIX_SUCCESS", write={"other.txt": "same\n"})
LONG_STORY: list[Scene] = [ANALYZE, BREAKING, WITHDRAWN, THREE_CLAIMS, CLEAN, VERIFY, FIX]
