"""Commits, refs and the files between them."""

from resolvent.forge_server.graphql.accounts import account
from resolvent.forge_server.graphql.checks import rollup
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import ChangedFile, Commit
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.sight import instant

HEADS = "refs/heads/"
_CHANGES = {"added": "ADDED", "removed": "DELETED", "renamed": "RENAMED", "modified": "MODIFIED"}


async def commit(scene: Scene, oid: str) -> Shape | None:
    """A commit by its hash; None when the repository has no such commit."""
    found = await scene.hub.commit(oid)
    return commit_shape(scene, found) if found else None


def commit_shape(scene: Scene, found: Commit) -> Shape:
    """A commit as git tells it."""
    headline, _, rest = found.message.strip("\n").partition("\n")
    path = f"{scene.path}/commit/{found.id}"
    when = instant(found.at)
    written = _git_actor(scene, found)
    return {
        "__typename": "Commit",
        "id": node_id("Commit", found.id),
        "oid": found.id,
        "abbreviatedOid": found.id[:7],
        "message": found.message.rstrip("\n"),
        "messageHeadline": headline,
        "messageBody": rest.strip("\n"),
        "committedDate": when,
        "authoredDate": when,
        "author": written,
        "committer": written,
        "authors": lambda: [written],
        "parents": lambda: _parents(scene, found),
        "tree": tree(found.tree),
        "url": scene.sight.base + path,
        "resourcePath": path,
        "statusCheckRollup": lambda: rollup(scene, found.id),
    }


def tree(oid: str) -> Shape:
    """A tree by its hash."""
    return {"__typename": "Tree", "id": node_id("Tree", oid), "oid": oid, "abbreviatedOid": oid[:7]}


async def _parents(scene: Scene, found: Commit) -> list[Shape | None]:
    return [await commit(scene, one) for one in found.parents]


def _git_actor(scene: Scene, found: Commit) -> Shape:
    known = next((one for one in scene.holdings.accounts if found.author == one), None)
    return {
        "name": found.author,
        "email": found.email,
        "date": instant(found.at),
        "user": account(scene, known) if known else None,
        "avatarUrl": lambda size=None: f"{scene.sight.base}/avatars/u/0",
    }


def ref(scene: Scene, name: str) -> Shape | None:
    """A branch by its whole name, `refs/heads/…`; None when there is none."""
    oid = scene.holdings.refs.get(name)
    if oid is None:
        return None
    prefix, _, short = name.partition("/")[2].partition("/")
    return {
        "__typename": "Ref",
        "id": node_id("Ref", name),
        "name": short,
        "prefix": f"refs/{prefix}/",
        "target": lambda: commit(scene, oid),
        "branchProtectionRule": lambda: _protection(scene, name),
        "repository": lambda: _repository(scene),
        "compare": lambda **asked: _comparison(scene, oid, asked["headRef"]),
    }


def _repository(scene: Scene) -> Shape:
    from resolvent.forge_server.graphql.repository import repository

    return repository(scene)


async def _comparison(scene: Scene, base: str, head: str) -> Shape | None:
    """How far a branch or commit is ahead of this one, and behind it."""
    other = scene.holdings.refs.get(HEADS + head.removeprefix(HEADS), head)
    if await scene.hub.commit(other) is None:
        return None
    ahead, behind = len(await scene.hub.between(base, other)), len(await scene.hub.between(other, base))
    status = "DIVERGED" if ahead and behind else "AHEAD" if ahead else "BEHIND" if behind else "IDENTICAL"
    return {"aheadBy": ahead, "behindBy": behind, "status": status}


def _protection(scene: Scene, name: str) -> Shape | None:
    if name != HEADS + scene.holdings.default_branch or not scene.holdings.required:
        return None
    return {
        "requiresStrictStatusChecks": False,
        "requiresStatusChecks": True,
        "requiredStatusCheckContexts": list(scene.holdings.required),
        "requiredApprovingReviewCount": None,
        "requiresApprovingReviews": False,
    }


def changed_file(one: ChangedFile) -> Shape:
    """A file of a difference."""
    return {
        "path": one.path,
        "additions": one.added,
        "deletions": one.removed,
        "changeType": _CHANGES.get(one.status, "CHANGED"),
        "id": one.path,
    }
