"""The first words of a tunnel: a TLS client says in clear which host it wants, and must want the one it was let to."""

from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.proxy_targets import Refused, Target, literal
else:
    from proxy_targets import Refused, Target, literal

TLS_PORT = 443
ALERT, HANDSHAKE = 21, 22
# What a client may send between two hellos: a change of ciphers for old routers, an alert, early words; and not yet.
BETWEEN = (b"\x14", b"\x15", b"\x17", b"")
CLIENT_HELLO = 1
SERVER_NAME = 0
# With either the name in clear is a cover for another one: Encrypted ClientHello, and the draft before it.
HIDING = (0xFE0D, 0xFFCE)
RECORD_HEADER, MESSAGE_HEADER = 5, 4
LONGEST_RECORD = LONGEST_HELLO = 1 << 14
MOST_RECORDS = 64
# No record is longer than this by far: one that is held back always gets whole.
MOST_HELD = 1 << 16
# The random of a ServerHello that asks for another ClientHello (RFC 8446, 4.1.3), and where it lies.
ASK_AGAIN = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
RANDOM = slice(RECORD_HEADER + MESSAGE_HEADER + 2, RECORD_HEADER + MESSAGE_HEADER + 2 + 32)
# Fatal, unrecognized_name: clients print it.
FAREWELL = bytes((ALERT, 3, 3, 0, 2, 2, 112))


def _refused(why: str) -> Refused:
    return Refused(403, why, farewell=FAREWELL)


class _Fields:
    """The fields of a TLS structure, one after the other."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def __bool__(self) -> bool:
        return bool(self._octets)

    def take(self, size: int) -> bytes:
        if len(self._octets) < size:
            raise _refused("the TLS ClientHello is malformed")
        taken, self._octets = self._octets[:size], self._octets[size:]
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))

    def end(self) -> None:
        if self._octets:
            raise _refused("the TLS ClientHello is malformed")


def first_message(held: bytes) -> tuple[bytes, int] | None:
    """The ClientHello that these records bear, and how many bytes they take; None while it is not whole."""
    message, at = b"", 0
    for _ in range(MOST_RECORDS):
        header = held[at : at + RECORD_HEADER]
        if header[:1] not in (b"", bytes((HANDSHAKE,))) or header[1:2] not in (b"", b"\x03"):
            raise _refused("what was sent is not TLS")
        size = int.from_bytes(header[3:])
        if len(header) == RECORD_HEADER and not 0 < size <= LONGEST_RECORD:
            raise _refused("what was sent is not TLS")
        after = at + RECORD_HEADER + size
        message += held[at + RECORD_HEADER : after] if len(header) == RECORD_HEADER else b""
        if message and message[0] != CLIENT_HELLO:
            raise _refused("the TLS handshake does not begin with a ClientHello")
        whole = MESSAGE_HEADER + int.from_bytes(message[1:MESSAGE_HEADER])
        if len(message) >= MESSAGE_HEADER and (whole > LONGEST_HELLO or len(message) > whole):
            raise _refused("the TLS ClientHello is too long")
        if len(header) < RECORD_HEADER or len(held) < after:
            return None
        at = after
        if MESSAGE_HEADER <= len(message) == whole:
            return message[MESSAGE_HEADER:], at
    raise _refused("the TLS ClientHello is in too many pieces")


def server_name(hello: bytes) -> str:
    """The host that a ClientHello asks for in clear; empty when it asks for none."""
    fields = _Fields(hello)
    fields.take(2 + 32)
    for width in (1, 2, 1):  # session, ciphers, compressions
        fields.vector(width)
    if not fields:
        return ""
    extensions, seen = _Fields(fields.vector(2)), dict[int, bytes]()
    fields.end()
    while extensions:
        kind = extensions.number(2)
        if kind in seen:
            raise _refused("the TLS ClientHello is malformed")
        if kind in HIDING:
            raise _refused("Encrypted ClientHello hides the host that is meant; switch it off")
        seen[kind] = extensions.vector(2)
    return _only_name(seen[SERVER_NAME]) if SERVER_NAME in seen else ""


def _only_name(extension: bytes) -> str:
    outer = _Fields(extension)
    names = _Fields(outer.vector(2))
    outer.end()
    kind, name = names.number(1), names.vector(2)
    # Two names in the list, and nobody knows which of them the server will take.
    names.end()
    if kind != 0 or not name:
        raise _refused("the TLS ClientHello is malformed")
    return name.decode("latin-1").lower()


class Greeting:
    """Holds back what a client says in its tunnel until it has named its target, and again if the server asks twice."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._held = self._answer = b""
        self._awaited = "hello"

    @property
    def wants(self) -> bool:
        """There is room for more of the client's words."""
        return len(self._held) < MOST_HELD

    @property
    def overdue(self) -> bool:
        """A client that must speak TLS has not said whom it wants."""
        return self._awaited == "hello" and self._target.port == TLS_PORT

    def admit(self, chunk: bytes) -> bytes:
        """Take in what the client says; what may go on to the server."""
        self._held += chunk
        if self._awaited == "hello" and self._target.port != TLS_PORT and self._held[:1] not in (b"", b"\x16"):
            self._awaited = ""
        if self._awaited == "hello":
            return self._named("answer")
        if self._awaited == "hello again":
            return self._skipped() + (b"" if self._held[:1] in BETWEEN else self._named(""))
        return b"" if self._awaited == "answer" else self._released(len(self._held))

    def hear(self, chunk: bytes) -> None:
        """Take in what the server says: it alone can make a second ClientHello count, which may name another host."""
        if self._awaited != "answer":
            return
        self._answer += chunk
        if self._answer[0] != HANDSHAKE:
            self._awaited = ""
        elif len(self._answer) >= RANDOM.stop:
            self._awaited = "hello again" if self._answer[RANDOM] == ASK_AGAIN else ""

    def _released(self, size: int) -> bytes:
        passed, self._held = self._held[:size], self._held[size:]
        return passed

    def _named(self, then: str) -> bytes:
        found = first_message(self._held)
        if found is None:
            return b""
        hello, size = found
        name, host = server_name(hello), self._target.host
        # Addresses have no place in this extension, so those who connect to one leave it out.
        if name != host and (name or not literal(host)):
            raise _refused(f"TLS asks for {ascii(name)[:80] if name else 'no host'} in the tunnel to {host}")
        self._awaited = then
        passed = self._released(size)
        return passed if then else passed + self._released(len(self._held))

    def _skipped(self) -> bytes:
        """The whole records that lie before the second hello."""
        passed = b""
        while len(self._held) >= RECORD_HEADER and self._held[:1] in BETWEEN:
            size = RECORD_HEADER + int.from_bytes(self._held[3:RECORD_HEADER])
            if size > MOST_HELD:
                raise _refused("what was sent is not TLS")
            if len(self._held) < size:
                break
            passed += self._released(size)
        return passed
