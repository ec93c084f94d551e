"""Our own facts."""

from collections.abc import Sequence
from typing import Any, Protocol

from resolvent.domain.arrival import Hold, HoldState
from resolvent.domain.change import Evidence
from resolvent.domain.decision import Choice, Decision, Question
from resolvent.domain.events import Event, Recorded
from resolvent.domain.finding import Finding
from resolvent.domain.job import Branch, Usage
from resolvent.domain.record import Due, EffectRow, Frozen, JobRow, RunRow, RunState, StepRow


class Journal(Protocol):
    """Our own facts, in SQLite or Postgres. Rows of a verb are keyed by its id: writing again changes nothing."""

    async def add_run(self, run: RunRow, *, subjects: Sequence[str]) -> None:
        """Record a new run and claim its subjects in one transaction; SubjectTaken names the run that holds one."""

    async def published(self, commit: str) -> bool:
        """One of our runs moved a head to this commit."""

    async def claim(self, run: str, subject: str) -> None:
        """Claim one more subject for a run; its own again is fine; SubjectTaken otherwise."""

    async def run(self, id: str) -> RunRow:
        """By id or unique prefix; NotFound otherwise."""

    async def runs(self, *, states: Sequence[RunState] = (), limit: int = 100) -> tuple[RunRow, ...]:
        """Newest first; all states when none is named."""

    async def due(self) -> tuple[Due, ...]:
        """What a worker has to do something about, oldest first: queued, running, to be cancelled, or answered."""

    async def set_state(self, run: str, state: RunState, *, reason: str = "") -> None: ...

    async def end_run(self, run: str, *, outcome: str, reason: str, result: dict[str, Any]) -> None:
        """Record the outcome and release the subjects in one transaction; the first ending stays."""

    async def reopen(self, run: str, *, subjects: Sequence[str]) -> None:
        """An ended or waiting run is queued again with one more play; ended ones claim their subjects anew."""

    async def refreeze(self, run: str, inputs: Frozen) -> None:
        """Replace the frozen inputs of a run that is not being played."""

    async def ask_to_cancel(self, run: str, *, reason: str = "") -> None:
        """A worker is to end it. The first reason stays: its first line is the outcome's, all of it is told there."""

    async def hold(self, hold: Hold) -> Hold | None:
        """About to be claimed on the forge. What the run holds of that subject already stays, and is returned.

        None when a hold of that very name is about to be given back: hold it under another.
        """

    async def mark_hold(self, hold: Hold, state: HoldState) -> None:
        """What became of the claim."""

    async def settle_holds(self, run: str) -> None:
        """Nobody is about to begin the run any more: it is there now, or will not be."""

    async def holds(self, run: str = "") -> tuple[Hold, ...]:
        """What we claimed on the forge and did not give back, for one run or for all."""

    async def holds_refused(self) -> tuple[Hold, ...]:
        """What we could not claim because somebody else had it; the last of each subject."""

    async def holds_over(self) -> tuple[Hold, ...]:
        """What was claimed for runs that have ended, or never came to be: from now on to be given back, for certain."""

    async def let_go(self, hold: Hold) -> None:
        """That claim was given back, or never made."""

    async def delete_run(self, run: str) -> None:
        """Retention: remove an ended run whole."""

    async def attempt(self, run: str, key: str) -> int:
        """The attempt a verb is at; 1 until raised."""

    async def raise_attempt(self, run: str, key: str, *, beyond: int) -> int:
        """Raise the attempt to `beyond` + 1 unless it is higher already; returns what it is."""

    async def save_step(self, step: StepRow) -> None: ...

    async def steps(self, run: str) -> tuple[StepRow, ...]:
        """In the order they first started."""

    async def copy_results(self, run: str, results: dict[str, dict[str, Any]]) -> None:
        """Give a forked run the results it inherits, by verb key."""

    async def copied_result(self, run: str, key: str) -> dict[str, Any] | None: ...

    async def save_branch(self, run: str, branch: Branch) -> None: ...

    async def branches(self, run: str) -> tuple[Branch, ...]: ...

    async def save_job(self, job: JobRow) -> None: ...

    async def jobs(self, run: str) -> tuple[JobRow, ...]: ...

    async def jobs_over(self, *, since: float, until: float) -> tuple[JobRow, ...]:
        """The agents' jobs of all runs that were over from then on and before then, in that order."""

    async def spent(self, *, since: float) -> Usage:
        """What the jobs of all runs spent that were over since then."""

    async def save_evidence(self, run: str, evidence: Evidence) -> None: ...

    async def evidence(self, run: str) -> tuple[Evidence, ...]: ...

    async def save_finding(self, run: str, finding: Finding) -> None: ...

    async def findings(self, run: str) -> tuple[Finding, ...]: ...

    async def save_effect(self, effect: EffectRow) -> None:
        """A done effect never becomes intended again."""

    async def effects(self, run: str) -> tuple[EffectRow, ...]: ...

    async def ask(self, run: str, question: Question, *, at: float) -> Decision:
        """Record the question, or return what is recorded under its key, with its answer if there is one."""

    async def decisions(self, run: str) -> tuple[Decision, ...]: ...

    async def decide(self, run: str, key: str, choice: Choice) -> Decision:
        """Answer an open question and queue a run that waits; UsageError when it is answered or this not offered."""

    async def withdraw(self, run: str, answer: str) -> None:
        """Forget every question with that answer or with none; it is asked anew if the run comes to it again."""

    async def tell(self, run: str, event: Event, *, at: float, key: str = "") -> None:
        """Append an event; with a key, at most once per run and key. Wakes whoever waits in `changed`."""

    async def events(self, run: str = "", *, after: int = 0, limit: int = 1000) -> tuple[Recorded, ...]:
        """In order; of all runs when none is named."""

    async def changed(self, *, since: int | None = None, timeout_s: float | None = None) -> int:
        """Return how often the store was written, once that is not `since`, or when the time is over.

        Without `since`: what this returned last here. When several wait on one journal, each passes what it got last.
        """

    async def close(self) -> None: ...
