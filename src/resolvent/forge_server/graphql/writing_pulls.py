"""Writes to pull requests and branches."""

from collections.abc import Awaitable, Callable
from typing import Any

from resolvent.forge_server.graphql.finding import item_of, key_of, node
from resolvent.forge_server.graphql.pulls import pull, review_of
from resolvent.forge_server.graphql.refusals import HEAD_MODIFIED, no_node
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.graphql.wording import bodied, check_absent, known_logins, logins, titled, unprocessable
from resolvent.forge_server.graphql.writing_items import again, edit
from resolvent.forge_server.holdings import Item, Opinion
from resolvent.forge_server.hub import Merging, Noted, Opining, Proposal
from resolvent.forge_server.shapes.pulls import unmet
from resolvent.forge_server.updating import update_branch as updated

Input = dict[str, Any]

_EVENTS: dict[str, Opinion] = {"APPROVE": "approve", "REQUEST_CHANGES": "request_changes", "COMMENT": "comment"}
_METHODS = {"MERGE": "merge", "SQUASH": "squash", "REBASE": "rebase"}
NO_AUTO_MERGE = "Auto merge is not allowed for this repository"


def _pull(scene: Scene, said: Input) -> Item:
    return item_of(scene, said["pullRequestId"], ("PullRequest",))


async def _now(scene: Scene, item: Item) -> Shape:
    return {"pullRequest": pull(scene, await again(scene, item))}


async def create_pull(scene: Scene, said: Input) -> Shape:
    await node(scene, said["repositoryId"])
    owner, colon, head = said["headRefName"].rpartition(":")
    if colon and owner.lower() != scene.holdings.owner.lower():
        head = ""
    title, body = titled(said["title"]), bodied(said.get("body"))
    base = said["baseRefName"].removeprefix("refs/heads/")
    await _check_proposable(scene, head.removeprefix("refs/heads/"), base)
    proposal = Proposal(head.removeprefix("refs/heads/"), base, title, body, bool(said.get("draft")))
    return await _now(scene, await scene.hub.open_pull(scene.by, proposal))


async def _check_proposable(scene: Scene, head: str, base: str) -> None:
    """There is something to propose and nobody has proposed it; in GitHub's own words where not."""
    tip, onto = scene.sight.branch_commit(head), scene.sight.branch_commit(base)
    missing = [("Head sha can't be blank", tip), ("Base sha can't be blank", onto), ("Base ref must be a branch", onto)]
    said = [words for words, commit in missing if commit is None]
    if tip is None or onto is None:
        none = f"No commits between {base} and {head}"
        raise unprocessable(", ".join([*said, none] + (["Head ref must be a branch"] if tip is None else [])))
    for one in scene.holdings.items.values():
        if one.kind == "pull" and one.state == "open" and (one.head, one.base) == (head, base):
            raise unprocessable(f"A pull request already exists for {scene.holdings.owner}:{head}.")
    if not await scene.hub.between(onto, tip):
        raise unprocessable(f"No commits between {base} and {head}")


async def update_pull(scene: Scene, said: Input) -> Shape:
    item = _pull(scene, said)
    base = said.get("baseRefName")
    if base and base != item.base:
        if scene.sight.branch_commit(base) is None:
            raise unprocessable(f"Proposed base branch '{base}' was not found")
        await scene.hub.set_base(scene.by, item.number, base)
    await edit(scene, item, said)
    if said.get("state"):
        await _set_state(scene, item, said["state"].lower())
    return await _now(scene, item)


async def _set_state(scene: Scene, item: Item, state: str) -> None:
    if item.state == "merged":
        raise unprocessable("Could not change the state: the pull request is already merged.")
    if state == "open" and scene.sight.branch_commit(item.head) is None:
        raise unprocessable("Could not open the pull request.")
    await scene.hub.set_state(scene.by, item.number, state)


async def close_pull(scene: Scene, said: Input) -> Shape:
    item = _pull(scene, said)
    await _set_state(scene, item, "closed")
    return await _now(scene, item)


async def reopen_pull(scene: Scene, said: Input) -> Shape:
    item = _pull(scene, said)
    await _set_state(scene, item, "open")
    return await _now(scene, item)


async def merge_pull(scene: Scene, said: Input) -> Shape:
    item = _pull(scene, said)
    expect = said.get("expectedHeadOid") or ""
    if expect and expect != item.head_commit:
        raise unprocessable(HEAD_MODIFIED)
    if item.state == "merged":
        raise unprocessable("Pull Request is already merged")
    if scene.may("write") and item.state == "open" and not item.draft and await scene.hub.mergeable(item):
        lacking = unmet(scene.sight, item)
        if lacking and not scene.may("admin"):
            raise unprocessable(lacking)
    method: Any = _METHODS[said.get("mergeMethod") or "MERGE"]
    how = Merging(method, title=said.get("commitHeadline") or "", message=said.get("commitBody"))
    return await _now(scene, await scene.hub.merge(scene.by, item.number, how, expect=item.head_commit))


async def mark_ready(scene: Scene, said: Input) -> Shape:
    return await _now(scene, await scene.hub.set_draft(scene.by, _pull(scene, said).number, False))


async def convert_to_draft(scene: Scene, said: Input) -> Shape:
    return await _now(scene, await scene.hub.set_draft(scene.by, _pull(scene, said).number, True))


async def add_review(scene: Scene, said: Input) -> Shape:
    """A review; one without an event would wait for more on GitHub, and is said at once here."""
    item = _pull(scene, said)
    event, body = said.get("event") or "COMMENT", bodied(said.get("body"))
    if event not in _EVENTS:
        raise unprocessable("Can not dismiss a review that was not made")
    lines = [(one["path"], one["line"], one["body"]) for one in said.get("threads") or ()]
    lines += [(one["path"], one["position"], one["body"]) for one in said.get("comments") or () if one]
    if any(line < 1 for _, line, _ in lines):
        raise unprocessable("Line must be part of the diff")
    if event != "APPROVE" and not lines and not body.strip():
        raise unprocessable("Body can't be blank")
    remarks = [Noted(path, line, bodied(text, blank=False)) for path, line, text in lines]
    review = Opining(_EVENTS[event], body, said.get("commitOID") or "", remarks)
    made = await scene.hub.opine(scene.by, item.number, review)
    return {"pullRequestReview": review_of(scene, await again(scene, item), made.id)}


async def request_reviews(scene: Scene, said: Input) -> Shape:
    check_absent(said)
    return await _ask(scene, said, logins(scene, [*(said.get("userIds") or ()), *(said.get("botIds") or ())]))


async def request_reviews_by_login(scene: Scene, said: Input) -> Shape:
    if slugs := said.get("teamSlugs"):
        raise unprocessable(f"Could not resolve to a Team with the slug of '{slugs[0]}'.")
    return await _ask(
        scene, said, known_logins(scene, [*(said.get("userLogins") or ()), *(said.get("botLogins") or ())])
    )


async def _ask(scene: Scene, said: Input, people: list[str]) -> Shape:
    """Ask these, and without `union` nobody else any more."""
    item = _pull(scene, said)
    if item.author in people:
        raise unprocessable("Review cannot be requested from pull request author.")
    if people:
        await scene.hub.ask_for_review(scene.by, item.number, people)
    gone = [] if said.get("union") else [login for login in item.reviewers if login not in people]
    if gone:
        await scene.hub.unask(scene.by, item.number, gone)
    return await _now(scene, item)


async def enable_auto_merge(scene: Scene, said: Input) -> Shape:
    _pull(scene, said)
    raise unprocessable(NO_AUTO_MERGE)


async def disable_auto_merge(scene: Scene, said: Input) -> Shape:
    _pull(scene, said)
    raise unprocessable("Can't disable auto-merge for this pull request.")


async def update_branch(scene: Scene, said: Input) -> Shape:
    item = _pull(scene, said)
    expect = said.get("expectedHeadOid") or ""
    if expect and expect != item.head_commit:
        raise unprocessable(f"Expected head sha didn’t match current head ref: {expect[:64]}")
    how: Any = _METHODS[said.get("updateMethod") or "MERGE"]
    await updated(scene.hub, scene.by, item, how=how)
    return await _now(scene, item)


async def delete_ref(scene: Scene, said: Input) -> Shape:
    name = key_of(said["refId"], "Ref")
    if name not in scene.holdings.refs:
        raise no_node(said["refId"])
    await scene.hub.delete_ref(scene.by, name)
    await scene.renew()
    return {}


WRITES: dict[str, Callable[[Scene, Input], Awaitable[Shape]]] = {
    "createPullRequest": create_pull,
    "updatePullRequest": update_pull,
    "closePullRequest": close_pull,
    "reopenPullRequest": reopen_pull,
    "mergePullRequest": merge_pull,
    "markPullRequestReadyForReview": mark_ready,
    "convertPullRequestToDraft": convert_to_draft,
    "addPullRequestReview": add_review,
    "requestReviews": request_reviews,
    "requestReviewsByLogin": request_reviews_by_login,
    "enablePullRequestAutoMerge": enable_auto_merge,
    "disablePullRequestAutoMerge": disable_auto_merge,
    "updatePullRequestBranch": update_branch,
    "deleteRef": delete_ref,
}
