"""Pull requests, their files, their reviews and the remarks on their lines."""

from collections.abc import Mapping
from dataclasses import dataclass

from resolvent.forge_server.holdings import ChangedFile, Item, LineRemark, Opined
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.checks import latest, state_of
from resolvent.forge_server.shapes.issues import label
from resolvent.forge_server.shapes.repository import repository
from resolvent.forge_server.shapes.sight import PULL_IDS, Json, Sight, instant, maybe_instant, quoted

STATES: Mapping[str, str] = {
    "approve": "APPROVED",
    "request_changes": "CHANGES_REQUESTED",
    "comment": "COMMENTED",
    "dismissed": "DISMISSED",
}


@dataclass(frozen=True)
class Measured:
    """What git says of a pull request; `mergeable` is None where nobody asks any more."""

    commits: int
    files: tuple[ChangedFile, ...]
    mergeable: bool | None


def side(sight: Sight, branch: str, commit: str, repo: Json) -> Json:
    """One end of a pull request."""
    owner = sight.holdings.owner
    return {
        "label": f"{owner}:{branch}",
        "ref": branch,
        "sha": commit,
        "user": simple_user(sight, owner),
        "repo": repo,
    }


def simple_pull(sight: Sight, item: Item) -> Json:
    """A pull request, as a list names it."""
    url, page = f"{sight.repo}/pulls/{item.number}", sight.item_page(item)
    assignees = [simple_user(sight, login) for login in item.assignees]
    repo = repository(sight)
    shape = {
        "url": url,
        "id": PULL_IDS + item.number,
        "node_id": node_id("PullRequest", item.number),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "number": item.number,
        "state": "open" if item.state == "open" else "closed",
        "locked": item.locked,
        "active_lock_reason": None,
        "title": item.title,
        "body": item.body or None,
        "user": simple_user(sight, item.author),
        "author_association": sight.association(item.author),
        "labels": [label(sight, name) for name in item.labels],
        "milestone": None,
        "draft": item.draft,
        "created_at": instant(item.created_at),
        "updated_at": instant(item.updated_at),
        "closed_at": maybe_instant(item.closed_at),
        "merged_at": maybe_instant(item.merged_at),
        "assignees": assignees,
        "requested_reviewers": [simple_user(sight, login) for login in item.reviewers],
        "requested_teams": [],
        "head": side(sight, item.head, item.head_commit, repo),
        "base": side(sight, item.base, item.base_commit, repo),
        "auto_merge": None,
    }
    shape |= sight.older(assignee=assignees[0] if assignees else None, merge_commit_sha=item.merge_commit or None)
    return shape | _links(sight, item)


def _links(sight: Sight, item: Item) -> Json:
    url, issue = f"{sight.repo}/pulls/{item.number}", f"{sight.repo}/issues/{item.number}"
    urls = {
        "issue": issue,
        "commits": f"{url}/commits",
        "review_comments": f"{url}/comments",
        "review_comment": f"{sight.repo}/pulls/comments{{/number}}",
        "comments": f"{issue}/comments",
        "statuses": f"{sight.repo}/statuses/{item.head_commit}",
    }
    links = {name: {"href": at} for name, at in urls.items()}
    links |= {"self": {"href": url}, "html": {"href": sight.item_page(item)}}
    return {f"{name}_url": at for name, at in urls.items()} | {"_links": links}


def full_pull(sight: Sight, item: Item, measured: Measured) -> Json:
    """A pull request itself."""
    return simple_pull(sight, item) | {
        "merged": item.state == "merged",
        "mergeable": measured.mergeable,
        "rebaseable": measured.mergeable,
        "mergeable_state": mergeable_state(sight, item, measured.mergeable),
        "merged_by": simple_user(sight, item.merged_by) if item.merged_by else None,
        "comments": len(item.remarks),
        "review_comments": sum(len(review.remarks) for review in item.reviews),
        "maintainer_can_modify": False,
        "commits": measured.commits,
        "additions": sum(one.added for one in measured.files),
        "deletions": sum(one.removed for one in measured.files),
        "changed_files": len(measured.files),
    }


def mergeable_state(sight: Sight, item: Item, mergeable: bool | None) -> str:
    """The one word for whether it can be merged, and what is in the way."""
    if item.state != "open" or mergeable is None:
        return "unknown"
    if not mergeable:
        return "dirty"
    if item.draft:
        return "draft"
    if unmet(sight, item):
        return "blocked"
    good = all(state_of(run) == "success" for run in latest(sight, item.head_commit))
    return "clean" if good else "unstable"


def unmet(sight: Sight, item: Item) -> str:
    """Which required check keeps it from being merged, in GitHub's words; nothing when none does."""
    required = sight.holdings.required if item.base == sight.holdings.default_branch else ()
    said = {run.name: state_of(run) for run in latest(sight, item.head_commit)}
    lacking = {name: said.get(name, "expected") for name in required if said.get(name) != "success"}
    words = {"failure": "failing", "pending": "in progress", "expected": "expected"}
    if len(lacking) == 1:
        ((name, state),) = lacking.items()
        return f'Required status check "{name}" is {words[state]}.'
    counts = " and ".join(
        f"{list(lacking.values()).count(state)} {word}" for state, word in words.items() if state in lacking.values()
    )
    return f"{len(lacking)} of {len(required)} required status checks have not succeeded: {counts}." if lacking else ""


def changed_file(sight: Sight, file: ChangedFile, commit: str) -> Json:
    """A file of a difference that ends at this commit."""
    path = quoted(file.path)
    shape = {
        "sha": file.blob or None,
        "filename": file.path,
        "status": file.status,
        "additions": file.added,
        "deletions": file.removed,
        "changes": file.added + file.removed,
        "blob_url": f"{sight.page}/blob/{commit}/{path}",
        "raw_url": f"{sight.page}/raw/{commit}/{path}",
        "contents_url": f"{sight.repo}/contents/{path}?ref={commit}",
    }
    return shape | ({"previous_filename": file.previous} if file.previous else {})


def review(sight: Sight, opined: Opined) -> Json:
    """A review of a pull request."""
    pull = sight.holdings.items[opined.number]
    page = f"{sight.item_page(pull)}#pullrequestreview-{opined.id}"
    url = f"{sight.repo}/pulls/{opined.number}"
    return {
        "id": opined.id,
        "node_id": node_id("PullRequestReview", opined.id),
        "user": simple_user(sight, opined.author),
        "body": opined.body,
        "state": STATES[opined.opinion],
        "html_url": page,
        "pull_request_url": url,
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "submitted_at": instant(opined.created_at),
        "commit_id": opined.commit or None,
        "author_association": sight.association(opined.author),
    }


def line_remark(sight: Sight, number: int, remark: LineRemark) -> Json:
    """A remark of a review on one line."""
    url = f"{sight.repo}/pulls/comments/{remark.id}"
    page = f"{sight.item_page(sight.holdings.items[number])}#discussion_r{remark.id}"
    pull = f"{sight.repo}/pulls/{number}"
    at = instant(remark.created_at)
    return {
        "url": url,
        "pull_request_review_id": remark.review,
        "id": remark.id,
        "node_id": node_id("PullRequestReviewComment", remark.id),
        "diff_hunk": "",
        "path": remark.path,
        "position": remark.line,
        "original_position": remark.line,
        "line": remark.line,
        "original_line": remark.line,
        "side": "RIGHT",
        "commit_id": remark.commit,
        "original_commit_id": remark.commit,
        "user": simple_user(sight, remark.author),
        "body": remark.body,
        "created_at": at,
        "updated_at": at,
        "html_url": page,
        "pull_request_url": pull,
        "author_association": sight.association(remark.author),
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull}},
    }
