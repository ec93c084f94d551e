"""What CI says on GitHub: the names a branch requires, what check runs and statuses say under them, and their logs."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from resolvent.adapters.forges.github_api import Api
from resolvent.adapters.forges.github_ci import JOB, Job, Names, Parameters, Rule, Run, Word, app_of, counted
from resolvent.adapters.forges.github_place import plain_log
from resolvent.domain.subject import RequiredCheck
from resolvent.errors import ForgeRefused, NotFound

LOG_CHARACTERS = 64 << 10
_KEPT_LOGS = 32
# So many times as long as between two looks is a rerun looked for until GitHub shows it.
_SHOWN = 40
_AWAITED = 1000


class Checks:
    """CI of one repository."""

    def __init__(self, api: Api, *, poll_s: float) -> None:
        self._api = api
        self._where = api.where
        self._poll_s = poll_s
        # By commit, set when a webhook told of it: whoever waits looks then.
        self._news: dict[str, asyncio.Event] = {}
        # Of a job that ended the log does not change any more.
        self._logs: dict[int, str] = {}

    async def required(self, commit: str, *, branch: str) -> tuple[RequiredCheck, ...]:
        """What is known of the commit under each required name, with the logs of what failed."""
        names = await self._names(branch)
        return await self._told(commit, names, await self._words(commit, names))

    async def settled(self, commit: str, *, branch: str, timeout_s: float) -> tuple[RequiredCheck, ...]:
        """Wait until none is pending, or the time is over."""
        over = asyncio.get_running_loop().time() + timeout_s
        names = await self._names(branch)
        while names:
            news = self._news_of(commit)
            words = await self._words(commit, names)
            left = over - asyncio.get_running_loop().time()
            if left <= 0:
                return await self._told(commit, names, words)
            if all(name in words and words[name].state != "pending" for name in names):
                # What is required may be other names by now.
                now = await self._names(branch)
                if now == names:
                    return await self._told(commit, names, words)
                names = now
                continue
            await _news_within(min(self._poll_s, left), news)
        return ()

    def nudge(self, commit: str) -> None:
        """Whoever waits for that commit looks again now."""
        if news := self._news.pop(commit, None):
            news.set()

    def _news_of(self, commit: str) -> asyncio.Event:
        # Only the commits that somebody waited for lately: what was told before is seen by looking.
        while len(self._news) >= _AWAITED and commit not in self._news:
            self._news.pop(next(iter(self._news)))
        return self._news.setdefault(commit, asyncio.Event())

    async def rerun(self, check: RequiredCheck, *, branch: str) -> None:
        """Ask for one more run, and wait until GitHub shows it."""
        required = await self._names(branch)
        asked: Names = {check.name: required.get(check.name, frozenset())}
        word = (await self._words(check.commit, asked)).get(check.name)
        if word is None and check.name not in required:
            raise NotFound(f"no check of {self._where.repo} is called {check.name!r}", hint="gh pr checks")
        if word is None:
            raise ForgeRefused(f"{check.name} has not run on {check.commit[:10]} yet: there is nothing to run again")
        if word.run is None:
            raise ForgeRefused(f"{check.name} is a status: only who reports it can run it again", hint=word.url)
        job = JOB.search(word.url)
        place = ("actions", "jobs", word.run.id, "rerun") if job else ("check-runs", word.run.id, "rerequest")
        try:
            await self._api.send("POST", self._where.path(*place))
        except ForgeRefused as error:
            if "already running" not in error.message:
                raise ForgeRefused(
                    f"{check.name} cannot be run again by us: {error.message}", hint=word.url, **error.details
                ) from error
        await self._shown(check.commit, asked, word.run)

    async def _shown(self, commit: str, asked: Names, before: Run) -> None:
        """GitHub takes a while to show what was asked for; until then the old word would be read as the new one."""
        loop, pause = asyncio.get_running_loop(), min(self._poll_s, 1.0)
        over = loop.time() + _SHOWN * pause
        while loop.time() < over:
            news = self._news_of(commit)
            word = next(iter((await self._words(commit, asked)).values()), None)
            if word is None or word.run is None or word.state == "pending" or word.run.id != before.id:
                return
            await _news_within(pause, news)

    async def _told(self, commit: str, names: Names, words: Mapping[str, Word]) -> tuple[RequiredCheck, ...]:
        attempts = await self._attempts(words.values())
        checks = []
        for name in sorted(names):
            word = words.get(name) or Word(name, "pending", "")
            log = await self._log(word) if word.state == "failed" else ""
            attempt = attempts.get(word.run.id, 1) if word.run else 1
            said = {"name": name, "commit": commit, "state": word.state, "log": log, "url": word.url}
            checks.append(RequiredCheck.model_validate({**said, "attempt": attempt}))
        return tuple(checks)

    # --- what is required

    async def _names(self, branch: str) -> Names:
        """What is required by the branch's protection and by rulesets."""
        parts = branch.split("/")
        said = await self._api.get("BranchWithProtection", self._where.path("branches", *parts))
        names: Names = {}
        classic = said.protection.required_status_checks
        asked: list[tuple[str, int | None]] = [(name, None) for name in classic.contexts] if classic else []
        asked += [(one.context, one.app_id) for one in classic.checks] if classic else []
        with suppress(NotFound):
            async for rule in self._api.each(Rule, self._where.path("rules", "branches", *parts)):
                if rule.type == "required_status_checks":
                    wanted = Parameters.model_validate(rule.parameters or {}).required_status_checks
                    asked += [(one.context, one.integration_id) for one in wanted]
        for name, app in asked:
            # Who asks for it from anybody does not undo that another rule asks for it from one App.
            names[name] = names.get(name, frozenset()) | app_of(app)
        return names

    # --- what is said

    async def _words(self, commit: str, names: Names) -> dict[str, Word]:
        """The latest word under each of the names; nothing of a commit GitHub does not have."""
        if not names:
            return {}
        try:
            return counted(await self._runs(commit), await self._statuses(commit), names)
        except NotFound:
            return {}
        except ForgeRefused as error:
            if error.details.get("status") == 422 and "commit" in error.message.lower():
                return {}
            raise

    async def _runs(self, commit: str) -> list[Run]:
        place = self._where.path("commits", commit, "check-runs")
        return [run async for run in self._api.each(Run, place, {"filter": "latest"}, within="check_runs")]

    async def _statuses(self, commit: str) -> list[Word]:
        place = self._where.path("commits", commit, "status")
        found = []
        async for said in self._api.each("SimpleCommitStatus", place, within="statuses"):
            state = {"success": "passed", "pending": "pending"}.get(said.state, "failed")
            url, text = said.target_url or "", said.description or ""
            found.append(Word(said.context, state, url, text=text))  # type: ignore[arg-type]
        return found

    async def _attempts(self, words: Iterable[Word]) -> dict[int, int]:
        """By job, how often it was run: its workflow run tells, all its jobs at once."""
        jobs = [JOB.search(word.url) for word in words if word.run]
        runs = {job[1] for job in jobs if job}
        found: dict[int, int] = {}
        for run in sorted(runs):
            place = self._where.path("actions", "runs", run, "jobs")
            with suppress(NotFound):
                async for job in self._api.each(Job, place, {"filter": "all"}, within="jobs"):
                    found[job.id] = job.run_attempt
        return found

    async def _log(self, word: Word) -> str:
        """What a failed check printed: its job's log, or what it says of itself."""
        if word.run is None:
            return word.text
        if word.run.id not in self._logs:
            log = ""
            if JOB.search(word.url):
                log = plain_log(await self._api.log(self._where.path("actions", "jobs", word.run.id, "logs")))
            while len(self._logs) >= _KEPT_LOGS:
                self._logs.pop(next(iter(self._logs)))
            self._logs[word.run.id] = (log or word.text)[-LOG_CHARACTERS:]
        return self._logs[word.run.id]


async def _news_within(seconds: float, news: asyncio.Event) -> None:
    """Until a webhook told of something, or it is time to look without having been told."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
