"""The observe verb: what is read from the forge while a run goes on is recorded, so a replay sees the same."""

from collections.abc import Awaitable, Callable
from typing import Any

from resolvent.domain.change import Change
from resolvent.domain.job import Usage
from resolvent.domain.record import Frozen
from resolvent.domain.subject import RequiredCheck
from resolvent.engine.requests import Request
from resolvent.engine.world import World
from resolvent.errors import NotFound

Seen = dict[str, Any]


async def observe(world: World, frozen: Frozen, request: Request) -> Seen:
    """Read one thing, by name."""
    return await SIGHTS[request.name](world, frozen, request.inputs["what"])


async def _head(world: World, frozen: Frozen, what: Seen) -> Seen:
    """The head to publish to: our own open pull request's while nobody else pushed to it, or the first free name."""
    trusted = await world.forge.trusted()
    name, nth = str(what["wanted"]), 1
    while True:
        head = name if nth == 1 else f"{name}-{nth}"
        # The branch itself is asked: what a pull request says of its head may be older than the last push.
        there = await world.forge.head_of(head)
        if there is None:
            return {"head": head, "expect": None, "number": None, "summary": head}
        if await world.journal.published(there):
            for pull in await world.forge.pull_requests(head=head, state="open"):
                if pull.author in trusted:
                    said = f"{head}, continued"
                    return {"head": head, "expect": there, "number": pull.number, "summary": said}
        nth += 1


async def _pushed(world: World, frozen: Frozen, what: Seen) -> Seen:
    """The commit our push may replace: the one we know, or one an agent pushed that holds the very same files."""
    known, there = str(what["known"]), await world.forge.head_of(str(what["head"]))
    if there is None or there == known:
        return {"expect": known, "summary": "as we left it"}
    await world.forge.fetch(world.repository.upstream, there)
    same = (await world.repository.change(there)).tree == what["tree"]
    said = f"{'the same files' if same else 'something else'} at {there[:10]}"
    return {"expect": there if same else known, "summary": said}


async def _reported_pull(world: World, frozen: Frozen, what: Seen) -> Seen:
    """Is the pull request an agent says it made really there, open, and on that head?"""
    try:
        pull = await world.forge.pull_request(str(what["number"]))
    except NotFound:
        return {"pull_request": None, "summary": f"#{what['number']} does not exist"}
    real = pull.state == "open" and pull.head == what["head"] and not pull.from_fork and pull.base == frozen.base_branch
    if not real:
        return {"pull_request": None, "summary": f"#{pull.number} is not an open pull request of {what['head']}"}
    await world.forge.fetch(world.repository.upstream, pull.head_commit)
    there = await world.repository.change(pull.head_commit)
    return {
        "pull_request": pull.model_dump(mode="json"),
        "tree": there.tree,
        "summary": f"{pull.url} is there",
    }


async def _strays(world: World, frozen: Frozen, what: Seen) -> Seen:
    """Open pull requests in our name for the same issue that this run did not publish: an agent may have made one."""
    login, began = await world.forge.login(), (await world.journal.run(str(what["run"]))).created_at
    fixed = (frozen.issue.reference, frozen.issue.url)
    strays = [
        pull
        for pull in await world.forge.pull_requests(state="open")
        if pull.author == login
        and pull.number != what["number"]
        and pull.closes in fixed
        # Forges tell whole seconds.
        and pull.created_at >= began - 1
    ]
    said = ", ".join(pull.url for pull in strays) or "none"
    return {"pull_requests": [pull.model_dump(mode="json") for pull in strays], "summary": said}


async def _required_checks(world: World, frozen: Frozen, what: Seen) -> Seen:
    """Wait for CI's word on one commit, as long as the policy says; not at all where that word does not count."""
    patience = frozen.policy.ci_wait if frozen.policy.ci_required else 0
    checks = await world.forge.await_checks(str(what["commit"]), timeout_s=patience)
    return {"checks": [check.model_dump(mode="json") for check in checks], "summary": _states(checks)}


async def _checks_on_base(world: World, frozen: Frozen, what: Seen) -> Seen:
    """What CI says of the base under the same names, without waiting."""
    checks = await world.forge.required_checks(str(what["commit"]))
    return {"checks": [check.model_dump(mode="json") for check in checks], "summary": _states(checks)}


async def _rerun(world: World, frozen: Frozen, what: Seen) -> Seen:
    """Have CI run a red check once more; what it says is waited for as the first time."""
    check = RequiredCheck.model_validate(what["check"])
    known = {seen.name: seen for seen in await world.forge.required_checks(check.commit)}
    if check.name in known and known[check.name].attempt == check.attempt:
        await world.forge.rerun(check)
        world.boundary("during", f"rerun {check.name}")
    return {"summary": f"{check.name}, once more"}


async def _base(world: World, frozen: Frozen, what: Seen) -> Seen:
    """The base branch as it is now, what of the change does not merge onto it, and where the pull request's head is."""
    head = await world.forge.head_of(str(what["head"])) if what.get("head") else None
    now = await world.forge.fetch(world.repository.upstream, frozen.base_branch)
    onto = await world.repository.change(now)
    conflicts = await world.repository.conflicts(Change.model_validate(what["change"]), onto)
    said = f"{onto}, {'clean' if not conflicts else f'{len(conflicts)} conflicts'}"
    return {"base": onto.model_dump(mode="json"), "conflicts": list(conflicts), "head": head or "", "summary": said}


async def _so_far(world: World, frozen: Frozen, what: Seen) -> Seen:
    """What people decided and agents spent up to now."""
    run = str(what["run"])
    spent = sum((job.usage for job in await world.journal.jobs(run)), Usage())
    made = [one.model_dump(mode="json") for one in await world.journal.decisions(run) if one.answer is not None]
    said = f"{len(made)} decisions, ${spent.usd:.2f}"
    return {"decisions": made, "usage": spent.model_dump(mode="json"), "summary": said}


SIGHTS: dict[str, Callable[[World, Frozen, Seen], Awaitable[Seen]]] = {
    "head": _head,
    "pushed": _pushed,
    "reported_pull": _reported_pull,
    "strays": _strays,
    "required_checks": _required_checks,
    "checks_on_base": _checks_on_base,
    "rerun": _rerun,
    "base": _base,
    "so_far": _so_far,
}


def _states(checks: tuple[RequiredCheck, ...]) -> str:
    return ", ".join(f"{check.name} {check.state}" for check in checks) or "no required checks"
