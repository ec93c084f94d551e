"""The branch server running: one transport in front, the worker behind, until one of them ends."""

import asyncio
import signal
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from resolvent.answering import answering
from resolvent.exploring import Explorer
from resolvent.mcp.door import Door
from resolvent.mcp.hearing import Heard
from resolvent.mcp.listening import Listener
from resolvent.mcp.server import protocol_server
from resolvent.mcp.tools import Tools

MAX_BODY_BYTES = 8 << 20
# Calls under way at once: every branch may have somebody who waits for it.
MAX_CALLS = 1000
# More than are ever taken by branches being made and sealed, so that there is always one left to answer with.
THREADS = 64


async def serve_stdio(explorer: Explorer) -> None:
    """Speak over standard input and output, and work, until the client closes or the worker breaks."""
    server = protocol_server(Tools(explorer))

    async def speak() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(Heard(incoming, outgoing), outgoing, server.create_initialization_options())

    _make_room()
    # Meanwhile, for a client that starts us waits for our first word.
    preparing = asyncio.ensure_future(explorer.prepare())
    try:
        await _until_one_ends(speak(), explorer.work())
    finally:
        preparing.cancel()


async def serve_http(explorer: Explorer, listener: Listener) -> None:
    """Answer at the listener, and work, until a signal comes or the worker breaks; agents go on without us."""
    _make_room()
    server = protocol_server(Tools(explorer))
    # Stateless: every request stands for itself, so no handshake is needed and any session id will do.
    managers = [
        StreamableHTTPSessionManager(server, json_response=flag, stateless=True, max_request_body_size=MAX_BODY_BYTES)
        for flag in (True, False)
    ]
    door = Door(
        as_json=managers[0].handle_request,
        as_events=managers[1].handle_request,
        loopback=listener.loopback,
        token=listener.token,
    )
    async with managers[0].run(), managers[1].run(), answering(door, listener.socket, at_once=MAX_CALLS):
        await _until_one_ends(_signalled(), explorer.work())


def _make_room() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="branches"))


async def _until_one_ends(front: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]) -> None:
    speaking, working = asyncio.ensure_future(front), asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((speaking, working), return_when=asyncio.FIRST_COMPLETED)
    finally:
        speaking.cancel()
        working.cancel()
        # Its lock is free, and nothing of it writes any more. The front may hang on a read that nothing interrupts.
        await asyncio.wait((working,))
    for task in done:
        task.result()


async def _signalled() -> None:
    """Until somebody asks us to end."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
