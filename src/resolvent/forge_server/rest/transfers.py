"""Issues that were transferred to another repository: the way there, and what is there."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from zlib import crc32

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.holdings import Item
from resolvent.forge_server.rest.asking import Answer, Asking, found, route
from resolvent.forge_server.shapes.sight import Sight

# Reads are led there; a write must be meant.
_READ = ("GET", "HEAD")


def routes() -> list[BaseRoute]:
    from resolvent.forge_server.rest import comments, issues

    place = "/repositories/{repository:int}/issues"
    return [
        route("GET", place + "/{number:int}", _there(issues.show)),
        route("GET", place + "/{number:int}/comments", _there(comments.listed)),
        route("GET", place + "/comments/{id:int}", _there(comments.show)),
    ]


def led_away(asking: Asking) -> Response | None:
    """Where an issue is asked for that is elsewhere now, or a comment on it: the way there."""
    gone = asking.request.state.backstage.transferred
    item = _asked_for(asking) if gone else None
    if item is None or item.number not in gone:
        return None
    name, _, number = gone[item.number].partition("#")
    before, _, rest = asking.request.url.path.partition("/issues/")
    rest = rest if "id" in asking.request.path_params else number + rest.removeprefix(str(item.number))
    prefix = before.partition("/repos/")[0]
    url = str(asking.request.url.replace(path=f"{prefix}/repositories/{_id(name)}/issues/{rest}"))
    said = {"message": "Moved Permanently", "url": url}
    return Answer(said, 301 if asking.request.method in _READ else 307, headers={"location": url})


def _asked_for(asking: Asking) -> Item | None:
    named, items = asking.request.path_params, asking.sight.holdings.items
    if "/issues/" not in asking.request.url.path:
        return None
    if "number" in named:
        return items.get(named["number"])
    return next((item for item in items.values() for one in item.remarks if one.id == named.get("id")), None)


def _there(answering: Callable[[Asking], Awaitable[Response]]) -> Callable[[Asking], Awaitable[Response]]:
    """The same answer as of an issue of ours, of the one that was ours."""

    async def endpoint(asking: Asking) -> Response:
        gone = asking.request.state.backstage.transferred
        wanted = asking.number("repository")
        here = {at: place for at, place in gone.items() if _id(place.partition("#")[0]) == wanted}
        found(here or None)
        asking.sight = _elsewhere(asking.sight, here)
        return await answering(asking)

    return endpoint


def _elsewhere(sight: Sight, here: dict[int, str]) -> Sight:
    """The other repository, with only these issues in it."""
    items = {}
    for at, place in here.items():
        number, item = int(place.partition("#")[2]), sight.holdings.items[at]
        remarks = tuple(replace(remark, number=number) for remark in item.remarks)
        items[number] = replace(item, number=number, remarks=remarks)
    owner, _, name = next(iter(here.values())).partition("#")[0].partition("/")
    return replace(sight, holdings=replace(sight.holdings, owner=owner, name=name, items=items))


def _id(full_name: str) -> int:
    return crc32(full_name.encode()) >> 1
