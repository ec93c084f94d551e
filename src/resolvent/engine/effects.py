"""Effects: writes to the outside. Marked, journaled before and after, and looked for before they are made."""

from collections.abc import Awaitable, Callable
from typing import Any

from resolvent.domain.change import Change
from resolvent.domain.record import EffectRow, Frozen
from resolvent.domain.subject import Comment, Issue, PullRequest
from resolvent.engine.requests import Request
from resolvent.engine.world import World
from resolvent.errors import HeadMoved

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

    async def sticking() -> Comment | None:
        trusted = await world.forge.trusted()
        for there in await world.forge.comments(target):
            # On a line of its own: whoever only quotes it is not rewritten.
            if there.author in trusted and own in there.body.splitlines():
                return there
        return None

    async def look() -> Written | None:
        there = await sticking()
        return _commented(there) if there and there.body.rpartition("\n\n<!-- resolvent:")[0] == text else None

    async def write() -> Written:
        there, marked = await sticking(), f"{text}\n\n{marker(request)}"
        if there is None:
            return _commented(await world.forge.comment(target, marked))
        return _commented(await world.forge.edit_comment(there, marked))

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

    async def look() -> Written | None:
        if await world.forge.head_of(head) != change.commit:
            return None
        trusted = await world.forge.trusted()
        for pull in await world.forge.pull_requests(head=head):
            ours = pull.author in trusted or pull.number == request.inputs["number"]
            if pull.state == "open" and ours:
                return _published(pull)
        return None

    async def write() -> Written:
        await _push(world, change, head=head, expect=expect)
        continued = await look()
        if continued is not None:
            return continued
        body = f"{request.inputs['body']}\n\n{marker(request)}"
        opened = await world.forge.open_pull_request(
            head=head, base=frozen.base_branch, title=str(request.inputs["title"]), body=body
        )
        return _published(opened)

    return await _once(world, request, head, look=look, write=write)


async def merge(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Merge exactly the judged commit, and read back that it is there."""
    number, expect = str(request.inputs["number"]), Change.model_validate(request.inputs["expect"])

    async def look() -> Written | None:
        pull = await world.forge.pull_request(number)
        if pull.state != "merged":
            return None
        if pull.head_commit != expect.commit:
            raise HeadMoved(f"#{number} was merged at {pull.head_commit[:10]}, not at the judged {expect}")
        return _published(pull)

    async def write() -> Written:
        return _published(await world.forge.merge(await world.forge.pull_request(number), expect=expect))

    return await _once(world, request, f"pr-{number}", look=look, write=write)


async def _push(world: World, change: Change, *, head: str, expect: str | None) -> None:
    there = await world.forge.head_of(head)
    if there != change.commit:
        await world.forge.push(change, source=world.repository.path, head=head, expect=expect)


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
