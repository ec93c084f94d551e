"""The rehearsal forge as one ASGI application: GitHub's REST and GraphQL, git, and what works it from behind."""

import json
import re
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from resolvent.errors import ResolventError
from resolvent.forge_server.app_answers import Sealing, scope_headers
from resolvent.forge_server.app_backstage import Backstage
from resolvent.forge_server.app_faults import Troubled
from resolvent.forge_server.door import NOBODY, Admitted, Refusal, admitted, not_found, refusal_of
from resolvent.forge_server.door_rights import allowed, led_on

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

PUBLIC = "https://github.com"
PREFIX = "/api/v3"
GRAPHQL = ("/api/graphql", "/graphql")
# These are for everybody, or their routes look at what is shown themselves: the signature of an App.
OPEN = ("/meta", "/app", "/app/")
# Under any other name it was somebody else's who led here: a page in a browser, whose name means this machine now.
HOSTS = re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d{1,5})?|(?:api\.)?github\.com(?::443)?", re.ASCII | re.IGNORECASE)


def application(hub: "Hub", *, base: str, backstage: Backstage | None = None) -> ASGIApp:
    """What serves that hub at `base`, `https://localhost:8443`, and to who asks for github.com as github.com."""
    backstage = backstage or Backstage.of(hub, base)
    return Troubled(Application(hub, base, backstage), backstage)


class Application:
    """Finds out what is asked for, and who asks."""

    def __init__(self, hub: "Hub", base: str, backstage: Backstage) -> None:
        from resolvent.forge_server.control import control
        from resolvent.forge_server.rest import routes
        from resolvent.forge_server.smart_http import SmartHttp

        self._hub = hub
        self._base = base
        self._backstage = backstage
        self._rest = _starlette(routes())
        self._control = _starlette(control())
        self._git = SmartHttp(hub, backstage)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if not HOSTS.fullmatch(request.headers.get("host", "")):
            await Refusal(421, "Misdirected Request").response()(scope, receive, send)
            return
        public = (request.url.hostname or "").lower() in ("github.com", "api.github.com")
        told = {"hub": self._hub, "backstage": self._backstage, "by": NOBODY, "scopes": ()}
        scope.setdefault("state", {}).update(told, base=PUBLIC if public else self._base)
        path = scope["path"]
        if path.startswith("/_forge/"):
            await self._api(_below(scope, "/_forge"), receive, send, self._control)
        elif path in GRAPHQL:
            await self._api(scope, receive, send, graphql)
        elif path == PREFIX or path.startswith(f"{PREFIX}/"):
            await self._api(_below(scope, PREFIX), receive, send, self._rest)
        elif (request.url.hostname or "").lower() == "api.github.com":
            await self._api(scope, receive, send, self._rest)
        else:
            await self._git(scope, receive, send)

    async def _api(self, scope: Scope, receive: Receive, send: Send, inner: ASGIApp) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        rates, resource = self._backstage.rates, _resource(path)
        who, sealed = Admitted(NOBODY), Sealing(scope, send, rates.of("", resource), free=path == "/rate_limit")
        try:
            if path not in OPEN and not path.startswith("/app/"):
                who = await admitted(self._hub, Request(scope))
            sealed.rate = rates.of(who.by.login, resource)
            sealed.more = scope_headers(who)
            scope["state"] |= {"by": who.by, "scopes": who.scopes}
            if not sealed.rate.remaining and not sealed.free:
                raise rates.exceeded(sealed.rate, id=who.by.id)
            if moved := led_on(self._hub, Request(scope), self._backstage.formerly):
                await moved(scope, receive, sealed)
                return
            allowed(self._hub, Request(scope), who)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sealed)
            return
        await inner(scope, receive, sealed)


async def graphql(scope: Scope, receive: Receive, send: Send) -> None:
    """One query or mutation, POSTed as JSON."""
    from resolvent.forge_server.graphql import Asked, answer
    from resolvent.forge_server.rest.asking import Answer

    request = Request(scope, receive)
    try:
        if request.method != "POST":
            raise not_found()
        said = await _document(request)
        asked = Asked(
            query=_typed(said, "query", str) or "",
            variables=_typed(said, "variables", dict) or {},
            operation=_typed(said, "operationName", str),
            scopes=request.state.scopes,
        )
        result = await answer(request.state.hub, request.state.by, asked, base=request.state.base)
        response: Response = Answer(result)
    except Refusal as refusal:
        response = refusal.response()
    except ResolventError as error:
        response = refusal_of(error).response()
    await response(scope, receive, send)


async def _document(request: Request) -> dict[str, Any]:
    try:
        said = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Problems parsing JSON") from error
    if not isinstance(said, dict):
        raise Refusal(400, "Body should be a JSON object")
    return said


def _typed(said: dict[str, Any], name: str, kind: type) -> Any:
    value = said.get(name)
    if value is not None and not isinstance(value, kind):
        raise Refusal(400, f"{name} is not of the right type")
    return value


def _resource(path: str) -> str:
    return "graphql" if path in GRAPHQL else "search" if path.startswith("/search/") else "core"


def _below(scope: Scope, prefix: str) -> Scope:
    """The same request, for an application that begins at that path."""
    return {**scope, "root_path": prefix}


def _starlette(routes: Any) -> Starlette:
    made = Starlette(
        routes=list(routes),
        exception_handlers={
            Refusal: _refused,
            ResolventError: _failed,
            HTTPException: _unknown,
            json.JSONDecodeError: _unreadable,
            UnicodeDecodeError: _unreadable,
            Exception: _broken,
        },
    )
    made.router.redirect_slashes = False
    return made


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, ResolventError)
    return refusal_of(error).response()


def _unknown(_: Request, error: Exception) -> Response:
    # A path that is there for another method is not there at all, says GitHub.
    status = getattr(error, "status_code", 404)
    return (not_found() if status in (404, 405) else Refusal(status, str(getattr(error, "detail", "")))).response()


def _unreadable(_: Request, __: Exception) -> Response:
    return Refusal(400, "Problems parsing JSON").response()


def _broken(_: Request, __: Exception) -> Response:
    return Refusal(500, "Server Error").response()
