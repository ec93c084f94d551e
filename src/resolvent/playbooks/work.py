"""Where a resolve stands: values that its functions hand to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from resolvent.domain.change import Change, Check, Evidence, Reproducer, agreed
from resolvent.domain.finding import Finding
from resolvent.domain.gate import Gate
from resolvent.domain.job import Branch
from resolvent.domain.outcome import Escalated
from resolvent.domain.subject import PullRequest
from resolvent.domain.verdicts import Design


@dataclass(frozen=True)
class Proof:
    """What running the analysis's reproducer said of the commit it speaks of."""

    reproducer: Reproducer | None
    evidence: tuple[Evidence, ...] = ()

    @property
    def execution(self) -> str:
        return agreed([item.execution for item in self.evidence]) if self.evidence else "ARGUED"

    @property
    def signature(self) -> str:
        """What the issue's own failure looks like; empty when it was not shown, or failed without a word."""
        signature = self.evidence[0].signature if self.execution == "SHOWN" else ""
        return signature if signature.partition(":")[2] else ""


@dataclass(frozen=True)
class Work:
    """The anchor of a run: the pull request, its exact change and branch. It moves only when a change was imported."""

    pull: PullRequest
    change: Change
    branch: Branch
    proof: Proof
    design: Design | None = None
    round: int = 0
    cap: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def reproducers(self) -> tuple[Check, ...]:
        """What must pass before this may land: the issue's reproducer, and those of every finding shown on the way."""
        found = []
        if self.proof.reproducer and self.proof.execution == "SHOWN":
            found.append(Check.reproducing(self.proof.reproducer, "reproducer"))
        for finding in self.findings:
            if finding.scope == "FIX_IN_THIS_PR" and finding.on_head == "SHOWN" and finding.claim.reproducer:
                found.append(Check.reproducing(finding.claim.reproducer, f"reproducer {finding.id}"))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Assessment:
    """The gate of one change, and what the next fix needs to know when it is shut."""

    gate: Gate
    logs: Mapping[str, str] = field(default_factory=dict)
    stop: Escalated | None = None


@dataclass(frozen=True)
class Note:
    """What a status comment says of one step."""

    step: str
    outcome: str
    after: str
    cycle: int = 0
