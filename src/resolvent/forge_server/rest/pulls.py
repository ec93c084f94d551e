"""Pull requests: listing, opening, reading, changing and merging them."""

from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from resolvent.errors import ForgeRefused, HeadMoved
from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.hub import Merging, Proposal
from resolvent.forge_server.rest.asking import Answer, Asking, gone, in_repo
from resolvent.forge_server.rest.fields import Fields, invalid
from resolvent.forge_server.rest.issues import TITLE, may_change, title_of
from resolvent.forge_server.rest.listing import in_state, ordered
from resolvent.forge_server.shapes.git import commit
from resolvent.forge_server.shapes.pulls import Measured, changed_file, full_pull, simple_pull, unmet
from resolvent.forge_server.updating import update_branch as updated

_PULL = "/pulls/{number:int}"


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/pulls", listed),
        in_repo("POST", "/pulls", create),
        in_repo("GET", _PULL, show),
        in_repo("PATCH", _PULL, change),
        in_repo("GET", f"{_PULL}/files", files),
        in_repo("GET", f"{_PULL}/commits", commits),
        in_repo("GET", f"{_PULL}/merge", is_merged),
        in_repo("PUT", f"{_PULL}/merge", merge),
        in_repo("PUT", f"{_PULL}/update-branch", update_branch),
        in_repo("GET", "/commits/{commit}/pulls", of_commit),
    ]


async def listed(asking: Asking) -> Response:
    pulls = [item for item in asking.sight.holdings.items.values() if item.kind == "pull"]
    pulls = in_state(pulls, asking.query("state", "open"))
    if head := asking.query("head"):
        owner, colon, branch = head.partition(":")
        # GitHub ignores a head that does not say whose it is.
        if colon:
            ours = owner.casefold() == asking.sight.holdings.owner.casefold()
            pulls = [item for item in pulls if ours and item.head == branch]
    if base := asking.query("base"):
        pulls = [item for item in pulls if item.base == base]
    return asking.listed(ordered(asking, pulls), lambda item: simple_pull(asking.sight, item))


async def of_commit(asking: Asking) -> Response:
    wanted = asking.place("commit")
    pulls = [item for item in asking.sight.holdings.items.values() if item.kind == "pull"]
    held = [item for item in pulls if wanted in (item.head_commit, item.merge_commit)]
    return asking.listed(held, lambda item: simple_pull(asking.sight, item))


async def measured(asking: Asking, item: Item) -> Measured:
    """What git says of a pull request now."""
    fork = await asking.hub.merge_base(item)
    return Measured(
        commits=len(await asking.hub.commits(item)),
        files=await asking.hub.files(fork, item.head_commit),
        mergeable=await asking.hub.mergeable(item) if item.state == "open" else None,
    )


async def _whole(asking: Asking, number: int, status: int = 200) -> Response:
    item = asking.sight.holdings.items[number]
    shape = full_pull(asking.sight, item, await measured(asking, item))
    return Answer(shape, status, headers={"location": shape["url"]} if status == 201 else {})


def head_branch(asking: Asking, head: str) -> str:
    """The branch of `branch` or `owner:branch`, which must be in this repository."""
    owner, colon, branch = head.rpartition(":")
    if colon and owner.casefold() != asking.sight.holdings.owner.casefold():
        raise invalid("PullRequest", "head")
    return branch.removeprefix("refs/heads/")


async def create(asking: Asking) -> Response:
    fields = await asking.fields("PullRequest")
    head, base = fields.filled("head"), fields.filled("base")
    title, body, draft = title_of(fields), fields.text("body") or "", fields.flag("draft") or False
    asking.needs("write", "Must be a collaborator")
    branch, onto = head_branch(asking, head), base.removeprefix("refs/heads/")
    await _proposable(asking, branch, onto)
    try:
        item = await asking.hub.open_pull(asking.by, Proposal(branch, onto, title, body, draft))
    except ForgeRefused as error:
        # Somebody was faster than we looked.
        if "number" in error.details:
            raise _exists(asking, branch) from error
        raise
    await asking.again()
    return await _whole(asking, item.number, 201)


async def _proposable(asking: Asking, head: str, base: str) -> None:
    """There is something to propose, and nobody has proposed it; in GitHub's own words where not."""
    onto, tip = asking.sight.branch_commit(base), asking.sight.branch_commit(head)
    for field, commit_ in (("base", onto), ("head", tip)):
        if commit_ is None:
            raise invalid("PullRequest", field)
    for item in asking.sight.holdings.items.values():
        if item.kind == "pull" and item.state == "open" and (item.head, item.base) == (head, base):
            raise _exists(asking, head)
    if not await asking.hub.between(onto or "", tip or ""):
        raise _custom(f"No commits between {base} and {head}")


def _exists(asking: Asking, head: str) -> Refusal:
    return _custom(f"A pull request already exists for {asking.sight.holdings.owner}:{head}.")


def _custom(message: str) -> Refusal:
    error = {"resource": "PullRequest", "code": "custom", "message": message}
    return Refusal(422, "Validation Failed", errors=[error])


async def show(asking: Asking) -> Response:
    item = asking.pull()
    accept = asking.request.headers.get("accept", "")
    if ".diff" in accept:
        fork = await asking.hub.merge_base(item)
        return _text(await asking.hub.patch(fork, item.head_commit), "diff")
    if ".patch" in accept:
        return _text(await asking.hub.mails(item), "patch")
    return await _whole(asking, item.number)


def _text(said: str, kind: str) -> Response:
    return PlainTextResponse(said, media_type=f"application/vnd.github.{kind}; charset=utf-8")


async def change(asking: Asking) -> Response:
    item = asking.pull()
    fields = await asking.fields("PullRequest")
    title = title_of(fields) if fields.text("title", longest=TITLE) is not None else None
    body = fields.text("body") or "" if "body" in fields else None
    state, base = fields.choice("state", ("open", "closed")), fields.text("base")
    may_change(asking, item)
    if base is not None and base != item.base:
        await _rebased(asking, item, base)
    if title is not None or body is not None:
        await asking.hub.edit_item(asking.by, item.number, title=title, body=body)
    if state is not None and (state == "open") != (item.state == "open"):
        await _set_state(asking, item, state)
    await asking.again()
    return await _whole(asking, item.number)


async def _rebased(asking: Asking, item: Item, base: str) -> None:
    if item.state != "open":
        raise _custom("Cannot change the base branch of a closed pull request.")
    if asking.sight.branch_commit(base) is None:
        raise invalid("PullRequest", "base", f"Proposed base branch '{base}' was not found")
    await asking.hub.set_base(asking.by, item.number, base)


async def _set_state(asking: Asking, item: Item, state: str) -> None:
    if state == "open" and item.state == "merged":
        raise _custom("state cannot be changed. The pull request has been merged.")
    if state == "open" and asking.sight.branch_commit(item.head) is None:
        raise _custom(f"state cannot be changed. The {item.head} branch has been deleted.")
    await asking.hub.set_state(asking.by, item.number, state)


async def files(asking: Asking) -> Response:
    item = asking.pull()
    changed = await asking.hub.files(await asking.hub.merge_base(item), item.head_commit)
    return asking.listed(changed, lambda one: changed_file(asking.sight, one, item.head_commit))


async def commits(asking: Asking) -> Response:
    made = await asking.hub.commits(asking.pull())
    return asking.listed(made, lambda one: commit(asking.sight, one))


async def is_merged(asking: Asking) -> Response:
    if asking.pull().state != "merged":
        raise not_found()
    return gone()


async def merge(asking: Asking) -> Response:
    item = asking.pull()
    fields = await asking.fields("PullRequest")
    how = _merging(fields)
    expect = fields.text("sha") or ""
    asking.needs("write", "You do not have permission to merge this pull request.")
    if item.state != "open":
        raise Refusal(405, "Pull Request is not mergeable")
    if expect and expect != item.head_commit:
        raise HeadMoved("the head is another")
    await _mergeable(asking, item)
    landed = await asking.hub.merge(asking.by, item.number, how, expect=item.head_commit)
    return Answer({"sha": landed.merge_commit, "merged": True, "message": "Pull Request successfully merged"})


def _merging(fields: Fields) -> Merging:
    title, message = fields.text("commit_title") or "", fields.text("commit_message")
    match fields.choice("merge_method", ("merge", "squash", "rebase")):
        case "squash":
            return Merging("squash", title, message)
        case "rebase":
            return Merging("rebase", title, message)
    return Merging("merge", title, message)


async def _mergeable(asking: Asking, item: Item) -> None:
    if item.draft:
        raise Refusal(405, "Pull Request is still a draft")
    if not await asking.hub.mergeable(item):
        raise Refusal(405, "Pull Request is not mergeable")
    if asking.by.permission != "admin" and (lacking := unmet(asking.sight, item)):
        raise Refusal(405, lacking)


async def update_branch(asking: Asking) -> Response:
    item = asking.pull()
    expect = (await asking.fields("PullRequest")).text("expected_head_sha") or ""
    asking.needs("write")
    if expect and expect != item.head_commit:
        raise Refusal(422, f"expected head sha didn’t match current head ref: {expect[:80]}")
    try:
        await updated(asking.hub, asking.by, item)
    except ForgeRefused as error:
        raise Refusal(422, error.message) from error
    url = f"{asking.sight.repo}/pulls/{item.number}"
    return Answer({"message": "Updating pull request branch.", "url": url}, 202)
