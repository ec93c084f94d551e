"""The lock of a Postgres store: a session's advisory lock, freed by the server when the session ends."""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import psycopg

from resolvent.errors import StoreBusy

Session = psycopg.AsyncConnection[Any]

# Chosen once, arbitrary: the advisory lock of the one daemon.
_DAEMON = 7_365_770_002
_HOLDER = f"""
SELECT activity.application_name FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
WHERE held.locktype = 'advisory' AND held.granted AND activity.datname = current_database()
  AND (held.classid::bigint << 32) + held.objid::bigint = {_DAEMON}
"""
# A host that lost its power says nothing: the server has to ask.
_KEEP_ALIVE = "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"


class AdvisoryLock:
    """Held by a connection of its own, which carries the process in its name."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._held: Session | None = None

    async def acquire(self) -> bool:
        return self._is_held() or await self._locked(f"SELECT pg_try_advisory_lock({_DAEMON})")

    async def wait(self) -> None:
        if not self._is_held():
            await self._locked(f"SELECT pg_advisory_lock({_DAEMON}) IS NOT NULL")

    async def holder(self) -> int | None:
        with _translated():
            async with await psycopg.AsyncConnection.connect(self._url) as session:
                row = await (await session.execute(_HOLDER)).fetchone()
        words = str(row[0]).split() if row else []
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else None

    async def release(self) -> None:
        if self._held is not None:
            session, self._held = self._held, None
            with _translated():
                # Before closing, which the server learns of only later.
                await session.execute(f"SELECT pg_advisory_unlock({_DAEMON})")
                await session.close()

    def _is_held(self) -> bool:
        return self._held is not None and not self._held.closed

    async def _locked(self, sql: str) -> bool:
        name = f"resolvent {os.getpid()} {socket.gethostname()}"[:63]
        with _translated():
            session = await psycopg.AsyncConnection.connect(self._url, autocommit=True, application_name=name)
            try:
                await session.execute(_KEEP_ALIVE)
                row = await (await session.execute(sql)).fetchone()
            except BaseException:
                await session.close()
                raise
            if not row or not row[0]:
                await session.close()
                return False
        self._held = session
        return True


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise StoreBusy(f"the store cannot be locked: {error}", hint="resolvent doctor") from error
