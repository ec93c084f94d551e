"""Labels, who has them, and who is assigned."""

import re
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.rest.asking import Answer, Asking, found, gone, in_repo
from resolvent.forge_server.rest.fields import Fields, invalid, parsed
from resolvent.forge_server.rest.issues import assignable
from resolvent.forge_server.shapes.issues import issue, label

_ITEM = "/issues/{number:int}"
_COLOR = re.compile(r"[0-9a-fA-F]{6}")


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/labels", listed),
        in_repo("POST", "/labels", create),
        in_repo("GET", "/labels/{label:path}", show),
        in_repo("PATCH", "/labels/{label:path}", change),
        in_repo("DELETE", "/labels/{label:path}", remove),
        in_repo("GET", f"{_ITEM}/labels", of_item),
        in_repo("POST", f"{_ITEM}/labels", add),
        in_repo("PUT", f"{_ITEM}/labels", replace),
        in_repo("DELETE", f"{_ITEM}/labels", clear),
        in_repo("DELETE", f"{_ITEM}/labels/{{label:path}}", take),
        in_repo("POST", f"{_ITEM}/assignees", assign),
        in_repo("DELETE", f"{_ITEM}/assignees", unassign),
    ]


def _known(asking: Asking, name: str) -> str | None:
    """The label of that name, however it is capitalised."""
    known = {one.casefold(): one for one in asking.sight.holdings.labels}
    return known.get(name.casefold())


async def listed(asking: Asking) -> Response:
    names = sorted(asking.sight.holdings.labels, key=str.casefold)
    return asking.listed(names, lambda name: label(asking.sight, name))


async def show(asking: Asking) -> Response:
    return Answer(label(asking.sight, found(_known(asking, asking.place("label")))))


def _color(fields: Fields) -> str | None:
    color = fields.text("color")
    if color is not None and not _COLOR.fullmatch(color):
        raise invalid("Label", "color")
    return color.lower() if color is not None else None


async def create(asking: Asking) -> Response:
    fields = await asking.fields("Label")
    name = fields.filled("name", longest=50).strip()
    color, description = _color(fields), fields.text("description", longest=100) or ""
    asking.needs("write")
    if _known(asking, name) is not None:
        raise invalid("Label", "name", code="already_exists")
    await asking.hub.make_label(asking.by, name, color=color or "ededed", description=description)
    shape = label(await asking.again(), name)
    return Answer(shape, 201, headers={"location": shape["url"]})


async def change(asking: Asking) -> Response:
    """Another colour or description; a label keeps its name here."""
    name = found(_known(asking, asking.place("label")))
    fields = await asking.fields("Label")
    renamed = fields.text("new_name", longest=50)
    color, description = _color(fields), fields.text("description", longest=100)
    asking.needs("write")
    if renamed is not None and renamed != name:
        raise Refusal(422, "A label of the rehearsal forge keeps its name")
    now = asking.sight.holdings.labels[name]
    said = {"color": color or now.color, "description": now.description if description is None else description}
    await asking.hub.make_label(asking.by, name, **said)
    return Answer(label(await asking.again(), name))


async def remove(asking: Asking) -> Response:
    name = found(_known(asking, asking.place("label")))
    asking.needs("write")
    await asking.hub.delete_label(asking.by, name)
    return gone()


def _labels_of(asking: Asking, item: Item) -> Response:
    return asking.listed(item.labels, lambda name: label(asking.sight, name))


async def of_item(asking: Asking) -> Response:
    return _labels_of(asking, asking.item())


async def _named(asking: Asking) -> list[str]:
    """The labels in the body: under `labels`, or the whole body; as they are capitalised here already."""
    said: Any = await parsed(asking.request)
    fields = Fields("Label", said if isinstance(said, dict) else {"labels": said})
    names = fields.names("labels")
    for name in names:
        if len(name) > 50:
            raise invalid("Label", "name", "name is too long (maximum is 50 characters)")
    return [_known(asking, name) or name for name in names]


async def add(asking: Asking) -> Response:
    item = asking.item()
    names = await _named(asking)
    asking.needs("triage")
    await asking.hub.label(asking.by, item.number, add=names)
    await asking.again()
    return _labels_of(asking, asking.item())


async def replace(asking: Asking) -> Response:
    item = asking.item()
    names = await _named(asking)
    asking.needs("triage")
    await asking.hub.set_labels(asking.by, item.number, names)
    await asking.again()
    return _labels_of(asking, asking.item())


async def clear(asking: Asking) -> Response:
    item = asking.item()
    asking.needs("triage")
    await asking.hub.set_labels(asking.by, item.number, [])
    return gone()


async def take(asking: Asking) -> Response:
    item = asking.item()
    asking.needs("triage")
    wanted = asking.place("label").casefold()
    name = next((one for one in item.labels if one.casefold() == wanted), None)
    if name is None:
        raise Refusal(404, "Label does not exist")
    await asking.hub.label(asking.by, item.number, remove=[name])
    await asking.again()
    return _labels_of(asking, asking.item())


async def assign(asking: Asking) -> Response:
    item = asking.item()
    logins = assignable(asking, await asking.fields("Issue"))
    asking.needs("triage")
    await asking.hub.assign(asking.by, item.number, add=logins)
    return Answer(issue(await asking.again(), asking.item()), 201)


async def unassign(asking: Asking) -> Response:
    item = asking.item()
    logins = assignable(asking, await asking.fields("Issue"))
    asking.needs("triage")
    await asking.hub.assign(asking.by, item.number, remove=logins)
    return Answer(issue(await asking.again(), asking.item()))
