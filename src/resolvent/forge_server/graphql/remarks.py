"""What people add to issues and pull requests: labels, reactions, comments, reviews."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from resolvent.forge_server.graphql.accounts import account, author
from resolvent.forge_server.graphql.commits import commit
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import Item, Label, LineRemark, Opined, Reacted, Remark
from resolvent.forge_server.node_ids import Kind, node_id
from resolvent.forge_server.shapes.pulls import STATES
from resolvent.forge_server.shapes.sight import instant

# GraphQL's word for each reaction, in the order in which GitHub lists them.
REACTIONS = {
    "THUMBS_UP": "+1",
    "THUMBS_DOWN": "-1",
    "LAUGH": "laugh",
    "HOORAY": "hooray",
    "CONFUSED": "confused",
    "HEART": "heart",
    "ROCKET": "rocket",
    "EYES": "eyes",
}


def label(scene: Scene, one: Label) -> Shape:
    """A label of the repository."""
    then = instant(scene.holdings.created_at)
    return {
        "__typename": "Label",
        "id": node_id("Label", one.id),
        "name": one.name,
        "color": one.color,
        "description": one.description or None,
        "isDefault": False,
        "url": f"{scene.sight.page}/labels/{quote(one.name)}",
        "createdAt": then,
        "updatedAt": then,
    }


def labels(scene: Scene, names: Sequence[str], order: dict[str, str] | None = None) -> list[Shape]:
    """Labels by their names, in that order or by `orderBy`."""
    known = [scene.holdings.labels.get(name) or Label(id=0, name=name) for name in names]
    if order:
        by_name = order["field"] == "NAME"
        known.sort(key=lambda one: (one.name.lower() if by_name else "", one.id), reverse=order["direction"] == "DESC")
    return [label(scene, one) for one in known]


def reaction(scene: Scene, one: Reacted) -> Shape:
    """One reaction of one account."""
    return {
        "__typename": "Reaction",
        "id": node_id("Reaction", one.id),
        "databaseId": one.id,
        "content": next(content for content, word in REACTIONS.items() if word == one.content),
        "user": account(scene, one.login),
        "createdAt": instant(one.created_at),
    }


def reaction_groups(scene: Scene, reactions: Sequence[Reacted]) -> list[Shape]:
    """A group for every kind of reaction, empty ones too."""
    return [
        _group(scene, content, [one for one in reactions if one.content == REACTIONS[content]]) for content in REACTIONS
    ]


def _group(scene: Scene, content: str, reacted: Sequence[Reacted]) -> Shape:
    people = [account(scene, one.login) for one in reacted]
    mine = any(one.login == scene.by.login for one in reacted)
    return {"content": content, "users": people, "viewerHasReacted": mine}


def remark(scene: Scene, item: Item, said: Remark) -> Shape:
    """A comment on an issue or pull request."""
    return _written(scene, "IssueComment", said, url=f"{scene.sight.item_page(item)}#issuecomment-{said.id}") | {
        "reactionGroups": reaction_groups(scene, said.reactions),
    }


def review(scene: Scene, item: Item, said: Opined, pull: Callable[[], Shape]) -> Shape:
    """A review of a pull request at one commit; `pull` makes the shape of that."""
    return _written(
        scene, "PullRequestReview", said, url=f"{scene.sight.item_page(item)}#pullrequestreview-{said.id}"
    ) | {
        "state": STATES[said.opinion],
        "submittedAt": instant(said.created_at),
        "commit": lambda: commit(scene, said.commit),
        "authorCanPushToRepository": scene.may("write", said.author),
        "reactionGroups": reaction_groups(scene, ()),
        "comments": [_line_remark(scene, item, one) | {"pullRequest": pull} for one in said.remarks],
        "pullRequest": pull,
    }


def _line_remark(scene: Scene, item: Item, said: LineRemark) -> Shape:
    url = f"{scene.sight.item_page(item)}#discussion_r{said.id}"
    return _written(scene, "PullRequestReviewComment", said, url=url) | {
        "path": said.path,
        "line": said.line or None,
        "originalLine": said.line or None,
        "reactionGroups": reaction_groups(scene, ()),
    }


def _written(scene: Scene, kind: Kind, said: Any, *, url: str) -> Shape:
    """What everything has that somebody wrote."""
    mine = said.author == scene.by.login
    edited = getattr(said, "updated_at", said.created_at)
    return {
        "__typename": kind,
        "id": node_id(kind, said.id),
        "databaseId": said.id,
        "fullDatabaseId": str(said.id),
        "author": author(scene, said.author),
        "authorAssociation": scene.sight.association(said.author),
        "body": said.body,
        "bodyText": said.body,
        "createdAt": instant(said.created_at),
        "updatedAt": instant(edited),
        "includesCreatedEdit": edited > said.created_at,
        "isMinimized": False,
        "minimizedReason": None,
        "url": url,
        "resourcePath": url.removeprefix(scene.sight.base),
        "viewerDidAuthor": mine,
        "viewerCanUpdate": mine or scene.may("write"),
        "viewerCanDelete": mine or scene.may("write"),
    }
