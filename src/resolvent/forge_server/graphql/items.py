"""Issues, and what pull requests have in common with them."""

from typing import Any

from resolvent.domain.subject import CLOSING, HIDDEN
from resolvent.forge_server.graphql.accounts import account, author
from resolvent.forge_server.graphql.remarks import labels, reaction_groups, remark
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import Item, Remark
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.sight import ISSUE_IDS, instant, maybe_instant

REASONS = {"completed": "COMPLETED", "not_planned": "NOT_PLANNED", "reopened": "REOPENED", "duplicate": "DUPLICATE"}


def item_shape(scene: Scene, item: Item) -> Shape:
    """An issue or a pull request."""
    from resolvent.forge_server.graphql.pulls import pull

    return pull(scene, item) if item.kind == "pull" else issue(scene, item)


def issue(scene: Scene, item: Item) -> Shape:
    """An issue."""
    return common(scene, item) | {
        "__typename": "Issue",
        "id": node_id("Issue", item.number),
        "databaseId": ISSUE_IDS + item.number,
        "fullDatabaseId": str(ISSUE_IDS + item.number),
        "state": "OPEN" if item.state == "open" else "CLOSED",
        "stateReason": lambda **_: REASONS.get(item.reason),
        "isPinned": False,
        "closedByPullRequestsReferences": lambda **asked: fixers(scene, item, asked),
    }


def common(scene: Scene, item: Item) -> Shape:
    """What issues and pull requests both have."""
    from resolvent.forge_server.graphql.repository import repository

    page = scene.sight.item_page(item)
    mine = item.author == scene.by.login
    assignees = [account(scene, login) for login in item.assignees]
    return {
        "number": item.number,
        "title": item.title,
        "body": item.body,
        "bodyText": item.body,
        "author": author(scene, item.author),
        "authorAssociation": scene.sight.association(item.author),
        "closed": item.state != "open",
        "createdAt": instant(item.created_at),
        "updatedAt": instant(item.updated_at),
        "closedAt": maybe_instant(item.closed_at),
        "url": page,
        "resourcePath": page.removeprefix(scene.sight.base),
        "repository": lambda: repository(scene),
        "labels": lambda **asked: labels(scene, item.labels, asked.get("orderBy")),
        "assignees": assignees,
        "assignedActors": assignees,
        "comments": lambda **asked: comments(scene, item, asked.get("orderBy")),
        "reactionGroups": reaction_groups(scene, item.reactions),
        "locked": item.locked,
        "activeLockReason": None,
        "viewerDidAuthor": mine,
        "viewerCanUpdate": mine or scene.may("triage"),
    }


def comments(scene: Scene, item: Item, order: dict[str, str] | None = None) -> list[Shape]:
    """The comments of an issue or pull request, oldest first unless they are ordered otherwise."""
    remarks = sorted(item.remarks, key=lambda one: one.updated_at) if order else list(item.remarks)
    if order and order["direction"] == "DESC":
        remarks.reverse()
    return [comment(scene, item, one) for one in remarks]


def comment(scene: Scene, item: Item, one: Remark) -> Shape:
    """One comment, with what it is on; GitHub calls a pull request an issue here."""
    return remark(scene, item, one) | {
        "issue": lambda: issue(scene, item),
        "pullRequest": lambda: item_shape(scene, item) if item.kind == "pull" else None,
    }


def fixes(scene: Scene, item: Item) -> list[Item]:
    """The issues that a pull request closes when it is merged into the default branch."""
    if item.base != scene.holdings.default_branch:
        return []
    page = f"{scene.sight.page}/issues/"
    numbers = [_number(found["issue"], page) for found in CLOSING.finditer(HIDDEN.sub("", item.body))]
    found = (scene.item(number, "issue") for number in dict.fromkeys(numbers))
    return [one for one in found if one]


def _number(named: str, page: str) -> int:
    digits = named.removeprefix("#").removeprefix(page)
    # Nobody has so many, and no table takes a longer one.
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def fixers(scene: Scene, item: Item, asked: dict[str, Any]) -> list[Shape]:
    """The pull requests that say they close this issue."""
    pulls = (one for one in scene.holdings.items.values() if one.kind == "pull")
    closed = asked.get("includeClosedPrs") or False
    wanted = [one for one in pulls if one.state != "closed" or closed]
    return [item_shape(scene, one) for one in wanted if item.number in (fixed.number for fixed in fixes(scene, one))]
