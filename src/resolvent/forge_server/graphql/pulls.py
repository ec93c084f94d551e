"""Pull requests: what git and people say of a proposed change."""

from typing import Any

from resolvent.forge_server.graphql.accounts import account, author
from resolvent.forge_server.graphql.checks import rollup
from resolvent.forge_server.graphql.commits import HEADS, changed_file, commit, commit_shape, ref
from resolvent.forge_server.graphql.items import common, fixes, issue
from resolvent.forge_server.graphql.remarks import review
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.holdings import ChangedFile, Item
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.searching_words import review_decision
from resolvent.forge_server.shapes.pulls import STATES, mergeable_state
from resolvent.forge_server.shapes.sight import PULL_IDS, maybe_instant


def pull(scene: Scene, item: Item) -> Shape:
    """A pull request."""
    return (
        common(scene, item)
        | _ends(scene, item)
        | _told_by_git(scene, item)
        | _told_by_people(scene, item)
        | {
            "__typename": "PullRequest",
            "id": node_id("PullRequest", item.number),
            "databaseId": PULL_IDS + item.number,
            "fullDatabaseId": str(PULL_IDS + item.number),
            "state": item.state.upper(),
            "isDraft": item.draft,
            "merged": item.state == "merged",
            "mergedAt": maybe_instant(item.merged_at),
            "mergedBy": author(scene, item.merged_by),
            "closingIssuesReferences": lambda: [issue(scene, one) for one in fixes(scene, item)],
            "statusCheckRollup": lambda: rollup(scene, item.head_commit),
            "maintainerCanModify": False,
            "isInMergeQueue": False,
            "isMergeQueueEnabled": False,
            "autoMergeRequest": None,
            "viewerCanEnableAutoMerge": False,
            "viewerCanDeleteHeadRef": item.state != "open" and scene.may("write"),
            "viewerMergeHeadlineText": lambda **asked: merge_words(scene, item, asked)[0],
            "viewerMergeBodyText": lambda **asked: merge_words(scene, item, asked)[1],
        }
    )


def merge_words(scene: Scene, item: Item, asked: dict[str, Any]) -> tuple[str, str]:
    """The headline and the body that the commit of a merge would have."""
    if asked.get("mergeType") == "SQUASH":
        return f"{item.title} (#{item.number})", item.body
    owner = scene.holdings.owner
    return f"Merge pull request #{item.number} from {owner}/{item.head}", item.title


def _ends(scene: Scene, item: Item) -> Shape:
    from resolvent.forge_server.graphql.repository import repository

    return {
        "headRefName": item.head,
        "headRefOid": item.head_commit,
        "headRef": lambda: ref(scene, HEADS + item.head),
        "headRepository": lambda: repository(scene),
        "headRepositoryOwner": lambda: account(scene, scene.holdings.owner),
        "baseRefName": item.base,
        "baseRefOid": item.base_commit,
        "baseRef": lambda: ref(scene, HEADS + item.base),
        "baseRepository": lambda: repository(scene),
        "isCrossRepository": False,
    }


def _told_by_git(scene: Scene, item: Item) -> Shape:
    async def commits() -> list[Shape]:
        made = await scene.once("commits", item, lambda: scene.hub.commits(item))
        return [_commit_of(scene, item, commit_shape(scene, one)) for one in made]

    async def difference() -> tuple[ChangedFile, ...]:
        return await scene.hub.files(await scene.hub.merge_base(item), item.head_commit)

    async def files() -> list[Shape]:
        return [changed_file(one) for one in await scene.once("files", item, difference)]

    async def count(what: str) -> int:
        return sum(int(one[what]) for one in await files())

    async def changed_files() -> int:
        return len(await files())

    async def mergeable() -> bool | None:
        if item.state != "open":
            return None
        return await scene.once("mergeable", item, lambda: scene.hub.mergeable(item))

    async def mergeable_word() -> str:
        return {None: "UNKNOWN", True: "MERGEABLE", False: "CONFLICTING"}[await mergeable()]

    async def state() -> str:
        return mergeable_state(scene.sight, item, await mergeable()).upper()

    return {
        "commits": commits,
        "files": files,
        "additions": lambda: count("additions"),
        "deletions": lambda: count("deletions"),
        "changedFiles": changed_files,
        "mergeable": mergeable_word,
        "mergeStateStatus": state,
        "mergeCommit": lambda: commit(scene, item.merge_commit),
        # The merge that GitHub tries out behind a ref of its own: nothing is kept of it here.
        "potentialMergeCommit": None,
    }


def _commit_of(scene: Scene, item: Item, one: Shape) -> Shape:
    path = f"{scene.path}/pull/{item.number}/commits/{one['oid']}"
    return {
        "__typename": "PullRequestCommit",
        "id": node_id("PullRequestCommit", f"{item.number}:{one['oid']}"),
        "commit": one,
        "pullRequest": lambda: pull(scene, item),
        "url": scene.sight.base + path,
        "resourcePath": path,
    }


def _told_by_people(scene: Scene, item: Item) -> Shape:
    def reviews(**asked: Any) -> list[Shape]:
        states, by = asked.get("states") or STATES.values(), asked.get("author")
        wanted = [one for one in item.reviews if STATES[one.opinion] in states and by in (None, one.author)]
        return [review_of(scene, item, one.id) for one in wanted]

    def latest() -> list[Shape]:
        return [review_of(scene, item, id) for id in {one.author: one.id for one in item.reviews}.values()]

    return {
        "reviews": reviews,
        "latestReviews": latest,
        "reviewDecision": review_decision(scene.sight, item).upper() or None,
        "reviewRequests": lambda: [_request(scene, item, login) for login in item.reviewers],
    }


def review_of(scene: Scene, item: Item, id: int) -> Shape:
    """A review of this pull request by its id."""
    said = next(one for one in item.reviews if one.id == id)
    return review(scene, item, said, lambda: pull(scene, item))


def _request(scene: Scene, item: Item, login: str) -> Shape:
    return {
        "__typename": "ReviewRequest",
        "id": node_id("ReviewRequest", f"{item.number}:{login}"),
        "databaseId": None,
        "asCodeOwner": False,
        "pullRequest": lambda: pull(scene, item),
        "requestedReviewer": account(scene, login),
    }
