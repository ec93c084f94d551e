"""Follow a run to its end or its next question, in the foreground or by a worker in the background."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from resolvent.cli.options import Manner
from resolvent.cli.report import Facts, lacks_something, report
from resolvent.cli.terminal import stderr, stdout
from resolvent.cli.views import View, view_for
from resolvent.cli.words import emit
from resolvent.domain.outcome import EXIT_CODES
from resolvent.domain.record import RunRow
from resolvent.errors import NotFound, StoreBusy

if TYPE_CHECKING:
    from resolvent.app import App
    from resolvent.working import Session

# After the first Ctrl-C: so long do we finish what is half written, and listen for the second.
LINGER_S = 1.5


async def follow(app: "App", row: RunRow, *, json: bool, events: bool = False) -> int:
    """Work on the run or follow who does, show how it goes, then what came out; the exit code says it too."""
    from resolvent.working import Session

    session, view = Session(app.home), view_for(json=json, follow=events)
    shown = asyncio.ensure_future(view.show(app, row))
    worked = asyncio.ensure_future(session.follow(row.id))
    leaving = Leaving(session, row.id, view=view, shown=shown)
    leaving.listen()
    try:
        await asyncio.wait((shown, worked), return_when=asyncio.FIRST_EXCEPTION)
        await worked
        await leaving.finished()
        await shown
    finally:
        shown.cancel()
        view.stop()
    return await conclude(app, row.id, json=json, lines=events)


async def conclude(app: "App", run: str, *, json: bool, lines: bool = False) -> int:
    """Print what the record says of a run."""
    document = await app.document(run)
    if json:
        emit(document, lines=lines)
    else:
        terminal = stdout()
        terminal.say("", *report(terminal, await facts_of(app, document)))
    return EXIT_CODES.get(document["outcome"], 0)


async def facts_of(app: "App", document: dict[str, Any]) -> Facts:
    """The outcome with what the forge and the record add for people."""
    row, checkout = await app.run(document["run"]), ""
    if document["pull_request"]:
        forge = await app.home.forge()
        try:
            checkout = forge.fetch_line(await forge.pull_request(str(document["pull_request"]["number"])))
        except NotFound:
            checkout = ""
    until = row.updated_at if row.state in ("ended", "waiting") else app.home.clock.now()
    elapsed, boxed_in = until - row.created_at, await _boxed_in(app, document)
    return Facts(document, title=row.title, elapsed=elapsed, checkout=checkout, boxed_in=boxed_in)


async def _boxed_in(app: "App", document: dict[str, Any]) -> bool:
    """Whether a check of a run that went nowhere may have missed what its box does not show."""
    if document["outcome"] in ("proven", "merged") or app.home.settings.sandbox.rung == "plain":
        return False
    evidence = await (await app.home.journal()).evidence(document["run"])
    return any(not item.passed and lacks_something(item.exit, item.tail) for item in evidence)


class Leaving:
    """Ctrl-C: the first leaves the run alone and ends this process, the second ends the agents too."""

    def __init__(self, session: "Session", run: str, *, view: View, shown: "asyncio.Future[None]") -> None:
        self._session = session
        self._run = run
        self._view = view
        self._shown = shown
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """From now on signals are ours."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard, number)

    def _heard(self, number: signal.Signals) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._leave(number))
        else:
            self._again.set()

    async def finished(self) -> None:
        """When we are leaving already, do not come back."""
        if self._task:
            await self._task

    async def _leave(self, number: signal.Signals) -> None:
        self._shown.cancel()
        self._view.stop()
        terminal = stderr()
        stop = terminal.paint(f"to stop it: resolvent cancel {self._run}", "dim")
        terminal.say(
            "",
            f"left {self._run}: agents at work finish by themselves, nothing is lost",
            f"next: resolvent watch {self._run}    {stop}",
        )
        drained = asyncio.ensure_future(self._session.drain())
        again = asyncio.ensure_future(self._again.wait())
        # Someone who pressed it twice means it: so we listen for a moment, though there may be nothing left to do.
        await asyncio.wait((again,), timeout=LINGER_S if number == signal.SIGINT else 0.0)
        if not again.done():
            await asyncio.wait((drained,), timeout=0.3)
            leave(128 + number)
        await self._session.cancel_jobs(self._run)
        terminal.say(f"the agents of {self._run} were stopped", f"next: resolvent watch {self._run}")
        leave(1)


def leave(code: int) -> NoReturn:
    """End without ceremony: what is under way is taken up by the next process, as after any crash."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


async def start_or_follow(app: "App", row: RunRow, manner: Manner, *, overrides: tuple[str, ...] = ()) -> int:
    """Follow the run, or leave it to a worker in the background and say how to come back."""
    if not manner.detach:
        return await follow(app, row, json=manner.json, events=manner.events)
    log = start_worker(app, overrides)
    if manner.json:
        emit(await app.document(row.id))
    else:
        said = f"{row.id} goes on in the background, its worker writes to {log}"
        stdout().say(said, f"next: resolvent watch {row.id}")
    return 0


def start_worker(app: "App", overrides: tuple[str, ...] = ()) -> Path:
    """Start a process that works until nothing is left, as soon as nobody else does; returns its log."""
    log = app.home.state / "serve.log"
    sets = [word for text in overrides for word in ("--set", text)]
    argv = [
        sys.executable,
        "-m",
        "resolvent",
        "serve",
        "--until-idle",
        "--no-intake",
        "-C",
        str(app.home.repository),
        *sets,
    ]
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreBusy(f"{log} cannot be written: {error.strerror}", hint=f"ls -l {log}") from error
    with os.fdopen(descriptor, "ab") as output:
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/")
    return log
