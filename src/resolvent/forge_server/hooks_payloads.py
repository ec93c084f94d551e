"""What a webhook says: an occurrence in the shapes of REST."""

from typing import TYPE_CHECKING

from resolvent.adapters.forges.local_git import NONE
from resolvent.forge_server.holdings import CheckRun, Commit, Holdings, Item, Occurrence
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.checks import check_run, simple_status
from resolvent.forge_server.shapes.git import commit
from resolvent.forge_server.shapes.issues import comment, issue, label, reactions_rollup
from resolvent.forge_server.shapes.pulls import Measured, full_pull, line_remark, review, simple_pull
from resolvent.forge_server.shapes.repository import full_repository, short_branch
from resolvent.forge_server.shapes.sight import Json, Sight, instant

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

# Of a push, GitHub tells no more than so many commits.
COMMITS = 2048


async def payload_of(hub: "Hub", occurrence: Occurrence, base: str) -> Json:
    """The body of the webhook for an occurrence, as things are now."""
    sight = Sight(await hub.holdings(), base, occurrence.by)
    if occurrence.kind == "push":
        return _common(sight) | await _push(hub, sight, occurrence)
    if occurrence.kind == "status" and occurrence.check is not None:
        return _common(sight) | await _status(hub, sight, occurrence.check)
    said: Json = {"action": occurrence.action}
    if occurrence.item is not None:
        said |= await _about(hub, sight, occurrence, occurrence.item)
    if occurrence.check is not None:
        said["check_run"] = check_run(sight, occurrence.check)
    if occurrence.action == "edited":
        said["changes"] = {}
    return said | _said(sight, occurrence) | _common(sight)


def _said(sight: Sight, occurrence: Occurrence) -> Json:
    """What was said, or which label or person it is about."""
    said: Json = {}
    if occurrence.remark is not None:
        said["comment"] = comment(sight, occurrence.remark)
    if occurrence.review is not None:
        told = review(sight, occurrence.review)
        said["review"] = told | {"state": told["state"].lower(), "updated_at": told.get("submitted_at")}
    if occurrence.line is not None and occurrence.item is not None:
        told = line_remark(sight, occurrence.item.number, occurrence.line)
        said["comment"] = dict.fromkeys(("start_line", "original_start_line")) | told
        said["comment"]["reactions"] = reactions_rollup((), told["url"])
    if occurrence.label:
        said["label"] = label(sight, occurrence.label)
    if occurrence.login:
        named = "requested_reviewer" if occurrence.action.startswith("review_request") else "assignee"
        said[named] = simple_user(sight, occurrence.login)
    return said


def ping_of(holdings: Holdings, base: str, hook: Json) -> Json:
    """The body of a ping."""
    sight = Sight(holdings, base, holdings.accounts[holdings.owner])
    now = instant(holdings.created_at)
    urls = {name: f"{sight.repo}/hooks/{hook['id']}{rest}" for name, rest in _HOOK_URLS.items()}
    last = {"code": None, "status": "unused", "message": None}
    whole = hook | urls | {"created_at": now, "updated_at": now, "last_response": last}
    return {"zen": "Rehearse before you perform.", "hook_id": hook["id"], "hook": whole} | _common(sight)


_HOOK_URLS = {"url": "", "test_url": "/test", "ping_url": "/pings", "deliveries_url": "/deliveries"}


def _common(sight: Sight) -> Json:
    return {"repository": full_repository(sight), "sender": simple_user(sight, sight.viewer.login)}


async def _about(hub: "Hub", sight: Sight, occurrence: Occurrence, item: Item) -> Json:
    if occurrence.kind not in ("pull_request", "pull_request_review", "pull_request_review_comment"):
        return {"issue": issue(sight, item)}
    if occurrence.kind != "pull_request":
        return {"pull_request": simple_pull(sight, item)}
    commits, onto = await hub.commits(item), await hub.merge_base(item)
    measured = Measured(len(commits), await hub.files(onto, item.head_commit), mergeable=None)
    said = {"number": item.number, "pull_request": full_pull(sight, item, measured)}
    if occurrence.action == "synchronize":
        said |= {"before": occurrence.before, "after": occurrence.after}
    return said


async def _status(hub: "Hub", sight: Sight, check: CheckRun) -> Json:
    told, made = simple_status(sight, check), await hub.commit(check.commit)
    said = {name: told[name] for name in ("id", "state", "description", "target_url", "context")}
    said |= {"created_at": told["created_at"], "updated_at": told["updated_at"], "sha": check.commit}
    branches = [short_branch(sight, name, check.commit) for name in sight.branches_at(check.commit)]
    return said | {"name": sight.full_name, "commit": commit(sight, made) if made else None, "branches": branches}


async def _push(hub: "Hub", sight: Sight, occurrence: Occurrence) -> Json:
    before, after = occurrence.before or NONE, occurrence.after or NONE
    created, deleted = before == NONE, after == NONE
    pushed = () if created or deleted else await hub.between(before, after)
    head = None if deleted else await hub.commit(after)
    by = occurrence.by.login
    return {
        "ref": occurrence.ref,
        "before": before,
        "after": after,
        "base_ref": None,
        "created": created,
        "deleted": deleted,
        "forced": not created and not deleted and await hub.shared(before, after) != before,
        "compare": f"{sight.page}/compare/{before[:12]}...{after[:12]}",
        "commits": [_commit(sight, one) for one in pushed[-COMMITS:]],
        "head_commit": _commit(sight, head) if head else None,
        "pusher": {"name": by, "email": f"{by}@users.noreply.github.com"},
    }


def _commit(sight: Sight, made: Commit) -> Json:
    who = {"name": made.author, "email": made.email}
    return {
        "id": made.id,
        "tree_id": made.tree,
        "distinct": True,
        "message": made.message,
        "timestamp": instant(made.at),
        "url": f"{sight.page}/commit/{made.id}",
        "author": who,
        "committer": who,
        "added": [],
        "removed": [],
        "modified": [],
    }
