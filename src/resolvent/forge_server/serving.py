"""The rehearsal forge on loopback: HTTPS with a certificate of its own, and a proxy that leads github.com to it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from resolvent.errors import UsageError
from resolvent.forge_server.app import application
from resolvent.forge_server.app_backstage import Backstage, Seen
from resolvent.forge_server.bots import Bots
from resolvent.forge_server.faults import Faults
from resolvent.forge_server.hooks import Hooks
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.tls import Certificates, certificates
from resolvent.forge_server.tunnel import tunnel

DRAIN_S = 2.0


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
    async with backstage.working(), _answering(app, listener, files), tunnel(port, outside) as led:
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


class _Protocol(H11Protocol):
    """Tells the application of its connection, so that a fault can cut it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {"transport": transport}


@contextlib.asynccontextmanager
async def _answering(app: ASGIApp, listener: socket.socket, files: Certificates) -> AsyncIterator[None]:
    # uvicorn's own server looks ten times a second whether it should end; this one is told.
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False)
    config.load()
    state, context = ServerState(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.chain, files.key)

    def protocol() -> H11Protocol:
        return _Protocol(config=config, server_state=state, app_state={})

    server = await asyncio.get_running_loop().create_server(protocol, sock=listener, ssl=context)
    try:
        yield
    finally:
        server.close()
        await _ended(state)


async def _ended(state: ServerState) -> None:
    """Let what is being answered be answered, but not for long."""
    connections: set[Any] = set(state.connections)
    for connection in connections:
        connection.shutdown()
    tasks = set(state.tasks)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for connection in connections:
        connection.transport.abort()
