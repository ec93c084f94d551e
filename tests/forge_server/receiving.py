"""A receiver of webhooks: a plain HTTP server that keeps what it is sent, byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["x-github-event"]

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    @property
    def word(self) -> str:
        """`issues.opened`, or `push` alone."""
        action = self.payload.get("action", "")
        return f"{self.event}.{action}" if action else self.event


@dataclass
class Receiver:
    url: str
    status: int = 202
    received: list[Received] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [one.word for one in self.received]


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on loopback while the block lasts."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        receiver.received.append(Received(first.split()[1], headers, body))
        writer.write(f"HTTP/1.1 {receiver.status} Said\r\ncontent-length: 4\r\nconnection: close\r\n\r\nsaid".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    receiver = Receiver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/webhook")
    async with server:
        yield receiver
