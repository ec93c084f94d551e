"""Effects: writes to the outside. Marked, journaled before and after, and looked for before they are made."""

from collections.abc import Awaitable, Callable
from typing import Any

from resolvent.domain.change import Change
from resolvent.domain.record import EffectRow, Frozen
from resolvent.domain.subject import Comment, Issue, PullRequest
from resolvent.engine.claiming import claim_published
from resolvent.engine.requests import Request
from resolvent.engine.world import World
from resolvent.errors import ForgeDown, ForgeRefused, HeadMoved

Written = dict[str, Any]


def marker(request: Request) -> str:
    """What tells our own write again, whoever lost the answer."""
    return f"<!-- resolvent:{request.run}:{request.key} -->"


async def comment(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Post one comment, unless it stands there already under this verb's marker or under its own."""
    target, body, own = (str(request.inputs[name]) for name in ("target", "body", "marker"))

    async def look() -> Written | None:
        trusted = await world.forge.trusted()
        for there in await world.forge.comments(target):
            if there.author in trusted and (marker(request) in there.body or (own and own in there.body)):
                return _commented(there)
        return None

    async def write() -> Written:
        return _commented(await world.forge.comment(target, f"{body}\n\n{marker(request)}"))

    return await _once(world, request, target, look=look, write=write)


async def stick(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Have one comment with this marker, and have it say exactly this: posted when there is none, else edited."""
    target, body, own = (str(request.inputs[name]) for name in ("target", "body", "marker"))
    text = body if body.startswith(own) else f"{own}\n{body}"

    sticking: list[Comment] = []

    async def look() -> Written | None:
        trusted = await world.forge.trusted()
        # On a line of its own: whoever only quotes it is not rewritten.
        there = [one for one in await world.forge.comments(target) if own in one.body.splitlines()]
        sticking[:] = [one for one in there if one.author in trusted][:1]
        said = [one for one in sticking if one.body.rpartition("\n\n<!-- resolvent:")[0] == text]
        return _commented(said[0]) if said else None

    async def write() -> Written:
        marked = f"{text}\n\n{marker(request)}"
        if not sticking:
            return _commented(await world.forge.comment(target, marked))
        return _commented(await world.forge.edit_comment(sticking[0], marked))

    return await _once(world, request, target, look=look, write=write)


async def file_issue(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Open an issue, unless an open one with this marker or this title exists."""
    title, body = str(request.inputs["title"]), str(request.inputs["body"])

    async def look() -> Written | None:
        trusted = await world.forge.trusted()
        for there in await world.forge.search_issues(f'"{marker(request)}"'):
            if there.author in trusted:
                return _filed(there, created=True)
        for there in await world.forge.search_issues(f'"{title}"'):
            if there.title.strip().casefold() == title.strip().casefold():
                return _filed(there, created=False)
        return None

    async def write() -> Written:
        labels = tuple(request.inputs.get("labels", ()))
        opened = await world.forge.open_issue(title=title, body=f"{body}\n\n{marker(request)}", labels=labels)
        return _filed(opened, created=True)

    return await _once(world, request, title, look=look, write=write)


async def publish(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Move the head to the commit and have exactly one pull request on it."""
    change = Change.model_validate(request.inputs["change"])
    head, expect = str(request.inputs["head"]), request.inputs["expect"]
    there: list[str | None] = []

    async def look() -> Written | None:
        there[:] = [await world.forge.head_of(head)]
        return await _proposed(world, request) if there == [change.commit] else None

    async def write() -> Written:
        if there != [change.commit]:
            await world.forge.push(change, source=world.repository.path, head=head, expect=expect)
        return await _proposed(world, request) or await _opened(world, frozen, request)

    written = await _once(world, request, head, look=look, write=write)
    await claim_published(world, request.run, f"pr-{written['pull_request']['number']}")
    return written if request.inputs["number"] else await _introduced(world, frozen, written)


async def _proposed(world: World, request: Request) -> Written | None:
    """The open pull request of the head that was just moved, when it is ours or the one that was given."""
    trusted = await world.forge.trusted()
    for pull in await world.forge.pull_requests(head=str(request.inputs["head"])):
        ours = pull.author in trusted or pull.number == request.inputs["number"]
        if pull.state == "open" and ours:
            # A forge may know of the branch before its pull request does.
            return _published(pull.model_copy(update={"head_commit": request.inputs["change"]["commit"]}))
    return None


async def _opened(world: World, frozen: Frozen, request: Request) -> Written:
    asked = {name: str(request.inputs[name]) for name in ("head", "title", "body")}
    asked["body"] += f"\n\n{marker(request)}"
    try:
        return _published(
            await world.forge.open_pull_request(**asked, base=frozen.base_branch, draft=frozen.policy.draft)
        )
    except ForgeRefused as error:
        # It is there already: a listing may lag behind the write whose answer got lost.
        found = await _proposed(world, request) if "number" in error.details else None
        if found is None:
            raise
        return found


async def _introduced(world: World, frozen: Frozen, written: Written) -> Written:
    """Labels and reviewers of a pull request of ours; both verbs do nothing twice, so a crash between them is none."""
    pull, policy = PullRequest.model_validate(written["pull_request"]), frozen.policy
    said = [written["summary"]]
    if policy.labels:
        await world.forge.label(pull.key, add=policy.labels)
    if policy.reviewers:
        try:
            await world.forge.ask_for_review(pull, policy.reviewers)
        except ForgeRefused as error:
            # Whom nobody can ask is no reason to leave the work unproven.
            said.append(f"nobody was asked for a review: {error.message}")
    return written | {"summary": "; ".join(said)}


async def merge(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Merge exactly the judged commit, and read back that it is there."""
    number, expect = str(request.inputs["number"]), Change.model_validate(request.inputs["expect"])

    async def look() -> Written | None:
        pull = await world.forge.pull_request(number)
        if pull.state != "merged":
            return None
        if pull.head_commit != expect.commit:
            raise HeadMoved(f"#{number} was merged at {pull.head_commit[:10]}, not at the judged {expect}")
        await _landed(world, frozen, pull, expect)
        return _published(pull)

    async def write() -> Written:
        pull = await world.forge.pull_request(number)
        merged = await world.forge.merge(pull, expect=expect, method=frozen.policy.merge_method)
        await _landed(world, frozen, merged, expect)
        return _published(merged)

    written = await _once(world, request, f"pr-{number}", look=look, write=write)
    return await _tidied(world, written, expect) if frozen.policy.delete_branch else written


async def _tidied(world: World, written: Written, expect: Change) -> Written:
    """The head of what was merged is removed, where nobody moved it and nothing forbids that: merged is merged."""
    try:
        await world.forge.delete_branch(written["pull_request"]["head"], expect=expect.commit)
    except (ForgeRefused, HeadMoved) as error:
        return written | {"summary": f"{written['summary']}; its head stays: {error.message}"}
    return written


async def _landed(world: World, frozen: Frozen, pull: PullRequest, expect: Change) -> None:
    """The forge says that it is merged; git has to say so too: on the base, with all of the change and no more."""
    tip = await world.repository.change(await world.forge.fetch(world.repository.upstream, pull.base))
    merged = await world.repository.change(await world.forge.fetch(world.repository.upstream, pull.merge_commit))
    there = await world.repository.merge_base(tip, merged) == merged
    before = (await world.repository.ancestors(merged, limit=1) or (merged,))[0]
    known = await world.repository.merge_base(before, expect) == expect
    # Where it was replayed commit by commit, or was on the base already, nothing of it may be missing in the last one.
    onto = merged if known or frozen.policy.merge_method == "rebase" else before
    if not there:
        raise ForgeDown(f"{pull.url} is merged as {pull.merge_commit[:10]}, and {pull.base} does not show it yet")
    if await world.repository.merged(expect, onto=onto) != merged.tree:
        raise ForgeRefused(
            f"{pull.url} is merged as {pull.merge_commit[:10]}, but {pull.base} does not hold {expect} as judged",
            hint=f"git log {pull.base}",
        )


async def declare(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """A pull request is made ready for review, an issue or pull request is closed; both may be so already."""
    target, state = str(request.inputs["target"]), str(request.inputs["state"])

    async def look() -> Written | None:
        return None

    async def write() -> Written:
        if state == "ready":
            pull = await world.forge.pull_request(target.removeprefix("pr-"))
            await world.forge.set_draft(pull, False)
        else:
            await world.forge.set_state(target, "closed")
        return {"summary": f"{target} {state}"}

    return await _once(world, request, target, look=look, write=write)


async def _once(
    world: World,
    request: Request,
    target: str,
    *,
    look: Callable[[], Awaitable[Written | None]],
    write: Callable[[], Awaitable[Written]],
) -> Written:
    """Intend, look, write only what is not there, and record."""
    row = EffectRow(id=request.id, run=request.run, kind=request.verb, target=target, marker=marker(request))
    async with world.slots.take("effects", request.run):
        await world.journal.save_effect(row)
        written = await look()
        if written is None:
            written = await write()
            world.boundary("during", request.id)
        await world.journal.save_effect(row.model_copy(update={"state": "done", "result": written}))
    return written


def _commented(there: Comment) -> Written:
    return {"comment": there.model_dump(mode="json"), "summary": there.url}


def _filed(there: Issue, *, created: bool) -> Written:
    said = "opened" if created else "already open"
    return {"issue": there.model_dump(mode="json"), "created": created, "summary": f"{there.url} {said}"}


def _published(pull: PullRequest) -> Written:
    return {"pull_request": pull.model_dump(mode="json"), "summary": f"{pull.url} at {pull.head_commit[:10]}"}
