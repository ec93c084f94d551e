"""One request to a route: who asks, what the forge holds, and the answer in pages or alone."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from resolvent.domain.subject import Permission
from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.door_pages import after_cursor, paged
from resolvent.forge_server.holdings import Account, Item
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.rest.fields import Fields, fields_of
from resolvent.forge_server.shapes.sight import RANKS, Sight

T = TypeVar("T")
NEWEST = "2026-03-10"
_ENDLESS = re.compile(r"/[0-9]{1000}")
REPO = "/repos/{owner}/{repo}"


class Answer(JSONResponse):
    """JSON, in which a name that git holds and that is no text has marks where it is none."""

    def render(self, content: Any) -> bytes:
        said = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return said.encode("utf-8", "replace")


@dataclass
class Asking:
    """A request with everything that answering it needs; `sight` is renewed after a write."""

    request: Request
    hub: Hub
    by: Account
    scopes: tuple[str, ...]
    sight: Sight

    @classmethod
    async def of(cls, request: Request) -> "Asking":
        state = request.state
        base = getattr(state, "base", "") or f"https://{request.url.netloc}"
        newest = request.headers.get("x-github-api-version", "") >= NEWEST
        sight = Sight(await state.hub.holdings(), base, state.by, newest)
        return cls(request, state.hub, state.by, tuple(state.scopes), sight)

    async def again(self) -> Sight:
        """Look again, after a write."""
        self.sight = Sight(await self.hub.holdings(), self.sight.base, self.by, self.sight.newest)
        return self.sight

    def query(self, name: str, otherwise: str = "") -> str:
        """One parameter of the query."""
        return self.request.query_params.get(name, otherwise)

    def place(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def number(self, name: str = "number") -> int:
        """A number in the path."""
        return int(self.request.path_params[name])

    async def fields(self, resource: str) -> Fields:
        """What the body says."""
        return await fields_of(self.request, resource)

    def needs(self, permission: Permission, message: str = "Must have push access to repository") -> None:
        """Only who may do at least this goes on."""
        if RANKS.index(self.by.permission) < RANKS.index(permission):
            raise Refusal(403, message)

    def item(self) -> Item:
        """The issue or pull request that the path names."""
        return found(self.sight.holdings.items.get(self.number()))

    def pull(self) -> Item:
        """The pull request that the path names."""
        item = self.item()
        if item.kind != "pull":
            raise not_found()
        return item

    def listed(self, rows: Sequence[T], shape: Callable[[T], Any]) -> Response:
        """The page of these rows that was asked for, each in its shape."""
        page, headers = paged(self.request, rows)
        return Answer([shape(row) for row in page], headers=headers)

    def led(self, items: Sequence[Item], shape: Callable[[Item], Any]) -> Response:
        """The same of items, by a cursor where the forge is set to: as GitHub leads through issues."""
        if not self.request.state.backstage.cursors:
            return self.listed(items, shape)
        page, headers = after_cursor(self.request, items)
        return Answer([shape(item) for item in page], headers=headers)

    def counted(self, name: str, rows: Sequence[T], shape: Callable[[T], Any], **more: Any) -> Response:
        """A page of rows under a name, beside how many there are in all."""
        page, headers = paged(self.request, rows)
        told = {"total_count": len(rows), **more, name: [shape(row) for row in page]}
        return Answer(told, headers=headers)


Answering = Callable[[Asking], Awaitable[Response]]


def found(value: T | None) -> T:
    """What is there; 404 for what is not."""
    if value is None:
        raise not_found()
    return value


class _Route(Route):
    """A route that has no place for numbers which Python itself refuses to read."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if _ENDLESS.search(scope["path"]) else super().matches(scope)


def route(method: str, path: str, answering: Answering) -> Route:
    """One verb on one path; a path in a repository is one of ours or 404."""

    from resolvent.forge_server.rest.transfers import led_away

    async def endpoint(request: Request) -> Response:
        asking = await Asking.of(request)
        repo = request.path_params.get("repo")
        if repo is not None:
            named = f"{request.path_params['owner']}/{repo}"
            if named.casefold() != asking.sight.full_name.casefold():
                raise not_found()
            if away := led_away(asking):
                return away
        return await answering(asking)

    return _Route(path, endpoint, methods=[method], name=f"{method} {path}")


def in_repo(method: str, path: str, answering: Answering) -> Route:
    """One verb on one path of the repository."""
    return route(method, REPO + path, answering)


def gone() -> Response:
    """Done, and nothing to say."""
    return Response(status_code=204)
