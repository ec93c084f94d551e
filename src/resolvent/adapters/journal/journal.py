"""The journal: our own facts over a store. One code path for both databases."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from resolvent.adapters.journal import holds, queries, runs
from resolvent.adapters.journal.portable import Scalar
from resolvent.adapters.journal.rows import columns, decision_of, document, value_of
from resolvent.adapters.journal.schema import SCHEMAS
from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.arrival import Hold, HoldState
from resolvent.domain.change import Evidence
from resolvent.domain.decision import Choice, Decision, Question
from resolvent.domain.events import Event, Recorded
from resolvent.domain.finding import Finding
from resolvent.domain.job import Branch, Usage
from resolvent.domain.record import Due, EffectRow, Frozen, JobRow, RunRow, RunState, StepRow
from resolvent.errors import NotFound, UsageError


class StoredJournal:
    """Implements the Journal port; `store` may be shared with other adapters of the same database."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self.store = store
        self._now = now

    @classmethod
    async def over(cls, store: Store, *, now: Callable[[], float]) -> "StoredJournal":
        """A journal whose tables are at the newest schema."""
        await store.migrate("journal", SCHEMAS)
        return cls(store, now)

    async def add_run(self, run: RunRow, *, subjects: Sequence[str]) -> None:
        await self.store.transaction(lambda connection: runs.add(connection, run, subjects))

    async def published(self, commit: str) -> bool:
        return bool(await self.store.read(queries.PUBLISHED, commit=f'%"head_commit":"{commit}"%'))

    async def claim(self, run: str, subject: str) -> None:
        await self.store.transaction(lambda connection: runs.claim(connection, run, subject))

    async def run(self, id: str) -> RunRow:
        rows = await self.store.read(queries.RUN, id=id)
        if not rows:
            named = await self.store.read(queries.RUNS_NAMED_LIKE, prefix=id, limit=runs.SHOWN + 1)
            rows = await self.store.read(queries.RUN, id=runs.only([row["id"] for row in named], id))
        return value_of(RunRow, rows[0], "result", "inputs")

    async def runs(self, *, states: Sequence[RunState] = (), limit: int = 100) -> tuple[RunRow, ...]:
        named = {f"state{place}": state for place, state in enumerate(states)}
        sql = queries.RUNS_IN.format(states=", ".join(f":{name}" for name in named)) if named else queries.RUNS
        rows = await self.store.read(sql, limit=limit, **named)
        return tuple(value_of(RunRow, row, "result", "inputs") for row in rows)

    async def due(self) -> tuple[Due, ...]:
        return tuple(value_of(Due, row) for row in await self.store.read(queries.DUE))

    async def set_state(self, run: str, state: RunState, *, reason: str = "") -> None:
        changes: dict[str, Scalar] = {"state": state, "reason": reason, "now": self._now()}
        await self.store.ordered(lambda connection: runs.set_state(connection, run, changes))

    async def end_run(self, run: str, *, outcome: str, reason: str, result: dict[str, Any]) -> None:
        ending: dict[str, Scalar] = {
            "outcome": outcome,
            "reason": reason,
            "result": document(result),
            "now": self._now(),
        }
        await self.store.transaction(lambda connection: runs.end(connection, run, ending))

    async def reopen(self, run: str, *, subjects: Sequence[str]) -> None:
        now = self._now()
        await self.store.transaction(lambda connection: runs.reopen(connection, run, subjects=subjects, now=now))

    async def refreeze(self, run: str, inputs: Frozen) -> None:
        text, now = document(inputs.model_dump()), self._now()
        await self.store.transaction(lambda connection: runs.refreeze(connection, run, inputs=text, now=now))

    async def ask_to_cancel(self, run: str, *, reason: str = "") -> None:
        now = self._now()
        await self.store.transaction(lambda connection: runs.ask_to_cancel(connection, run, reason=reason, now=now))

    async def hold(self, hold: Hold) -> Hold | None:
        return await self.store.transaction(lambda connection: holds.hold(connection, hold))

    async def mark_hold(self, hold: Hold, state: HoldState) -> None:
        await self.store.transaction(lambda connection: holds.mark(connection, hold, state))

    async def settle_holds(self, run: str) -> None:
        await self.store.write(holds.SETTLE, run=run)

    async def holds(self, run: str = "") -> tuple[Hold, ...]:
        rows = await (self.store.read(holds.OF_RUN, run=run) if run else self.store.read(holds.OURS))
        return tuple(value_of(Hold, row) for row in rows)

    async def holds_refused(self) -> tuple[Hold, ...]:
        return tuple(value_of(Hold, row) for row in await self.store.read(holds.REFUSED))

    async def holds_over(self) -> tuple[Hold, ...]:
        now = self._now()
        if not await self.store.read(holds.ANY_OVER, now=now):
            return ()
        return await self.store.transaction(lambda connection: holds.leaving(connection, now))

    async def let_go(self, hold: Hold) -> None:
        await self.store.write(holds.LET_GO, subject=hold.subject, holder=hold.holder)

    async def delete_run(self, run: str) -> None:
        await self.store.transaction(lambda connection: runs.delete(connection, run))

    async def attempt(self, run: str, key: str) -> int:
        rows = await self.store.read(queries.ATTEMPT, run=run, key=key)
        return int(rows[0]["attempt"]) if rows else 1

    async def raise_attempt(self, run: str, key: str, *, beyond: int) -> int:
        def work(connection: Connection) -> int:
            connection.write(queries.RAISE_ATTEMPT, run=run, key=key, attempt=beyond + 1)
            return int(connection.read(queries.ATTEMPT, run=run, key=key)[0]["attempt"])

        return await self.store.transaction(work)

    async def save_step(self, step: StepRow) -> None:
        await self._note(queries.SAVE_STEP, **columns(step, "result"))

    async def steps(self, run: str) -> tuple[StepRow, ...]:
        rows = await self.store.read(queries.STEPS, run=run)
        return tuple(value_of(StepRow, row, "result") for row in rows)

    async def copy_results(self, run: str, results: dict[str, dict[str, Any]]) -> None:
        def work(connection: Connection) -> None:
            for key, result in results.items():
                connection.write(queries.COPY_RESULT, run=run, key=key, result=document(result))

        await self.store.transaction(work)

    async def copied_result(self, run: str, key: str) -> dict[str, Any] | None:
        rows = await self.store.read(queries.COPIED_RESULT, run=run, key=key)
        return dict(json.loads(rows[0]["result"])) if rows else None

    async def save_branch(self, run: str, branch: Branch) -> None:
        await self._note(queries.SAVE_BRANCH, run=run, **columns(branch))

    async def branches(self, run: str) -> tuple[Branch, ...]:
        return tuple(value_of(Branch, row) for row in await self.store.read(queries.BRANCHES, run=run))

    async def save_job(self, job: JobRow) -> None:
        await self._note(queries.SAVE_JOB, **columns(job, "usage"))

    async def jobs(self, run: str) -> tuple[JobRow, ...]:
        return tuple(value_of(JobRow, row, "usage") for row in await self.store.read(queries.JOBS, run=run))

    async def jobs_over(self, *, since: float, until: float) -> tuple[JobRow, ...]:
        rows = await self.store.read(queries.JOBS_OVER, since=since, until=until)
        return tuple(value_of(JobRow, row, "usage") for row in rows)

    async def spent(self, *, since: float) -> Usage:
        rows = await self.store.read(queries.USAGE_SINCE, since=since)
        return sum((Usage.model_validate_json(row["usage"]) for row in rows), Usage())

    async def save_evidence(self, run: str, evidence: Evidence) -> None:
        text = document(evidence.model_dump())
        await self._note(queries.SAVE_EVIDENCE, run=run, id=evidence.id, document=text)

    async def evidence(self, run: str) -> tuple[Evidence, ...]:
        rows = await self.store.read(queries.EVIDENCE, run=run)
        return tuple(Evidence.model_validate(json.loads(row["document"])) for row in rows)

    async def save_finding(self, run: str, finding: Finding) -> None:
        text = document(finding.model_dump())
        await self._note(queries.SAVE_FINDING, run=run, id=finding.id, document=text)

    async def findings(self, run: str) -> tuple[Finding, ...]:
        rows = await self.store.read(queries.FINDINGS, run=run)
        return tuple(Finding.model_validate(json.loads(row["document"])) for row in rows)

    async def save_effect(self, effect: EffectRow) -> None:
        await self.store.write(queries.SAVE_EFFECT, **columns(effect, "result"))

    async def effects(self, run: str) -> tuple[EffectRow, ...]:
        return tuple(value_of(EffectRow, row, "result") for row in await self.store.read(queries.EFFECTS, run=run))

    async def ask(self, run: str, question: Question, *, at: float) -> Decision:
        offered = {"choices": document(question.choices), "explained": document(question.explained)}

        def work(connection: Connection) -> Decision:
            connection.write(queries.ASK, run=run, key=question.key, text=question.text, **offered, at=at)
            return decision_of(connection.read(queries.DECISION, run=run, key=question.key)[0])

        return await self.store.transaction(work)

    async def decisions(self, run: str) -> tuple[Decision, ...]:
        return tuple(decision_of(row) for row in await self.store.read(queries.DECISIONS, run=run))

    async def decide(self, run: str, key: str, choice: Choice) -> Decision:
        def work(connection: Connection) -> Decision:
            asked = connection.read(queries.DECISION, run=run, key=key)
            if not asked:
                raise NotFound(f"run {run} did not ask {key!r}", hint=f"resolvent show {run}")
            question = decision_of(asked[0]).question
            if choice.answer not in question.choices:
                offered = ", ".join(question.choices)
                raise UsageError(
                    f"{choice.answer!r} is not offered; choose one of: {offered}", hint=f"resolvent show {run}"
                )
            if choice.answer in question.explained and not choice.reason.strip():
                raise UsageError(
                    f"{choice.answer!r} needs a reason, which will be posted",
                    hint=f"resolvent decide {run} {choice.answer} --reason '…'",
                )
            fresh = connection.write(queries.DECIDE, run=run, key=key, **dict(choice))
            decision = decision_of(connection.read(queries.DECISION, run=run, key=key)[0])
            if not fresh:
                raise UsageError(f"{key} is answered already: {decision.answer}", hint=f"resolvent show {run}")
            if runs.state_of(connection, run) == "waiting":
                runs.reopen(connection, run, subjects=(), now=choice.at)
            else:
                connection.announce()
            return decision

        return await self.store.transaction(work)

    async def withdraw(self, run: str, answer: str) -> None:
        await self.store.write(queries.WITHDRAW, run=run, answer=answer)

    async def tell(self, run: str, event: Event, *, at: float, key: str = "") -> None:
        text = document(event.model_dump())

        def work(connection: Connection) -> None:
            seq = connection.announce()
            connection.write(queries.TELL, seq=seq, run=run, at=at, key=key or None, event=text)

        # Looked for first, since a replay tells everything again and should cost no write.
        if not key or not await self.store.read(queries.TOLD, run=run, key=key):
            await self.store.ordered(work)

    async def events(self, run: str = "", *, after: int = 0, limit: int = 1000) -> tuple[Recorded, ...]:
        if run:
            rows = await self.store.read(queries.EVENTS_OF, run=run, after=after, limit=limit)
        else:
            rows = await self.store.read(queries.EVENTS, after=after, limit=limit)
        return tuple(value_of(Recorded, row, "event") for row in rows)

    async def changed(self, *, since: int | None = None, timeout_s: float | None = None) -> int:
        return await self.store.changed(since=since, timeout_s=timeout_s)

    async def close(self) -> None:
        await self.store.close()

    async def _note(self, sql: str, **params: Scalar) -> None:
        """Facts of a verb: forgotten with the verb's own record or not at all, and then written again with it."""
        await self.store.ordered(lambda connection: connection.write(sql, **params))
