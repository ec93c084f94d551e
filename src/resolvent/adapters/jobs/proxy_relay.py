"""Bytes between a client and a server, both ways at once, as far as a gate, the clock and an allowance let them."""

import select
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.proxy_targets import Refused
else:
    from proxy_targets import Refused

CHUNK = 1 << 16
LINGER_S = 1.0


class End(Protocol):
    """What a relay needs of a socket; whatever speaks for one may stand in its place."""

    def fileno(self) -> int: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def send(self, said: bytes, /) -> int: ...
    def recv(self, size: int, /) -> bytes: ...


class Gate(Protocol):
    """What stands between a client's words and the server."""

    @property
    def wants(self) -> bool:
        """More of the client's words are asked for."""

    @property
    def overdue(self) -> bool:
        """The client owes us its first words, and soon."""

    def admit(self, chunk: bytes) -> bytes:
        """What may go on to the server, now that the client has said this too; Refused ends it all."""

    def hear(self, chunk: bytes) -> None:
        """The server said this."""


class Allowance:
    """The bytes that all connections of a job may move, in both directions together."""

    def __init__(self, octets: int) -> None:
        self._given = self._left = octets
        self._lock = threading.Lock()

    def spend(self, octets: int) -> None:
        with self._lock:
            self._left -= octets
            if self._left < 0:
                raise Refused(403, f"the job has used up its {self._given} bytes of network traffic")


class Pace(NamedTuple):
    """How long a relay may last: without a byte, until it must know whom it talks to, and in all."""

    idle_s: float
    hello_until: float
    until: float


class _Flow:
    """One direction: a chunk is read when the one before it is gone, so a slow reader slows its writer down."""

    def __init__(self, source: End, sink: End) -> None:
        self.source, self.sink = source, sink
        self.pending = b""
        self.ended = self._told = False

    def read(self) -> bytes:
        try:
            chunk = self.source.recv(CHUNK)
        except BlockingIOError:
            return b""
        self.ended = not chunk
        return chunk

    def write(self) -> bool:
        """Send what can be sent, and after the last of it the end; whether anything moved."""
        sent = 0
        if self.pending:
            try:
                sent = self.sink.send(self.pending)
            except BlockingIOError:
                return False
            self.pending = self.pending[sent:]
        if self.ended and not self.pending and not self._told:
            self._told = True
            self.sink.shutdown(socket.SHUT_WR)
        return sent > 0


class Relay:
    """A client and the server it was let to."""

    def __init__(self, near: socket.socket, far: End, gate: Gate, *, spend: Callable[[int], None]) -> None:
        self._gate, self._spend = gate, spend
        self._out, self._back = _Flow(near, far), _Flow(far, near)
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, first: bytes, pace: Pace) -> None:
        """Carry on until both have said all; `first` goes ahead of what the gate lets through."""
        self._out.pending = first
        moved_at = time.monotonic()
        while not self._over():
            limits = [moved_at + pace.idle_s, pace.until, *((pace.hello_until,) if self._gate.overdue else ())]
            left = min(limits) - time.monotonic()
            if left <= 0:
                raise Refused(408, "the connection was silent or open for too long")
            self._wait(left)
            if self._turn():
                moved_at = time.monotonic()

    def _over(self) -> bool:
        """The server has said all, and the client has nothing that it might still tell it."""
        out, back = self._out, self._back
        if out.pending or back.pending:
            return False
        return back.ended and (out.ended or not self._gate.wants)

    def _wait(self, seconds: float) -> None:
        wanted: dict[End, int] = {}
        for flow in (self._out, self._back):
            if flow.pending:
                wanted[flow.sink] = wanted.get(flow.sink, 0) | select.POLLOUT
            elif not flow.ended:
                asked = select.POLLIN if flow is self._back or self._gate.wants else select.POLLRDHUP
                wanted[flow.source] = wanted.get(flow.source, 0) | asked
        poll = select.poll()
        for end, events in wanted.items():
            poll.register(end, events)
        ready = dict(poll.poll(int(min(seconds, 86400) * 1000) + 1))
        # Nothing more is read from this client, so this alone says that it has said all. It may still listen: the
        # server is told, and whether the client has left shows when it gets its answer.
        if ready.get(self._out.source.fileno(), 0) & select.POLLRDHUP:
            self._out.ended = True

    def _turn(self) -> bool:
        """Move what can be moved; whether anything did."""
        out, back = self._out, self._back
        heard = said = b""
        if not back.pending and not back.ended and (heard := back.read()):
            self._spend(len(heard))
            self._gate.hear(heard)
            back.pending = heard
            out.pending += self._gate.admit(b"")
        if not out.pending and not out.ended and self._gate.wants and (said := out.read()):
            self._spend(len(said))
            out.pending = self._gate.admit(said)
        moved = [back.write(), out.write()]
        return bool(heard or said or any(moved))


def see_off(near: socket.socket) -> None:
    """Tell a client that this was all, and read on for a moment: to close with words unread would take ours back."""
    near.shutdown(socket.SHUT_WR)
    until = time.monotonic() + LINGER_S
    while (left := until - time.monotonic()) > 0:
        near.settimeout(left)
        if not near.recv(CHUNK):
            return
