"""One turn of an agent in a branch: admitted, begun, watched, stopped, read."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from resolvent.domain.events import AgentNoticed, JobStarted
from resolvent.domain.job import Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.record import JobRow
from resolvent.domain.transcript import Moment, ToolAnswered, ToolCalled
from resolvent.engine.charging import charge, settle, settle_cut_short, settle_told
from resolvent.engine.jobs import supervise
from resolvent.engine.judging import Judge, Stop, judged, stopping_at
from resolvent.engine.prompts import Prompt
from resolvent.engine.talk import Taken, Talk, Turn
from resolvent.engine.world import World
from resolvent.errors import (
    AgentBusy,
    AgentStuck,
    BudgetSpent,
    KeyRefused,
    MalformedAnswer,
    ResolventError,
    StepFailed,
)


async def where(world: World, talk: Talk, turn: Turn) -> tuple[Task, Path]:
    """What its agent needs to find the session of a turn."""
    return await _task(world, talk, turn, budget=None), world.jobs.output(_job(talk, turn))


async def worked(world: World, talk: Talk, turn: Turn) -> bool:
    """Its model was there in that turn, and had it do something."""
    judge = await asyncio.to_thread(judged, world.jobs.output(_job(talk, turn)), talk.agent.listener())
    return judge.worked


async def take(world: World, talk: Talk, turn: Turn) -> Taken:
    """One turn from its start, or from wherever it is by now, to its end."""
    async with _admitted(world, talk):
        try:
            return await _taken(world, talk, turn)
        except AgentBusy as error:
            # Before the next of the same account gets our slot.
            if error.until is not None:
                world.breakers.hold(talk.agent.account, error.until)
            raise
        finally:
            world.budgets.at_work.pop(_job(talk, turn), None)


async def _taken(world: World, talk: Talk, turn: Turn) -> Taken:
    id, request = _job(talk, turn), talk.request
    turn = replace(turn, session=await _charged(world, talk, turn))
    budget = await world.budgets.left(request.run, talk.frozen, talk.choice, job=id)
    task = await _task(world, talk, turn, budget=budget)
    job = _limited(talk.agent.job(task, id=id), talk.prompt)
    # On the record before it is told: whoever is woken by that looks for it, and nothing else will wake him.
    await world.journal.save_job(_row(talk, turn))
    began = JobStarted(step=request.id, job=id, agent=talk.choice.name)
    await world.journal.tell(request.run, began, at=world.clock.now(), key=f"{id}:job")
    job = await world.workspace.enter(turn.branch, job, private=task.directory, unsafe=talk.frozen.unsafe)
    limit = stopping_at(budget, talk.agent.abilities)
    try:
        row, exit, shared = await _watched(world, talk, _row(talk, turn), job, budget=limit)
    except StepFailed:
        await settle_cut_short(world, talk, task, id)
        raise
    try:
        stop = await settle(world, talk, row, budget=limit) or shared
        ours = stop if exit.ending == "cancelled" else None
        reply = _reply(talk, task, exit, output=world.jobs.output(id), stop=ours)
    except MalformedAnswer as error:
        await settle_told(world, talk, row, error)
        return Taken(turn, exit, error)
    except ResolventError as error:
        await settle_told(world, talk, row, error)
        error.details.setdefault("branch", turn.branch.id)
        error.details.setdefault("at", exit.ended_at)
        raise
    await charge(world, talk, row, reply.usage)
    await _tell_notices(world, talk, id, reply.notices)
    return Taken(turn, exit, reply)


@asynccontextmanager
async def _admitted(world: World, talk: Talk) -> AsyncIterator[None]:
    """A slot, at a time when the agent's account may be used."""
    account = talk.agent.account
    while True:
        await world.breakers.closed(account)
        async with world.slots.take("agents", talk.request.run):
            # Somebody may have been sent away while we stood in the queue.
            if world.breakers.held(account) is None:
                yield
                return


async def _watched(
    world: World, talk: Talk, row: JobRow, job: Job, *, budget: float | None
) -> tuple[JobRow, JobExit, Stop | None]:
    """Run the job, and end it when its agent does what nobody would wait for; why, where we did so."""
    judge, listener = Judge(budget), talk.agent.listener()

    async def watch() -> None:
        async for line in world.jobs.lines(row.id):
            moments = listener.hear(line)
            judge.stop = judge.take(moments) or await _overspent(world, talk, row.id, judge.spent.usd, moments)
            if judge.stop:
                await world.jobs.cancel(row.id)
                return

    watching = asyncio.create_task(watch())
    try:
        ended, exit = await supervise(
            world, row, job, stopped=lambda: judge.stop is not None or _stopped(world, talk, row.id, budget)
        )
        return ended, exit, judge.stop
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _overspent(world: World, talk: Talk, job: str, usd: float, moments: Sequence[Moment]) -> Stop | None:
    """Why it must not go on, though it has money of its own left: others at work have spent it meanwhile."""
    world.budgets.at_work[job].usd = usd
    # Asked when it goes on working: its last word is paid for, and taken.
    if not (talk.agent.abilities.cost and any(isinstance(one, ToolCalled | ToolAnswered) for one in moments)):
        return None
    return await world.budgets.overspent(talk.frozen, job=job)


def _stopped(world: World, talk: Talk, job: str, budget: float | None) -> bool:
    """We ended it ourselves: told from its output alone, for whoever did may be dead by now."""
    return judged(world.jobs.output(job), talk.agent.listener(), budget_usd=budget).stop is not None


async def _charged(world: World, talk: Talk, turn: Turn) -> Session | None:
    """The session of a turn with what is on record for it: all jobs of one private directory are one session.

    Programs tell the sum of a session, and leave out or put in what was cut short as they like.
    """
    if turn.session is None:
        return None
    spent = Usage()
    for row in await world.journal.jobs(talk.request.run):
        # After a restart the later ones are on record too.
        if row.id == _job(talk, turn):
            break
        spent += row.usage if row.private == turn.private else Usage()
    return turn.session.model_copy(update={"spent": spent})


def _reply(talk: Talk, task: Task, exit: JobExit, *, output: Path, stop: Stop | None) -> Reply:
    try:
        return talk.agent.reply(task, exit, output)
    except (AgentBusy, KeyRefused, BudgetSpent, MalformedAnswer):
        raise
    except StepFailed:
        # To the agent's program it looks like any other end by force; we know why.
        if stop is None:
            raise
        raise _error(talk, stop, ended_at=exit.ended_at) from None


def _error(talk: Talk, stop: Stop, *, ended_at: float) -> ResolventError:
    name = talk.choice.name
    if stop.why == "key":
        return KeyRefused(f"agent {name}: {stop.text}", hint=f"resolvent agent try {name} hello  # with another key")
    if stop.why == "busy":
        return AgentBusy(f"agent {name}: {stop.text}", until=ended_at + stop.wait_s)
    if stop.why == "budget":
        return BudgetSpent(f"agent {name} was stopped: {stop.text}", hint="resolvent cost", scope=stop.scope)
    return AgentStuck(f"agent {name} was stopped: {stop.text}", hint=f"resolvent logs {talk.request.run}")


async def _tell_notices(world: World, talk: Talk, job: str, notices: tuple[str, ...]) -> None:
    for number, text in enumerate(notices[:20]):
        told = AgentNoticed(step=talk.request.id, agent=talk.choice.name, text=text[:500])
        await world.journal.tell(talk.request.run, told, at=world.clock.now(), key=f"{job}:notice:{number}")


def _job(talk: Talk, turn: Turn) -> str:
    return f"{talk.request.file_name}.{turn.name}"


def _row(talk: Talk, turn: Turn) -> JobRow:
    request = talk.request
    about = {"step": request.id, "name": request.name, "agent": talk.choice.name, "turn": turn.number}
    return JobRow(id=_job(talk, turn), run=request.run, branch=turn.branch.id, private=turn.private, **about)


async def _task(world: World, talk: Talk, turn: Turn, *, budget: float | None) -> Task:
    private = world.private_directory(turn.private)
    return Task(
        run=talk.request.run,
        step=talk.request.name,
        attempt=talk.request.attempt,
        turn=turn.number,
        prompt=turn.text,
        json_schema=talk.schema,
        directory=private,
        inside=world.workspace.inside(private),
        session=turn.session,
        budget_usd=budget,
        boxed=world.workspace.boxed,
        answer=_answer(talk, turn),
    )


def _answer(talk: Talk, turn: Turn) -> str:
    """The name of its answer file, where the usual one may lie there already: left before an interruption."""
    own = f"{talk.request.file_name}.{turn.name.rpartition('.')[0]}"
    return "" if turn.private == own else f"answer.{talk.request.attempt}.{turn.name}.json"


def _limited(job: Job, prompt: Prompt) -> Job:
    wall = prompt.timeout_s
    limits = job.limits if wall is None else job.limits.model_copy(update={"wall_s": min(wall, job.limits.wall_s)})
    return job.model_copy(update={"limits": limits})
