"""Everything a report tells of a run, read from its record and from what its jobs left."""

from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from resolvent import reading, spending
from resolvent.app import App
from resolvent.domain.change import Check, Evidence, Execution, agreed
from resolvent.domain.decision import Decision
from resolvent.domain.events import GateJudged
from resolvent.domain.finding import Finding
from resolvent.domain.model import Value
from resolvent.domain.record import EffectRow, JobRow, RunRow, StepRow
from resolvent.domain.transcript import Moment, Said, shortened
from resolvent.errors import ResolventError
from resolvent.ports import Listener
from resolvent.receipts.patches import Patch, cut
from resolvent.spending import RunCost

LOG_BYTES = 64 << 10
MOST_LOGS = 150
TALK_BYTES = 512 << 10
MOST_MOMENTS = 40
MOST_TALKS = 60


class Step(Value):
    """One verb on the timeline: when it began and how long it took, in hundredths of the whole run."""

    row: StepRow
    agents: tuple[str, ...]
    begins: float
    lasts: float

    @property
    def seconds(self) -> float:
        return max(0.0, (self.row.ended_at or self.row.started_at) - self.row.started_at)


class Ran(Value):
    """One execution of a check, which commit that was, and the end of what it printed."""

    evidence: Evidence
    on: str
    log: str
    cut: bool = False


class Checked(Value):
    """Every execution of one check."""

    check: Check
    runs: tuple[Ran, ...]

    @property
    def said(self) -> dict[str, tuple[str, int]]:
        """Of each commit: what all executions say together, and how many there were."""
        found: dict[str, list[Execution]] = {}
        for ran in self.runs:
            found.setdefault(ran.on, []).append(ran.evidence.execution)
        return {on: (agreed(executions), len(executions)) for on, executions in found.items()}


class Talk(Value):
    """The last moments of one agent's job."""

    job: JobRow
    moments: tuple[Moment, ...]
    left_out: int = 0


class Prompt(Value):
    """A prompt as it was asked in this run: who wants to know whether it was the same compares its digest."""

    name: str
    digest: str


class Story(Value):
    """A run, whole."""

    row: RunRow
    document: dict[str, Any]
    elapsed: float
    steps: tuple[Step, ...] = ()
    checks: tuple[Checked, ...] = ()
    findings: tuple[Finding, ...] = ()
    gates: tuple[GateJudged, ...] = ()
    decisions: tuple[Decision, ...] = ()
    effects: tuple[EffectRow, ...] = ()
    cost: RunCost
    patch: Patch = Patch()
    # Why there is no patch, when it cannot be read any more.
    no_patch: str = ""
    talks: tuple[Talk, ...] = ()
    prompts: tuple[Prompt, ...] = ()


async def told(app: App, row: RunRow) -> Story:
    """The story of a run up to now, ended or not."""
    journal = await app.home.journal()
    document = await app.document(row.id)
    steps, jobs = await journal.steps(row.id), await journal.jobs(row.id)
    patch, no_patch = await _patch(app, row)
    last = max((step.ended_at or step.started_at for step in steps), default=row.updated_at)
    return Story(
        row=row,
        document=document,
        elapsed=max(0.0, last - row.created_at),
        steps=_timeline(steps, jobs),
        checks=_checked(await journal.evidence(row.id), _commits(document, steps)),
        findings=await journal.findings(row.id),
        gates=await _gates(app, row),
        decisions=await journal.decisions(row.id),
        effects=tuple(effect for effect in await journal.effects(row.id) if effect.state == "done"),
        cost=await spending.of_run(app, row),
        patch=patch,
        no_patch=no_patch,
        talks=_talks(app, row, jobs),
        prompts=tuple(
            Prompt(name=name, digest=sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
            for name, text in sorted(row.inputs.prompts.items())
        ),
    )


async def _patch(app: App, row: RunRow) -> tuple[Patch, str]:
    try:
        return cut(await reading.diff(app, row)), ""
    except ResolventError as error:
        # A report of an old run is worth having also when its commits are gone.
        return Patch(), error.message


async def _gates(app: App, row: RunRow) -> tuple[GateJudged, ...]:
    journal, found, after = await app.home.journal(), [], 0
    while page := await journal.events(row.id, after=after):
        after = page[-1].seq
        found += [recorded.event for recorded in page if isinstance(recorded.event, GateJudged)]
    return tuple(found)


def _timeline(steps: Sequence[StepRow], jobs: Sequence[JobRow]) -> tuple[Step, ...]:
    begun = min((step.started_at for step in steps), default=0.0)
    ended = max((step.ended_at or step.started_at for step in steps), default=0.0)
    whole = max(ended - begun, 0.001)
    agents: dict[str, dict[str, None]] = {}
    for job in jobs:
        if job.agent:
            agents.setdefault(job.step, {})[job.agent] = None
    return tuple(
        Step(
            row=step,
            agents=tuple(agents.get(step.id, ())),
            begins=round(100 * (step.started_at - begun) / whole, 2),
            lasts=round(100 * max(0.0, (step.ended_at or ended) - step.started_at) / whole, 2),
        )
        for step in steps
    )


def _commits(document: dict[str, Any], steps: Sequence[StepRow]) -> dict[str, str]:
    """The commits that people know, and what they call them."""
    left = [
        step.result["ok"].get("change")
        for step in steps
        if step.verb == "edit" and step.result and step.state == "done"
    ]
    made = list(dict.fromkeys(str(change["commit"]) for change in left if change))
    names = {commit: f"fix {number}" if number else "the first change" for number, commit in enumerate(made)}
    return names | {document["base"]: "the base"} | ({document["change"]: "the change"} if document["change"] else {})


def _checked(evidence: Sequence[Evidence], commits: dict[str, str]) -> tuple[Checked, ...]:
    order = list(commits)
    groups: dict[Check, list[Ran]] = {}
    for number, item in enumerate(evidence):
        end = _end_of(Path(item.log), LOG_BYTES) if item.log and number < MOST_LOGS else None
        log, size = end or (item.tail, 0)
        # What nobody made as a change: with the fix, or parts of it, taken out.
        on = commits.get(item.on, "the change with parts taken out")
        groups.setdefault(item.check, []).append(Ran(evidence=item, on=on, log=log, cut=size > LOG_BYTES))
    # The base first, then the changes as they were made.
    place = {commit: at for at, commit in enumerate(sorted(order, key=lambda commit: commits[commit] != "the base"))}
    for runs in groups.values():
        runs.sort(key=lambda ran: (place.get(ran.evidence.on, len(place)), ran.evidence.nth))
    return tuple(Checked(check=check, runs=tuple(runs)) for check, runs in groups.items())


def _end_of(path: Path, most: int) -> tuple[str, int] | None:
    """The last so many bytes of a file, and how many it has; None when it is gone."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            return file.read(most).decode("utf-8", "replace"), size
    except OSError:
        return None


def _talks(app: App, row: RunRow, jobs: Sequence[JobRow]) -> tuple[Talk, ...]:
    found = []
    for job in [job for job in jobs if job.agent][-MOST_TALKS:]:
        listener = reading.listener(app, row, job)
        if listener is not None:
            moments, left_out = _moments(reading.files_of(app, job)[0], listener)
            found.append(Talk(job=job, moments=moments, left_out=left_out))
    return tuple(found)


def _moments(output: Path, listener: Listener) -> tuple[tuple[Moment, ...], int]:
    """The last moments of a job's output, and how many of those that were read came before them."""
    kept: deque[Moment] = deque(maxlen=MOST_MOMENTS)
    heard = 0
    for line in _last_lines(output):
        for moment in listener.hear(line):
            if kept and isinstance(moment, Said) and isinstance(kept[-1], Said):
                # A program that prints plain words tells one line at a time.
                kept[-1] = Said(text=shortened(f"{kept[-1].text}\n{moment.text}"))
            elif moment.kind != "usage":
                kept.append(moment)
                heard += 1
    return tuple(kept), heard - len(kept)


def _last_lines(output: Path) -> list[bytes]:
    """Whole lines only, unless there is but one."""
    try:
        with output.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TALK_BYTES))
            lines = file.read(TALK_BYTES).split(b"\n")
    except OSError:
        return []
    return lines[1:] if size > TALK_BYTES and len(lines) > 1 else lines
