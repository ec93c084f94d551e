"""The worker in the foreground: what it says, and how it stops."""

import asyncio
import signal
import time
from pathlib import Path

from resolvent.app import App
from resolvent.cli.following import leave
from resolvent.cli.place import opened
from resolvent.cli.progress import Progress
from resolvent.cli.terminal import stderr, stdout
from resolvent.cli.words import emit
from resolvent.working import Session


async def serve_runs(directory: Path | None, overrides: tuple[str, ...], *, until_idle: bool, json: bool) -> None:
    """Work, and say what happens, until the work or a signal ends it."""
    async with opened(directory, overrides) as app:
        session, said = Session(app.home), f"working on {app.home.repository}, Ctrl-C to stop"
        work = session.serve_until_idle() if until_idle else session.serve(began=lambda: stderr().say(said))
        worked = asyncio.ensure_future(work)
        told = asyncio.ensure_future(_tell(app, json))
        stop = Stopping(app, session)
        stop.listen()
        try:
            await asyncio.wait((worked, told), return_when=asyncio.FIRST_COMPLETED)
            await worked
        finally:
            told.cancel()


async def _tell(app: App, json: bool) -> None:
    """One line per event of any run from now on."""
    journal, progress = await app.home.journal(), Progress(stdout())
    # An event's place is the number of the write that told it: what was told before this one is not news.
    after = seen = await journal.changed(since=-1)
    while True:
        for recorded in await journal.events(after=after):
            after = recorded.seq
            if json:
                emit(recorded.model_dump(mode="json"), lines=True)
                continue
            clock = time.strftime("%H:%M:%S", time.localtime(recorded.at))
            for line in progress.take(recorded):
                print(f"{clock} {recorded.run}{line if line.startswith(' ') else f' {line}'}", flush=True)
        seen = await journal.changed(since=seen)


class Stopping:
    """The first signal lets agents finish, the second ends them."""

    def __init__(self, app: App, session: Session) -> None:
        self._app = app
        self._session = session
        self._tasks: list[asyncio.Task[None]] = []

    def listen(self) -> None:
        """From now on signals are ours."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if len(self._tasks) < 2:
            self._tasks.append(asyncio.create_task(self._force() if self._tasks else self._drain()))

    async def _drain(self) -> None:
        stderr().say("stopping when the agents at work are done; once more to stop them now")
        await self._session.drain(jobs=True)
        leave(0)

    async def _force(self) -> None:
        journal = await self._app.home.journal()
        for row in await journal.runs(states=("running",)):
            await self._session.cancel_jobs(row.id)
        leave(1)
