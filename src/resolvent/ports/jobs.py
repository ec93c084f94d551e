"""Supervised processes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from resolvent.domain.job import Job, JobExit


class Jobs(Protocol):
    """Supervised processes that outlive us."""

    async def ensure(self, job: Job) -> JobExit:
        """Start the job, or attach to it, or collect it if it ended; JobLost if it died with its supervisor.

        BranchBusy when it could not begin where it was let in: it may be let in again, and asked for again.
        """

    async def cancel(self, job: str) -> None:
        """End the job with every descendant; return when none is left. Unknown or ended: nothing to do."""

    def output(self, job: str) -> Path:
        """The file that holds its output; standard error too, unless the job keeps its streams apart."""

    def lines(self, job: str) -> AsyncIterator[bytes]:
        """Every line of its output from the first, as it comes; ends when the job did. A huge one comes in pieces."""

    def running(self, job: str) -> bool:
        """A supervisor holds the job right now."""
