"""Issues, comments, labels, reactions and what happened to them."""

from collections.abc import Iterable, Sequence

from resolvent.forge_server.holdings import Item, Label, Reacted, Remark
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.sight import Json, Sight, instant, item_id, maybe_instant, quoted

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")


def label(sight: Sight, name: str) -> Json:
    """A label by its name."""
    known = sight.holdings.labels.get(name) or Label(id=0, name=name)
    return {
        "id": known.id,
        "node_id": node_id("Label", known.id),
        "url": f"{sight.repo}/labels/{quoted(known.name)}",
        "name": known.name,
        "description": known.description or None,
        "color": known.color,
        "default": False,
        "archived_at": None,
        "archived_by": None,
    }


def reactions_rollup(reactions: Iterable[Reacted], url: str) -> Json:
    """How often each reaction was given."""
    given = [one.content for one in reactions]
    counts = {content: given.count(content) for content in REACTIONS}
    return counts | {"url": f"{url}/reactions", "total_count": len(given)}


def reaction(sight: Sight, reacted: Reacted) -> Json:
    """One reaction of one account."""
    return {
        "id": reacted.id,
        "node_id": node_id("Reaction", reacted.id),
        "user": simple_user(sight, reacted.login),
        "content": reacted.content,
        "created_at": instant(reacted.created_at),
    }


def issue(sight: Sight, item: Item) -> Json:
    """An issue, or a pull request as the issue it also is."""
    url = f"{sight.repo}/issues/{item.number}"
    assignees = [simple_user(sight, login) for login in item.assignees]
    shape = {
        "id": item_id(item),
        "node_id": node_id("PullRequest" if item.kind == "pull" else "Issue", item.number),
        "url": url,
        "repository_url": sight.repo,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "timeline_url": f"{url}/timeline",
        "html_url": sight.item_page(item),
        "number": item.number,
        "state": "open" if item.state == "open" else "closed",
        "state_reason": item.reason or None,
        "title": item.title,
        "body": item.body or None,
        "user": simple_user(sight, item.author),
        "author_association": sight.association(item.author),
        "labels": [label(sight, name) for name in item.labels],
        "assignees": assignees,
        "milestone": None,
        "locked": item.locked,
        "active_lock_reason": None,
        "comments": len(item.remarks),
        "created_at": instant(item.created_at),
        "updated_at": instant(item.updated_at),
        "closed_at": maybe_instant(item.closed_at),
        "closed_by": None,
        "reactions": reactions_rollup(item.reactions, url),
        "performed_via_github_app": None,
    }
    shape |= sight.older(assignee=assignees[0] if assignees else None)
    return shape | (_pull_of_issue(sight, item) if item.kind == "pull" else {})


def _pull_of_issue(sight: Sight, item: Item) -> Json:
    page = sight.item_page(item)
    links = {
        "url": f"{sight.repo}/pulls/{item.number}",
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "merged_at": maybe_instant(item.merged_at),
    }
    return {"draft": item.draft, "pull_request": links}


def comment(sight: Sight, remark: Remark) -> Json:
    """A comment on an issue or pull request."""
    url = f"{sight.repo}/issues/comments/{remark.id}"
    return {
        "id": remark.id,
        "node_id": node_id("IssueComment", remark.id),
        "url": url,
        "html_url": f"{sight.item_page(sight.holdings.items[remark.number])}#issuecomment-{remark.id}",
        "issue_url": f"{sight.repo}/issues/{remark.number}",
        "body": remark.body,
        "user": simple_user(sight, remark.author),
        "author_association": sight.association(remark.author),
        "created_at": instant(remark.created_at),
        "updated_at": instant(remark.updated_at),
        "reactions": reactions_rollup(remark.reactions, url),
        "performed_via_github_app": None,
    }


def events(sight: Sight, item: Item) -> list[Json]:
    """What is known to have happened to an item, in the shape of GitHub's events: labelled, assigned, closed, merged.

    Of labels only those it still has, and times of assignees are not kept: they are those of the item itself.
    """
    happened: list[tuple[float, str, str, Json]] = [
        (
            one.created_at or item.created_at,
            "labeled",
            one.login or item.author,
            {"label": _event_label(sight, one.name)},
        )
        for one in item.labellings
    ]
    for login in item.assignees:
        who = simple_user(sight, login)
        happened.append((item.created_at, "assigned", item.author, {"assignee": who, "assigner": who}))
    if item.merged_at is not None:
        merged = {"commit_id": item.merge_commit, "commit_url": f"{sight.repo}/commits/{item.merge_commit}"}
        happened.append((item.merged_at, "merged", item.merged_by or item.author, merged))
    if item.closed_at is not None:
        closer = item.merged_by or item.author
        happened.append((item.closed_at, "closed", closer, {"state_reason": item.reason or None}))
    happened.sort(key=lambda one: one[0])
    return [_event(sight, item, nth, one) for nth, one in enumerate(happened)]


def _event(sight: Sight, item: Item, nth: int, happened: tuple[float, str, str, Json]) -> Json:
    at, event, actor, more = happened
    id = item_id(item) * 1000 + nth
    return {
        "id": id,
        "node_id": node_id("Issue", f"{item.number}-{nth}"),
        "url": f"{sight.repo}/issues/events/{id}",
        "actor": simple_user(sight, actor),
        "event": event,
        "commit_id": None,
        "commit_url": None,
        "created_at": instant(at),
        "performed_via_github_app": None,
    } | more


def _event_label(sight: Sight, name: str) -> Json:
    return {key: label(sight, name)[key] for key in ("name", "color")}


def timeline(sight: Sight, item: Item) -> list[Json]:
    """The events of an item and its comments between them, oldest first."""
    comments: Sequence[Json] = [
        comment(sight, remark) | {"event": "commented", "actor": simple_user(sight, remark.author)}
        for remark in item.remarks
    ]
    return sorted([*events(sight, item), *comments], key=lambda one: str(one["created_at"]))
