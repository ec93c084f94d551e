"""A question put to an agent: asked, waited for, and gone on with where it was interrupted."""

import time
from dataclasses import dataclass, replace
from itertools import count

from resolvent.domain.events import AgentParked
from resolvent.domain.job import Branch, Session
from resolvent.domain.record import JobRow
from resolvent.engine.requests import revive
from resolvent.engine.talk import Taken, Talk, Turn
from resolvent.engine.turns import take, where, worked
from resolvent.engine.world import World
from resolvent.errors import AgentBusy, AgentFailed, AgentStuck, BudgetSpent, JobLost, KeyRefused, ResolventError

SHORT_S = 60.0
CUT_SHORT = (AgentBusy, BudgetSpent, JobLost, KeyRefused)
INTERRUPTED = (
    "You were interrupted while you worked on this, and nothing of your last turn was taken. What you had done is "
    "still here: look at it, finish what was asked of you, and give the whole answer.\n"
)
NUDGE = (
    "You were stopped, because you did the same thing over and over with the same result. Take another way, or say "
    "what keeps you from finishing; then give the whole answer.\n"
)


async def first_turn(world: World, talk: Talk, text: str, form: str) -> Taken:
    """Ask, and ask again from the same parent for as long as the agent's own world asks us to wait."""
    parent = Branch.model_validate(talk.request.inputs["on"])
    interrupted = await _interrupted(world, talk)
    delays = iter([] if talk.hurried else world.patience.delays())
    for tries in count(1):
        ground = interrupted.branch if interrupted else parent
        name = talk.names(tries)
        branch = await world.workspace.fork(ground, id=f"{talk.request.id}.{name}")
        await world.journal.save_branch(talk.request.run, branch)
        turn = Turn(branch, text, f"{name}.1", private=f"{talk.request.file_name}.{name}")
        if interrupted:
            turn = replace(turn, text=INTERRUPTED + form, private=interrupted.private, session=interrupted.session)
        try:
            return await _nudged(world, talk, turn, form)
        except AgentBusy as error:
            if talk.agent.abilities.resume and await worked(world, talk, turn):
                # It had its model until now, and goes on from there: that is another outage than the last one.
                delays = iter(world.patience.delays())
            await _park(world, talk, error, next(delays, None))
            # What it had done until then need not be paid for twice.
            interrupted = await _left_off(world, talk, turn) or interrupted
        except AgentFailed as error:
            if not (interrupted and error.details.get("session_gone")):
                raise
            interrupted = None
    raise AssertionError("the loop ends by a return or an error")


async def later_turn(world: World, talk: Talk, turn: Turn) -> Taken:
    """Take a turn that follows another; again for as long as the agent's own world asks us to wait."""
    delays = iter(world.patience.delays())
    while True:
        session = turn.session
        try:
            return await take(world, talk, turn)
        except AgentBusy as error:
            await _park(world, talk, error, next(delays, None))
        except AgentFailed as error:
            if not (session and error.details.get("session_gone")):
                raise
            # Its words stand by themselves.
            session = None
        turn = turn.after(text=turn.text, session=session)


async def _park(world: World, talk: Talk, error: AgentBusy, delay: float | None) -> None:
    """Hold the whole account back until the model is there again; the error when nobody knows and patience is over."""
    # Counted from the end of its job: whoever finds it again after a restart does not wait anew.
    since = error.details.get("at")
    now = since if isinstance(since, float) and world.clock.frozen_at is None else time.time()
    # A pause that short may be its program's own, of which the server knows nothing.
    stated = error.until is not None and error.until > now + SHORT_S
    if delay is None and not stated:
        raise error
    until = max(error.until or 0.0, now + (delay or 0.0))
    world.breakers.hold(talk.agent.account, until)
    told = AgentParked(step=talk.request.id, agent=talk.choice.name, until=until, reason=error.message)
    await world.journal.tell(talk.request.run, told, at=world.clock.now(), key=f"{talk.request.id}:parked:{until:.3f}")


async def _nudged(world: World, talk: Talk, turn: Turn, form: str) -> Taken:
    """Take the turn; an agent that is stuck is told so once, where it can be."""
    try:
        return await take(world, talk, turn)
    except AgentStuck:
        session = talk.agent.session(*await where(world, talk, turn))
        if session is None or not talk.agent.abilities.resume:
            raise
        return await take(world, talk, turn.after(text=NUDGE + form, session=session))


@dataclass(frozen=True)
class _LeftOff:
    """Where an agent was interrupted: its files, its private directory, its session."""

    branch: Branch
    private: str
    session: Session


async def _interrupted(world: World, talk: Talk) -> _LeftOff | None:
    """Where the last attempt was cut short, if its agent can go on from there."""
    request = talk.request
    if request.attempt == 1 or not talk.agent.abilities.resume:
        return None
    attempts = (request.model_copy(update={"attempt": attempt}) for attempt in range(1, request.attempt))
    before = {attempt.id: attempt for attempt in attempts}
    # An attempt that could not even begin has no jobs: what went before it is still where the agent was.
    jobs = [row for row in await world.journal.jobs(request.run) if row.step in before]
    row = next((row for row in reversed(jobs) if row.agent == talk.choice.name), None)
    branches = {branch.id: branch for branch in await world.journal.branches(request.run)}
    if row is None or row.branch not in branches or not await _cut_short(world, row):
        return None
    asked = before[row.step]
    name = row.id.removeprefix(f"{asked.file_name}.")
    return await _left_off(world, replace(talk, request=asked), Turn(branches[row.branch], "", name, row.private))


async def _cut_short(world: World, row: JobRow) -> bool:
    """Its agent did nothing wrong: it was lost, or its money, its key or its model's patience was over."""
    if row.state == "lost":
        return True
    (step,) = [step for step in await world.journal.steps(row.run) if step.id == row.step]
    failed = (step.result or {}).get("error")
    return failed is not None and isinstance(revive(failed), CUT_SHORT)


async def _left_off(world: World, talk: Talk, turn: Turn) -> _LeftOff | None:
    """Where a turn can be gone on with; None where its program cannot, or where there is nothing to stand on."""
    session = talk.agent.session(*await where(world, talk, turn)) if talk.agent.abilities.resume else None
    if session is None:
        return None
    try:
        # Looked at now: what a power loss has torn is no ground to go on from.
        await world.workspace.snapshot(turn.branch)
    except ResolventError:
        return None
    return _LeftOff(turn.branch, turn.private, session)
