"""The output of jobs as it comes: whole lines, from the first to the last."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncinotify import Inotify, Mask, Watch

CHUNK = 1 << 20
# A line without an end must not grow in our memory: it comes in pieces of this size.
LONGEST = 32 << 20


class Tail:
    """Follows any number of jobs by one queue of the kernel's: to close one takes longer than many a job."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: dict[Watch, asyncio.Event] = {}

    async def lines(self, directory: Path, over: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Every line of the directory's `output`; ends once `over` says that nobody writes any more."""
        rest, at, output = b"", 0, directory / "output"
        with self._watched(directory) as bell:
            while True:
                bell.clear()
                # Asked before reading: what is written after this is found by the next round.
                ended = over()
                chunk = await asyncio.to_thread(_read, output, at)
                at += len(chunk)
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line
                if len(rest) >= LONGEST:
                    yield rest
                    rest = b""
                if chunk:
                    continue
                if ended:
                    break
                await bell.wait()
        if rest:
            yield rest

    @contextmanager
    def _watched(self, directory: Path) -> Iterator[asyncio.Event]:
        queue = self._queue()
        watch = queue.add_watch(directory, Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO)
        bell = self._bells.setdefault(watch, asyncio.Event())
        try:
            yield bell
        finally:
            if self._bells.pop(watch, None) is not None:
                queue.rm_watch(watch)

    def _queue(self) -> Inotify:
        loop = asyncio.get_running_loop()
        if self._inotify is None or self._loop is not loop:
            self._inotify, self._loop, self._bells = Inotify(sync_timeout=0), loop, {}
            loop.add_reader(self._inotify.fd, self._ring)
        return self._inotify

    def _ring(self) -> None:
        while self._inotify and (event := self._inotify.sync_get()) is not None:
            if event.watch in self._bells:
                self._bells[event.watch].set()


def _read(output: Path, at: int) -> bytes:
    try:
        with output.open("rb") as file:
            file.seek(at)
            return file.read(CHUNK)
    except FileNotFoundError:
        return b""
