"""The door of the HTTP server: who may come in, and which of the SDK's two ways of answering they get."""

import hmac
import ipaddress
import json
import os
import re
from dataclasses import dataclass

from resolvent.mcp.peer import user_of
from resolvent.mcp.presence import Application, Receive, Scope, Send, while_connected

PATHS = ("/mcp", "/mcp/sse")
JSON, EVENTS = "application/json", "text/event-stream"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?")


@dataclass(frozen=True)
class Refusal:
    """Why somebody stays outside, as an HTTP status and a sentence."""

    status: int
    message: str


class Door:
    """An ASGI application that lets the right callers through to the protocol.

    Without a token only this user on this machine may call; with one, whoever has it.
    """

    def __init__(self, *, as_json: Application, as_events: Application, loopback: bool, token: str = "") -> None:
        self._as_json = as_json
        self._as_events = as_events
        self._loopback = loopback
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if refusal := self._refusal(scope, headers):
            await _refuse(send, refusal)
            return
        has_json, has_events = _accepted(headers.get("accept", ""))
        # The SDK wants to hear that both are fine before it answers with either.
        scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"accept"]
        scope["headers"].append((b"accept", f"{JSON}, {EVENTS}".encode()))
        application = self._as_events if has_events and not has_json else self._as_json
        await while_connected(application, scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        return self._wrong_name(headers) or self._wrong_caller(scope, headers) or _wrong_request(scope, headers)

    def _wrong_name(self, headers: dict[str, str]) -> Refusal | None:
        """A page in a browser reaches us under a name of its own, or says where it comes from."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._loopback and not _is_loopback(host):
            return Refusal(421, "this server answers to names of this machine only, such as localhost")
        if origin is None:
            return None
        _, _, origin_host = origin.partition("://")
        if _is_loopback(origin_host) or (origin_host and origin_host.lower() == host.lower()):
            return None
        return Refusal(403, "requests from other origins are refused")

    def _wrong_caller(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        if self._token:
            scheme, _, said = headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(said.strip().encode("latin-1"), self._token.encode("latin-1"))
            return None if scheme.lower() == "bearer" and same else Refusal(401, "a bearer token is needed")
        client, server = scope.get("client"), scope.get("server")
        if not client or not server:
            return Refusal(403, "it cannot be told who calls")
        # In place: a thread may be long in coming while branches are being copied, and the kernel answers at once.
        user = user_of(tuple(client), tuple(server))
        return None if user == os.geteuid() else Refusal(403, "only the user who started this server may call it")


def _wrong_request(scope: Scope, headers: dict[str, str]) -> Refusal | None:
    if scope["path"].rstrip("/") not in PATHS:
        return Refusal(404, f"the protocol is spoken at {PATHS[0]}")
    if scope["method"] != "POST":
        # Nothing is ever sent without being asked for, so there is no stream to open and no session to end.
        return Refusal(405, "POST a JSON-RPC request")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return Refusal(415, f"the content type must be {JSON}")
    if not any(_accepted(headers.get("accept", ""))):
        return Refusal(406, f"answers are {JSON} or {EVENTS}")
    return None


def _accepted(header: str) -> tuple[bool, bool]:
    """Whether JSON and whether an event stream would do; who says nothing takes anything."""
    kinds = [kind.partition(";")[0].strip().lower() for kind in header.split(",") if kind.strip()] or ["*/*"]
    return (
        any(kind in ("*/*", "application/*", JSON) for kind in kinds),
        any(kind in ("*/*", "text/*", EVENTS) for kind in kinds),
    )


def _is_loopback(host: str) -> bool:
    """A `host` or `host:port` that can only mean this machine."""
    found = _HOST.fullmatch(host.lower())
    name = (found[1] or found[2]) if found else ""
    if name in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _refuse(send: Send, refusal: Refusal) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refusal.message}}
    headers = [(b"content-type", JSON.encode())]
    if refusal.status == 405:
        headers.append((b"allow", b"POST"))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error).encode()})
