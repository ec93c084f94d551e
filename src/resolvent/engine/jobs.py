"""A job of a verb: recorded before it starts and after it ended; one that was cancelled says nothing."""

from resolvent.domain.job import Job, JobExit
from resolvent.domain.record import JobRow
from resolvent.engine.world import World
from resolvent.errors import JobLost, StepFailed


async def supervise(world: World, row: JobRow, job: Job) -> tuple[JobRow, JobExit]:
    """Run the job to its end, whoever started it; returns its row as it is recorded now."""
    await world.journal.save_job(row)
    try:
        exit = await world.jobs.ensure(job.model_copy(update={"frozen_at": world.clock.frozen_at}))
    except JobLost:
        await world.journal.save_job(row.model_copy(update={"state": "lost"}))
        raise
    ended = row.model_copy(update={"state": "ended", "ending": exit.ending, "exit": exit.exit, "seconds": exit.seconds})
    await world.journal.save_job(ended)
    if exit.ending == "cancelled":
        if row.run in world.slots.called_off:
            raise StepFailed(f"{row.name} was cancelled while it ran")
        # Stopped by a person who only left: the run goes on with another attempt when somebody works on it again.
        raise JobLost(f"{row.name} was stopped while it ran")
    return ended, exit
