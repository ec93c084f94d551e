"""A proxy on loopback that leads github.com to the rehearsal forge, and nobody anywhere else."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from typing import Any

HOSTS = ("github.com:443", "api.github.com:443")
HEAD_BYTES = 16 << 10
HEAD_S = 10.0
CHUNK = 64 << 10


@contextlib.asynccontextmanager
async def tunnel(port: int, listener: socket.socket) -> AsyncIterator[int]:
    """Lead `CONNECT github.com:443` to that port of ours while this is open; the port it listens at itself."""
    talking: set[asyncio.Task[None]] = set()

    # A task of ours: one that asyncio starts itself is reported as failed when it is cancelled.
    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_talk(reader, writer, port))
        talking.add(task)
        task.add_done_callback(talking.discard)

    server = await asyncio.start_server(begin, sock=listener, limit=HEAD_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        open_ones = tuple(talking)
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    try:
        await _lead(reader, writer, port)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        # Whoever hung up, or never said what they wanted, wants no answer.
        pass
    finally:
        writer.close()


async def _lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    async with asyncio.timeout(HEAD_S):
        head = await reader.readuntil(b"\r\n\r\n")
    method, target, *_ = [*head.split(b"\r\n")[0].decode("latin-1").split(), "", ""]
    if method.upper() != "CONNECT" or target.lower() not in HOSTS:
        said = f"the rehearsal forge stands for {', '.join(HOSTS)} and for nothing else\n".encode()
        writer.write(b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-type: text/plain\r\n")
        writer.write(b"content-length: %d\r\n\r\n%s" % (len(said), said))
        await writer.drain()
        return
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _both(_pour(reader, inner_writer), _pour(inner_reader, writer))
    finally:
        inner_writer.close()


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        # When one end breaks, the other is told so by the end of its connection.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(CHUNK):
        writer.write(block)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
