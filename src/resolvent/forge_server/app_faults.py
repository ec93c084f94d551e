"""Where faults strike: before the application is asked, or between what it did and whoever waits for the answer."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resolvent.forge_server.app_answers import plain_headers
from resolvent.forge_server.app_backstage import Backstage, Seen
from resolvent.forge_server.door import DOCUMENTATION, Refusal
from resolvent.forge_server.faults import Fault

QUICKLY = "was submitted too quickly"


class Troubled:
    """An application whose requests are counted, and run into the faults that are in force."""

    def __init__(self, inner: ASGIApp, backstage: Backstage) -> None:
        self.inner = inner
        self.backstage = backstage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method, path, query = scope["method"], scope["path"], scope["query_string"].decode("latin-1")
        scope.setdefault("state", {})
        if path.startswith("/_forge/"):
            await self.inner(scope, receive, send)
            return

        def saw(status: int) -> None:
            by = scope["state"].get("by")
            self.backstage.saw(Seen(method, path, status, by.login if by else "", query))

        async def counted(message: Message) -> None:
            # Before it is sent: who has the answer may look at once.
            if message["type"] == "http.response.start":
                saw(message["status"])
            await send(message)

        fault = self.backstage.faults.strikes(method, f"{path}?{query}" if query else path)
        if fault is None or fault.kind not in ("lost", "cut"):
            await self._run(fault, scope, receive, counted)
            return
        if fault.kind == "lost":
            await self.inner(scope, receive, _nowhere)
        saw(0)
        await cut(scope, receive)

    async def _run(self, fault: Fault | None, scope: Scope, receive: Receive, send: Send) -> None:
        kind = fault.kind if fault else ""
        if fault and kind in ("error", "secondary", "primary", "hasty", "belied"):
            if kind == "belied":
                await self.inner(scope, receive, _nowhere)
            await self._answer(fault, graphql=scope["path"].endswith("/graphql"))(scope, receive, send)
        elif kind == "malformed":
            await self.inner(scope, receive, _Halving(send))
        else:
            if kind == "slow":
                await self.backstage.faults.hold()
            await self.inner(scope, receive, send)

    def _answer(self, fault: Fault, *, graphql: bool) -> Response:
        if fault.kind in ("error", "belied"):
            said = {"message": "Server Error", "documentation_url": DOCUMENTATION, "status": str(fault.status)}
            return JSONResponse(said | fault.said, fault.status, headers=plain_headers())
        refusal = self._refusal(fault, resource="graphql" if graphql else "core")
        if not graphql:
            return refusal.response()
        # There only the words tell, and the headers.
        kind = {"primary": "RATE_LIMITED", "hasty": "UNPROCESSABLE"}.get(fault.kind)
        error = {"message": QUICKLY if fault.kind == "hasty" else refusal.message} | ({"type": kind} if kind else {})
        return JSONResponse({"data": None, "errors": [error]}, headers=refusal.headers)

    def _refusal(self, fault: Fault, *, resource: str) -> Refusal:
        if fault.kind == "hasty":
            wrong = {"resource": "Issue", "code": "custom", "message": QUICKLY}
            return Refusal(422, "Validation Failed", errors=[wrong], headers=plain_headers())
        if fault.kind == "secondary":
            said = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
            return Refusal(403, said, headers=plain_headers() | {"retry-after": str(fault.retry_after)})
        # Of whoever asks, and of nobody else: it is only this answer that says so.
        rates = self.backstage.rates
        refusal = rates.exceeded(rates.of("", resource), status=429)
        refusal.headers |= plain_headers()
        return refusal


async def cut(scope: Scope, receive: Receive) -> None:
    """End the connection now, without an answer."""
    transport = scope["state"].get("transport")
    if transport is None:
        raise ConnectionAbortedError(f"{Request(scope).url.path} was cut")
    transport.abort()
    # The server counts a request as unanswered, and apologises for it, until it has heard of the end.
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nowhere(_: Message) -> None:
    pass


class _Halving:
    """Lets half of an answer through, as if that were all of it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        half = self._body[: len(self._body) // 2]
        kept = [(name, value) for name, value in self._start["headers"] if name != b"content-length"]
        kept.append((b"content-length", b"%d" % len(half)))
        await self._send({**self._start, "headers": kept})
        await self._send({"type": "http.response.body", "body": half})
