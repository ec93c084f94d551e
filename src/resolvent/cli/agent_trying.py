"""One agent on one prompt in a branch of its own: begun, shown as it works, stopped, and what came of it."""

import asyncio
import os
import secrets
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from resolvent.branch_commands import Commands
from resolvent.branching import Branching
from resolvent.cli.agent_results import Ended, changes_in
from resolvent.cli.branch_options import branching
from resolvent.cli.terminal import stderr, stdout
from resolvent.cli.transcripts import Teller
from resolvent.cli.words import clock_time, emit, seconds
from resolvent.domain.job import Branch, Job, JobExit, Reply, Task
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import Moment, Noticed
from resolvent.engine.judging import Judge, Stop, stopping_at
from resolvent.errors import (
    AgentBusy,
    AgentFailed,
    AgentStuck,
    BudgetSpent,
    KeyRefused,
    MalformedAnswer,
    ResolventError,
    StepFailed,
)
from resolvent.ports import Agent
from resolvent.settings import agent_named

MOST_MOMENTS = 1000


@dataclass(frozen=True)
class Trial:
    """What a person wants to see done."""

    agent: str
    prompt: str
    of: str = ""
    keep: bool = False
    json: bool = False
    settings: tuple[str, ...] = ()


@dataclass
class Work:
    """One process of the agent, and what was heard of it."""

    branching: Branching
    branch: Branch
    choice: AgentChoice
    agent: Agent
    task: Task
    job: Job
    judge: Judge
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOST_MOMENTS))
    came: int = 0
    signals: list[int] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.branching.home.jobs().output(self.job.id)

    def stop(self, number: int) -> None:
        """End it with all that it started."""
        self.signals.append(number)
        self._stopping = asyncio.ensure_future(self.branching.home.jobs().cancel(self.job.id))


async def tried(directory: Path | None, trial: Trial, *, unsafe: bool) -> int:
    """Run it, show it, and drop the branch unless it is to be kept; the exit code says how it went."""
    async with branching(directory, unsafe=unsafe, settings=trial.settings) as branches:
        await branches.home.require_walls(unsafe=unsafe)
        choice = agent_named(branches.home.settings, trial.agent)
        agent = branches.home.agent(choice)
        # Said before anything is made for it.
        agent.ready()
        branch = await branches.new(trial.of, name=f"try-{secrets.token_hex(3)}")
        try:
            work = await _begun(branches, branch, trial, choice=choice, agent=agent)
            return await _carried_out(work, trial)
        except ResolventError as error:
            if trial.keep:
                error.hint = f"{error.hint or f'resolvent branch log {branch.id}'}  # kept: {branch.id}"
            raise
        finally:
            if not trial.keep:
                await branches.remove(await branches.find(branch.id, whole=True), discard=True)


async def _begun(branches: Branching, branch: Branch, trial: Trial, *, choice: AgentChoice, agent: Agent) -> Work:
    home, workspace = branches.home, await branches.home.workspace()
    id = Commands(home.state).free_id(await branches.find(branch.id, whole=True))
    private = home.private_directory(id)
    task = Task(
        run="try",
        step="try",
        attempt=1,
        turn=1,
        prompt=trial.prompt,
        json_schema="",
        directory=private,
        inside=workspace.inside(private),
        budget_usd=choice.budget_usd,
        boxed=workspace.boxed,
    )
    job = await workspace.enter(branch, agent.job(task, id=id), private=private, unsafe=branches.unsafe)
    return Work(branches, branch, choice, agent, task, job, Judge(stopping_at(choice.budget_usd, agent.abilities)))


async def _carried_out(work: Work, trial: Trial) -> int:
    terminal = stdout()
    teller = Teller(terminal)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.stop, number)
    show: Callable[[Moment], None] = (lambda _: None) if trial.json else (lambda one: terminal.say(*teller.lines(one)))
    exit = await _watched(work, show)
    if work.signals:
        stderr().say(f"{work.choice.name} was stopped after {seconds(exit.seconds)}", *_kept(work, trial))
        return 128 + work.signals[0]
    reply, changes = _reply(work, exit), await changes_in(work.branching, work.branch)
    ended = Ended(work.choice, work.branch, exit, reply, changes)
    if trial.json:
        kept = {"branch": work.branch.id if trial.keep else None}
        left_out = {"left_out": {"moments": work.came - len(work.moments)}}
        emit(ended.document(work.moments) | kept | left_out)
    else:
        noticed = [moment.text for moment in work.moments if isinstance(moment, Noticed)]
        terminal.say(*ended.lines(terminal, shown=teller.last_said, noticed=noticed), *_kept(work, trial))
    return 0


async def _watched(work: Work, show: Callable[[Moment], None]) -> JobExit:
    """The process to its end; every moment as it comes, and an end to what nobody would wait for."""
    ended = asyncio.ensure_future(work.branching.run(work.branch, work.job))
    heard = asyncio.ensure_future(_heard(work, show))
    try:
        await asyncio.wait((ended, heard), return_when=asyncio.FIRST_EXCEPTION)
        if heard.done() and heard.exception():
            # Nobody can be shown any more what it does: then it does nothing any more either.
            await work.branching.home.jobs().cancel(work.job.id)
        exit = await ended
        await heard
    except BrokenPipeError:
        # What a shell would end it by. What is still to be written has to go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        work.signals.append(signal.SIGPIPE)
        exit = await ended
    finally:
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
    return exit


async def _heard(work: Work, show: Callable[[Moment], None]) -> None:
    listener, jobs = work.agent.listener(), work.branching.home.jobs()
    async for line in jobs.lines(work.job.id):
        moments = listener.hear(line)
        for moment in moments:
            work.moments.append(moment)
            work.came += 1
            show(moment)
        if moments:
            stdout().stream.flush()
        if work.judge.take(moments):
            await jobs.cancel(work.job.id)


def _reply(work: Work, exit: JobExit) -> Reply:
    stop = work.judge.stop if exit.ending == "cancelled" else None
    try:
        return work.agent.reply(work.task, exit, work.output)
    except MalformedAnswer as error:
        raise AgentFailed(error.message, hint=error.hint) from error
    except AgentBusy as error:
        error.hint = error.hint or f"the same again {f'at {clock_time(error.until)}' if error.until else 'later'}"
        raise
    except StepFailed as error:
        error.hint = (
            error.hint or f"resolvent agent try {work.choice.name} … --keep  # then: resolvent branch log BRANCH"
        )
        if stop is None:
            raise
        # To the agent's program it looks like any other end by force; we know why.
        raise _stopped(work, stop) from None


def _stopped(work: Work, stop: Stop) -> ResolventError:
    name = work.choice.name
    if stop.why == "key":
        return KeyRefused(f"agent {name}: {stop.text}", hint="resolvent agent ls  # names the variable of its key")
    if stop.why == "busy":
        return AgentBusy(f"agent {name}: {stop.text}", hint=f"try again in {seconds(stop.wait_s)}")
    if stop.why == "budget":
        return BudgetSpent(f"agent {name} was stopped: {stop.text}", hint=f"raise agents.{name}.budget")
    return AgentStuck(f"agent {name} was stopped: {stop.text}", hint="ask it in another way")


def _kept(work: Work, trial: Trial) -> list[str]:
    if not trial.keep:
        return []
    name = quote(work.branch.id)
    return [f"kept: {work.branch.id}", f"next: resolvent branch diff {name}    resolvent branch rm {name}"]
