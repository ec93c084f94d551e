"""Ears of the host: whatever reaches one of them came out of a box that should not reach anything."""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

HEARD_BYTES = 4096


@dataclass
class Listeners:
    """Where the host listens, and what it has heard since it was last asked."""

    port: int = 0
    datagrams: int = 0
    abstract: str = field(default_factory=lambda: f"\0resolvent-prove-{secrets.token_hex(8)}")
    path: str = ""
    heard: list[str] = field(default_factory=list)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append("a connection")
        said = await reader.read(HEARD_BYTES)
        self.heard.append(said.decode("latin-1"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nwelcome")
        writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    def datagram_received(self, said: bytes, addr: object) -> None:
        self._listeners.heard.append(said.decode("latin-1"))


@asynccontextmanager
async def listening() -> AsyncIterator[Listeners]:
    """Listen on the loopback by TCP and UDP, at an abstract name and at a path that everybody may write to."""
    listeners = Listeners()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        # A place of its own: the name of such a socket must be short.
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="prove-"))
        Path(place).chmod(0o755)
        listeners.path = f"{place}/door"
        server = await stack.enter_async_context(await asyncio.start_server(listeners._greet, "127.0.0.1", 0))
        listeners.port = server.sockets[0].getsockname()[1]
        for name in (listeners.abstract, listeners.path):
            await stack.enter_async_context(await asyncio.start_unix_server(listeners._greet, name))
        Path(listeners.path).chmod(0o777)
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(listeners), local_addr=("127.0.0.1", 0))
        stack.callback(transport.close)
        listeners.datagrams = transport.get_extra_info("sockname")[1]
        yield listeners
