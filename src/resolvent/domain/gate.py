"""The only decision: is this one change open to be landed, and if not, why."""

from collections.abc import Iterable

from pydantic import model_validator

from resolvent.domain.change import Change, Check, Evidence
from resolvent.domain.finding import Finding
from resolvent.domain.model import Value
from resolvent.domain.policy import Policy
from resolvent.domain.subject import RequiredCheck
from resolvent.errors import StrayEvidence


class Gate(Value):
    """Open, or shut with reasons, for exactly one change."""

    change: Change
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    argued: bool = False

    @property
    def open(self) -> bool:
        return not self.reasons


class Reverted(Value):
    """What checks say of a change with a part of it taken out: of another commit, so of another type than evidence."""

    of: str
    without: Change
    evidence: tuple[Evidence, ...]

    @model_validator(mode="after")
    def about_one_commit(self) -> "Reverted":
        _about(self.without.commit, (item.on for item in self.evidence))
        return self


class Judged(Value):
    """Everything the gate looks at, about one commit; evidence about another cannot even be put in."""

    change: Change
    checks: tuple[Check, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    required: tuple[RequiredCheck, ...] = ()
    flaky: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    # Where the pull request's head is now; empty when nobody looked.
    head: str = ""
    changed_lines: int = 0
    # Whether the issue's own problem was seen before the change, each time; else nothing that passes now proves much.
    shown: bool = True
    # Without its fix, and with the Makefile and CI files of the base.
    reverted: Reverted | None = None
    restored: Reverted | None = None
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def about_one_commit(self) -> "Judged":
        _about(self.change.commit, (item.on for item in self.evidence))
        _about(self.change.commit, (item.commit for item in self.required))
        _about(self.change.commit, (item.commit for item in self.findings if item.commit))
        _about(self.change.commit, (item.of for item in (self.reverted, self.restored) if item))
        return self


def _about(commit: str, said: Iterable[str]) -> None:
    for other in said:
        if other != commit:
            raise StrayEvidence(f"evidence about {other[:10]} offered for {commit[:10]}")


def judge(case: Judged, policy: Policy) -> Gate:
    """Decide over one commit; each reason begins with the rule that it comes from."""
    reasons = [
        *_moved(case),
        *_failed_checks(case),
        *_unfixed(case.findings),
        *(f"finding {item.id} was not triaged" for item in case.findings if item.scope is None and not item.settled),
        *(_red_checks(case) if policy.ci_required else ()),
        *(f"does not merge cleanly onto the current base: {path}" for path in case.conflicts),
        *_unreached(case),
        *_without_the_fix(case),
        *_as_the_base_checks(case),
        *_too_large(case, policy),
    ]
    # The passing reproducer of a false alarm proves nothing of the change: only what was asked for counts.
    passing = any(
        item.check.kind == "reproducer" and item.passed and item.check in case.checks for item in case.evidence
    )
    notes = ["nothing was executed to prove this change: argued"] if not passing else []
    if passing and not case.shown:
        notes.append("the issue's own problem was not shown every time before the change: argued")
    argued = not passing or not case.shown
    if not case.required:
        notes.append("the forge names no required checks")
    return Gate(change=case.change, reasons=tuple(reasons), notes=(*notes, *case.notes), argued=argued)


def unfixed(change: Change, findings: Iterable[Finding]) -> Gate:
    """Shut by what has to be fixed here, before anything else is looked at."""
    return Gate(change=change, reasons=tuple(_unfixed(findings)))


def _unfixed(findings: Iterable[Finding]) -> list[str]:
    return [
        f"finding {item.id} ({item.rule or item.claim.severity}) must be fixed here: {item.claim.title}"
        for item in findings
        if item.scope == "FIX_IN_THIS_PR"
    ]


def _moved(case: Judged) -> list[str]:
    if case.head in ("", case.change.commit):
        return []
    return [f"head moved: the pull request is at {case.head[:10]}, and {case.change} was judged"]


def _unreached(case: Judged) -> list[str]:
    return [
        f"unreached: {item.check.name} passes without executing a line that the change wrote"
        for item in case.evidence
        if item.reached == "no" and item.passed
    ]


def _without_the_fix(case: Judged) -> list[str]:
    """With the fix taken out, whatever is to prove it must fail again."""
    said = case.reverted.evidence if case.reverted else ()
    return [
        f"revert check: {item.check.name} says {item.execution} also without the fix, so it does not test it"
        for item in said
        if item.execution != "SHOWN"
    ]


def _as_the_base_checks(case: Judged) -> list[str]:
    """What a change does to how it is checked is no reason to pass."""
    said = case.restored.evidence if case.restored else ()
    return [
        f"relaxed checks: {item.check.name} says {item.execution} once Makefile and CI files are those of the base"
        for item in said
        if not item.passed
    ]


def _too_large(case: Judged, policy: Policy) -> list[str]:
    if case.changed_lines <= policy.max_changed_lines:
        return []
    return [
        f"too large: {case.changed_lines} changed lines, and policy.max_changed_lines is {policy.max_changed_lines}"
    ]


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
            passed = sum(item.passed for item in seen)
            how = f"FLAKY: passed {passed} of {len(seen)} times" if passed else worst.execution
            reasons.append(f"{check.name} failed: exit {worst.exit}, {how}")
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
