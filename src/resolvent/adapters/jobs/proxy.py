"""The ways out of a box: an HTTP proxy for the hosts on its job's allow-list, and its gateways, all listening inside.

It runs outside, in a process of its own beside the supervisor, as the box's user and without a descriptor of anybody's.
Every connection has a thread; whatever happens in one ends that one only.
"""

import errno
import json
import posix
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import proxy_hello, proxy_relay, proxy_requests, proxy_targets
    from resolvent.adapters.jobs.proxy_gateway import Gateway
    from resolvent.adapters.jobs.proxy_notes import Notes
    from resolvent.adapters.jobs.proxy_targets import Refused, Resolve, Target, look_up
else:
    import proxy_hello
    import proxy_relay
    import proxy_requests
    import proxy_targets
    from proxy_gateway import Gateway
    from proxy_notes import Notes
    from proxy_targets import Refused, Resolve, Target, look_up

STACK_BYTES = 512 << 10
# A server that cannot be reached and a client that says nothing are nobody's attempt at anything.
UNNOTED = (408, 502, 504)
WELCOME = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Limits(NamedTuple):
    """What one job may take of the network."""

    job_bytes: int = 4 << 30
    connections: int = 64
    # For the head of a request, and again for the ClientHello.
    head_s: float = 15.0
    connect_s: float = 15.0
    # A model may think for minutes before it says a word.
    idle_s: float = 600.0
    total_s: float = 7200.0


USUAL = Limits()
# The longest that a model takes to say its first word, or the next.
THINKING_S = 900.0
HOME = ("localhost", "127.0.0.1", "::1")


class Ways(NamedTuple):
    """Where to: the hosts of an allow-list, and by the port they listen on in the box the servers of gateways."""

    allowed: Sequence[str] = ()
    gateways: Mapping[int, Gateway] = {}
    resolve: Resolve = look_up


def ways(box: Mapping[str, Any]) -> Ways:
    """Those of a box; to be called by one who may read the system's certificates. ValueError when one leads nowhere."""
    opened = {one["port"]: Gateway(one["upstream"], one["headers"]) for one in box["gateways"]}
    return Ways(box["network"], opened)


def environment(port: int = 3128, *, allowed: Sequence[str] = ()) -> dict[str, str]:
    """What makes the programs in a box use the proxy, also for a loopback name that the allow-list means."""
    address = f"http://127.0.0.1:{port}"
    through = {target.host for target in proxy_targets.permissions(allowed, ill=lambda *_: None)}
    # What listens in the box itself is not reached through us.
    direct = ",".join(host for host in HOME if host not in through)
    named = {"http_proxy": address, "https_proxy": address, "all_proxy": address, "no_proxy": direct}
    return {**named, **{name.upper(): value for name, value in named.items()}, "NODE_USE_ENV_PROXY": "1"}


class _Proxy:
    """What all connections to one listener share; a gateway has one of its own, and leads to one server."""

    def __init__(self, ways: Ways, limits: Limits, notes: Notes, gateway: Gateway | None = None) -> None:
        self.limits, self.resolve, self.notes = limits, ways.resolve, notes
        self.gateway, self.gateways = gateway, ways.gateways
        self.allowed = proxy_targets.permissions(ways.allowed, ill=partial(self.notes.write, "refused"))
        self.allowance = proxy_relay.Allowance(limits.job_bytes)
        self._slots = threading.Semaphore(limits.connections)
        self._freed = threading.Event()

    def run(self, listener: socket.socket) -> None:
        """Serve whoever connects until the listener is gone."""
        while True:
            self._freed.clear()
            try:
                near, _ = listener.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return
                # Out of descriptors or memory, or the client left: better when another one has ended.
                self._freed.wait(proxy_relay.LINGER_S)
                continue
            connection = _Connection(near, self)
            # A client waits for its turn, but not in vain: it is told when all the others stay.
            if not self._slots.acquire(timeout=self.limits.head_s):
                connection.turn_away(f"{self.limits.connections} connections are open already; close some")
                continue
            try:
                threading.Thread(target=self._attend, args=(connection,), daemon=True).start()
            except RuntimeError:  # no more threads
                self._slots.release()
                connection.turn_away("no more connections can be served now")

    def _attend(self, connection: "_Connection") -> None:
        try:
            connection.run()
        finally:
            self._slots.release()
            self._freed.set()


class _Connection:
    """One client, from its first word to its last."""

    def __init__(self, near: socket.socket, proxy: _Proxy) -> None:
        self._near, self._proxy = near, proxy
        self._until = time.monotonic() + proxy.limits.total_s
        self._held = b""
        self._what = "?"
        # Whether the client still listens to what a proxy has to say, or talks to a server.
        self._ours = True
        # Programs that talk to a gateway read what went wrong as their server would tell it.
        self._json = proxy.gateway is not None

    def run(self) -> None:
        """Do what the client asks for, or tell it why not; an error of either end is the end of both."""
        with self._near:
            with suppress(OSError):
                self._obey()
            with suppress(OSError):
                proxy_relay.see_off(self._near)

    def turn_away(self, why: str) -> None:
        """Say at once that there is no room."""
        with self._near, suppress(OSError):
            self._refuse(Refused(503, why))
            proxy_relay.see_off(self._near)

    def _obey(self) -> None:
        try:
            asked = self._request()
            self._proxy.allowance.spend(0)
            if self._proxy.gateway:
                self._pass_on(asked, self._proxy.gateway)
            else:
                (self._tunnel if asked.method == "CONNECT" else self._forward)(asked)
        except Refused as refusal:
            self._refuse(refusal)

    def _request(self) -> proxy_requests.Request:
        """The head of the next request; what the client sent beyond it is held."""
        until = time.monotonic() + self._proxy.limits.head_s
        while (size := self._held.find(b"\r\n\r\n")) < 0 and len(self._held) <= proxy_requests.LONGEST_HEAD:
            # Another protocol is told from its first byte; waiting for the end of its head would be in vain.
            if self._held and not proxy_requests.may_begin(self._held):
                raise Refused(400, "this is an HTTP proxy, and what was sent is not HTTP")
            if (left := until - time.monotonic()) <= 0:
                raise Refused(408, "the request did not come in time")
            self._near.settimeout(left)
            with suppress(TimeoutError):
                chunk = self._near.recv(proxy_relay.CHUNK)
                if not chunk:
                    raise ConnectionAbortedError
                self._held += chunk
        if not 0 <= size <= proxy_requests.LONGEST_HEAD:
            raise Refused(431, f"the head of the request is longer than {proxy_requests.LONGEST_HEAD} bytes")
        head, self._held = self._held[:size], self._held[size + 4 :]
        return proxy_requests.request(head)

    def _tunnel(self, asked: proxy_requests.Request) -> None:
        """CONNECT: bytes to the target, as long as they say themselves that they are for it."""
        self._what = asked.target
        target = proxy_requests.server(asked.target)
        self._near.settimeout(self._proxy.limits.head_s)
        if gateway := self._gateway_at(target):
            self._near.sendall(WELCOME)
            self._pass_on(self._request(), gateway)
            return
        with self._connected(target) as far:
            self._near.settimeout(self._proxy.limits.head_s)
            self._near.sendall(WELCOME)
            if target.port == proxy_requests.PLAIN_PORT:
                # In such a tunnel one server could be asked for another one's pages as well.
                inner = self._request()
                path = proxy_requests.path_at(inner, target)
                self._relay(far, proxy_requests.Body(inner), first=proxy_requests.rewritten(inner, target, path))
            else:
                self._ours = False
                self._relay(far, proxy_hello.Greeting(target), first=b"")

    def _forward(self, asked: proxy_requests.Request) -> None:
        """A request in absolute form, for a server without TLS."""
        self._what = asked.target
        target, path = proxy_requests.destination(asked)
        self._what = str(target)
        if gateway := self._gateway_at(target):
            self._pass_on(asked._replace(target=path), gateway)
            return
        if target.port == proxy_hello.TLS_PORT:
            raise Refused(403, f"port {target.port} takes TLS: use CONNECT")
        body, head = proxy_requests.Body(asked), proxy_requests.rewritten(asked, target, path)
        with self._connected(target) as far:
            self._relay(far, body, first=head)

    def _gateway_at(self, target: Target) -> Gateway | None:
        """Who sends all that it wants of the box's own loopback through us means the gateways there as well."""
        return self._proxy.gateways.get(target.port) if target.host in HOME else None

    def _pass_on(self, asked: proxy_requests.Request, gateway: Gateway) -> None:
        """A request for the server of a gateway, with its key."""
        self._what, self._json = gateway.name, True
        body, head = proxy_requests.Body(asked), gateway.rewritten(asked)
        limits = self._proxy.limits
        with gateway.reached(self._proxy.resolve, each_s=limits.connect_s, until=self._until) as far:
            far.sent_away = partial(self._proxy.notes.write, "away", gateway.name)
            try:
                self._relay(far, body, first=head, idle_s=max(limits.idle_s, THINKING_S))
            except Refused as refusal:
                # Until the server has said a word, the client still listens for one of ours.
                self._ours = not far.answered
                if refusal.status == 408:
                    raise Refused(504, f"{gateway.name} did not answer in time") from None
                raise

    def _connected(self, target: Target) -> socket.socket:
        permitted = self._proxy.allowed.get(target)
        if permitted is None:
            raise Refused(403, f"{target} is not on the allow-list of this job")
        found = proxy_targets.addresses(permitted, self._proxy.resolve)
        return proxy_targets.connection(target, found, each_s=self._proxy.limits.connect_s, until=self._until)

    def _relay(self, far: proxy_relay.End, gate: proxy_relay.Gate, *, first: bytes, idle_s: float = 0) -> None:
        spend, limits = self._proxy.allowance.spend, self._proxy.limits
        spend(len(first) + len(self._held))
        first += gate.admit(self._held)
        self._ours = False
        pace = proxy_relay.Pace(
            idle_s or limits.idle_s, hello_until=time.monotonic() + limits.head_s, until=self._until
        )
        proxy_relay.Relay(self._near, far, gate, spend=spend).run(first, pace)

    def _refuse(self, refusal: Refused) -> None:
        """Tell the client, in the status line too since some show nothing else, and the people who read the log."""
        line = ascii(str(refusal))[1:-1]
        if refusal.status not in UNNOTED or not self._ours:
            self._proxy.notes.write("refused" if self._ours else "cut", self._what, line)
        kind, body = "text/plain", line
        if self._json:
            kind, body = "application/json", json.dumps({"error": {"type": "gateway", "message": str(refusal)}})
        answer = (
            f"HTTP/1.1 {refusal.status} {line}\r\ncontent-type: {kind}\r\ncontent-length: {len(body) + 1}\r\n"
            f"connection: close\r\n\r\n{body}\n"
        )
        self._near.settimeout(proxy_relay.LINGER_S)
        self._near.sendall(answer.encode("ascii") if self._ours else refusal.farewell)


def serve(channel: int, ways: Ways, *, limits: Limits = USUAL, log: int = 2, secrets: tuple[str, ...] = ()) -> None:
    """Serve the listeners that come through the channel, the proxy's first, until we are killed; or return if none."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for inherited in map(int, posix.listdir("/proc/self/fd")):
        if inherited > 2 and inherited not in (channel, log):
            with suppress(OSError):  # what the listing itself was read from
                posix.close(inherited)
    ends = [*([None] if ways.allowed or not ways.gateways else ()), *ways.gateways.values()]
    with socket.socket(fileno=channel) as passed:
        _, found, _, _ = socket.recv_fds(passed, 1, len(ends))
    if len(found) != len(ends):
        return
    threading.stack_size(STACK_BYTES)
    notes = Notes(log, secrets)
    for number, (descriptor, gateway) in enumerate(zip(found, ends, strict=True), start=1):
        listener = socket.socket(fileno=descriptor)
        listener.setblocking(True)
        proxy = _Proxy(ways, limits, notes, gateway)
        if number < len(ends):
            threading.Thread(target=proxy.run, args=(listener,), daemon=True).start()
        else:
            proxy.run(listener)
