"""What reviewers and rules found: a claim, what executions say of it, and where it belongs."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from resolvent.domain.change import Evidence, Execution
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Claim, Origin, Scope, Triage


class Finding(Value):
    """A claim with its evidence, severity and triage."""

    id: str
    claim: Claim
    valid: bool | None = None
    origin: Origin = "unknown"
    basis: Literal["executed", "argued"] = "argued"
    on_head: Execution | None = None
    on_base: Execution | None = None
    own_failure: bool = False
    scope: Scope | None = None
    difficulty: Literal["S", "M", "L"] | None = None
    risk: Literal["low", "med", "high"] | None = None
    rationale: str = ""
    # The rule of ours that found it; empty for what a reviewer claimed.
    rule: str = ""
    # The commit it was found on, in which round, and which round's fix wrote the lines it speaks of: 0 for none.
    commit: str = ""
    found_in_round: int = 0
    created_in_round: int = 0
    # What its failure looked like, and the finding that was fixed before and is back with it.
    signature: str = ""
    repeats: str = ""
    issue: str = ""

    @property
    def settled(self) -> bool:
        """Shown to be nothing: no verifier needs to look at it."""
        return self.valid is False


def executed(finding: Finding, *, head: Evidence, base: Evidence | None, own_signature: str = "") -> Finding:
    """What two executions say of a claim; nobody may overrule them later."""
    ran = {"on_head": head.execution, "on_base": base.execution if base else None, "signature": head.signature}
    seen = finding.model_copy(update=ran)
    if head.execution == "PASSED":
        return seen.model_copy(
            update={"valid": False, "basis": "executed", "rationale": "its reproducer passes on this commit"}
        )
    if head.execution != "SHOWN":
        return seen
    origin: Origin = "introduced"
    if base is None or base.execution == "FLAKY":
        origin = "unknown"
    elif base.execution == "SHOWN" and base.signature == head.signature:
        origin = "pre_existing"
    own = bool(own_signature) and head.signature == own_signature
    return seen.model_copy(update={"valid": True, "basis": "executed", "origin": origin, "own_failure": own})


def triaged(finding: Finding, word: Triage | None) -> Finding:
    """Add a verifier's word; an executed validity or origin stays what was executed."""
    if finding.settled:
        return finding.model_copy(update={"scope": "INVALID_OR_ALREADY_FIXED"})
    valid = finding.valid if finding.basis == "executed" else (word.valid if word else False)
    origin = finding.origin if finding.origin != "unknown" else (word.origin if word else "unknown")
    scope = _scope(finding, word, valid=bool(valid), origin=origin)
    return finding.model_copy(
        update={
            "valid": valid,
            "origin": origin,
            "scope": scope,
            "difficulty": word.difficulty if word else None,
            "risk": word.risk if word else None,
            "rationale": word.rationale if word else "the verifier did not place it in scope",
        }
    )


def _scope(finding: Finding, word: Triage | None, *, valid: bool, origin: Origin) -> Scope:
    if not valid:
        return "INVALID_OR_ALREADY_FIXED"
    chosen = word.scope if word else None
    if finding.own_failure or (finding.basis == "executed" and origin == "introduced"):
        return "FIX_IN_THIS_PR"
    if chosen in ("FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE"):
        return chosen
    # Shown, old, and the verifier would not say: P0 is fixed here, the rest is tracked.
    return "FIX_IN_THIS_PR" if finding.claim.severity == "P0" else "DEFER_CREATE_ISSUE"


class Place(NamedTuple):
    """A file that a claim speaks of, and the line; 0 when it names none."""

    path: str
    line: int


_PLACE = re.compile(r"(?<![\w/.@+-])([\w.@+-]+(?:/[\w.@+-]+)*)(?::(\d{1,20}))?(?![\w/])")


def cited(claim: Claim) -> tuple[Place, ...]:
    """Whatever in its code evidence may be the name of a file."""
    found = (Place(match[1].rstrip("."), int(match[2] or 0)) for match in _PLACE.finditer(claim.code_evidence[:10_000]))
    return tuple(dict.fromkeys(place for place in found if "." in place.path or "/" in place.path or place.line))


def barred(finding: Finding, lines: Mapping[str, int | None]) -> Finding:
    """Hold an argument to the evidence bar: it names code of this commit. What was executed needs no argument.

    `lines`: how many lines each cited file has; None for one that is not there.
    """
    places = cited(finding.claim)
    names = any((known := lines.get(place.path)) is not None and place.line <= known for place in places)
    if finding.basis == "executed" or names:
        return finding
    return finding.model_copy(
        update={"valid": False, "rationale": "below the evidence bar: it names no code of this commit"}
    )


def recurring(finding: Finding, earlier: Sequence[Finding]) -> Finding:
    """Name the finding that was to be fixed in an earlier round, and is back."""
    before = [one for one in earlier if one.scope == "FIX_IN_THIS_PR" and one.found_in_round < finding.found_in_round]
    back = [one for one in before if _same(one, finding)]
    return finding.model_copy(update={"repeats": back[-1].id}) if back else finding


def _same(one: Finding, other: Finding) -> bool:
    if one.rule or other.rule:
        return one.rule == other.rule and one.claim.title == other.claim.title
    if one.claim.reproducer and other.claim.reproducer:
        same_command = one.claim.reproducer.command == other.claim.reproducer.command
        # A failure without a word looks like any other.
        telling = bool(one.signature.partition(":")[2])
        return (same_command and one.claim.reproducer.files == other.claim.reproducer.files) or (
            telling and one.signature == other.signature
        )
    return one.claim.title.casefold() == other.claim.title.casefold()
