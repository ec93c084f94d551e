"""What a turn spent is put on record, however it ended, and whoever set a limit is told when it is near."""

import asyncio

from resolvent.domain.job import JobExit, Task, Usage
from resolvent.domain.record import JobRow
from resolvent.engine.judging import Stop, judged
from resolvent.engine.talk import Talk
from resolvent.engine.world import World
from resolvent.errors import ResolventError


async def charge(world: World, talk: Talk, row: JobRow, usage: Usage) -> None:
    """On the record, and told where it comes near to a limit."""
    await world.journal.save_job(row.model_copy(update={"usage": usage}))
    await world.budgets.warn(row.run, talk.frozen)


async def settle(world: World, talk: Talk, row: JobRow, *, budget: float | None) -> Stop | None:
    """Record what a job spent, however it ended; why it was stopped, if it was."""
    output = world.jobs.output(row.id)
    judge = await asyncio.to_thread(judged, output, talk.agent.listener(), budget_usd=budget)
    # From here on it is on record, and not counted twice.
    world.budgets.at_work.pop(row.id, None)
    await charge(world, talk, row, judge.spent)
    return judge.stop


async def settle_told(world: World, talk: Talk, row: JobRow, error: ResolventError) -> None:
    """Record what a turn that did not end well says it spent, where that is more than was heard of it."""
    told = Usage.model_validate(error.details.get("usage") or {})
    (known,) = [one.usage for one in await world.journal.jobs(row.run) if one.id == row.id]
    if told.usd > known.usd:
        await charge(world, talk, row, told)


async def settle_cut_short(world: World, talk: Talk, task: Task, id: str) -> None:
    """Record what a job spent whose end nobody saw, or that a person called off."""
    for row in await world.journal.jobs(talk.request.run):
        if row.id == id and row.state != "started":
            # A job that was lost has no end; the day on which that is found out pays for it.
            at = row.at or world.clock.now()
            over = row.model_copy(update={"at": at})
            await settle(world, talk, over, budget=None)
            exit = JobExit(ending="cancelled", exit=row.exit or 0, started_at=at, ended_at=at, seconds=row.seconds)
            try:
                # Some tell it apart from what they print.
                talk.agent.reply(task, exit, world.jobs.output(id))
            except ResolventError as error:
                await settle_told(world, talk, over, error)
