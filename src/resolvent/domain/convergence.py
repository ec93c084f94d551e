"""Does a loop of reviews and fixes come to an end? Numbers, and what follows from them."""

from collections.abc import Collection, Sequence
from typing import Literal

from resolvent.domain.finding import Finding, cited
from resolvent.domain.model import Value
from resolvent.domain.policy import Policy

Way = Literal["go_on", "narrow", "minimise", "ask"]
# One slip is no habit, and a small change may grow by a lot before it is large.
FEWEST_FINDINGS, SMALL_CHANGE = 2, 100


class Progress(Value):
    """Where a loop stands after some fixes."""

    rounds: int
    # What was found since the first fix: how much of it is in lines that a fix wrote, was fixed before, or has moved.
    found: int
    self_inflicted: int
    recurring: int
    relocated: int
    # Lines of the first change, and of the one that is there now.
    lines_first: int
    lines_now: int

    @property
    def share(self) -> float:
        return self.self_inflicted / self.found if self.found else 0.0

    @property
    def growth(self) -> float:
        return self.lines_now / max(1, self.lines_first)

    def __str__(self) -> str:
        return (
            f"{self.rounds} fix rounds; {self.found} findings since the first fix, {self.self_inflicted} of them "
            f"({self.share:.0%}) made by a fix, {self.recurring} back again, {self.relocated} moved elsewhere; "
            f"the change grew from {self.lines_first} to {self.lines_now} lines ({self.growth:.1f}x)"
        )


def progress(findings: Sequence[Finding], *, rounds: int, lines: tuple[int, int]) -> Progress:
    """Count; what is not valid counts for nothing."""
    since = [finding for finding in findings if finding.found_in_round > 0 and finding.valid]
    known = {finding.id: finding for finding in findings}
    back = [(finding, known[finding.repeats]) for finding in since if finding.repeats in known]
    return Progress(
        rounds=rounds,
        found=len(since),
        self_inflicted=sum(finding.created_in_round > 0 for finding in since),
        recurring=len(back),
        relocated=sum(_paths(finding).isdisjoint(_paths(before)) for finding, before in back),
        lines_first=lines[0],
        lines_now=lines[1],
    )


def way_on(seen: Progress, blocking: Sequence[Finding], policy: Policy, *, tried: Collection[Way]) -> Way:
    """What to do before one more fix; each remedy is `tried` once, and then a person decides."""
    grown = seen.lines_now > SMALL_CHANGE and seen.growth > policy.growth
    if grown and "minimise" not in tried and policy.minimise == "remove":
        return "minimise"
    spinning = seen.self_inflicted >= FEWEST_FINDINGS and seen.share > policy.self_inflicted
    if spinning and "narrow" not in tried and any(map(uncritical, blocking)):
        return "narrow"
    return "ask" if grown or spinning or seen.recurring > policy.recurrences else "go_on"


def uncritical(finding: Finding) -> bool:
    """It may wait: argued only, and not the worst. What was executed here is never put off."""
    return finding.basis == "argued" and finding.claim.severity != "P0" and not finding.rule


def _paths(finding: Finding) -> set[str]:
    return {place.path for place in cited(finding.claim)}
