"""The use cases: submit, list, show, tail, decide, retry, fork. Front ends parse, call these, and render."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from resolvent.domain.decision import Choice, Decision, Question
from resolvent.domain.events import DecisionMade, Recorded
from resolvent.domain.record import RunRow
from resolvent.domain.subject import PullRequest
from resolvent.errors import HeadMoved, NotFound, UsageError
from resolvent.ports import Clock
from resolvent.submissions import Submission, Submissions
from resolvent.wiring import Home


class App:
    """Everything the front ends can do for one repository."""

    def __init__(self, home: Home) -> None:
        self.home = home

    @classmethod
    def at(
        cls,
        repository: Path,
        *,
        environ: Mapping[str, str],
        overrides: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> "App":
        """The application for the repository a person stands in."""
        return cls(Home.of(repository, environ=environ, overrides=overrides, clock=clock))

    async def submit(self, asked: Submission) -> tuple[RunRow, tuple[str, ...]]:
        """Queue a run; also returns warnings for the person."""
        return await Submissions(self.home).submit(asked)

    async def runs(self, *, limit: int = 100) -> tuple[RunRow, ...]:
        """Newest first."""
        return await (await self.home.journal()).runs(limit=limit)

    async def run(self, id: str) -> RunRow:
        """By id or unique prefix; the newest when the id is empty or `last`."""
        journal = await self.home.journal()
        if id in ("", "last"):
            newest = await journal.runs(limit=1)
            if not newest:
                raise NotFound("there is no run yet", hint="resolvent resolve 1")
            return newest[0]
        return await journal.run(id)

    async def document(self, id: str) -> dict[str, Any]:
        """The outcome document of a run, ended or not."""
        from resolvent.engine.report import outcome_document

        row = await self.run(id)
        return row.result or await outcome_document(await self.home.journal(), row)

    async def tail(self, run: str, *, after: int = 0) -> AsyncIterator[Recorded]:
        """Events as they happen, until the run has ended or waits for a person."""
        journal, seen = await self.home.journal(), 0
        while True:
            settled = (await journal.run(run)).state in ("ended", "waiting")
            while page := await journal.events(run, after=after):
                for recorded in page:
                    after = recorded.seq
                    yield recorded
            if settled:
                return
            seen = await journal.changed(since=seen)

    async def decide(self, id: str, choice: str, *, by: str, reason: str = "") -> Decision:
        """Answer the open question of a waiting run and queue it again."""
        journal, row = await self.home.journal(), await self.run(id)
        question = await self.question(row)
        now, key = self.home.clock.now(), question.key
        decision = await journal.decide(row.id, key, Choice(answer=choice, by=by, reason=reason, at=now))
        await journal.tell(row.id, DecisionMade(key=key, answer=choice, by=by), at=now, key=f"made:{key}")
        return decision

    async def question(self, row: RunRow) -> Question:
        """What a run waits for a person to answer; UsageError when it asks nothing."""
        journal = await self.home.journal()
        if row.state == "ended":
            raise UsageError(f"{row.id} has ended: {row.outcome}", hint=f"resolvent show {row.id}")
        questions = [item.question for item in await journal.decisions(row.id) if item.answer is None]
        if not questions:
            raise UsageError(f"{row.id} asks nothing", hint=f"resolvent show {row.id}")
        # The one it waits at; an older one may be open that it will not come to again.
        return next((asked for asked in questions if asked.key == row.reason), questions[0])

    async def merge(self, reference: str, *, expect: str = "") -> PullRequest:
        """Merge a pull request at a head that a run judged and found open, or at the commit a person names."""
        forge, repository = await self.home.forge(), await self.home.git_repository()
        await forge.sync(self.home.repository)
        pull = await forge.pull_request(reference)
        if not pull.head_commit.startswith(expect):
            raise HeadMoved(f"{pull.url} is at {pull.head_commit}", hint=f"resolvent pr show {pull.number}")
        if not expect and not await self._judged_open(pull.head_commit):
            raise UsageError(
                f"no run found the gate of {pull.head_commit[:12]} open, the head of {pull.url}",
                hint=f"resolvent pr merge {pull.number} --commit {pull.head_commit[:12]}  # if you judged it yourself",
            )
        change = await repository.change(await forge.fetch(repository.upstream, pull.head_commit))
        return await forge.merge(pull, expect=change)

    async def _judged_open(self, commit: str) -> bool:
        ended = await (await self.home.journal()).runs(states=("ended",), limit=10_000)
        results = [row.result for row in ended if row.result and row.result["change"] == commit]
        return any(result["gate"] and result["gate"]["open"] for result in results)

    async def retry(self, id: str, *, refresh: bool = False) -> RunRow:
        """Try an ended run's failed steps once more; with refresh, on newly read inputs."""
        return await Submissions(self.home).retry(await self.run(id), refresh=refresh)

    async def fork(self, id: str, *, from_step: str) -> RunRow:
        """A new run of an ended one that keeps its answers, edits and checks up to a step."""
        return await Submissions(self.home).fork(await self.run(id), from_step=from_step)
