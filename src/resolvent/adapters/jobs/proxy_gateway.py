"""A gateway: plain HTTP in a box, one server outside, and the key is put in on the way.

The program in the box asks its own loopback and has no key at all. Whatever it asks for goes to the one server that a
person configured and to no other, over verified TLS where that is an https address.
"""

import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __package__:
    import ssl

    from resolvent.adapters.jobs import proxy_requests, proxy_targets
    from resolvent.adapters.jobs.proxy_requests import Request
    from resolvent.adapters.jobs.proxy_targets import Permission, Refused, Resolve, Target
else:
    import proxy_requests
    import proxy_targets
    from proxy_requests import Request
    from proxy_targets import Permission, Refused, Resolve, Target

LONGEST_ANSWER_HEAD = 64 << 10
PORTS = {"http": 80, "https": 443}
_UPSTREAM = re.compile(r"(https?)://([^/?#@\s]+?)(?::([0-9]{1,5}))?((?:/[\x21\x24-\x3e\x40-\x7e]*)?)", re.ASCII)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?")
# A server that wants to be left alone says with these until when.
_AWAY = (b"429", b"503", b"529")
# Between two neighbours only: ours and the server's, or ours and the program's.
_HOP = {"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "upgrade", "te"}
_FRAMING = {"host", "content-length", "transfer-encoding", "connection"}
# There is only nothing to be read, or no room to write, for now. By name: without an https address nobody needs `ssl`.
_WAITING = ("BlockingIOError", "SSLWantReadError", "SSLWantWriteError")
# Steps up and their disguises: with them a path could leave the one of the upstream.
_DOTS = re.compile(r"(?:\.|%2e){1,2}(?:;.*)?", re.IGNORECASE | re.DOTALL)
_SLASH = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)
# Where systems keep their certificates, should this Python have been built for another one.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Upstream(NamedTuple):
    """The server behind a gateway; `prefix` goes before every path that is asked for."""

    secure: bool
    target: Target
    prefix: str

    @property
    def host(self) -> str:
        """Its name as a request says it."""
        usual = PORTS["https" if self.secure else "http"]
        return str(self.target).removesuffix(f":{usual}") if self.target.port == usual else str(self.target)


def upstream(written: str) -> Upstream:
    """Read `http[s]://host[:port][/path]`; ValueError says what is wrong with it."""
    parts = _UPSTREAM.fullmatch(written)
    if not parts:
        raise ValueError("it is not https://host, or http://host:port, without a user, a query or a fragment")
    scheme, host, port, path = parts.groups()
    return Upstream(scheme == "https", proxy_targets.target(f"{host}:{port or PORTS[scheme]}"), path.rstrip("/"))


def headers(given: Mapping[str, str]) -> dict[str, str]:
    """The headers that are put in, by their names in lower case; ValueError, which never tells a value."""
    for name, value in given.items():
        if not _NAME.fullmatch(name) or name.lower() in _FRAMING:
            raise ValueError(f"{ascii(name)[:80]} is no header that can be put in")
        if not _VALUE.fullmatch(value) or value != value.strip():
            raise ValueError(f"the value of the header {name} begins or ends with a blank, or holds a line break")
    return {name.lower(): value for name, value in given.items()}


class Gateway:
    """The way to one server. ValueError, before anything is served, when it is none."""

    def __init__(self, written: str, given: Mapping[str, str]) -> None:
        self._to, self._headers = upstream(written), headers(given)
        self._trust = trust() if self._to.secure else None
        self.name = str(self._to.target)

    def rewritten(self, asked: Request) -> bytes:
        """The head as the server gets it: for its own name, with our headers in place of what the program sent."""
        if asked.method in ("CONNECT", "TRACE"):
            raise Refused(405, f"{asked.method} is not taken here: this is the gateway to {self.name}")
        if not asked.target.startswith("/"):
            raise Refused(403, f"this is the gateway to {self.name} and to no other server: ask for /path")
        path, _, _ = asked.target.partition("?")
        if any(map(_DOTS.fullmatch, _SLASH.split(path))):
            raise Refused(400, "a path with . or .. in it is not taken here")
        return proxy_requests.addressed(asked, self._to.host, self._to.prefix + asked.target, instead=self._headers)

    def reached(self, resolve: Resolve, *, each_s: float, until: float) -> "Answering":
        """A connection to the server; Refused says why there is none."""
        to = self._to.target
        # A person named this server: it may be on this machine, or in its own network.
        found = proxy_targets.addresses(Permission(to, private=True), resolve)
        far = proxy_targets.connection(to, found, each_s=each_s, until=until)
        if self._trust is None:
            return Answering(far, self.name)
        try:
            far.settimeout(each_s)
            return Answering(self._trust.wrap_socket(far, server_hostname=to.host.encode()), self.name)
        except OSError as error:
            # In words of its own OpenSSL names the certificate and what is wrong with it, and nothing of ours.
            why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or str(error)
            raise Refused(502, f"{to} has no TLS that can be trusted: {why}") from None
        finally:
            far.close()


class Answering:
    """The server's end as a relay takes it: TLS is hidden, and its answer says that it is the last one."""

    def __init__(self, far: socket.socket, name: str) -> None:
        self._far, self._name = far, name
        self._head: bytes | None = b""
        self._deaf = False
        # A byte of the answer was given out.
        self.answered = False
        # Told of an answer that sends everybody away for a while, before it is given out.
        self.sent_away: Callable[[str], None] = lambda said: None

    def __enter__(self) -> "Answering":
        return self

    def __exit__(self, *_: object) -> None:
        self._far.close()

    def fileno(self) -> int:
        return self._far.fileno()

    def setblocking(self, flag: bool) -> None:
        self._far.setblocking(flag)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self._far.setsockopt(level, name, value)

    def shutdown(self, how: int) -> None:
        """Tell the server that nobody asks any more; by TCP alone, since TLS cannot be closed one way."""
        socket.socket.shutdown(self._far, how)

    def send(self, said: bytes) -> int:
        """As a socket does; to a server that takes no more, in silence: it may have answered already."""
        if self._deaf:
            return len(said)
        try:
            return self._far.send(said)
        except OSError as error:
            if type(error).__name__ in _WAITING:
                raise BlockingIOError from None
            self._deaf = True
            return len(said)

    def recv(self, size: int) -> bytes:
        """As a socket does; Refused when the server breaks off before it has answered, or says what is no answer."""
        try:
            chunk = self._far.recv(size)
        except OSError as error:
            if type(error).__name__ in _WAITING:
                raise BlockingIOError from None
            if self.answered:
                raise
            why = getattr(error, "reason", "") or error.strerror or str(error)
            raise Refused(502, f"{self._name} broke off: {why}") from None
        if self._head is None:
            return chunk
        if not chunk:
            raise Refused(502, f"{self._name} closed the connection without an answer")
        self._head += chunk
        if not (shown := self._begun()):
            raise BlockingIOError
        self.answered = True
        return shown

    def _begun(self) -> bytes:
        """The heads that are complete, and after the last of them what follows it."""
        shown = b""
        while self._head is not None and (size := self._head.find(b"\r\n\r\n")) >= 0:
            first, *fields = self._head[:size].split(b"\r\n")
            rest = self._head[size + 4 :]
            status = _STATUS.fullmatch(first)
            if not status:
                raise Refused(502, f"{self._name} does not answer in HTTP/1.1")
            if status[1].startswith(b"1"):
                # Only a word on the way, as 100 Continue: the answer is still to come.
                shown += self._head[: size + 4]
                self._head = rest
            else:
                self._look(status[1], fields)
                shown += b"\r\n".join([first, *filter(_kept, fields), b"connection: close", b"", rest])
                self._head = None
        if self._head is not None and len(self._head) > LONGEST_ANSWER_HEAD:
            raise Refused(502, f"the head of the answer of {self._name} is longer than {LONGEST_ANSWER_HEAD} bytes")
        return shown

    def _look(self, status: bytes, fields: list[bytes]) -> None:
        """Pass on for how long the server wants to be left alone: not every program tells who waits for it."""
        for name, _, value in (field.partition(b":") for field in fields if status in _AWAY):
            if name.strip().lower() == b"retry-after":
                self.sent_away(f"{status.decode()} {time.time():.3f} {ascii(value.strip().decode('latin-1'))[1:-1]}")


def _kept(field: bytes) -> bool:
    return field.partition(b":")[0].strip().lower().decode("latin-1") not in _HOP


def trust() -> "ssl.SSLContext":
    """The authorities of this system, or those of SSL_CERT_FILE; to be called by one who may read them."""
    import ssl

    context = ssl.create_default_context()
    known = ssl.get_default_verify_paths()
    if not (known.cafile or known.capath):
        for bundle in BUNDLES:
            with suppress(OSError):
                context.load_verify_locations(bundle)
                break
    context.set_alpn_protocols(["http/1.1"])
    return context
