"""One daemon per store: two would run the same step twice at once."""

from typing import Protocol

from resolvent.adapters.journal.driver import driver_for
from resolvent.errors import DaemonRunning


class Lock(Protocol):
    """Held by at most one process; freed by the kernel or the server when that process dies."""

    async def acquire(self) -> bool: ...

    async def wait(self) -> None: ...

    async def holder(self) -> int | None: ...

    async def release(self) -> None: ...


class DaemonLock:
    """The right to execute what a store holds: a locked file beside SQLite, an advisory lock in Postgres."""

    def __init__(self, url: str) -> None:
        self._lock = _lock(url)

    async def acquire(self) -> bool:
        """Take it if it is free; True when it is ours now or was before."""
        return await self._lock.acquire()

    async def take(self) -> None:
        """Take it; DaemonRunning, with the `pid` in its details, when another process has it."""
        if not await self.acquire():
            pid = await self.holder()
            who = f"process {pid}" if pid else "another process"
            raise DaemonRunning(f"{who} works on this store already", hint="resolvent runs", pid=pid)

    async def wait(self) -> None:
        """Take it as soon as its holder lets go or dies. Cancelling this leaves nothing behind."""
        await self._lock.wait()

    async def holder(self) -> int | None:
        """The process that has it; None when nobody has, or just got it."""
        return await self._lock.holder()

    async def release(self) -> None:
        """Let go; not ours: nothing to do."""
        await self._lock.release()


def _lock(url: str) -> Lock:
    if driver_for(url, busy_s=0.0).dialect == "sqlite":
        from resolvent.adapters.journal.file_lock import FileLock

        return FileLock(url)
    from resolvent.adapters.journal.advisory_lock import AdvisoryLock

    return AdvisoryLock(url)
