"""A job of a verb: recorded before it starts and after it ended; one that was cancelled says nothing."""

import asyncio
from collections.abc import Callable

from resolvent.domain.job import Job, JobExit
from resolvent.domain.record import JobRow
from resolvent.engine.world import World
from resolvent.errors import JobLost, StepFailed


def _by_others() -> bool:
    return False


async def supervise(
    world: World, row: JobRow, job: Job, *, stopped: Callable[[], bool] = _by_others
) -> tuple[JobRow, JobExit]:
    """Run the job to its end, whoever started it; returns its row as it is recorded now.

    A cancel that `stopped` knows of is an end like any other.
    """
    await world.journal.save_job(row)
    try:
        exit = await world.jobs.ensure(job.model_copy(update={"frozen_at": world.clock.frozen_at}))
    except JobLost:
        await world.journal.save_job(row.model_copy(update={"state": "lost"}))
        raise
    ended = row.model_copy(update={"state": "ended", "ending": exit.ending, "exit": exit.exit, "seconds": exit.seconds})
    ended = ended.model_copy(update={"at": exit.ended_at})
    await world.journal.save_job(ended)
    if exit.ending == "cancelled" and not (row.run not in world.slots.called_off and await asyncio.to_thread(stopped)):
        if row.run in world.slots.called_off:
            raise StepFailed(f"{row.name} was cancelled while it ran")
        # Stopped by a person who only left: the run goes on with another attempt when somebody works on it again.
        raise JobLost(f"{row.name} was stopped while it ran")
    return ended, exit
