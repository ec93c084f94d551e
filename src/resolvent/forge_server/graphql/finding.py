"""What a node id names, as it is now."""

from typing import Any

from resolvent.forge_server.graphql.accounts import account
from resolvent.forge_server.graphql.checks import check_run
from resolvent.forge_server.graphql.commits import commit, ref
from resolvent.forge_server.graphql.items import comment, item_shape
from resolvent.forge_server.graphql.pulls import review_of
from resolvent.forge_server.graphql.refusals import no_node
from resolvent.forge_server.graphql.remarks import label
from resolvent.forge_server.graphql.repository import repository
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import Item, Label, Remark
from resolvent.forge_server.node_ids import Kind, node_named

_ITEMS = ("Issue", "PullRequest")
_ACCOUNTS = ("User", "Bot", "Organization")


async def node(scene: Scene, id: str) -> Shape:
    """The thing of that id; refused as GitHub does when there is none."""
    named = node_named(id)
    found = await _found(scene, *named) if named else None
    # The id of somebody who has become a bot since is not theirs any more.
    if found is None or found["id"] != id:
        raise no_node(id)
    return found


async def _found(scene: Scene, kind: Kind, key: str) -> Shape | None:
    held = scene.holdings
    if kind in _ACCOUNTS:
        return account(scene, key) if key in held.accounts else None
    if kind == "Repository":
        return repository(scene)
    if kind == "Commit":
        return await commit(scene, key)
    if kind == "Ref":
        return ref(scene, key)
    return _numbered(scene, kind, _number(key))


def _numbered(scene: Scene, kind: Kind, number: int) -> Shape | None:
    held = scene.holdings
    found: Shape | None = None
    if kind in _ITEMS and (item := held.items.get(number)):
        found = item_shape(scene, item)
    elif kind == "IssueComment" and (written := remark_of(scene, number)):
        found = comment(scene, *written)
    elif kind == "Label" and (known := label_of(scene, number)):
        found = label(scene, known)
    elif kind == "PullRequestReview":
        reviewed = [item for item in held.items.values() if number in (one.id for one in item.reviews)]
        found = review_of(scene, reviewed[0], number) if reviewed else None
    elif kind == "CheckRun":
        runs: dict[int, Any] = {one.id: one for checks in held.checks.values() for one in checks}
        found = check_run(scene, runs[number]) if number in runs else None
    return found


def remark_of(scene: Scene, id: int) -> tuple[Item, Remark] | None:
    """The comment with that id, and what it is on."""
    remarks = ((item, one) for item in scene.holdings.items.values() for one in item.remarks)
    return next((found for found in remarks if found[1].id == id), None)


def label_of(scene: Scene, id: int) -> Label | None:
    """The label with that id."""
    return next((one for one in scene.holdings.labels.values() if one.id == id), None)


def item_of(scene: Scene, id: str, kinds: tuple[str, ...] = _ITEMS) -> Item:
    """The issue or pull request of that node id; refused as GitHub does when it is something else."""
    named = node_named(id)
    item = scene.item(_number(named[1])) if named and named[0] in kinds else None
    if item is None or (item.kind == "pull") != (named is not None and named[0] == "PullRequest"):
        raise no_node(id)
    return item


def key_of(id: str, kind: Kind) -> str:
    """The key in a node id of that kind; refused as GitHub does when it is of another."""
    named = node_named(id)
    if named is None or named[0] != kind:
        raise no_node(id)
    return named[1]


def number_of(id: str, kind: Kind) -> int:
    """The number in a node id of that kind."""
    return _number(key_of(id, kind))


def _number(key: str) -> int:
    # SQL's numbers end somewhere, ours are all shorter.
    return int(key) if key.isascii() and key.isdecimal() and len(key) < 16 else 0
