"""Output of jobs, printed and followed."""

import asyncio
import sys
from pathlib import Path

from asyncinotify import Inotify, Mask

from resolvent import reading
from resolvent.app import App
from resolvent.cli.place import opened
from resolvent.cli.terminal import Terminal, clean, stdout
from resolvent.cli.words import emit, seconds
from resolvent.domain.record import RunRow
from resolvent.ports import Journal
from resolvent.reading import Log


class Printer:
    """Prints each file from where it stopped; foreign bytes are made harmless where a person looks at them."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._printed: dict[Path, int] = {}
        self._last = ""
        self._open_line = False

    def more(self, log: Log) -> None:
        """Print what a job has printed since the last time."""
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
        sys.stdout.flush()

    def _head(self, log: Log) -> None:
        if self._last == log.job.id:
            return
        self._last = log.job.id
        job = log.job
        ended = f"exit {job.exit} after {seconds(job.seconds)}" if job.state == "ended" else job.state
        turn = "repair turn" if job.turn == 2 else ""
        said = " · ".join(filter(None, (job.name, job.agent, turn, ended)))
        self._terminal.say(*([""] if self._open_line else []), self._terminal.paint(f"── {said} ──", "bold"))

    def _body(self, chunk: bytes) -> None:
        self._open_line = not chunk.endswith(b"\n")
        if self._terminal.stream.isatty():
            print(clean(chunk.decode("utf-8", "replace")), end="")
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(chunk)


async def print_logs(directory: Path | None, name: str, step: str, *, follow: bool) -> None:
    """Print what there is; with follow, also what comes."""
    async with opened(directory) as app:
        row, printer = await app.run(name), Printer(stdout())
        if follow:
            await _follow(app, row, step, printer)
            return
        found = await reading.logs(app, row, step=step)
        for log in found:
            printer.more(log)
        if not found:
            stdout().say(f"{row.id} has printed nothing yet", f"next: resolvent logs {row.id} -f")


async def emit_logs(directory: Path | None, name: str, step: str) -> None:
    """Print what there is as JSON: every job, with its output as text."""
    async with opened(directory) as app:
        found = await reading.logs(app, await app.run(name), step=step)
    emit([{**log.job.model_dump(mode="json"), "output": _text(log)} for log in found])


def _text(log: Log) -> str:
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in log.files if path.exists())


async def _follow(app: App, row: RunRow, step: str, printer: Printer) -> None:
    journal, seen = await app.home.journal(), 0
    with Inotify() as bell:
        while True:
            settled = (await app.run(row.id)).state in ("ended", "waiting")
            # While it goes on, a step that has not begun is no mistake.
            found = [log for log in await reading.logs(app, row) if not step or step in reading.names_of(log.job)]
            for log in found:
                for path in log.files:
                    if log.job.state == "started" and path.exists():
                        bell.add_watch(path, Mask.MODIFY)
                printer.more(log)
            if settled:
                return
            seen = await _woken(bell, journal, seen)


async def _woken(bell: Inotify, journal: Journal, seen: int) -> int:
    """Wait for more output or another event; returns how often the store was written by then."""
    rung, changed = asyncio.ensure_future(bell.get()), asyncio.ensure_future(journal.changed(since=seen))
    await asyncio.wait((rung, changed), return_when=asyncio.FIRST_COMPLETED)
    rung.cancel()
    if not changed.done():
        changed.cancel()
        return seen
    return changed.result()
