"""What jobs spent whose verb nobody goes on with: their run was called off while no process worked on it."""

import asyncio

from resolvent.domain.job import Usage
from resolvent.domain.record import AgentChoice, Frozen, JobRow, RunRow, stand_ins
from resolvent.engine.judging import judged
from resolvent.engine.prompts import read
from resolvent.engine.world import World
from resolvent.errors import ResolventError


async def settle_jobs(world: World, row: RunRow) -> None:
    """Record what each job that is still on record as started has spent; none of the run may be running any more."""
    for job in await world.journal.jobs(row.id):
        if job.state == "started":
            usage = await asyncio.to_thread(_spent, world, row.inputs, job)
            # Nobody saw its end; the day on which that is found out pays for it.
            over = {"state": "lost", "usage": usage, "at": world.clock.now()}
            await world.journal.save_job(job.model_copy(update=over))


def _spent(world: World, frozen: Frozen, job: JobRow) -> Usage:
    choice = _asked(frozen, job) if job.agent else None
    if choice is None:
        return Usage()
    try:
        # Whatever became of its key or its variables since: what it printed can still be read.
        listener = world.agent(choice.model_copy(update={"env": ()})).listener()
    except ResolventError:
        return Usage()
    return judged(world.jobs.output(job.id), listener).spent


def _asked(frozen: Frozen, job: JobRow) -> AgentChoice | None:
    """The agent of that job: by its step, for two roles may be played by one agent with two models."""
    chosen = frozen.agents[read(job.name, frozen.prompts[job.name]).role]
    return next((one for one in stand_ins(chosen, frozen.fallbacks) if one.name == job.agent), None)
