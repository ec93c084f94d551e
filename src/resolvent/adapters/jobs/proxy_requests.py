"""What clients say to the proxy in HTTP/1, read strictly: whatever two readers could take for two things is refused."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.proxy_targets import Refused, Target, target
else:
    from proxy_targets import Refused, Target, target

LONGEST_HEAD = 32 << 10
PLAIN_PORT = 80
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_BEGINNING = re.compile(_TOKEN)
_REQUEST = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) (HTTP/1\.[01])")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_URL = re.compile(r"(?i:http)://([^/?#@]+)((?:[/?][^#]*)?)", re.ASCII)
LONGEST_SIZE = 8
_SIZE = re.compile(rb"[0-9A-Fa-f]+")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
# What is said to the proxy and not to the server behind it.
_FOR_US = {"connection", "host", "keep-alive", "te", "trailer", "upgrade", "proxy-connection"}
_FRAMING = {"content-length", "transfer-encoding"}


class Request(NamedTuple):
    """The head of a request, taken apart; names of fields are in lower case."""

    method: str
    target: str
    version: str
    fields: list[tuple[str, str]]

    def said(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known == name]


def may_begin(held: bytes) -> bool:
    """Whether this can be the beginning of a request at all."""
    return bool(_BEGINNING.match(held[:1]))


def request(head: bytes) -> Request:
    """Read a head without its last, empty line."""
    first, *rest = head.split(b"\r\n")
    begun = _REQUEST.fullmatch(first)
    if not begun:
        raise Refused(400, "the request line is malformed")
    method, named, version = (part.decode("ascii") for part in begun.groups())
    fields = []
    for line in rest:
        field = _FIELD.fullmatch(line)
        if not field:
            raise Refused(400, "a header line is malformed")
        fields.append((field[1].decode("ascii").lower(), field[2].decode("latin-1").rstrip(" \t")))
    return Request(method, named, version, fields)


def server(named: str) -> Target:
    """The server that is named as `host:port`."""
    try:
        return target(named)
    except ValueError as error:
        raise Refused(400, f"{ascii(named)[:120]} cannot be asked for: {error}") from None


def destination(asked: Request) -> tuple[Target, str]:
    """The server that a request in absolute form is for, and the path there."""
    parts = _URL.fullmatch(asked.target)
    if not parts:
        raise Refused(400, "this is a proxy: it takes CONNECT host:port, or http://host/ without a user or a fragment")
    authority, path = parts.groups()
    named = authority if re.search(r":[0-9]*\Z", authority) else f"{authority}:{PLAIN_PORT}"
    return server(named), path if path.startswith("/") else f"/{path}"


def path_at(asked: Request, to: Target) -> str:
    """The path of a request that came through a tunnel to this server already."""
    if asked.target.startswith("/"):
        return asked.target
    named, path = destination(asked)
    if named != to:
        raise Refused(403, f"{named} is asked for in the tunnel to {to}")
    return path


def rewritten(asked: Request, to: Target, path: str) -> bytes:
    """The head as the server gets it: for its own name, and for this one request only."""
    host = str(to).removesuffix(f":{PLAIN_PORT}") if to.port == PLAIN_PORT else str(to)
    return addressed(asked, host, path)


def addressed(asked: Request, host: str, path: str, *, instead: Mapping[str, str] | None = None) -> bytes:
    """The head for a host as it is to be named there; some fields, by names in lower case, have another value."""
    other = instead or {}
    dropped = _FOR_US | {name.strip().lower() for value in asked.said("connection") for name in value.split(",")}
    kept = [
        f"{name}: {value}"
        for name, value in asked.fields
        if name in _FRAMING or not (name in dropped or name in other or name.startswith("proxy-"))
    ]
    kept += [f"{name}: {value}" for name, value in other.items()]
    lines = [f"{asked.method} {path} {asked.version}", f"host: {host}", *kept, "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


class Body:
    """Lets the body of one request through and not a byte more, so that no second request rides along."""

    overdue = False

    def __init__(self, asked: Request) -> None:
        lengths, codings = asked.said("content-length"), asked.said("transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise Refused(400, "the length of the body is said more than once")
        if codings and (codings[0].lower() != "chunked" or asked.version != "HTTP/1.1"):
            raise Refused(400, "no transfer coding but chunked is understood")
        if lengths and not _LENGTH.fullmatch(lengths[0]):
            raise Refused(400, "the length of the body is malformed")
        self._left = int(lengths[0]) if lengths else 0
        self._held = b""
        self._chunked, self._last = bool(codings), False
        self.wants = bool(codings) or self._left > 0

    def hear(self, chunk: bytes) -> None:
        """What the server says changes nothing."""

    def admit(self, chunk: bytes) -> bytes:
        """The part of this that belongs to the body."""
        if not self._chunked:
            passed = chunk[: self._left]
            self._left -= len(passed)
            self.wants = self._left > 0
            return passed
        self._held += chunk
        size = 0
        while self.wants and (more := self._piece(size)):
            size += more
        passed, self._held = self._held[:size], self._held[size:]
        return passed

    def _piece(self, at: int) -> int:
        """How many bytes from here are one thing of a chunked body: a size, a part of a chunk, the end of its line."""
        if self._left > 2:
            part = min(self._left - 2, len(self._held) - at)
            self._left -= part
            return part
        if self._left == 2:
            end = self._held[at : at + 2]
            self._expect(b"\r\n".startswith(end))
            if len(end) < 2:
                return 0
            self._left, self.wants = 0, not self._last
            return 2
        line, ended, _ = self._held[at : at + LONGEST_SIZE + 2].partition(b"\r\n")
        self._expect(_SIZE.fullmatch(line) if ended else len(line) <= LONGEST_SIZE + 1)
        if not ended:
            return 0
        # A body ends with a chunk of nothing; fields after it are refused with everything else that is no end of line.
        self._left, self._last = int(line, 16) + 2, not int(line, 16)
        return len(line) + 2

    def _expect(self, true: object) -> None:
        if not true:
            raise Refused(400, "a chunk of the body is malformed")
