"""The demo's plot on a project of one file, with checks that take no time: the crash proof plays it often."""

import json

from resolvent.testing.demo_story import Scene
from resolvent.testing.stage import scene

FILES = {
    "facts.txt": "thousands=bad\ndecimal=good\nsplit=bad\nempty=good\n",
    "resolvent.toml": ('[checks]\nbuild = "true"\ntest = "grep -q thousands facts.txt"\nsmoke = "test -s facts.txt"\n'),
}
_FIRST = "thousands=good\ndecimal=bad\nsplit=bad\nempty=good\n"
_SECOND = "thousands=good\ndecimal=good\nsplit=bad\nempty=good\n"


def _reproducer(fact: str) -> str:
    shown = {"command": f"grep -q {fact}=good facts.txt", "expect": {"exit": 1}}
    return f"reproducer:\n```json\n{json.dumps(shown)}\n```"


def _claim(fact: str) -> str:
    return (
        f"- Severity: P1\n  Description: {fact} is bad\n  Code evidence: facts.txt\n  Reachability: always\n"
        f"  Blast radius: everybody\n  {_reproducer(fact)}"
    )


def story() -> list[Scene]:
    """Analysis, a fix with a regression, three claims, triage, a deferred issue, a second fix, a clean review."""
    design = (
        "VERDICT=NEED_FIX\nBEGIN_SOLUTION_DESIGN\nroot_cause: thousands is bad\nseverity: P1\napproach: make it good\n"
        f"{_reproducer('thousands')}\nEND_SOLUTION_DESIGN"
    )
    claims = "\n".join(_claim(fact) for fact in ("decimal", "split", "empty"))
    triage = (
        "BEGIN_TRIAGE\n- Finding: F2\n  Validity: valid\n  Origin: pre-existing\n  Difficulty: S\n  Risk: low\n"
        "  Scope: DEFER_CREATE_ISSUE\n  Rationale: it was bad before\nEND_TRIAGE\n"
        "IN_SCOPE_P0_P1\nBEGIN_IN_SCOPE_P0_P1\n- Finding: F1\nEND_IN_SCOPE_P0_P1"
    )
    shown = {"command": 'test "$(grep -c thousands=good facts.txt)" = 1', "expect": {"exit": 1}}
    variant = f"- Variant: counted\n  reproducer:\n```json\n{json.dumps(shown)}\n```"
    return [
        scene("analyze", design),
        scene("variants", f"VARIANTS\nBEGIN_VARIANTS\n{variant}\nEND_VARIANTS"),
        scene("implement", "IMPLEMENTATION_SUCCESS", write={"facts.txt": _FIRST}),
        scene("review", "NO_P0_P1", when=["For these claims only"]),
        scene("review", "NO_P0_P1", holds={"facts.txt": "decimal=good"}),
        scene("review", f"P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n{claims}\nEND_P0_P1_FINDINGS"),
        scene("verify", triage),
        scene("fix", "FIX_SUCCESS", write={"facts.txt": _SECOND}),
    ]
