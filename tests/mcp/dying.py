"""A worker of explorations that is killed at a given point: python -m tests.mcp.dying PROJECT POINT PROMPT."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from resolvent.exploring import Explorer
from resolvent.wiring import Home


async def work(project: Path, wanted: str, prompt: str) -> None:
    """Work until the point is reached, and die there without a word."""

    def boundary(point: str, job: str) -> None:
        if point == wanted and job.endswith(f".{prompt}"):
            os.kill(os.getpid(), signal.SIGKILL)

    home = Home.of(project, environ=dict(os.environ))
    explorer = await Explorer.open(home, boundary=boundary)
    await explorer.work()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
