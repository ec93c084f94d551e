"""One turn of an agent in a branch: admitted, begun, watched, stopped, read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from resolvent.domain.events import AgentNoticed, JobStarted
from resolvent.domain.job import Branch, Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice, Frozen, JobRow
from resolvent.engine.jobs import supervise
from resolvent.engine.judging import Judge, Stop, judged, stopping_at
from resolvent.engine.prompts import Prompt
from resolvent.engine.requests import Request
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
from resolvent.ports import Agent


@dataclass(frozen=True)
class Talk:
    """What all turns of one question have in common."""

    request: Request
    frozen: Frozen
    agent: Agent
    choice: AgentChoice
    prompt: Prompt
    model: type[Value]
    schema: str
    # Whoever takes another's place leaves branches and jobs of its own.
    substitute: bool = False

    def names(self, tries: int) -> str:
        """What the branches, jobs and files of one try are called by."""
        return f"{self.choice.name}-{tries}" if self.substitute else str(tries)


@dataclass(frozen=True)
class Turn:
    """One turn: where it is taken, with which words, in which session."""

    branch: Branch
    text: str
    # `try.turn`: the same words are tried again in a new branch, a turn follows another in the same session.
    name: str
    private: str
    session: Session | None = None

    @property
    def number(self) -> int:
        return int(self.name.rpartition(".")[2])

    def after(self, *, text: str, session: Session | None, branch: Branch | None = None) -> "Turn":
        """The next turn of the same conversation."""
        tries, _, number = self.name.rpartition(".")
        name = f"{tries}.{int(number) + 1}"
        return replace(self, text=text, name=name, session=session, branch=branch or self.branch)


@dataclass(frozen=True)
class Taken:
    """A turn that ended well as a process; what it left may still be malformed."""

    turn: Turn
    exit: JobExit
    left: Reply | MalformedAnswer

    @property
    def session(self) -> Session | None:
        return self.left.session if isinstance(self.left, Reply) else None


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
        row, exit = await _watched(world, talk, _row(talk, turn), job, budget=limit)
    except StepFailed:
        await _settle_cut_short(world, talk, id)
        raise
    try:
        stop = await _settle(world, talk, row, budget=limit)
        ours = stop if exit.ending == "cancelled" else None
        reply = _reply(talk, task, exit, output=world.jobs.output(id), stop=ours)
    except MalformedAnswer as error:
        await _settle_told(world, row, error)
        return Taken(turn, exit, error)
    except ResolventError as error:
        await _settle_told(world, row, error)
        error.details.setdefault("branch", turn.branch.id)
        error.details.setdefault("at", exit.ended_at)
        raise
    await world.journal.save_job(row.model_copy(update={"usage": reply.usage}))
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


async def _watched(world: World, talk: Talk, row: JobRow, job: Job, *, budget: float | None) -> tuple[JobRow, JobExit]:
    """Run the job, and end it when its agent does what nobody would wait for."""
    judge, listener = Judge(budget), talk.agent.listener()

    async def watch() -> None:
        async for line in world.jobs.lines(row.id):
            if judge.take(listener.hear(line)):
                await world.jobs.cancel(row.id)
                return

    watching = asyncio.create_task(watch())
    try:
        return await supervise(world, row, job, stopped=lambda: _stopped(world, talk, row.id, budget))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _stopped(world: World, talk: Talk, job: str, budget: float | None) -> bool:
    """We ended it ourselves: told from its output alone, for whoever did may be dead by now."""
    return judged(world.jobs.output(job), talk.agent.listener(), budget_usd=budget).stop is not None


async def _settle(world: World, talk: Talk, row: JobRow, *, budget: float | None) -> Stop | None:
    """Record what a job spent, however it ended; why it was stopped, if it was."""
    output = world.jobs.output(row.id)
    judge = await asyncio.to_thread(judged, output, talk.agent.listener(), budget_usd=budget)
    await world.journal.save_job(row.model_copy(update={"usage": judge.spent}))
    await world.budgets.warn(row.run, talk.frozen)
    return judge.stop


async def _settle_told(world: World, row: JobRow, error: ResolventError) -> None:
    """Record what a turn that did not end well says it spent, where that is more than was heard of it."""
    told = Usage.model_validate(error.details.get("usage") or {})
    (known,) = [one.usage for one in await world.journal.jobs(row.run) if one.id == row.id]
    if told.usd > known.usd:
        await world.journal.save_job(row.model_copy(update={"usage": told}))


async def _settle_cut_short(world: World, talk: Talk, id: str) -> None:
    """Record what a job spent whose end nobody saw, or that a person called off."""
    for row in await world.journal.jobs(talk.request.run):
        if row.id == id and row.state != "started":
            # A job that was lost has no end; the day on which that is found out pays for it.
            at = row.at or world.clock.now()
            await _settle(world, talk, row.model_copy(update={"at": at}), budget=None)


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
        return BudgetSpent(f"agent {name} was stopped: {stop.text}", hint="resolvent cost")
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
