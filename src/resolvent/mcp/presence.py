"""A call lasts no longer than its caller: who hangs up is not worked for, and asks again without being served twice."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def while_connected(application: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the application answer; it is cancelled when its caller hangs up before the answer is whole."""
    caller = _Caller(receive, send)
    answering = asyncio.ensure_future(application(scope, caller.receive, caller.send))
    leaving = asyncio.ensure_future(caller.leave())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if caller.answered:
            await asyncio.wait((answering,))
    finally:
        leaving.cancel()
        answering.cancel()
        await asyncio.wait((answering,))
    if not answering.cancelled():
        answering.result()


class _Caller:
    """One connection. The server tells of its end once, to whoever listens; here everybody hears of it."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._heard = asyncio.Event()
        self._left = asyncio.Event()
        self.answered = False

    async def receive(self) -> Message:
        """The next piece of the request, and after the last one nothing until the caller has left."""
        if self._heard.is_set():
            await self._left.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._left.set()
        if not message.get("more_body", False):
            self._heard.set()
        return message

    async def send(self, message: Message) -> None:
        """A piece of the answer."""
        await self._send(message)
        self.answered |= message["type"] == "http.response.body" and not message.get("more_body", False)

    async def leave(self) -> None:
        """Return when the caller has left; while its request is being read, the reader is told first."""
        await self._heard.wait()
        while not self._left.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self._left.set()
