"""Where a resolve stands: values that its functions hand to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from resolvent.domain.change import Change, Check, Evidence, Reproducer, agreed
from resolvent.domain.convergence import Way
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
    on: Change
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
class Variations:
    """Other ways to show the issue's problem, each shown where the problem is, and what became of the rest."""

    checks: tuple[Check, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Work:
    """The anchor of a run: the pull request, its exact change and branch. It moves only when a change was imported."""

    pull: PullRequest
    change: Change
    branch: Branch
    proof: Proof
    variations: Variations = Variations()
    design: Design | None = None
    cap: int = 0
    # The change of every round so far; the last is the one that stands now.
    history: tuple[Change, ...] = ()
    reviewed: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    # What a person found to be meant, and which remedies were tried when the loop did not come to an end.
    dismissed: tuple[str, ...] = ()
    tried: tuple[Way, ...] = ()

    @property
    def round(self) -> int:
        """How many fixes there were."""
        return len(self.history) - 1

    @property
    def own(self) -> Check | None:
        """What shows the problem of the issue itself, if only sometimes: a change must pass it every time."""
        reproducer = self.proof.reproducer
        shown = self.proof.execution in ("SHOWN", "FLAKY")
        return Check.reproducing(reproducer, "reproducer") if reproducer and shown else None

    @property
    def reproducers(self) -> tuple[Check, ...]:
        """What must pass before this may land: the issue's reproducers, and those of every finding shown on the way."""
        found = [self.own] if self.own else []
        found += self.variations.checks
        for finding in self.findings:
            if finding.scope == "FIX_IN_THIS_PR" and finding.on_head == "SHOWN" and finding.claim.reproducer:
                found.append(Check.reproducing(finding.claim.reproducer, f"reproducer {finding.id}"))
        return tuple(dict.fromkeys(found))

    @property
    def next_number(self) -> int:
        """The number of the next finding: none is given twice, though claims that were not shown left gaps."""
        return 1 + max((int(finding.id.removeprefix("F")) for finding in self.findings), default=0)

    @property
    def current(self) -> tuple[Finding, ...]:
        """What was found on the change that stands now."""
        return tuple(finding for finding in self.findings if finding.commit == self.change.commit)

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """What of it has to be fixed here."""
        return tuple(finding for finding in self.current if finding.scope == "FIX_IN_THIS_PR")


@dataclass(frozen=True)
class Assessment:
    """The gate of one change, the evidence it stands on, and what the next fix needs to know when it is shut."""

    gate: Gate
    evidence: tuple[Evidence, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    stop: Escalated | None = None


@dataclass(frozen=True)
class Note:
    """What a status comment says of one step."""

    step: str
    outcome: str
    after: str
    cycle: int = 0


def stopped(work: Work, reason: str, *, gate: Gate | None = None) -> Escalated:
    """A person has to look, and sees how far it came."""
    return Escalated(reason=reason, change=work.change, pull_request=work.pull, gate=gate, rounds=work.round)


@dataclass(frozen=True)
class Blocked:
    """An agent says that the design cannot be implemented."""

    reason: str
