"""Issues: listing, opening, reading and changing them, and what happened to them."""

from collections.abc import Sequence

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.rest.asking import Answer, Asking, gone, in_repo
from resolvent.forge_server.rest.fields import Fields, invalid
from resolvent.forge_server.rest.listing import assigned, changed_since, in_state, ordered, since_of, with_labels
from resolvent.forge_server.shapes.issues import events, issue, timeline
from resolvent.forge_server.shapes.sight import RANKS

TITLE = 256
CLOSED_FOR = ("completed", "not_planned", "duplicate")
REASONS = (*CLOSED_FOR, "reopened")


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/issues", listed),
        in_repo("POST", "/issues", create),
        in_repo("GET", "/issues/{number:int}", show),
        in_repo("PATCH", "/issues/{number:int}", change),
        in_repo("GET", "/issues/{number:int}/events", happened),
        in_repo("GET", "/issues/{number:int}/timeline", told),
        in_repo("PUT", "/issues/{number:int}/lock", lock),
        in_repo("DELETE", "/issues/{number:int}/lock", unlock),
    ]


async def listed(asking: Asking) -> Response:
    items: Sequence[Item] = in_state(asking.sight.holdings.items.values(), asking.query("state", "open"))
    items = with_labels(items, asking.query("labels").split(","))
    if creator := asking.query("creator"):
        items = [item for item in items if item.author.casefold() == creator.casefold()]
    if assignee := asking.query("assignee"):
        items = assigned(items, assignee)
    if mentioned := asking.query("mentioned"):
        items = [item for item in items if f"@{mentioned}".casefold() in item.body.casefold()]
    items = ordered(asking, changed_since(items, since_of(asking)))
    return asking.led(items, lambda item: issue(asking.sight, item))


def title_of(fields: Fields) -> str:
    """The title of something new: one line with words in it."""
    title = fields.filled("title", longest=TITLE).strip()
    if len(title.splitlines()) != 1:
        raise invalid(fields.resource, "title", "title is not one line")
    return title


def labels_of(fields: Fields) -> list[str] | None:
    """The names of labels, which may be said plainly or as objects with a name."""
    if "labels" not in fields:
        return None
    return fields.names("labels")


def may_triage(asking: Asking) -> bool:
    """Who may give labels and assign; of others GitHub drops both silently."""
    return RANKS.index(asking.by.permission) >= RANKS.index("triage")


def may_change(asking: Asking, item: Item) -> None:
    """Its author, and who may triage."""
    if item.author != asking.by.login:
        asking.needs("triage", "Must have admin rights to Repository.")


def assignable(asking: Asking, fields: Fields) -> list[str]:
    """The logins in `assignees`, each of which must be known here."""
    wanted = fields.texts("assignees") or []
    if (one := fields.text("assignee")) and one.strip():
        wanted.append(one)
    known = {login.casefold(): login for login in asking.sight.holdings.accounts}
    for login in wanted:
        if login.casefold() not in known:
            raise Refusal(
                422,
                "Validation Failed",
                errors=[{"value": login, "resource": "Issue", "field": "assignees", "code": "invalid"}],
            )
    return list(dict.fromkeys(known[login.casefold()] for login in wanted))


async def create(asking: Asking) -> Response:
    fields = await asking.fields("Issue")
    title, body = title_of(fields), fields.text("body") or ""
    labels, logins = labels_of(fields) or [], assignable(asking, fields)
    trusted = may_triage(asking)
    item = await asking.hub.open_issue(asking.by, title=title, body=body, labels=labels if trusted else ())
    if logins and trusted:
        await asking.hub.assign(asking.by, item.number, add=logins)
    sight = await asking.again()
    shape = issue(sight, sight.holdings.items[item.number])
    return Answer(shape, 201, headers={"location": shape["url"]})


async def show(asking: Asking) -> Response:
    return Answer(issue(asking.sight, asking.item()))


async def change(asking: Asking) -> Response:
    item = asking.item()
    fields = await asking.fields("Issue")
    title = title_of(fields) if fields.text("title", longest=TITLE) is not None else None
    body = fields.text("body") or "" if "body" in fields else None
    state, reason = fields.choice("state", ("open", "closed")), fields.choice("state_reason", REASONS)
    labels = labels_of(fields)
    logins = assignable(asking, fields) if "assignees" in fields or "assignee" in fields else None
    may_change(asking, item)
    if title is not None or body is not None:
        await asking.hub.edit_item(asking.by, item.number, title=title, body=body)
    if state is not None and (state == "open") != (item.state == "open"):
        await asking.hub.set_state(asking.by, item.number, state, reason=reason if reason in CLOSED_FOR else "")
    if labels is not None and may_triage(asking):
        await asking.hub.set_labels(asking.by, item.number, labels)
    if logins is not None and may_triage(asking):
        dropped = [login for login in item.assignees if login not in logins]
        await asking.hub.assign(asking.by, item.number, add=logins, remove=dropped)
    return Answer(issue(await asking.again(), asking.item()))


async def happened(asking: Asking) -> Response:
    return asking.listed(events(asking.sight, asking.item()), lambda one: one)


async def told(asking: Asking) -> Response:
    return asking.listed(timeline(asking.sight, asking.item()), lambda one: one)


async def lock(asking: Asking) -> Response:
    item = asking.item()
    (await asking.fields("Issue")).choice("lock_reason", ("off-topic", "too heated", "resolved", "spam"))
    asking.needs("write")
    await asking.hub.lock(asking.by, item.number, True)
    return gone()


async def unlock(asking: Asking) -> Response:
    item = asking.item()
    asking.needs("write")
    await asking.hub.lock(asking.by, item.number, False)
    return gone()
