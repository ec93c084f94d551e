"""Webhooks: signed, or not even parsed; recorded before they are answered; worked on after."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from pydantic import ValidationError

from resolvent.errors import Unavailable
from resolvent.intake.desk import Desk
from resolvent.intake.payloads import arrivals_of, judged_commit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 25 << 20
# How long a body may take to come, and how much of all that are coming is kept in memory.
PATIENCE_S = 10.0
MAX_COMING = 64 << 20
_DELIVERY = re.compile(r"[A-Za-z0-9-]{1,100}")


@dataclass(frozen=True)
class Reply:
    """An HTTP status and a sentence."""

    status: int
    message: str


class _Refused(Exception):
    """Ends a request with that reply."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = Reply(status, message)


@dataclass(eq=False)
class _Coming:
    """A body on its way, from whoever it is: nothing is known of them before it is whole."""

    ends: asyncio.Timeout
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class Webhooks:
    """An ASGI application: POST /webhook and GET /healthz, and nothing else."""

    def __init__(self, desk: Desk, *, secret: str, patience_s: float = PATIENCE_S) -> None:
        self._desk = desk
        self._secret = secret.encode()
        self._patience_s = patience_s
        self._coming: set[_Coming] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            reply = await self._reply(scope, receive)
        except _Refused as refused:
            reply = refused.reply
        except Unavailable as error:
            # The forge keeps what was not accepted, and can be asked to deliver it again.
            reply = Reply(503, f"try later: {type(error).__name__}")
        body = json.dumps({"message": reply.message}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if reply.status in (408, 413, 503):
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        if scope["path"] == "/healthz" and scope["method"] in ("GET", "HEAD"):
            return Reply(200, "ok")
        if scope["path"] != "/webhook":
            return Reply(404, "webhooks are taken at /webhook")
        if scope["method"] != "POST":
            return Reply(405, "webhooks are POSTed")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = await self._body(headers, receive)
        if not self._signed(headers.get("x-hub-signature-256", ""), body):
            return Reply(401, "the signature does not fit")
        return await self._accept(headers, body)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """All of it, as long as it is not too much and comes in time."""
        said = headers.get("content-length", "0")
        if not said.isascii() or not said.isdigit() or int(said[:20]) > MAX_BODY:
            raise _Refused(413, f"at most {MAX_BODY >> 20} MB are read")
        coming = _Coming(asyncio.timeout(self._patience_s))
        self._coming.add(coming)
        try:
            async with coming.ends:
                while await self._more(coming, receive):
                    pass
        except TimeoutError as error:
            raise _Refused(408, "the body took too long to come") from error
        finally:
            self._coming.discard(coming)
        return b"".join(coming.parts)

    async def _more(self, coming: _Coming, receive: Receive) -> bool:
        """One part; False when it was the last."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "the request ended early")
        coming.parts.append(message.get("body", b""))
        coming.size += len(coming.parts[-1])
        if coming.size > MAX_BODY:
            raise _Refused(413, f"at most {MAX_BODY >> 20} MB are read")
        while sum(one.size for one in self._coming) > MAX_COMING:
            # Whoever sends most gives way, so that nobody keeps small ones out by sending large ones slowly.
            largest = max(self._coming, key=lambda one: one.size)
            self._coming.discard(largest)
            largest.parts.clear()
            if largest is coming:
                raise _Refused(503, "too much comes at once: try later")
            largest.ends.reschedule(asyncio.get_running_loop().time())
        return bool(message.get("more_body"))

    def _signed(self, said: str, body: bytes) -> bool:
        meant = f"sha256={hmac.new(self._secret, body, hashlib.sha256).hexdigest()}"
        return hmac.compare_digest(said.encode("latin-1"), meant.encode())

    async def _accept(self, headers: dict[str, str], body: bytes) -> Reply:
        event, delivery = headers.get("x-github-event", ""), headers.get("x-github-delivery", "")
        if event == "ping":
            return Reply(200, "pong")
        if not event or not _DELIVERY.fullmatch(delivery):
            return Reply(400, "X-GitHub-Event and X-GitHub-Delivery say what this is")
        payload = _parsed(body, form="x-www-form-urlencoded" in headers.get("content-type", ""))
        repo = self._desk.home.settings.forge.repo
        try:
            told = arrivals_of(event, payload, self._desk.configuration.rules, repo=repo)
            if commit := judged_commit(event, payload, repo=repo):
                # Not recorded: who waits looks for itself, and would without us.
                (await self._desk.forge()).nudge(commit)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in fault["loc"])
            return Reply(400, f"no payload of {event[:40]}: {place or 'it'}: {fault['msg']}"[:300])
        new = await self._desk.arrivals.record(told, delivery=delivery)
        self._desk.boundary("recorded")
        return Reply(202, "known already" if new is None else "accepted" if new else "nothing to do")


def _parsed(body: bytes, *, form: bool) -> object:
    """The JSON a delivery holds, as itself or in a form."""
    try:
        if form:
            fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=10)
            body = fields["payload"][0].encode()
        return json.loads(body)
    except (ValueError, KeyError, RecursionError) as error:
        raise _Refused(400, "the body is not JSON") from error
