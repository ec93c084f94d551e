"""A run: the verbs a playbook may use. Each is recorded once, so a replay repeats nothing that was done."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from resolvent.domain.change import Change, Check, Evidence
from resolvent.domain.decision import Decision, Question
from resolvent.domain.events import DecisionAsked, Event, StepRetried
from resolvent.domain.finding import Finding
from resolvent.domain.job import Branch
from resolvent.domain.model import Value
from resolvent.domain.record import Frozen, RunRow
from resolvent.domain.subject import Comment, Issue, PullRequest
from resolvent.engine.budgets import DAY, GO_ON, RETRY
from resolvent.engine.durable import Durable
from resolvent.engine.requests import Request, plain, revive
from resolvent.engine.world import World
from resolvent.errors import (
    BudgetSpent,
    Cancelled,
    ForgeRefused,
    JobLost,
    KeyRefused,
    ResolventError,
    Suspended,
    Unavailable,
)
from resolvent.ports import Repository

T = TypeVar("T", bound=Value)
V = TypeVar("V")
W = TypeVar("W")
LOST_TRIES = 3
NOTHING: Mapping[str, str] = {}
NOWHERE: Mapping[str, Sequence[int]] = {}


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What an agent said, and the branch it said it in."""

    value: T
    branch: Branch
    agent: str


@dataclass(frozen=True)
class Edited(Generic[T]):
    """What an agent said, and the change it left; None when it left none."""

    value: T
    branch: Branch
    agent: str
    change: Change | None


class Run:
    """One durable execution of one playbook on one subject."""

    def __init__(self, row: RunRow, *, world: World, durable: Durable) -> None:
        self.id = row.id
        self.inputs: Frozen = row.inputs
        self.policy = row.inputs.policy
        # What follows from commits alone is read where it is needed: there is nothing to record.
        self.repository: Repository = world.repository
        self._forked = bool(row.forked_from)
        self._world = world
        self._durable = durable
        self._position = 0
        self.cancelled = False

    def at(self, change: Change) -> Branch:
        """A branch that holds exactly that commit; the same for every run, so that a fork asks the same questions."""
        return Branch(id=f"at-{change.commit}", parent=None, commit=change.commit)

    async def ask(
        self, step: str, model: type[T], *, on: Branch, shows: Mapping[str, str] = NOTHING, **inputs: Any
    ) -> Answer[T]:
        """Ask an agent about a branch; `shows` are logs of earlier verbs, and no part of what is asked."""
        asked = {"model": model.__name__, "on": on, "prompt": inputs}
        said = await self._verb("ask", step, asked, title=step, shows=shows)
        return Answer(model.model_validate(said["value"]), Branch.model_validate(said["branch"]), said["agent"])

    async def edit(
        self,
        step: str,
        model: type[T],
        *,
        on: Branch,
        subject: str,
        shows: Mapping[str, str] = NOTHING,
        **inputs: Any,
    ) -> Edited[T]:
        """Let an agent change a branch; what it leaves becomes one commit with that subject."""
        asked = {"model": model.__name__, "on": on, "prompt": inputs, "subject": subject}
        said = await self._verb("edit", step, asked, title=step, shows=shows)
        change = Change.model_validate(said["change"]) if said["change"] else None
        branch = Branch.model_validate(said["branch"])
        return Edited(model.model_validate(said["value"]), branch, said["agent"], change)

    async def check(
        self, check: Check, *, on: Change, nth: int = 1, watch: Mapping[str, Sequence[int]] = NOWHERE
    ) -> Evidence:
        """Run one command on one commit. Repeats on purpose say which one they are.

        `watch` names lines of that commit by path: the evidence says whether the command reached one of them.
        """
        title = f"{check.name} on {'the base' if on == self.inputs.base else on}{f' ({nth})' if nth > 1 else ''}"
        asked = {"check": check, "on": on, "nth": nth} | ({"watch": watch} if watch else {})
        said = await self._verb("check", check.kind, asked, title=title)
        return Evidence.model_validate(said["evidence"])

    async def observe(self, sight: str, *, nth: int = 1, **what: Any) -> dict[str, Any]:
        """Read something from the forge, once."""
        return await self._verb("observe", sight, {"what": what, "nth": nth}, title=f"look: {sight.replace('_', ' ')}")

    async def publish(
        self, change: Change, *, head: str, expect: str | None, number: int | None = None, text: tuple[str, str]
    ) -> PullRequest:
        """Move the head from `expect` to this commit, and have one pull request on it with that title and body."""
        asked = {"change": change, "head": head, "expect": expect, "number": number, "title": text[0], "body": text[1]}
        said = await self._verb("publish", "pull_request", asked, title=f"publish {change}")
        pull = PullRequest.model_validate(said["pull_request"])
        await self._world.journal.claim(self.id, pull.key)
        return pull

    async def comment(self, target: str, *, name: str, body: str, marker: str = "") -> Comment:
        """Say it once on an issue or pull request; with a marker of its own, once for everybody."""
        asked = {"target": target, "body": body, "marker": marker}
        said = await self._verb("comment", name, asked, title=f"comment on {target}: {name}")
        return Comment.model_validate(said["comment"])

    async def stick(self, target: str, *, name: str, body: str, marker: str) -> Comment:
        """Keep one comment with this marker up to date: it says this from now on, in its place."""
        asked = {"target": target, "body": body, "marker": marker}
        said = await self._verb("stick", name, asked, title=f"keep up to date on {target}: {name}")
        return Comment.model_validate(said["comment"])

    async def file_issue(self, *, title: str, body: str, labels: tuple[str, ...] = ()) -> tuple[Issue, bool]:
        """Open an issue, or find the open one with that title; True when it is new."""
        asked = {"title": title, "body": body, "labels": labels}
        said = await self._verb("file_issue", "issue", asked, title=f"file issue: {title[:60]}")
        return Issue.model_validate(said["issue"]), bool(said["created"])

    async def merge(self, pull: PullRequest, *, expect: Change) -> PullRequest:
        """Merge the commit that was judged, or nothing."""
        asked = {"number": pull.number, "expect": expect}
        said = await self._verb("merge", "pull_request", asked, title=f"merge #{pull.number} at {expect}")
        return PullRequest.model_validate(said["pull_request"])

    async def declare(self, target: str, state: Literal["ready", "closed"]) -> None:
        """Have a pull request ready for review, or an issue or pull request closed."""
        await self._verb("declare", state, {"target": target, "state": state}, title=f"{target}: {state}")

    async def wait(self, question: Question) -> str:
        """Return a person's answer, or park the run until it comes."""
        return (await self.decide(question)).answer or ""

    async def decide(self, question: Question) -> Decision:
        """As `wait`; who answered and why comes with the answer."""
        at = self._world.clock.now()
        decision = await self._world.journal.ask(self.id, question, at=at)
        if decision.answer is not None:
            return decision
        asked = DecisionAsked(key=question.key, text=question.text, choices=question.choices)
        # A question that was withdrawn and is asked again is told again.
        await self._world.journal.tell(self.id, asked, at=at, key=f"asked:{question.key}@{decision.asked_at}")
        raise Suspended(question.key)

    async def tell(self, event: Event, *, key: str) -> None:
        """Put a fact on the record for whoever watches."""
        await self._world.journal.tell(self.id, event, at=self._world.clock.now(), key=key)

    async def keep(self, finding: Finding) -> None:
        """Put a finding on the record as it is known now."""
        await self._world.journal.save_finding(self.id, finding)

    async def changed_paths(self, change: Change) -> tuple[str, ...]:
        """What the change touches since the base it comes from: a property of two commits, so nothing to record."""
        base = await self._world.repository.merge_base(self.inputs.base, change)
        return await self._world.repository.changed_paths(base, change)

    async def _verb(
        self, verb: str, name: str, inputs: dict[str, Any], *, title: str, shows: Mapping[str, str] = NOTHING
    ) -> dict[str, Any]:
        self._position += 1
        asked = {"run": self.id, "verb": verb, "name": name, "title": title, "inputs": plain(inputs)}
        request = Request(**asked, shown=dict(shows), position=self._position)
        while True:
            if self.cancelled:
                raise Cancelled(self.id)
            if self._world.draining.is_set():
                # This process is about to end; the next one takes the run up right here.
                await asyncio.get_running_loop().create_future()
            attempt = await self._world.journal.attempt(self.id, request.key)
            copied = await self._copied(request) if attempt == 1 else None
            current = request.model_copy(update={"attempt": attempt, "copied": copied})
            result = await self._durable.verb(current.id, current.model_dump(mode="json"))
            self._world.boundary("after", current.id)
            if self.cancelled:
                raise Cancelled(self.id)
            if "ok" in result:
                done: dict[str, Any] = result["ok"]
                return done
            await self._again_or_raise(current, revive(result["error"]))

    async def _copied(self, request: Request) -> dict[str, Any] | None:
        """What a forked run inherits; effects always look again."""
        if not self._forked or request.verb not in ("ask", "edit", "check"):
            return None
        return await self._world.journal.copied_result(self.id, request.key)

    async def _again_or_raise(self, request: Request, error: ResolventError) -> None:
        """A lost job is tried again; a world that stays down, or refuses our token, is a person's question."""
        if isinstance(error, JobLost) and request.attempt < LOST_TRIES:
            pass
        elif (again := _for_a_person(error)) is not None:
            text = f"{request.title}: {error.message}" + (f" (next: {error.hint})" if error.hint else "")
            key = f"unavailable:{request.key}#{request.attempt}"
            if await self.wait(Question(key=key, text=text, choices=(again, "stop"))) == "stop":
                raise error
        else:
            raise error
        attempt = await self._world.journal.raise_attempt(self.id, request.key, beyond=request.attempt)
        told = StepRetried(step=request.id, attempt=attempt, reason=error.message)
        await self.tell(told, key=f"{request.id}:retried")


def _for_a_person(error: ResolventError) -> str | None:
    """What a person may answer so that the step is tried again; None when nothing they could do would help it."""
    if isinstance(error, BudgetSpent):
        return RETRY if error.details.get("scope") == DAY else GO_ON
    refused = isinstance(error, KeyRefused) or (isinstance(error, ForgeRefused) and error.details.get("auth"))
    return "retry" if refused or isinstance(error, Unavailable) else None


async def both(one: Awaitable[V], other: Awaitable[W]) -> tuple[V, W]:
    """Do both at once; when one fails or parks, the other still finishes first."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    for result in (first, second):
        if isinstance(result, BaseException):
            raise result
    return cast(tuple[V, W], (first, second))


async def together(work: Iterable[Awaitable[V]]) -> list[V]:
    """Do all of it at once; when one fails or parks, the others still finish first."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
