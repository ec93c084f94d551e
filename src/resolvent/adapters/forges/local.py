"""The local forge: issues, pull requests, checks and merges on one machine, with nothing to configure."""

import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from shlex import quote

from resolvent.adapters.clock import SystemClock
from resolvent.adapters.forges.local_checks import WORDS, Checks, State
from resolvent.adapters.forges.local_claims import Claims
from resolvent.adapters.forges.local_git import Refs
from resolvent.adapters.forges.local_issues import Names
from resolvent.adapters.forges.local_pulls import LocalPulls
from resolvent.adapters.forges.local_schema import SCHEMA
from resolvent.adapters.forges.local_sync import sync
from resolvent.adapters.forges.local_tables import Tables
from resolvent.adapters.forges.local_words import filled
from resolvent.adapters.forges.markdown import issue_from_markdown
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.subject import RequiredCheck, Synced
from resolvent.errors import NotFound
from resolvent.ports import Clock

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class LocalForge(LocalPulls):
    """The forge port on tables of ours and a bare repository; what git knows is read from git, never from a table."""

    issue_from_markdown = staticmethod(issue_from_markdown)

    def __init__(self, tables: Tables, directory: Path, names: Names) -> None:
        self.path = directory / "forge.git"
        super().__init__(tables, Refs(Git(self.path)), names)
        self.checks = Checks(tables, directory / "checks.wake")
        self._claims = Claims(self._refs)

    @classmethod
    async def open(
        cls,
        store: Store,
        directory: Path,
        *,
        login: str = "resolvent",
        trusted_logins: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> "LocalForge":
        """The forge of a state directory, made if it is new; what a crash left half-done is finished."""
        await Git.init_bare(directory / "forge.git")
        (directory / "checks.wake").touch()
        await store.migrate("forge", SCHEMA)
        names = Names(login=login, owner=login, trusted=tuple(trusted_logins))
        forge = cls(Tables(store, clock or SystemClock()), directory, names)
        await forge.pulls("open")
        return forge

    async def sync(self, repository: Path) -> Synced:
        """Bring the default branch of the user's checkout here; pull requests it holds already are merged."""
        synced = await sync(self._refs, repository)
        await self.find_merged(synced.branch)
        return synced

    async def fetch(self, into: Path, ref: str) -> str:
        commit = await self.head_of(ref) or (ref if _COMMIT.fullmatch(ref) else None)
        if commit is None or not await self._refs.holds(commit):
            raise NotFound(f"the forge has no branch or commit {ref!r}", hint=f"git -C {quote(str(self.path))} branch")
        await self._refs.fetch(into, commit)
        return commit

    async def default_branch(self) -> str:
        return await self._refs.default_branch()

    async def require_check(self, name: str) -> None:
        """Commits need this check from now on."""
        await self.checks.require(filled(name, "a check"))

    async def unrequire_check(self, name: str) -> None:
        """Commits no longer need this check."""
        await self.checks.unrequire(name)

    async def report_check(self, commit: str, name: str, *, state: State, log: str = "") -> None:
        """What CI says of a commit; wakes whoever waits, in any process."""
        await self.checks.report(commit, name, WORDS[state], log=log)

    async def required_checks(self, commit: str) -> tuple[RequiredCheck, ...]:
        return await self.checks.required(commit)

    async def await_checks(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        return await self.checks.settled(commit, timeout_s=timeout_s)

    def nudge(self, commit: str) -> None:
        self.checks.nudge()

    async def rerun(self, check: RequiredCheck) -> None:
        await self.checks.rerun(check.commit, check.name)

    def reruns(self) -> AsyncIterator[RequiredCheck]:
        """For whoever plays CI: every rerun that waits for a report, then each later one."""
        return self.checks.reruns()

    async def claim(self, subject: str, holder: str) -> str:
        return await self._claims.claim(subject, holder)

    async def holder(self, subject: str) -> str:
        return await self._claims.holder(subject)

    async def release(self, subject: str, holder: str) -> None:
        await self._claims.release(subject, holder)

    async def close(self) -> None:
        """Nothing: the store is closed by who opened it."""
