"""Comments on issues and pull requests, and reactions to both."""

from collections.abc import Sequence

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.holdings import Item, Reacted, Remark
from resolvent.forge_server.rest.asking import Answer, Asking, found, gone, in_repo
from resolvent.forge_server.rest.listing import changed_since, ordered, since_of
from resolvent.forge_server.shapes.issues import REACTIONS, comment, reaction
from resolvent.forge_server.shapes.sight import RANKS

_ITEM = "/issues/{number:int}"
_REMARK = "/issues/comments/{id:int}"


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/issues/comments", everywhere),
        in_repo("GET", _REMARK, show),
        in_repo("PATCH", _REMARK, change),
        in_repo("DELETE", _REMARK, remove),
        in_repo("GET", f"{_REMARK}/reactions", reactions_to_remark),
        in_repo("POST", f"{_REMARK}/reactions", react_to_remark),
        in_repo("DELETE", f"{_REMARK}/reactions/{{reaction:int}}", unreact_to_remark),
        in_repo("GET", f"{_ITEM}/comments", listed),
        in_repo("POST", f"{_ITEM}/comments", create),
        in_repo("GET", f"{_ITEM}/reactions", reactions_to_item),
        in_repo("POST", f"{_ITEM}/reactions", react_to_item),
        in_repo("DELETE", f"{_ITEM}/reactions/{{reaction:int}}", unreact_to_item),
    ]


def _remarks(asking: Asking) -> list[Remark]:
    return [remark for item in asking.sight.holdings.items.values() for remark in item.remarks]


def _remark(asking: Asking) -> Remark:
    wanted = asking.number("id")
    return found(next((remark for remark in _remarks(asking) if remark.id == wanted), None))


async def everywhere(asking: Asking) -> Response:
    """All comments; without `sort` they come in the order they were written, whatever `direction` says."""
    remarks = changed_since(_remarks(asking), since_of(asking))
    if asking.query("sort"):
        remarks = ordered(asking, remarks)
    else:
        remarks.sort(key=lambda remark: remark.id)
    return asking.listed(remarks, lambda remark: comment(asking.sight, remark))


async def listed(asking: Asking) -> Response:
    remarks = changed_since(asking.item().remarks, since_of(asking))
    return asking.listed(remarks, lambda remark: comment(asking.sight, remark))


async def create(asking: Asking) -> Response:
    item = asking.item()
    body = (await asking.fields("IssueComment")).filled("body")
    if item.locked:
        asking.needs("write", "Unable to create comment because issue is locked.")
    remark = await asking.hub.remark(asking.by, item.number, body)
    await asking.again()
    shape = comment(asking.sight, remark)
    return Answer(shape, 201, headers={"location": shape["url"]})


async def show(asking: Asking) -> Response:
    return Answer(comment(asking.sight, _remark(asking)))


async def change(asking: Asking) -> Response:
    remark = _remark(asking)
    body = (await asking.fields("IssueComment")).filled("body")
    _own(asking, remark)
    await asking.hub.edit_remark(asking.by, remark.id, body)
    return Answer(comment(await asking.again(), _remark(asking)))


async def remove(asking: Asking) -> Response:
    remark = _remark(asking)
    _own(asking, remark)
    await asking.hub.delete_remark(asking.by, remark.id)
    return gone()


def _own(asking: Asking, remark: Remark) -> None:
    """Its author may change a comment, and who may write here."""
    if remark.author != asking.by.login and RANKS.index(asking.by.permission) < RANKS.index("write"):
        raise Refusal(403, "Must have admin rights to Repository.")


def _reactions(asking: Asking, of: Item | Remark) -> Response:
    wanted = asking.query("content")
    given = [one for one in of.reactions if not wanted or one.content == wanted]
    return asking.listed(given, lambda one: reaction(asking.sight, one))


async def reactions_to_item(asking: Asking) -> Response:
    return _reactions(asking, asking.item())


async def reactions_to_remark(asking: Asking) -> Response:
    return _reactions(asking, _remark(asking))


async def _content(asking: Asking) -> str:
    fields = await asking.fields("Reaction")
    fields.filled("content")
    return fields.choice("content", REACTIONS) or ""


def _given(asking: Asking, of: Item | Remark, content: str) -> Reacted | None:
    mine = (one for one in of.reactions if one.login == asking.by.login and one.content == content)
    return next(mine, None)


async def react_to_item(asking: Asking) -> Response:
    """201 for a new reaction, 200 for one that was there."""
    content = await _content(asking)
    item = asking.item()
    had = _given(asking, item, content)
    if had is None:
        await asking.hub.react(asking.by, content, number=item.number)
        await asking.again()
    return Answer(reaction(asking.sight, found(_given(asking, asking.item(), content))), 200 if had else 201)


async def react_to_remark(asking: Asking) -> Response:
    content = await _content(asking)
    remark = _remark(asking)
    had = _given(asking, remark, content)
    if had is None:
        await asking.hub.react(asking.by, content, remark=remark.id)
        await asking.again()
    return Answer(reaction(asking.sight, found(_given(asking, _remark(asking), content))), 200 if had else 201)


async def _unreact(asking: Asking, given: Sequence[Reacted]) -> Response:
    wanted = asking.number("reaction")
    one = found(next((one for one in given if one.id == wanted), None))
    if one.login != asking.by.login:
        raise not_found()
    await asking.hub.unreact(asking.by, one.id)
    return gone()


async def unreact_to_item(asking: Asking) -> Response:
    return await _unreact(asking, asking.item().reactions)


async def unreact_to_remark(asking: Asking) -> Response:
    return await _unreact(asking, _remark(asking).reactions)
