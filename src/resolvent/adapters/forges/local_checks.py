"""Checks of the local forge: every attempt of each on a commit, which ones are required, and whoever waits for them."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from asyncinotify import Inotify, Mask

from resolvent.adapters.forges.local_tables import Tables
from resolvent.adapters.journal.store import Connection
from resolvent.domain.subject import RequiredCheck
from resolvent.errors import NotFound

State = Literal["pending", "passed", "failed"]

# How CI's own words count for a requirement.
PASSED = ("success", "neutral", "skipped")
WORDS: dict[State, str] = {"pending": "in_progress", "passed": "success", "failed": "failure"}

_NEWEST = "SELECT max(id) FROM forge_check_runs n WHERE n.on_commit = :commit AND n.name = :name"
_LATEST = f"SELECT * FROM forge_check_runs WHERE id = ({_NEWEST})"
_START = """
INSERT INTO forge_check_runs (run, on_commit, name, status, attempt, started_at)
VALUES (:run, :commit, :name, 'queued', :attempt, :at) RETURNING id
"""
_SAY = """
UPDATE forge_check_runs SET status = :status, conclusion = :conclusion, log = :log, completed_at = :completed_at
WHERE id = :id
"""
_GIVE_UP = """
UPDATE forge_check_runs SET status = 'completed', conclusion = 'cancelled', completed_at = :at
WHERE on_commit = :commit AND name = :name AND status <> 'completed'
"""
_REQUIRED = """
SELECT r.name, c.status, c.conclusion, c.log, c.attempt FROM forge_required r LEFT JOIN forge_check_runs c
ON c.id = (SELECT max(id) FROM forge_check_runs n WHERE n.on_commit = :commit AND n.name = r.name)
"""
_KNOWN = "SELECT name FROM forge_required WHERE name = :name UNION SELECT name FROM forge_check_runs WHERE name = :name"
_UNANSWERED = """
SELECT * FROM forge_check_runs WHERE attempt > 1 AND status <> 'completed' AND id > :after ORDER BY id
"""


class Checks:
    """What CI says; `wake` is touched after every write, so that waiters in any process look again."""

    def __init__(self, tables: Tables, wake: Path) -> None:
        self._tables = tables
        self._wake = wake

    async def require(self, name: str) -> None:
        """From now on commits need this check."""
        sql = "INSERT INTO forge_required (name) VALUES (:name) ON CONFLICT DO NOTHING"
        await self._tables.change(lambda connection, at: connection.write(sql, name=name))
        self.nudge()

    async def unrequire(self, name: str) -> None:
        """From now on nobody waits for this check."""
        sql = "DELETE FROM forge_required WHERE name = :name"
        await self._tables.change(lambda connection, at: connection.write(sql, name=name))
        self.nudge()

    async def report(self, commit: str, name: str, word: str, *, log: str = "", run: bool = True) -> int:
        """Record what a check said of a commit; the newest word counts. The id of the attempt it was said of.

        The word is `queued`, `in_progress`, or how it ended; without `run` it is a status that nothing ran for.
        """

        def report(connection: Connection, at: float) -> int:
            there = connection.read(_LATEST, commit=commit, name=name)
            id = int(there[0]["id"]) if there else _start(connection, at, run=run, commit=commit, name=name)
            ended = word not in ("queued", "in_progress")
            status, conclusion = ("completed", word) if ended else (word, "")
            over = at if ended else None
            connection.write(_SAY, id=id, status=status, conclusion=conclusion, log=log, completed_at=over)
            return id

        id = await self._tables.change(report)
        self.nudge()
        return id

    async def required(self, commit: str) -> tuple[RequiredCheck, ...]:
        """What is known of the commit under each required name."""
        # Sorted here: the databases do not agree on the order of text.
        rows = sorted(await self._tables.store.read(_REQUIRED, commit=commit), key=lambda row: str(row["name"]))
        return tuple(_check({**row, "on_commit": commit}) for row in rows)

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

    async def rerun(self, commit: str, name: str) -> int:
        """Ask for one more attempt: the check is pending until someone reports again. The attempt's id."""

        def ask(connection: Connection, at: float) -> int:
            if not connection.read(_KNOWN, name=name):
                raise NotFound(f"no check is called {name!r}", hint="resolvent pr ls")
            there = connection.read(_LATEST, commit=commit, name=name)
            connection.write(_GIVE_UP, commit=commit, name=name, at=at)
            if not there:
                # Nobody ran it yet; the attempt that is asked for is the second all the same.
                return _start(connection, at, run=True, commit=commit, name=name, attempt=2)
            again = {"run": there[0]["run"], "attempt": there[0]["attempt"] + 1}
            return int(connection.read(_START, commit=commit, name=name, at=at, **again)[0]["id"])

        id = await self._tables.change(ask)
        self.nudge()
        return id

    async def reruns(self) -> AsyncIterator[RequiredCheck]:
        """For whoever plays CI: every rerun that waits for a report, and each later one as it is asked for."""
        after = 0
        with self._watching() as wakes:
            while True:
                rows = await self._tables.store.read(_UNANSWERED, after=after)
                for row in rows:
                    after = row["id"]
                    yield _check(row)
                if not rows:
                    await wakes.get()

    @contextmanager
    def _watching(self) -> Iterator[Inotify]:
        with Inotify() as wakes:
            wakes.add_watch(self._wake, Mask.ATTRIB)
            yield wakes

    def nudge(self) -> None:
        """Whoever waits, in any process, looks again."""
        os.utime(self._wake)


def _start(connection: Connection, at: float, *, run: bool, attempt: int = 1, **named: str) -> int:
    id = int(connection.read(_START, run=0, at=at, attempt=attempt, **named)[0]["id"])
    if run:
        connection.write("UPDATE forge_check_runs SET run = id WHERE id = :id", id=id)
    return id


def _check(row: dict[str, Any]) -> RequiredCheck:
    state: State = "pending"
    if row["status"] == "completed":
        state = "passed" if row["conclusion"] in PASSED else "failed"
    name, commit = row["name"], row["on_commit"]
    url = f"local:checks/{commit}/{name}"
    log, attempt = row["log"] or "", row["attempt"] or 1
    return RequiredCheck(name=name, commit=commit, state=state, log=log, url=url, attempt=attempt)
