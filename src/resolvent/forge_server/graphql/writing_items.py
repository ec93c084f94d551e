"""Writes to issues, and to what they share with pull requests."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from resolvent.forge_server.graphql.finding import item_of, node, number_of, remark_of
from resolvent.forge_server.graphql.items import comment, issue, item_shape
from resolvent.forge_server.graphql.refusals import no_node
from resolvent.forge_server.graphql.remarks import REACTIONS, reaction
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.graphql.wording import bodied, check_absent, known_logins, label_names, logins, titled
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.node_ids import node_id, node_named

Input = dict[str, Any]


async def create_issue(scene: Scene, said: Input) -> Shape:
    check_absent(said)
    await node(scene, said["repositoryId"])
    names, people = label_names(scene, said.get("labelIds") or ()), logins(scene, said.get("assigneeIds") or ())
    title, body = titled(said["title"]), bodied(said.get("body"))
    made = await scene.hub.open_issue(scene.by, title=title, body=body, labels=names)
    if people and scene.may("triage"):
        await scene.hub.assign(scene.by, made.number, add=people)
    return {"issue": issue(scene, await again(scene, made))}


async def update_issue(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["id"], ("Issue",))
    await edit(scene, item, said)
    if said.get("state"):
        await scene.hub.set_state(scene.by, item.number, said["state"].lower())
    return {"issue": issue(scene, await again(scene, item))}


async def edit(scene: Scene, item: Item, said: Input) -> None:
    """What an update may change of issues and pull requests alike; everything is checked before anything is written."""
    check_absent(said)
    title = titled(said["title"]) if said.get("title") is not None else None
    body = bodied(said["body"]) if said.get("body") is not None else None
    names = label_names(scene, said["labelIds"]) if said.get("labelIds") is not None else None
    people = logins(scene, said["assigneeIds"]) if said.get("assigneeIds") is not None else None
    if title is not None or body is not None:
        await scene.hub.edit_item(scene.by, item.number, title=title, body=body)
    if names is not None:
        await scene.hub.set_labels(scene.by, item.number, names)
    if people is not None:
        await reassign(scene, item, people)


async def reassign(scene: Scene, item: Item, people: Sequence[str]) -> None:
    """Let exactly these people have it."""
    gone = [login for login in item.assignees if login not in people]
    await scene.hub.assign(scene.by, item.number, add=people, remove=gone)


async def close_issue(scene: Scene, said: Input) -> Shape:
    check_absent(said)
    item = item_of(scene, said["issueId"], ("Issue",))
    reason = (said.get("stateReason") or "COMPLETED").lower()
    await scene.hub.set_state(scene.by, item.number, "closed", reason=reason)
    return {"issue": issue(scene, await again(scene, item))}


async def reopen_issue(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["issueId"], ("Issue",))
    await scene.hub.set_state(scene.by, item.number, "open")
    return {"issue": issue(scene, await again(scene, item))}


async def add_comment(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["subjectId"])
    made = await scene.hub.remark(scene.by, item.number, bodied(said["body"], blank=False))
    item = await again(scene, item)
    edge = {"cursor": node_id("IssueComment", made.id), "node": comment(scene, item, made)}
    return {"commentEdge": edge, "subject": item_shape(scene, item)}


async def update_issue_comment(scene: Scene, said: Input) -> Shape:
    id = _remark(scene, said["id"])
    made = await scene.hub.edit_remark(scene.by, id, bodied(said["body"], blank=False))
    await scene.renew()
    return {"issueComment": comment(scene, scene.holdings.items[made.number], made)}


async def delete_issue_comment(scene: Scene, said: Input) -> Shape:
    await scene.hub.delete_remark(scene.by, _remark(scene, said["id"]))
    await scene.renew()
    return {}


def _remark(scene: Scene, id: str) -> int:
    number = number_of(id, "IssueComment")
    if remark_of(scene, number) is None:
        raise no_node(id)
    return number


async def add_reaction(scene: Scene, said: Input) -> Shape:
    named = node_named(said["subjectId"])
    if named and named[0] == "IssueComment":
        remark = _remark(scene, said["subjectId"])
        made = await scene.hub.react(scene.by, REACTIONS[said["content"]], remark=remark)
    else:
        number = item_of(scene, said["subjectId"]).number
        made = await scene.hub.react(scene.by, REACTIONS[said["content"]], number=number)
    await scene.renew()
    subject = await node(scene, said["subjectId"])
    return {"reaction": reaction(scene, made), "reactionGroups": subject["reactionGroups"], "subject": subject}


async def add_labels(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["labelableId"])
    await scene.hub.label(scene.by, item.number, add=label_names(scene, said["labelIds"]))
    return {"labelable": item_shape(scene, await again(scene, item))}


async def remove_labels(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["labelableId"])
    await scene.hub.label(scene.by, item.number, remove=label_names(scene, said["labelIds"]))
    return {"labelable": item_shape(scene, await again(scene, item))}


async def add_assignees(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["assignableId"])
    await scene.hub.assign(scene.by, item.number, add=logins(scene, said["assigneeIds"]))
    return {"assignable": item_shape(scene, await again(scene, item))}


async def remove_assignees(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["assignableId"])
    await scene.hub.assign(scene.by, item.number, remove=logins(scene, said["assigneeIds"]))
    return {"assignable": item_shape(scene, await again(scene, item))}


async def replace_actors(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["assignableId"])
    people = logins(scene, said.get("actorIds") or ()) + known_logins(scene, said.get("actorLogins") or ())
    await reassign(scene, item, people)
    return {"assignable": item_shape(scene, await again(scene, item))}


async def lock(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["lockableId"])
    await scene.hub.lock(scene.by, item.number, True)
    return {"lockedRecord": item_shape(scene, await again(scene, item))}


async def unlock(scene: Scene, said: Input) -> Shape:
    item = item_of(scene, said["lockableId"])
    await scene.hub.lock(scene.by, item.number, False)
    return {"unlockedRecord": item_shape(scene, await again(scene, item))}


async def again(scene: Scene, item: Item) -> Item:
    """The item as it is after a write."""
    await scene.renew()
    return scene.holdings.items[item.number]


WRITES: dict[str, Callable[[Scene, Input], Awaitable[Shape]]] = {
    "createIssue": create_issue,
    "updateIssue": update_issue,
    "closeIssue": close_issue,
    "reopenIssue": reopen_issue,
    "addComment": add_comment,
    "updateIssueComment": update_issue_comment,
    "deleteIssueComment": delete_issue_comment,
    "addReaction": add_reaction,
    "addLabelsToLabelable": add_labels,
    "removeLabelsFromLabelable": remove_labels,
    "addAssigneesToAssignable": add_assignees,
    "removeAssigneesFromAssignable": remove_assignees,
    "replaceActorsForAssignable": replace_actors,
    "lockLockable": lock,
    "unlockLockable": unlock,
}
