"""What calls a run off while it works: its issue or pull request was closed, its text or its label changed."""

from dataclasses import dataclass

from resolvent.domain.arrival import Arrival, Kind, Rules
from resolvent.domain.record import EffectRow, RunRow, RunState
from resolvent.domain.subject import PullRequest
from resolvent.errors import NotFound
from resolvent.intake.desk import Desk
from resolvent.intake.words import stop_reason

ACTIVE: tuple[RunState, ...] = ("queued", "running", "waiting")


@dataclass(frozen=True)
class Cause:
    """Why a run should not go on."""

    kind: Kind
    subject: str
    why: str
    # What has to be done before it can be started again.
    first: str = ""


async def watch(desk: Desk, changed: frozenset[str] | None = None) -> None:
    """Look after every active run whose issue changed, or after all of them, and call off those that must stop."""
    journal = await desk.journal()
    for row in await journal.runs(states=ACTIVE, limit=10_000):
        if not row.cancelling:
            looked = changed is None or row.inputs.issue.key in changed
            cause = await _cause(desk, row, issue=looked)
            if cause:
                await call_off(desk, row.id, cause)
                told = Arrival(kind=cause.kind, subject=cause.subject, at=desk.home.clock.now(), run=row.id)
                desk.told(told.model_copy(update={"fate": "stopped", "reason": cause.why}))


async def notice(desk: Desk, arrival: Arrival) -> Arrival:
    """An issue or pull request changed: the run on it is called off if that is a reason to."""
    run = await desk.arrivals.at_work(arrival.subject)
    if not run:
        return await desk.settle(arrival, "nothing")
    cause = await _cause(desk, await (await desk.journal()).run(run), issue=True)
    if cause is None:
        return await desk.settle(arrival, "nothing")
    await call_off(desk, run, cause)
    return await desk.settle(arrival, "stopped", reason=f"{run}: {cause.why}")


async def call_off(desk: Desk, run: str, cause: Cause) -> None:
    """Ask for its end; the worker ends it, and tells why where it worked."""
    if cause.kind == "edited":
        await desk.arrivals.spend_label(cause.subject)
    reason = stop_reason(cause.why, desk.configuration.rules, subject=cause.subject, first=cause.first)
    await (await desk.journal()).ask_to_cancel(run, reason=reason)
    desk.boundary("called off")


async def _cause(desk: Desk, row: RunRow, *, issue: bool) -> Cause | None:
    """The first reason there is now: what told us of a change may be older than what the run began with."""
    effects = await (await desk.journal()).effects(row.id)
    # It is merged by the run itself, which closes the issue as well.
    if await _merges(desk, row, effects):
        return None
    return (await _issue_cause(desk, row, effects) if issue else None) or await _pull_cause(desk, row, effects)


async def _merges(desk: Desk, row: RunRow, effects: tuple[EffectRow, ...]) -> bool:
    """It merged, or is about to right now; a merge that was refused is neither."""
    merges = {effect.id: effect.state for effect in effects if effect.kind == "merge"}
    if not merges or "done" in merges.values():
        return bool(merges)
    steps = await (await desk.journal()).steps(row.id)
    return any(step.id in merges and step.state == "running" for step in steps)


async def _issue_cause(desk: Desk, row: RunRow, effects: tuple[EffectRow, ...]) -> Cause | None:
    began, pull = row.inputs.issue, row.inputs.pull_request
    if began.number is None or (pull and began.url == pull.url) or _closed_by_us(began.key, effects):
        return None
    try:
        now = await (await desk.forge()).issue(str(began.number))
    except NotFound:
        return Cause("closed", began.key, f"{began.reference} is gone")
    if now.state == "closed":
        return Cause("closed", began.key, f"{began.reference} was closed", first="reopen it and ")
    if await _unlabelled(desk, row, now.labels):
        return Cause("unlabelled", began.key, f"the label was taken from {began.reference}")
    what = [name for name in ("title", "body") if getattr(now, name) != getattr(began, name)]
    if what:
        return Cause("edited", began.key, f"the {' and the '.join(what)} of {began.reference} changed since it began")
    return None


async def _unlabelled(desk: Desk, row: RunRow, labels: tuple[str, ...]) -> bool:
    """The label was why it began, and is not there any more."""
    rules: Rules = desk.configuration.rules
    if not rules.label or rules.labels(labels):
        return False
    cause = await desk.arrivals.cause(row.id)
    return cause is not None and cause.kind in ("labelled", "reopened")


async def _pull_cause(desk: Desk, row: RunRow, effects: tuple[EffectRow, ...]) -> Cause | None:
    forge = await desk.forge()
    for pull in _pulls(row, effects):
        try:
            now = await forge.pull_request(str(pull.number))
        except NotFound:
            # Whatever that means, the run meets it itself; the others are looked after all the same.
            continue
        if now.state == "closed" and not _closed_by_us(pull.key, effects):
            return Cause("closed", row.subject, f"pull request #{pull.number} was closed")
    return None


def _pulls(row: RunRow, effects: tuple[EffectRow, ...]) -> list[PullRequest]:
    """Those the run works on: the one it was given, or the one it published last."""
    published = [one.result["pull_request"] for one in effects if one.kind == "publish" and one.result]
    given = [row.inputs.pull_request] if row.inputs.pull_request else []
    return [*given, *(PullRequest.model_validate(one) for one in published[-1:])][-1:]


def _closed_by_us(subject: str, effects: tuple[EffectRow, ...]) -> bool:
    return any(effect.kind == "declare" and effect.target == subject for effect in effects)
