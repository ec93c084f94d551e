"""The lock of a SQLite store: flock on a file beside it, with the holder's process in it."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from resolvent.adapters.journal.sqlite import path_of
from resolvent.errors import StoreBusy


class FileLock:
    """Freed by the kernel when its holder dies, however it dies."""

    def __init__(self, url: str) -> None:
        store = path_of(url)
        self._path = store.with_name(f"{store.name}.lock")
        self._held: int | None = None

    async def acquire(self) -> bool:
        while self._held is None:
            descriptor = self._opened()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            if _same_file(descriptor, self._path):
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()} {_started(os.getpid())}\n".encode())
                self._held = descriptor
            else:
                # Someone removed the file: what we locked is not what the next one will lock.
                os.close(descriptor)
        return True

    async def wait(self) -> None:
        from asyncinotify import Inotify, Mask

        with Inotify() as bell:
            os.set_blocking(bell.fd, False)
            while True:
                os.close(self._opened())
                bell.add_watch(self._path, Mask.MODIFY | Mask.ATTRIB | Mask.DELETE_SELF)
                # Both are watched before we try, so that neither a death nor a release falls between.
                with _watched(await self.holder()) as process:
                    if await self.acquire():
                        return
                    await _readable(bell.fd, *process)
                with contextlib.suppress(BlockingIOError):
                    os.read(bell.fd, 1 << 16)

    async def holder(self) -> int | None:
        try:
            pid, started = self._path.read_text("ascii").split()
        except (OSError, ValueError):
            return None
        # A process number is given again: only the one that started then is the holder.
        return int(pid) if pid.isdigit() and _started(int(pid)) == started else None

    async def release(self) -> None:
        if self._held is not None:
            descriptor, self._held = self._held, None
            os.truncate(descriptor, 0)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            # Rings for those who wait, now that it is free.
            os.utime(descriptor)
            os.close(descriptor)

    def _opened(self) -> int:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreBusy(f"the store cannot be locked: {error}", hint=f"ls -l {self._path}") from error


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _started(pid: int) -> str:
    """When the process started, in the kernel's own count; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def _watched(pid: int | None) -> Iterator[list[int]]:
    try:
        descriptors = [os.pidfd_open(pid)] if pid else []
    except ProcessLookupError:
        descriptors = []
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def _readable(*descriptors: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    for descriptor in descriptors:
        loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
