"""Required checks of the local forge: names, results per commit, and whoever waits for them."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from asyncinotify import Inotify, Mask

from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.subject import RequiredCheck
from resolvent.errors import NotFound

State = Literal["pending", "passed", "failed"]

_REPORT = """
INSERT INTO forge_checks (on_commit, name, state, log) VALUES (:commit, :name, :state, :log)
ON CONFLICT (on_commit, name) DO UPDATE SET state = excluded.state, log = excluded.log
"""
_REQUIRED = """
SELECT r.name, c.state, c.log,
  (SELECT count(*) FROM forge_reruns a WHERE a.name = r.name AND a.on_commit = :commit) AS reruns
FROM forge_required r LEFT JOIN forge_checks c ON c.name = r.name AND c.on_commit = :commit
"""
_KNOWN = "SELECT name FROM forge_required WHERE name = :name UNION SELECT name FROM forge_checks WHERE name = :name"
_RERUN = "INSERT INTO forge_reruns (on_commit, name) VALUES (:commit, :name)"
_UNANSWERED = """
SELECT r.id, r.name, r.on_commit FROM forge_reruns r
JOIN forge_checks c ON c.name = r.name AND c.on_commit = r.on_commit
WHERE c.state = 'pending' AND r.id > :after ORDER BY r.id
"""


class Checks:
    """What CI says; `wake` is touched after every write, so that waiters in any process look again."""

    def __init__(self, store: Store, wake: Path) -> None:
        self._store = store
        self._wake = wake

    async def require(self, name: str) -> None:
        """From now on commits need this check."""
        await self._store.write("INSERT INTO forge_required (name) VALUES (:name) ON CONFLICT DO NOTHING", name=name)
        self._touch()

    async def unrequire(self, name: str) -> None:
        """From now on nobody waits for this check."""
        await self._store.write("DELETE FROM forge_required WHERE name = :name", name=name)
        self._touch()

    async def report(self, commit: str, name: str, *, state: State, log: str) -> None:
        """Record what a check said of a commit; the newest word counts."""
        await self._store.write(_REPORT, commit=commit, name=name, state=state, log=log)
        self._touch()

    async def required(self, commit: str) -> tuple[RequiredCheck, ...]:
        """What is known of the commit under each required name."""
        # Sorted here: the databases do not agree on the order of text.
        rows = sorted(await self._store.read(_REQUIRED, commit=commit), key=lambda row: str(row["name"]))
        known = ((row, _check(row["name"], commit, state=row["state"], log=row["log"])) for row in rows)
        return tuple(check.model_copy(update={"attempt": 1 + row["reruns"]}) for row, check in known)

    async def settled(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        """Wait until none is pending, or the time is over."""
        over = asyncio.get_running_loop().time() + timeout_s
        # Watching starts before the first look, so no report can fall between the two.
        with self._watching() as wakes:
            while True:
                known = await self.required(commit)
                if all(check.state != "pending" for check in known):
                    return known
                try:
                    async with asyncio.timeout_at(over):
                        await wakes.get()
                except TimeoutError:
                    return await self.required(commit)

    async def rerun(self, check: RequiredCheck) -> None:
        """Ask for one more run: the check is pending until someone reports again."""

        def ask(connection: Connection) -> None:
            if not connection.read(_KNOWN, name=check.name):
                raise NotFound(f"no check is called {check.name!r}", hint="resolvent pr ls")
            connection.write(_REPORT, commit=check.commit, name=check.name, state="pending", log="")
            connection.write(_RERUN, commit=check.commit, name=check.name)

        await self._store.transaction(ask)
        self._touch()

    async def reruns(self) -> AsyncIterator[RequiredCheck]:
        """For whoever plays CI: every rerun that waits for a report, and each later one as it is asked for."""
        after = 0
        with self._watching() as wakes:
            while True:
                rows = await self._store.read(_UNANSWERED, after=after)
                for row in rows:
                    after = row["id"]
                    yield _check(row["name"], row["on_commit"], state="pending", log="")
                if not rows:
                    await wakes.get()

    @contextmanager
    def _watching(self) -> Iterator[Inotify]:
        with Inotify() as wakes:
            wakes.add_watch(self._wake, Mask.ATTRIB)
            yield wakes

    def _touch(self) -> None:
        os.utime(self._wake)


def _check(name: str, commit: str, *, state: State | None, log: str | None) -> RequiredCheck:
    url = f"local:checks/{commit}/{name}"
    return RequiredCheck(name=name, commit=commit, state=state or "pending", log=log or "", url=url)
