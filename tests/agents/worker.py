"""A worker as a process of its own: `python -m tests.agents.worker PROJECT` works until nothing is left to do."""

import asyncio
import os
import sys
from pathlib import Path

from resolvent.app import App
from resolvent.working import Session


async def work(project: Path) -> None:
    app = App.at(project, environ=dict(os.environ))
    await Session(app.home).serve_until_idle()
    await app.home.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
