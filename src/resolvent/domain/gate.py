"""The only decision: is this one change open to be landed, and if not, why."""

from typing import Literal

from pydantic import Field

from resolvent.domain.change import Change, Check, Evidence, Execution
from resolvent.domain.model import Value
from resolvent.domain.subject import RequiredCheck
from resolvent.domain.verdicts import Claim, Origin, Scope, Triage
from resolvent.errors import StrayEvidence


class Policy(Value):
    """What a maintainer decided once for every run."""

    max_fix_rounds: int = Field(default=5, ge=0, le=100)
    merge: Literal["never", "ask", "auto"] = "never"
    require_reproducer: bool = False
    reproduce_runs: int = Field(default=2, ge=1, le=20)
    exec_surface: Literal["ask", "allow"] = "ask"
    # A reviewer whose model is of the author's family overlooks what the author overlooked.
    same_family: Literal["allow", "warn", "refuse"] = "warn"
    ci_required: bool = True
    ci_wait: float = Field(default=1800.0, ge=0)
    status_comments: bool = True


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
    created_in_round: int = 0
    issue: str = ""

    @property
    def settled(self) -> bool:
        """Shown to be nothing: no verifier needs to look at it."""
        return self.valid is False


def executed(finding: Finding, *, head: Evidence, base: Evidence | None, own_signature: str = "") -> Finding:
    """What two executions say of a claim; nobody may overrule them later."""
    seen = finding.model_copy(update={"on_head": head.execution, "on_base": base.execution if base else None})
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


class Gate(Value):
    """Open, or shut with reasons, for exactly one change."""

    change: Change
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    argued: bool = False

    @property
    def open(self) -> bool:
        return not self.reasons


class Judged(Value):
    """Everything the gate looks at, about one commit."""

    change: Change
    checks: tuple[Check, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    required: tuple[RequiredCheck, ...] = ()
    flaky: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def judge(case: Judged, policy: Policy) -> Gate:
    """Decide; evidence about another commit is refused loudly."""
    _same_commit(case)
    reasons = [
        *_failed_checks(case),
        *(
            f"finding {item.id} ({item.claim.severity}) must be fixed here: {item.claim.title}"
            for item in case.findings
            if item.scope == "FIX_IN_THIS_PR"
        ),
        *(f"finding {item.id} was not triaged" for item in case.findings if item.scope is None and not item.settled),
        *(_red_checks(case) if policy.ci_required else ()),
        *(f"does not merge cleanly onto the current base: {path}" for path in case.conflicts),
    ]
    # The passing reproducer of a false alarm proves nothing of the change: only what was asked for counts.
    reproduced = any(
        item.check.kind == "reproducer" and item.passed and item.check in case.checks for item in case.evidence
    )
    notes = ["nothing was executed to prove this change: argued"] if not reproduced else []
    if not case.required:
        notes.append("the forge names no required checks")
    return Gate(change=case.change, reasons=tuple(reasons), notes=tuple(notes), argued=not reproduced)


def _same_commit(case: Judged) -> None:
    for said in (*(item.on for item in case.evidence), *(item.commit for item in case.required)):
        if said != case.change.commit:
            raise StrayEvidence(f"evidence about {said[:10]} offered for {case.change.commit[:10]}")


def _failed_checks(case: Judged) -> list[str]:
    said: dict[Check, list[Evidence]] = {}
    for item in case.evidence:
        said.setdefault(item.check, []).append(item)
    reasons = []
    for check in case.checks:
        seen = said.get(check, [])
        if not seen:
            reasons.append(f"{check.name} was not executed on this commit")
        elif not all(item.passed for item in seen):
            worst = next(item for item in seen if not item.passed)
            reasons.append(f"{check.name} failed: exit {worst.exit}, {worst.execution}")
    return reasons


def _red_checks(case: Judged) -> list[str]:
    red = []
    for check in case.required:
        if check.state == "failed":
            kind = "flaky or broken on the base too" if check.name in case.flaky else "failed"
            red.append(f"MERGE_BLOCKER=CI_FAILED {check.name}: {kind}")
        elif check.state == "pending":
            red.append(f"required check {check.name} is still pending")
    return red
