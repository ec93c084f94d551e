"""Output of jobs, printed and followed: agents moment by moment, checks as they printed it."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from asyncinotify import Inotify, Mask

from resolvent import reading
from resolvent.app import App
from resolvent.cli.place import opened
from resolvent.cli.terminal import Terminal, clean, stdout
from resolvent.cli.transcripts import Heard, Hearing, Teller, usage_line
from resolvent.cli.words import emit, seconds
from resolvent.domain.job import Usage
from resolvent.domain.record import JobRow, RunRow
from resolvent.ports import Journal, Listener
from resolvent.reading import Log

# So many moments of one job are shown unless somebody asks for more: what matters stands at the end.
MOST_SHOWN, MOST_IN_JSON = 500, 1000
MOST_BYTES_IN_JSON = 1 << 20
MOST_ERRORS = 20
GROWTH = Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO


class Asked(NamedTuple):
    """What a person wants to see of a run: one step, its last jobs, the last moments of each, or the bytes."""

    step: str = ""
    jobs: int | None = None
    last: int | None = None
    raw: bool = False

    def of(self, found: tuple[Log, ...]) -> tuple[Log, ...]:
        """The jobs that are asked for."""
        return found if self.jobs is None else found[-self.jobs :]


class Printer:
    """Prints each job from where it stopped; foreign bytes are made harmless where a person looks at them."""

    def __init__(
        self, terminal: Terminal, *, listen: Callable[[JobRow], Listener | None], most: int = MOST_SHOWN
    ) -> None:
        self._terminal = terminal
        self._listen = listen
        self._most = most
        self._printed: dict[Path, int] = {}
        self._heard: dict[str, tuple[Hearing, Teller] | None] = {}
        self._over: set[str] = set()
        self._last = ""
        self._open_line = False

    def more(self, log: Log, *, over: bool = False) -> None:
        """Print what a job has done since the last time; `over`: nobody writes to it any more."""
        if log.job.id not in self._heard:
            listener = self._listen(log.job)
            self._heard[log.job.id] = (Hearing(log.files[0], listener), Teller(self._terminal)) if listener else None
            # That it has begun is worth a line, however long it keeps silent.
            if log.job.state == "started":
                self._head(log)
        told = self._heard[log.job.id]
        if told is None:
            self._as_it_is(log)
        elif log.job.id not in self._over:
            self._told(log, *told, over=over or log.job.state != "started")
        sys.stdout.flush()

    def _told(self, log: Log, hearing: Hearing, teller: Teller, *, over: bool) -> None:
        kept: deque[Heard] = deque(maxlen=self._most)
        came = 0
        for heard in hearing.more(over=over):
            kept.append(heard)
            came += 1
        lines = [line for heard in kept for line in teller.lines(heard)]
        if came > len(kept):
            all_of_it = f"resolvent logs {log.job.run} {quote(log.job.id)} --raw"
            lines.insert(0, self._terminal.paint(f"… {came - len(kept)} moments before these: {all_of_it}", "dim"))
        lines += self._errors(log)
        if over:
            self._over.add(log.job.id)
            # Its own word, until the record has it.
            usage = usage_line(teller.spent if log.job.usage == Usage() else log.job.usage)
            lines += [self._terminal.paint(usage, "dim")] if usage else []
        if lines:
            self._head(log)
            self._terminal.say(*lines)

    def _errors(self, log: Log) -> list[str]:
        """What its program printed to standard error, where that is kept apart: seldom much, and then it matters."""
        path = log.files[1]
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(self._printed.get(path, 0), size - (1 << 16)))
                said = file.read().decode("utf-8", "replace")
                self._printed[path] = file.tell()
        except FileNotFoundError:
            return []
        rows = [row for row in clean(said).expandtabs(4).splitlines() if row.strip()]
        return [self._terminal.paint(f"  {row}", "dim") for row in rows[-MOST_ERRORS:]]

    def _as_it_is(self, log: Log) -> None:
        for path in log.files:
            try:
                with path.open("rb") as file:
                    file.seek(self._printed.get(path, 0))
                    while chunk := file.read(1 << 20):
                        self._head(log)
                        self._body(chunk)
                    self._printed[path] = file.tell()
            except FileNotFoundError:
                continue

    def _head(self, log: Log) -> None:
        if self._last == log.job.id:
            return
        self._last = log.job.id
        job = log.job
        ended = f"exit {job.exit} after {seconds(job.seconds)}" if job.state == "ended" else job.state
        turn = "repair turn" if job.turn == 2 else ""
        said = " · ".join(filter(None, (job.name, job.agent, turn, ended)))
        self._terminal.say(*([""] if self._open_line else []), self._terminal.paint(f"── {said} ──", "bold"))
        self._open_line = False

    def _body(self, chunk: bytes) -> None:
        self._open_line = not chunk.endswith(b"\n")
        if self._terminal.stream.isatty():
            print(clean(chunk.decode("utf-8", "replace")), end="")
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(chunk)


async def print_logs(directory: Path | None, name: str, asked: Asked, *, follow: bool) -> None:
    """Print what there is; with follow, also what comes."""
    async with opened(directory) as app:
        row = await app.run(name)

        def listen(job: JobRow) -> Listener | None:
            # An agent that prints what it likes is shown as it printed it.
            return None if asked.raw else reading.listener(app, row, job, events=True)

        printer = Printer(stdout(), listen=listen, most=asked.last or MOST_SHOWN)
        if follow:
            await _follow(app, row, asked, printer)
            return
        found = asked.of(await reading.logs(app, row, step=asked.step))
        for log in found:
            printer.more(log)
        if not found:
            stdout().say(f"{row.id} has printed nothing yet", f"next: resolvent logs {row.id} -f")


async def emit_logs(directory: Path | None, name: str, asked: Asked) -> None:
    """Print what there is as JSON: every job with its moments and its output as text, and how much was left out."""
    async with opened(directory) as app:
        row = await app.run(name)
        found = asked.of(await reading.logs(app, row, step=asked.step))
        emit([_document(app, row, log, most=asked.last or MOST_IN_JSON) for log in found])


def _document(app: App, row: RunRow, log: Log, *, most: int) -> dict[str, Any]:
    listener = reading.listener(app, row, log.job)
    kept: deque[Heard] = deque(maxlen=most)
    came = 0
    for heard in Hearing(log.files[0], listener).more(over=log.job.state != "started") if listener else ():
        if not isinstance(heard, str):
            kept.append(heard)
            came += 1
    moments = [heard.model_dump(mode="json") for heard in kept if not isinstance(heard, str)]
    ends = [_end_of(path) for path in log.files]
    return {
        **log.job.model_dump(mode="json"),
        "moments": moments,
        "output": "".join(text for text, _ in ends),
        "left_out": {"moments": came - len(kept), "bytes": sum(left for _, left in ends)},
    }


def _end_of(path: Path) -> tuple[str, int]:
    """The end of a file as text, and how many bytes of it come before."""
    try:
        with path.open("rb") as file:
            before = max(0, file.seek(0, 2) - MOST_BYTES_IN_JSON)
            file.seek(before)
            return file.read(MOST_BYTES_IN_JSON).decode("utf-8", "replace"), before
    except FileNotFoundError:
        return "", 0


async def _follow(app: App, row: RunRow, asked: Asked, printer: Printer) -> None:
    journal, seen = await app.home.journal(), 0
    # Those that were over before anybody looked are shown only as far as they are asked for.
    passed_over: set[str] | None = None
    watched: set[Path] = set()
    with Inotify(sync_timeout=0) as bell:
        while True:
            settled = (await app.run(row.id)).state in ("ended", "waiting")
            # While it goes on, a step that has not begun is no mistake.
            every = tuple(log for log in await reading.logs(app, row) if not asked.step or _named(log, asked.step))
            if passed_over is None:
                passed_over = {log.job.id for log in every} - {log.job.id for log in asked.of(every)}
            for log in every:
                if log.job.id in passed_over:
                    continue
                if log.job.state == "started":
                    _watch(bell, log.files[0].parent, watched)
                printer.more(log, over=settled)
            if settled:
                return
            seen = await _woken(bell, journal, seen)


def _watch(bell: Inotify, directory: Path, watched: set[Path]) -> None:
    """Ring for all that a job writes; its files, its directory and even those above may come only after its record."""
    for place in (directory.parents[1], directory.parent, directory):
        # The outer one first: what is made after our look at the inner one rings there.
        if place not in watched and place.is_dir():
            bell.add_watch(place, GROWTH if place == directory else Mask.CREATE)
            watched.add(place)


def _named(log: Log, step: str) -> bool:
    return step in reading.names_of(log.job)


async def _woken(bell: Inotify, journal: Journal, seen: int) -> int:
    """Wait for more output or another event; returns how often the store was written by then."""
    rung, changed = asyncio.ensure_future(bell.get()), asyncio.ensure_future(journal.changed(since=seen))
    await asyncio.wait((rung, changed), return_when=asyncio.FIRST_COMPLETED)
    rung.cancel()
    await asyncio.gather(rung, return_exceptions=True)
    # One look is enough for all that was written until now.
    while bell.sync_get() is not None:
        pass
    if not changed.done():
        changed.cancel()
        return seen
    return changed.result()
