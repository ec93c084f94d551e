"""An ASGI application answered at an open socket, in this loop, until the block ends.

uvicorn's own server looks ten times a second whether it should end, and takes the signals; this one is told.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

# Whoever is being answered when the block ends has so long to take the answer.
DRAIN_S = 2.0

Application = Callable[[Any, Any, Any], Awaitable[None]]


@contextlib.asynccontextmanager
async def answering(
    app: Application, listener: socket.socket, *, tls: ssl.SSLContext | None = None, at_once: int | None = None
) -> AsyncIterator[None]:
    """Answer there, at most so many at once; the socket is closed at the end."""
    # No proxy headers: who calls is what the kernel says, not what the caller says.
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=at_once,
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(config, state), sock=listener, ssl=tls)
    try:
        yield
    finally:
        server.close()
        await _drained(state)


class _Connection(H11Protocol):
    """Known to the application as the state's `transport`, so that it can be cut; `gone` when it has ended."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.gone = self.loop.create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {"transport": transport}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.gone.done():
            self.gone.set_result(None)


async def _drained(state: ServerState) -> None:
    """Let what is being answered be answered, but not for long; who is only connected is not waited for."""
    connections: list[Any] = list(state.connections)
    answered = [one for one in connections if one.cycle is not None and not one.cycle.response_complete]
    for connection in connections:
        connection.shutdown()
    under_way = {*(connection.gone for connection in answered), *state.tasks}
    if under_way:
        await asyncio.wait(under_way, timeout=DRAIN_S)
    late = [task for task in state.tasks if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for connection in connections:
        connection.transport.abort()
