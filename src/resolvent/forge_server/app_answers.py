"""How every answer of the API is sealed: revalidation, limits, and the headers that clients of GitHub read."""

import hashlib
import secrets
from dataclasses import dataclass, field
from email.utils import formatdate

from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from resolvent.forge_server.door import Admitted
from resolvent.forge_server.door_rates import Rate

VARY = "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With"


def plain_headers() -> dict[str, str]:
    """What every answer carries, whoever asked."""
    return {
        "date": formatdate(usegmt=True),
        "server": "github.com",
        "x-github-request-id": ":".join(secrets.token_hex(2).upper() for _ in range(5)),
        "x-github-media-type": "github.v3; format=json",
        "x-github-api-version-selected": "2022-11-28",
    }


def scope_headers(admitted: Admitted) -> dict[str, str]:
    """The scopes that the token has; tokens of Apps have none."""
    return {} if admitted.integration else {"x-oauth-scopes": ", ".join(admitted.scopes)}


@dataclass
class Sealing:
    """Holds an answer until it is whole, then sends it, or 304 to who has it already; that costs nothing."""

    scope: Scope
    send: Send
    rate: Rate
    more: dict[str, str] = field(default_factory=dict)
    # To look how much is left is not counted.
    free: bool = False
    _start: Message = field(default_factory=dict)
    _body: bytearray = field(default_factory=bytearray)

    async def __call__(self, message: Message) -> None:
        """ASGI's send."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._whole()

    async def _whole(self) -> None:
        status = self._start["status"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._start.get("headers", [])}
        if status == 200 and self.scope["method"] in ("GET", "HEAD"):
            etag = _etag(bytes(self._body), headers.get("content-type", ""))
            headers |= {"etag": etag, "cache-control": "private, max-age=60, s-maxage=60", "vary": VARY}
            if _has(Headers(scope=self.scope).get("if-none-match", ""), etag):
                status = 304
                self._body.clear()
                # Whoever has it knows these, says HTTP; what a client kept of the pages may be older than the list.
                for name in ("content-length", "content-type", "link"):
                    headers.pop(name, None)
        if status != 304 and not self.free:
            self.rate.used += 1
        sealed = plain_headers() | self.rate.headers() | self.more | headers
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sealed.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        await self.send({"type": "http.response.body", "body": bytes(self._body)})


def _etag(body: bytes, kind: str) -> str:
    digest = hashlib.sha256(kind.encode() + b"\0" + body).hexdigest()
    return f'W/"{digest}"'


def _has(given: str, etag: str) -> bool:
    """One of the entity tags that were given is this one, weak or not."""
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    return bool(tags & {"*", etag.removeprefix("W/")})
