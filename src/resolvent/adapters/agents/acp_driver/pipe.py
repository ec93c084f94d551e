"""The agent's standard input and output as messages: bounded, and no line in it is trusted to be one."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

MOST_BYTES = 16 << 20
# Programs that print a log line where messages belong are common; one that prints so many in a row and nothing else
# speaks another language.
MOST_STRAY_LINES = 1000
SHOWN = 200
INTERNAL_ERROR = -32603


class Pipe:
    """Messages of one agent, as the library's transport; `trouble` says why they stopped, when it is to blame."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, stray: Callable[[str], None]
    ) -> None:
        self.trouble = ""
        self._reader = reader
        self._writer = writer
        self._stray = stray
        self._strays = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message; ConnectionError when nobody reads any more."""
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end, and when what comes is no protocol."""
        while self._strays < MOST_STRAY_LINES:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as cut:
                if cut.partial.strip():
                    self._stray(_shown(cut.partial))
                return None
            except asyncio.LimitOverrunError:
                self.trouble = f"sent a message of more than {MOST_BYTES >> 20} MiB"
                return None
            except ConnectionError:
                return None
            message = _parsed(line)
            if message is not None:
                self._strays = 0
                return message
            if line.strip():
                self._strays += 1
                self._stray(_shown(line))
        self.trouble = f"printed {self._strays} lines that are no messages"
        return None

    async def close(self) -> None:
        """Nothing more will be written."""
        self._writer.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
        if b"\\u" in line:
            # Half a surrogate pair is a string in JSON and nowhere else: it would cost the whole message.
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("id"), str | int | None):
        return None
    if not isinstance(message.get("method", ""), str):
        return None
    error = message.get("error")
    if error is not None and not isinstance(error, dict):
        # An answer all the same: whoever waits for it must not wait for ever.
        message["error"] = {"code": INTERNAL_ERROR, "message": json.dumps(error)[:SHOWN]}
    return message


def _shown(line: bytes) -> str:
    return line[:SHOWN].decode(errors="replace").strip()
