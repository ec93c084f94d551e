"""The outcome document: one JSON object about one run, the same for programs, people and the record."""

from collections.abc import Sequence
from typing import Any, Literal

from resolvent.domain.change import Evidence, File
from resolvent.domain.design import Designed
from resolvent.domain.events import DesignSettled
from resolvent.domain.finding import Finding
from resolvent.domain.job import Usage
from resolvent.domain.model import Value
from resolvent.domain.outcome import Ended
from resolvent.domain.record import EffectRow, JobRow, RunRow, StepRow
from resolvent.domain.subject import PullRequest
from resolvent.ports import Journal


class PullDocument(Value):
    number: int
    url: str
    head: str


class FindingDocument(Value):
    id: str
    severity: str
    title: str
    triage: str | None
    valid: bool | None
    origin: str
    basis: Literal["executed", "argued"]
    # The rule of ours that found it, if none of the reviewers did.
    rule: str = ""
    found_in_round: int = 0
    created_in_round: int
    repeats: str = ""
    issue: str


class EvidenceDocument(Value):
    check: str
    on: str
    command: str
    files: tuple[File, ...] = ()
    exit: int
    passed: bool
    execution: str
    seconds: float
    log: str


class GateDocument(Value):
    open: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


class EffectDocument(Value):
    kind: str
    target: str
    marker: str


class StepDocument(Value):
    step: str
    state: str
    seconds: float


class OutcomeDocument(Value):
    """What `--json` prints at the end; the names are a public contract."""

    schema_version: Literal[1] = 1
    run: str
    playbook: str
    subject: str
    outcome: Literal[
        "proven", "argued", "merged", "declined", "escalated", "failed", "waiting", "cancelled", "queued", "running"
    ]
    reason: str = ""
    decision: dict[str, Any] | None = None
    base: str
    change: str | None = None
    pull_request: PullDocument | None = None
    rounds: int = 0
    findings: tuple[FindingDocument, ...] = ()
    evidence: tuple[EvidenceDocument, ...] = ()
    gate: GateDocument | None = None
    effects: tuple[EffectDocument, ...] = ()
    cost: Usage = Usage()
    steps: tuple[StepDocument, ...] = ()
    # How the design ended that was made first, or alone.
    design: Designed | None = None


async def outcome_document(journal: Journal, row: RunRow, ended: Ended | None = None) -> dict[str, Any]:
    """Everything the record holds about a run, ended or not."""
    open_questions = [item for item in await journal.decisions(row.id) if item.answer is None]
    state = ended.outcome if ended else (row.outcome or row.state)  # type: ignore[attr-defined]
    effects = [item for item in await journal.effects(row.id) if item.state == "done"]
    document = OutcomeDocument(
        run=row.id,
        playbook=row.playbook,
        subject=row.subject,
        outcome=state,
        reason=ended.reason if ended else row.reason,
        decision=open_questions[0].question.model_dump(mode="json") if open_questions and not ended else None,
        base=row.inputs.base.commit,
        findings=tuple(_finding(item) for item in await journal.findings(row.id)),
        evidence=tuple(_evidence(item) for item in await journal.evidence(row.id)),
        effects=tuple(_effect(item) for item in effects),
        cost=spent(await journal.jobs(row.id)),
        steps=tuple(_step(item) for item in await journal.steps(row.id)),
        design=await _design(journal, row),
        **_standing(row, ended, effects),
    )
    return document.model_dump(mode="json")


def spent(jobs: tuple[JobRow, ...]) -> Usage:
    """What all agents of these jobs say they spent."""
    whole = sum((job.usage for job in jobs), Usage())
    return whole.model_copy(update={"usd": round(whole.usd, 6)})


def _standing(row: RunRow, ended: Ended | None, effects: Sequence[EffectRow]) -> dict[str, Any]:
    """How far it came: as the ending tells, else what was published last, else the pull request it was given."""
    published = [item.result["pull_request"] for item in effects if item.kind == "publish" and item.result]
    last = PullRequest.model_validate(published[-1]) if published else None
    pull = (ended.pull_request if ended else None) or last or row.inputs.pull_request
    change = ended.change.commit if ended and ended.change else last.head_commit if last else None
    gate = ended.gate if ended else None
    return {
        "change": change,
        "pull_request": PullDocument(number=pull.number, url=pull.url, head=pull.head) if pull else None,
        "rounds": ended.rounds if ended else 0,
        "gate": GateDocument(open=gate.open, reasons=gate.reasons, notes=gate.notes) if gate else None,
    }


async def _design(journal: Journal, row: RunRow) -> Designed | None:
    """The last design the run agreed upon."""
    found, after = None, 0
    wanted = row.inputs.design_first or row.playbook == "design"
    while wanted and (page := await journal.events(row.id, after=after)):
        after = page[-1].seq
        for recorded in page:
            if isinstance(recorded.event, DesignSettled):
                found = Designed.model_validate(recorded.event.model_dump(exclude={"event"}))
    return found


def _finding(finding: Finding) -> FindingDocument:
    return FindingDocument(
        id=finding.id,
        severity=finding.claim.severity,
        title=finding.claim.title,
        triage=finding.scope,
        valid=finding.valid,
        origin=finding.origin,
        basis=finding.basis,
        rule=finding.rule,
        found_in_round=finding.found_in_round,
        created_in_round=finding.created_in_round,
        repeats=finding.repeats,
        issue=finding.issue,
    )


def _evidence(item: Evidence) -> EvidenceDocument:
    return EvidenceDocument(
        check=item.check.name,
        on=item.on,
        command=item.check.command,
        files=item.check.files,
        exit=item.exit,
        passed=item.passed,
        execution=item.execution,
        seconds=item.seconds,
        log=item.log,
    )


def _effect(effect: EffectRow) -> EffectDocument:
    return EffectDocument(kind=effect.kind, target=effect.target, marker=effect.marker)


def _step(step: StepRow) -> StepDocument:
    seconds = round((step.ended_at or step.started_at) - step.started_at, 3)
    return StepDocument(step=f"{step.verb}:{step.name}", state=step.state, seconds=seconds)
