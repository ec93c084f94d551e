"""The worker in the foreground: what it takes up, what it says, and how it stops."""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from resolvent.app import App
from resolvent.cli.following import leave
from resolvent.cli.place import opened
from resolvent.cli.progress import Progress
from resolvent.cli.terminal import clean, one_line, stderr, stdout
from resolvent.cli.words import emit
from resolvent.domain.arrival import Arrival
from resolvent.errors import ResolventError
from resolvent.intake.intake import Ears, Intake
from resolvent.intake.listening import listen
from resolvent.working import Session

FATES = {
    "taken": "taken up as {reason}",
    "refused": "refused: {reason}",
    "repeated": "{reason} is at work on it already",
    "elsewhere": "another host is at work on it: {reason}",
    "answered": "not understood, and answered so",
    "stopped": "stopped {reason}",
}


@dataclass(frozen=True)
class Manner:
    """How it is served: to the end or for ever, with or without intake (None: as the forge is), for whom."""

    until_idle: bool
    intake: bool | None
    json: bool


async def serve_runs(directory: Path | None, overrides: tuple[str, ...], manner: Manner) -> None:
    """Work, and say what happens, until the work or a signal ends it."""
    async with opened(directory, overrides) as app:
        session, said = await _session(app, manner), f"working on {app.home.repository}, Ctrl-C to stop"
        work = session.serve_until_idle() if manner.until_idle else session.serve(began=lambda: stderr().say(said))
        worked = asyncio.ensure_future(work)
        told = asyncio.ensure_future(_tell(app, manner.json))
        stop = Stopping(app, session)
        stop.listen()
        try:
            await asyncio.wait((worked, told), return_when=asyncio.FIRST_COMPLETED)
            await worked
        finally:
            told.cancel()


async def _session(app: App, manner: Manner) -> Session:
    """With intake where the forge is another's, or where a person wants it; mistakes are told before any work."""
    applies = app.home.settings.forge.kind != "local" if manner.intake is None else manner.intake
    if not applies:
        return Session(app.home)
    ears = Ears(told=_teller(app, manner.json), trouble=_complain)
    intake = await Intake.open(app.home, ears)
    if manner.until_idle:
        return Session(app.home, first=intake.once)
    listener = listen(app.home)
    if listener:
        stderr().say(f"taking webhooks at {listener.url}")
    return Session(app.home, beside=lambda: intake.run(listener))


def _teller(app: App, json: bool) -> Callable[[Arrival], None]:
    """One line per arrival that something became of."""

    def tell(arrival: Arrival) -> None:
        if json:
            emit({"arrival": arrival.model_dump(mode="json", exclude={"comment"})}, lines=True)
        elif arrival.fate in FATES:
            clock = time.strftime("%H:%M:%S", time.localtime(app.home.clock.now()))
            who = f" by {arrival.by}" if arrival.by else ""
            said = FATES[arrival.fate].format(reason=arrival.reason)
            print(one_line(f"{clock} {arrival.subject} {arrival.kind}{who}: {said}"), flush=True)

    return tell


def _complain(error: ResolventError) -> None:
    hint = f" (next: {one_line(error.hint)})" if error.hint else ""
    stderr().say(f"{type(error).__name__}: {clean(error.message)}{hint}")


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
