"""The rehearsal forge on loopback: HTTPS with a certificate of its own, and a proxy that leads github.com to it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from resolvent.answering import answering
from resolvent.errors import UsageError
from resolvent.forge_server.app import application
from resolvent.forge_server.app_backstage import Backstage, Seen
from resolvent.forge_server.bots import Bots
from resolvent.forge_server.faults import Faults
from resolvent.forge_server.hooks import Hooks
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.tls import Certificates, certificates
from resolvent.forge_server.tunnel import tunnel


@dataclass(frozen=True)
class Serving:
    """A forge that answers: where, with whose certificate, and what can be seen and changed behind the scenes."""

    hub: Hub
    url: str
    ca: Path
    proxy: str
    backstage: Backstage

    @property
    def faults(self) -> Faults:
        return self.backstage.faults

    @property
    def bots(self) -> Bots:
        return self.backstage.bots

    @property
    def hooks(self) -> Hooks:
        return self.backstage.hooks

    @property
    def requests(self) -> list[Seen]:
        return self.backstage.requests


@contextlib.asynccontextmanager
async def serving(
    hub: Hub, *, port: int = 0, proxy_port: int = 0, certified: Path | None = None
) -> AsyncIterator[Serving]:
    """Serve the hub in this loop until the block ends; port 0 is any that is free, `certified` where certificates are.

    UsageError when somebody else listens at one of those ports.
    """
    files = await asyncio.to_thread(certificates, certified or hub.forge.path.parent / "tls")
    with contextlib.ExitStack() as bound:
        listener, outside = bound.enter_context(_bound(port)), bound.enter_context(_bound(proxy_port))
        # From here on they are closed by who listens with them.
        bound.pop_all()
    port = listener.getsockname()[1]
    url = f"https://localhost:{port}"
    backstage = Backstage.of(hub, url)
    app = application(hub, base=url, backstage=backstage)
    async with backstage.working(), answering(app, listener, tls=_tls(files)), tunnel(port, outside) as led:
        try:
            yield Serving(hub, url, files.ca, f"http://127.0.0.1:{led}", backstage)
        finally:
            # Whoever is held has to go before the server can.
            backstage.faults.clear()


def _bound(port: int) -> socket.socket:
    # The protocol is named because asyncio sends small answers at once only where it is: else each takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        said = f"port {port} on this machine cannot be listened at: {error.strerror}"
        raise UsageError(said, hint="resolvent forge serve --port 0") from error
    listener.setblocking(False)
    return listener


def _tls(files: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.chain, files.key)
    return context
