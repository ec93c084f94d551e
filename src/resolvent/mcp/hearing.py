"""What a client says over standard input: whatever is no message is answered, for the library only drops it."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

NOT_JSON = ErrorData(code=-32700, message="Parse error: not JSON")
NO_MESSAGE = ErrorData(code=-32600, message="Invalid request: not a message of JSON-RPC 2.0")


class Heard:
    """A stream of messages, as the library reads them; lines that are none get an error and go no further."""

    def __init__(
        self, incoming: "ReadStream[SessionMessage | Exception]", outgoing: "WriteStream[SessionMessage]"
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        """The context that the last message was sent in."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> SessionMessage:
        """The next message."""
        while isinstance(item := await self._incoming.receive(), Exception):
            if error := _answer(item):
                await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
        return item

    async def aclose(self) -> None:
        """No more is read."""
        await self._incoming.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _answer(wrong: Exception) -> ErrorData | None:
    """None for an empty line, which says nothing."""
    first = wrong.errors()[0] if isinstance(wrong, ValidationError) else None
    if first is None or first["type"] != "json_invalid":
        return NO_MESSAGE
    return NOT_JSON if str(first["input"]).strip() else None
