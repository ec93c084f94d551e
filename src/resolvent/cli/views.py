"""Three ways to watch a run: a living screen, plain lines, JSON lines; or none."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from resolvent.cli.progress import LINE_WIDTH, QUIET_VERBS, Progress, Step
from resolvent.cli.terminal import Terminal, clean, fit, stdout
from resolvent.cli.words import count, emit, money, seconds
from resolvent.domain.record import JobRow, RunRow

if TYPE_CHECKING:
    from rich.live import Live

    from resolvent.app import App
    from resolvent.cli.transcripts import LastWords

MOST_STEPS, MOST_LINES = 6, 5
TAIL_BYTES = 8192
# Of what an agent did before somebody looked, so much per frame is caught up with.
CATCH_UP_BYTES = 4 << 20
# A frame at most this often; the seconds go on when nothing else happens.
FRAME_S, IDLE_S = 0.25, 1.0


class View(Protocol):
    """Shows a run until it has ended or waits for a person."""

    async def show(self, app: "App", row: RunRow) -> None: ...

    def stop(self) -> None:
        """Give the terminal back, at once."""


def view_for(*, json: bool, follow: bool) -> View:
    """What fits where standard output goes and what was asked for."""
    if json:
        return EventLines() if follow else Nothing()
    terminal = stdout()
    return LiveScreen(terminal) if terminal.live else PlainLines(terminal)


class Nothing:
    """For a program that wants the outcome alone."""

    async def show(self, app: "App", row: RunRow) -> None: ...

    def stop(self) -> None: ...


class EventLines:
    """One JSON object per event."""

    async def show(self, app: "App", row: RunRow) -> None:
        async for recorded in app.tail(row.id):
            emit(recorded.model_dump(mode="json"), lines=True)

    def stop(self) -> None: ...


class PlainLines:
    """Lines as they come, without a single escape code."""

    def __init__(self, terminal: Terminal) -> None:
        self._progress = Progress(terminal)

    async def show(self, app: "App", row: RunRow) -> None:
        async for recorded in app.tail(row.id):
            for line in self._progress.take(recorded):
                print(line, flush=True)

    def stop(self) -> None: ...


class LiveScreen:
    """What is done scrolls by; below it live what runs, the last words of its agent, the time and the cost."""

    def __init__(self, terminal: Terminal) -> None:
        self._progress = Progress(terminal)
        self._stirred = asyncio.Event()
        self._live: Live | None = None
        self._words: dict[str, LastWords | None] = {}

    async def show(self, app: "App", row: RunRow) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        frames = asyncio.create_task(self._draw(app, row))
        try:
            async for recorded in app.tail(row.id):
                if lines := self._progress.take(recorded):
                    console.print(Text.from_ansi("\n".join(lines)))
                self._stirred.set()
        finally:
            frames.cancel()
            self.stop()

    def stop(self) -> None:
        if self._live:
            self._live.stop()

    async def _draw(self, app: "App", row: RunRow) -> None:
        from rich.text import Text

        journal = await app.home.journal()
        while self._live:
            self._progress.terminal = stdout()
            jobs = await journal.jobs(row.id)
            await asyncio.to_thread(self._listen, app, row, jobs)
            lines = [*self._steps(app, jobs), "", self._footer(row, jobs, now=app.home.clock.now())]
            self._live.update(Text.from_ansi("\n".join(lines)), refresh=True)
            await asyncio.sleep(FRAME_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S - FRAME_S):
                    await self._stirred.wait()
            self._stirred.clear()

    def _listen(self, app: "App", row: RunRow, jobs: Sequence[JobRow]) -> None:
        """Hear what the agents at work did since the last frame; those that are done are forgotten."""
        from resolvent import reading
        from resolvent.cli.transcripts import LastWords

        at_work = [job for job in jobs if job.state == "started"]
        for job in at_work:
            if job.id not in self._words:
                listener = reading.listener(app, row, job, events=True)
                output = reading.files_of(app, job)[0]
                terminal = self._progress.terminal
                self._words[job.id] = LastWords(output, listener, terminal, most=MOST_LINES) if listener else None
            if words := self._words[job.id]:
                words.listen(most_bytes=CATCH_UP_BYTES)
        for gone in self._words.keys() - {job.id for job in at_work}:
            del self._words[gone]

    def _steps(self, app: "App", jobs: Sequence[JobRow]) -> list[str]:
        now = app.home.clock.now()
        running = [(id, step) for id, step in self._progress.running.items() if _worth_a_line(step, now)]
        lines = [self._step(step, now) for _, step in running[:MOST_STEPS]]
        if len(running) > MOST_STEPS:
            lines.append(f"   … and {len(running) - MOST_STEPS} more")
        shown = dict(running)
        at_work = [job for job in jobs if job.state == "started" and job.step in shown]
        return lines + (self._last_words(app, at_work[-1]) if at_work else [])

    def _step(self, step: Step, now: float) -> str:
        return self._progress.line("●", step.title, step.agent, took=max(0.0, now - step.since))

    def _last_words(self, app: "App", job: JobRow) -> list[str]:
        from resolvent.reading import files_of

        terminal, words = self._progress.terminal, self._words.get(job.id)
        room = min(LINE_WIDTH, terminal.width) - 6
        lines = words.lines if words else last_lines(files_of(app, job), MOST_LINES)
        return [terminal.paint(f"   │ {fit(line, room)}", "dim") for line in lines]

    def _footer(self, row: RunRow, jobs: Sequence[JobRow], *, now: float) -> str:
        usages = [job.usage for job in jobs if job.id not in self._words]
        usages += [words.spent for words in self._words.values() if words]
        usd = sum(usage.usd for usage in usages)
        tokens = sum(usage.input_tokens + usage.output_tokens for usage in usages)
        parts = [row.id, seconds(max(0.0, now - row.created_at)), money(usd), f"{count(tokens)} tokens"]
        return self._progress.terminal.paint(
            f"   {' · '.join(parts)}   Ctrl-C leaves it, its agents finish their step", "dim"
        )


def _worth_a_line(step: Step, now: float) -> bool:
    """What keeps the books is over before it can be read, unless the forge is slow."""
    return step.verb not in QUIET_VERBS or now - step.since > IDLE_S


def last_lines(files: Sequence[Path], most: int) -> list[str]:
    """The last lines with text of the file that was written to last."""
    found = []
    for path in files:
        with contextlib.suppress(OSError), path.open("rb") as file:
            size = file.seek(0, 2)
            if size:
                file.seek(max(0, size - TAIL_BYTES))
                found.append((path.stat().st_mtime_ns, file.read(TAIL_BYTES)))
    if not found:
        return []
    # What a carriage return has painted over nobody sees.
    text = max(found)[1].decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [clean(line.rpartition("\r")[2]).expandtabs(4).rstrip() for line in text.split("\n")]
    return [line for line in lines if line][-most:]
