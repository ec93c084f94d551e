"""Runs that are to be: asked for, tried again, or forked from another; each on inputs that are frozen first."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from resolvent.domain.arrival import digest
from resolvent.domain.entry import Entry
from resolvent.domain.kinship import Player, akin
from resolvent.domain.record import EffectRow, Frozen, RunRow, StepRow, stand_ins
from resolvent.domain.subject import Issue, PullRequest, Synced
from resolvent.errors import ConfigError, NotFound, UsageError
from resolvent.settings import ROLES, Role, agent_choice, agent_fallbacks
from resolvent.wiring import Home

COPIED_VERBS = ("ask", "edit", "check")


@dataclass(frozen=True)
class Submission:
    """What a person asks for."""

    entry: Entry
    playbook: str = "resolve"
    base: str = ""
    design_comment: str = ""
    # A design is drafted and reviewed before anything is analysed.
    design_first: bool = False
    unsafe: bool = False
    run: str = ""
    # The digest of what the issue said when this was asked for; empty when nobody knows.
    said: str = ""


class Submissions:
    """What one repository's runs begin with."""

    def __init__(self, home: Home) -> None:
        self.home = home

    async def submit(self, asked: Submission) -> tuple[RunRow, tuple[str, ...]]:
        """Freeze the inputs, claim the subject and queue the run; also returns warnings for the person."""
        _designable(asked)
        # Nothing is queued that could not be confined: never silently weaker.
        await self.home.require_walls(unsafe=asked.unsafe)
        forge, journal = await self.home.forge(), await self.home.journal()
        synced = await forge.sync(self.home.repository)
        inputs = await self._freeze(asked, synced)
        _as_asked(asked, inputs)
        kinship = self._kinship(inputs)
        now = self.home.clock.now()
        row = RunRow(
            id=asked.run or f"r{secrets.token_hex(4)}",
            playbook=asked.playbook,
            subject=inputs.pull_request.key if inputs.pull_request else inputs.issue.key,
            title=inputs.issue.title,
            created_at=now,
            updated_at=now,
            inputs=inputs,
        )
        async with self._claimed(row.id, _subjects(inputs)):
            await journal.add_run(row, subjects=_subjects(inputs))
        dirty = ("the checkout has uncommitted changes; runs see the last commit only",) if synced.dirty else ()
        return row, (*dirty, *kinship)

    async def retry(self, row: RunRow, *, refresh: bool) -> RunRow:
        """Try an ended run's failed steps once more; with refresh, on newly read inputs."""
        journal = await self.home.journal()
        if row.state != "ended" or row.outcome not in ("escalated", "failed", "cancelled"):
            raise UsageError(
                f"{row.id} is {row.outcome or row.state}: nothing to try again", hint=f"resolvent show {row.id}"
            )
        inputs = row.inputs
        if refresh:
            synced = await (await self.home.forge()).sync(self.home.repository)
            inputs = await self._freeze(_submission_of(row), synced)
            self._kinship(inputs)
        published = _published(await journal.effects(row.id))
        async with self._claimed(row.id, (*_subjects(inputs), *published)):
            for step in _to_try_again(row, await journal.steps(row.id)):
                await journal.raise_attempt(row.id, step.key, beyond=step.attempt)
            await journal.withdraw(row.id, "stop")
            if refresh:
                await journal.refreeze(row.id, inputs)
            await journal.reopen(row.id, subjects=_subjects(inputs))
        return await journal.run(row.id)

    async def fork(self, row: RunRow, *, from_step: str) -> RunRow:
        """A new run of an ended one that keeps its answers, edits and checks up to a step."""
        journal = await self.home.journal()
        if row.state != "ended":
            raise UsageError(f"{row.id} is {row.state}: only an ended run is forked", hint=f"resolvent watch {row.id}")
        steps = await journal.steps(row.id)
        at = next((n for n, step in enumerate(steps) if from_step in (step.name, f"{step.verb}:{step.name}")), None)
        if at is None:
            names = ", ".join(dict.fromkeys(f"{step.verb}:{step.name}" for step in steps))
            raise NotFound(f"{row.id} has no step {from_step}", hint=f"one of: {names}")
        kept = [step for step in steps[:at] if step.verb in COPIED_VERBS and step.state == "done" and step.result]
        now = self.home.clock.now()
        new = RunRow(
            id=f"r{secrets.token_hex(4)}",
            playbook=row.playbook,
            subject=row.subject,
            title=row.title,
            forked_from=row.id,
            created_at=now,
            updated_at=now,
            inputs=row.inputs,
        )
        async with self._claimed(new.id, _subjects(row.inputs)):
            # Before a worker can see it: it would ask and pay again for what it was to inherit.
            await journal.copy_results(new.id, {step.key: step.result["ok"] for step in kept if step.result})
            await journal.add_run(new, subjects=_subjects(row.inputs))
        return new

    @asynccontextmanager
    async def _claimed(self, run: str, subjects: Sequence[str]) -> AsyncIterator[None]:
        """Claimed on the forge too, where other hosts may be; SubjectTaken names who was there first."""
        if self.home.settings.forge.kind == "local":
            yield
            return
        from resolvent.engine.claiming import Claims

        claims = Claims(await self.home.journal(), await self.home.forge(), self.home.clock, self.home.host)
        async with claims.holding(run, subjects):
            yield

    async def _freeze(self, asked: Submission, synced: Synced) -> Frozen:
        from resolvent.engine.prompts import collect

        forge, repository = await self.home.forge(), await self.home.git_repository()
        settings = self.home.settings
        issue, pull = await self._subject(asked.entry)
        branch = pull.base if pull else asked.base or synced.branch
        base = await repository.change(await forge.fetch(repository.upstream, branch))
        agents = {role: agent_choice(settings, role) for role in ROLES}
        fallbacks = agent_fallbacks(settings, agents.values())
        for choice in (*agents.values(), *fallbacks.values()):
            self.home.agent(choice).ready()
        pull_change = None
        if pull:
            head = await repository.change(await forge.fetch(repository.upstream, pull.head_commit))
            pull_change, base = head, await repository.merge_base(base, head)
        comment = (await forge.comment_at(asked.design_comment)).body if asked.design_comment else ""
        return Frozen(
            issue=issue,
            pull_request=pull,
            pull_change=pull_change,
            base=base,
            base_branch=branch,
            policy=settings.policy,
            checks=settings.checks.commands,
            check_limits=Frozen.model_fields["check_limits"].default.model_copy(
                update={"wall_s": settings.checks.timeout}
            ),
            agents=agents,
            fallbacks=fallbacks,
            budget_usd=settings.limits.cost_usd,
            prompts=collect(self.home.configured or self.home.repository),
            design_comment=comment,
            design_comment_url=asked.design_comment,
            design_first=asked.design_first,
            unsafe=asked.unsafe,
        )

    def _kinship(self, inputs: Frozen) -> tuple[str, ...]:
        """What to say of a reviewer of the author's family; ConfigError where policy refuses one.

        Whoever may take the place of either counts as well.
        """
        if inputs.policy.same_family == "allow":
            return ()
        writers, readers = self._players(inputs, "writer"), self._players(inputs, "reader")
        said = akin(writers, readers)
        if said and inputs.policy.same_family == "refuse":
            raise ConfigError(
                said[0], hint='set agents.reader or a fallback to another, or policy.same_family = "warn"'
            )
        return tuple(f"{one}: it may overlook the same things" for one in said)

    def _players(self, inputs: Frozen, role: Role) -> tuple[Player, ...]:
        agents = [self.home.agent(one) for one in stand_ins(inputs.agents[role], inputs.fallbacks)]
        return tuple(
            Player(name=one.name, family=one.family, instead_of=agents[0].name if at else "")
            for at, one in enumerate(agents)
        )

    async def _subject(self, entry: Entry) -> tuple[Issue, PullRequest | None]:
        forge = await self.home.forge()
        if entry.kind == "file":
            from resolvent.adapters.forges.markdown import issue_from_markdown

            return issue_from_markdown(Path(entry.reference)), None
        if entry.kind == "issue":
            issue = await forge.issue(entry.reference)
            if issue.state != "open":
                raise UsageError(f"{issue.url} is closed", hint="reopen it, or name another")
            return issue, None
        pull = await forge.pull_request(entry.reference)
        if pull.state != "open":
            raise UsageError(f"{pull.url} is {pull.state}", hint="resolvent pr ls")
        if pull.from_fork:
            raise UsageError(
                f"{pull.url} comes from a fork we cannot push to", hint="push its branch to this repository"
            )
        return await self._issue_of(pull), pull

    async def _issue_of(self, pull: PullRequest) -> Issue:
        """The issue a pull request says it fixes; without one it is its own issue."""
        if pull.closes:
            try:
                return await (await self.home.forge()).issue(pull.closes)
            except NotFound:
                pass
        return Issue(
            number=pull.number, title=pull.title, body=pull.body, url=pull.url, author=pull.author, slug=pull.key
        )


def _designable(asked: Submission) -> None:
    """A design is made for an issue, and made once."""
    wanted = asked.design_first or asked.playbook == "design"
    if wanted and asked.entry.kind == "pull":
        raise UsageError("a design is made for an issue, not for a pull request", hint="resolvent design 42")
    if wanted and asked.design_comment:
        raise UsageError("a design is made, or given by its comment, not both", hint="resolvent resolve 42 --design")


def _as_asked(asked: Submission, inputs: Frozen) -> None:
    """Whoever asked meant the text there was; who may not ask could have changed it since."""
    issue = inputs.issue
    if asked.said and asked.said != digest(issue.title, issue.body):
        raise UsageError(f"{issue.reference} changed since it was asked for", hint=f"read {issue.url}, and ask again")


def _published(effects: Sequence[EffectRow]) -> tuple[str, ...]:
    """The pull requests a run published: it works on them when it is tried again."""
    numbers = [one.result["pull_request"]["number"] for one in effects if one.kind == "publish" and one.result]
    return tuple(f"pr-{number}" for number in numbers)


def _subjects(inputs: Frozen) -> tuple[str, ...]:
    """What a run claims from its start: its issue, and the pull request it was given."""
    given = (inputs.issue, inputs.pull_request)
    return tuple(dict.fromkeys(subject.key for subject in given if subject))


def _to_try_again(row: RunRow, steps: tuple[StepRow, ...]) -> list[StepRow]:
    """What failed, and what was read from the forge since the last push; else the last thing an agent was asked."""
    failed = [step for step in steps if step.state == "failed"]
    published = [number for number, step in enumerate(steps) if step.verb == "publish" and step.state == "done"]
    seen = [step for step in steps[published[-1] if published else 0 :] if step.verb == "observe"]
    if failed or row.outcome == "cancelled":
        return [*failed, *(step for step in seen if step not in failed)]
    return [step for step in steps if step.verb in ("ask", "edit")][-1:]


def _submission_of(row: RunRow) -> Submission:
    pull, issue = row.inputs.pull_request, row.inputs.issue
    if not pull and issue.number is None:
        raise UsageError("a run that came from a file cannot be refreshed", hint="resolvent resolve --file …")
    entry = Entry(kind="pull" if pull else "issue", reference=str(pull.number if pull else issue.number))
    return Submission(
        entry=entry,
        playbook=row.playbook,
        base=row.inputs.base_branch,
        design_comment=row.inputs.design_comment_url,
        design_first=row.inputs.design_first,
        unsafe=row.inputs.unsafe,
    )
