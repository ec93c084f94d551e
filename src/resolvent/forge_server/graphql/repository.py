"""The repository: what it is, what it allows, and the lists it holds."""

from collections.abc import Callable
from typing import Any

from resolvent.forge_server.graphql.accounts import account
from resolvent.forge_server.graphql.commits import HEADS, commit, ref
from resolvent.forge_server.graphql.items import issue, item_shape
from resolvent.forge_server.graphql.pulls import pull
from resolvent.forge_server.graphql.refusals import refused
from resolvent.forge_server.graphql.remarks import label, labels
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.searching_words import Where, mentioned
from resolvent.forge_server.shapes.sight import instant

_OFF = ("autoMergeAllowed", "deleteBranchOnMerge", "hasDiscussionsEnabled", "hasProjectsEnabled", "hasWikiEnabled")
_NEVER = ("isFork", "isMirror", "isPrivate", "isTemplate")
_ON = ("hasIssuesEnabled", "isBlankIssuesEnabled", "mergeCommitAllowed", "rebaseMergeAllowed", "squashMergeAllowed")


def repository_named(scene: Scene, owner: str, name: str) -> Shape:
    """The repository of that name; refused as GitHub does when it is another."""
    if f"{owner}/{name}".lower() != scene.sight.full_name.lower():
        raise refused("NOT_FOUND", f"Could not resolve to a Repository with the name '{owner}/{name}'.")
    return repository(scene)


def repository(scene: Scene) -> Shape:
    """The one repository there is."""
    held = scene.holdings
    permission = scene.sight.account(scene.by.login).permission
    facts = dict.fromkeys((*_OFF, *_NEVER), False) | dict.fromkeys(_ON, True)
    return (
        facts
        | _lists(scene)
        | _single(scene)
        | {
            "__typename": "Repository",
            "id": node_id("Repository", scene.sight.full_name),
            "databaseId": scene.sight.repo_id,
            "name": held.name,
            "nameWithOwner": scene.sight.full_name,
            "owner": lambda: account(scene, held.owner),
            "url": scene.sight.page,
            "resourcePath": scene.path,
            "sshUrl": f"{scene.sight.page}.git",
            "homepageUrl": None,
            "description": None,
            "parent": None,
            "createdAt": instant(held.created_at),
            "updatedAt": instant(max((item.updated_at for item in held.items.values()), default=held.created_at)),
            "pushedAt": instant(held.created_at),
            "isArchived": held.archived,
            "isEmpty": not any(name.startswith(HEADS) for name in held.refs),
            "isInOrganization": scene.sight.account(held.owner).kind == "Organization",
            "visibility": "PUBLIC",
            "forkCount": 0,
            "stargazerCount": 0,
            "defaultBranchRef": lambda: ref(scene, HEADS + held.default_branch),
            "viewerCanAdminister": permission == "admin",
            "viewerDefaultMergeMethod": "MERGE",
            "viewerPermission": permission.upper() if permission != "none" else None,
        }
    )


def _single(scene: Scene) -> Shape:
    def issue_or_pull(number: int) -> Shape:
        return item_shape(scene, _item(scene, number, "", "an issue or pull request"))

    def named(name: str) -> Shape | None:
        found = next((one for one in scene.holdings.labels.values() if one.name.lower() == name.lower()), None)
        return label(scene, found) if found else None

    async def git_object(**asked: Any) -> Shape | None:
        # Of expressions only branches and commits are understood: nobody asks for more.
        wanted = asked.get("oid") or asked.get("expression") or ""
        return await commit(scene, scene.sight.branch_commit(wanted.removeprefix(HEADS)) or wanted)

    return {
        "issue": lambda number: issue(scene, _item(scene, number, "issue", "an Issue")),
        "pullRequest": lambda number: pull(scene, _item(scene, number, "pull", "a PullRequest")),
        "issueOrPullRequest": issue_or_pull,
        "label": named,
        "object": git_object,
        "ref": lambda **asked: ref(scene, _whole(scene, asked["qualifiedName"])),
    }


def _item(scene: Scene, number: int, kind: str, words: str) -> Item:
    item = scene.item(number, kind)
    if item is None:
        raise refused("NOT_FOUND", f"Could not resolve to {words} with the number of {number}.")
    return item


def _whole(scene: Scene, name: str) -> str:
    return name if name in scene.holdings.refs else HEADS + name


def _lists(scene: Scene) -> Shape:
    def refs(**asked: Any) -> list[Shape | None]:
        names = sorted(name for name in scene.holdings.refs if name.startswith(asked["refPrefix"]))
        return [ref(scene, name) for name in names if (asked.get("query") or "") in name]

    def known_labels(**asked: Any) -> list[Shape]:
        wanted = (asked.get("query") or "").lower()
        held = sorted(scene.holdings.labels.values(), key=lambda one: one.id)
        found = [one.name for one in held if wanted in one.name.lower() or wanted in one.description.lower()]
        return labels(scene, found, asked.get("orderBy"))

    return {
        "issues": lambda **asked: [issue(scene, one) for one in _listed(scene, "issue", asked)],
        "pullRequests": lambda **asked: [pull(scene, one) for one in _listed(scene, "pull", asked)],
        "labels": known_labels,
        "refs": refs,
        "assignableUsers": lambda **asked: _people(scene, "write", asked),
        "mentionableUsers": lambda **asked: _people(scene, "read", asked),
    }


def _people(scene: Scene, least: str, asked: dict[str, Any]) -> list[Shape]:
    wanted = (asked.get("query") or "").lower()
    users = (one.login for one in scene.holdings.accounts.values() if one.kind == "User")
    return [account(scene, login) for login in sorted(users) if scene.may(least, login) and wanted in login.lower()]


def _listed(scene: Scene, kind: str, asked: dict[str, Any]) -> list[Item]:
    """The items of a kind that pass every filter, ordered as asked; else as they were made."""
    where, narrowed = Where(scene.sight, ()), asked.get("filterBy") or {}
    items = (one for one in scene.holdings.items.values() if one.kind == kind)
    found = [one for one in items if _passes(one, asked) and _passes(one, narrowed) and _about(where, one, narrowed)]
    return _ordered(found, asked.get("orderBy"))


def _passes(item: Item, wanted: dict[str, Any]) -> bool:
    """In one of the states, with one of the labels, of that head and base; what is not asked for is as it is."""
    names = {name.lower() for name in item.labels}
    labelled = not wanted.get("labels") or bool(names & {name.lower() for name in wanted["labels"]})
    ends = (wanted.get("headRefName") or item.head, wanted.get("baseRefName") or item.base)
    return (
        item.state.upper() in (wanted.get("states") or [item.state.upper()])
        and labelled
        and ends == (item.head, item.base)
    )


def _about(where: Where, item: Item, wanted: dict[str, Any]) -> bool:
    """Somebody has it, made it, is mentioned in it; None asks for what nobody has."""
    has, made, named = (wanted.get(name) for name in ("assignee", "createdBy", "mentioned"))
    if "assignee" in wanted and not (where.same(has, *item.assignees) if has else not item.assignees):
        return False
    if made and not where.same(made, item.author):
        return False
    if named and not mentioned(where, item, named):
        return False
    return instant(item.updated_at) >= (wanted.get("since") or "")


def _ordered(items: list[Item], order: dict[str, str] | None) -> list[Item]:
    keys: dict[str, Callable[[Item], float]] = {
        "CREATED_AT": lambda one: one.created_at,
        "UPDATED_AT": lambda one: one.updated_at,
        "COMMENTS": lambda one: len(one.remarks),
    }
    key = keys[order["field"] if order else "CREATED_AT"]
    descending = order is not None and order["direction"] == "DESC"
    return sorted(items, key=lambda one: (key(one), one.number), reverse=descending)
