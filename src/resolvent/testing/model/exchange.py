"""One connection of one agent: requests are read, noted and answered."""

import gzip
import json
import time
import zlib
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from resolvent.testing.model.conversation import Api, Conversation
from resolvent.testing.model.log import Seen
from resolvent.testing.model.outgoing import Outgoing, outgoing, refused, whole
from resolvent.testing.model.reading import READERS
from resolvent.testing.model.server import Server
from resolvent.testing.model.steps import Fault

if TYPE_CHECKING:
    from resolvent.testing.model.scripted import Choice, ScriptedModel

MAX_BODY = 256 << 20
_ROUTES: dict[str, Api] = {"/messages": "messages", "/responses": "responses", "/chat/completions": "chat"}
_LISTED = {
    "id": "scripted-1",
    "object": "model",
    "type": "model",
    "display_name": "scripted-1",
    "created": 0,
    "created_at": "2026-01-05T09:00:00Z",
    "owned_by": "script",
}


class Unreadable(ValueError):
    """A request whose body is not what its head says."""


class Exchange(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server: Server
    model: "ScriptedModel"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on standard error: there is a log."""

    def do_HEAD(self) -> None:
        self._send(Outgoing(200, ()))

    def do_GET(self) -> None:
        if not self.path.partition("?")[0].endswith("/models"):
            self._note("other", 404)
            return self._send(refused("chat", Fault("fail", status=404)))
        self._note("models", 200)
        return self._send(whole(200, {"object": "list", "has_more": False, "data": [_LISTED], "models": []}))

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        api = next((api for ending, api in _ROUTES.items() if path.endswith(ending)), None)
        try:
            body = self._body()
            told = json.loads(body or b"{}")
            conversation = READERS[api](told) if api and isinstance(told, dict) else None
        except (ValueError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._note(api or "other", 400)
            # What is left of it in the pipe is nobody's request.
            self.close_connection = True
            return self._send(refused(api or "chat", Fault("fail", status=400, message=f"cannot be read: {error}")))
        if conversation is not None:
            return self._answer(conversation)
        if path.endswith("/count_tokens"):
            self._note("count", 200)
            return self._send(whole(200, {"input_tokens": max(1, len(body) // 4)}))
        self._note("other", 404)
        return self._send(refused(api or "chat", Fault("fail", status=404, message=f"no such place: {path}")))

    def _answer(self, conversation: Conversation) -> None:
        key = self._key()
        if self.model.key and key != self.model.key:
            self._note(conversation.api, 401, conversation)
            return self._send(refused(conversation.api, Fault("fail", status=401)))
        try:
            choice = self.model.choose(conversation, key)
        except OSError as error:
            # Of the scenario's own: from here on it would look like a client that left.
            self.server.broken.append(error)
            raise
        sent = outgoing(conversation, choice.step, choice.fault)
        self._note(conversation.api, sent.status, conversation, choice)
        self.server.closing.wait(choice.step.delay)
        return self._send(sent, pause=choice.step.chunk_delay)

    def _key(self) -> str:
        bearer = self.headers.get("authorization", "")
        return self.headers.get("x-api-key") or bearer.removeprefix("Bearer ").strip()

    def _note(
        self, api: str, status: int, conversation: Conversation | None = None, choice: "Choice | None" = None
    ) -> None:
        key = self._key()
        told: dict[str, Any] = {}
        if conversation:
            told = {name: getattr(conversation, name) for name in ("model", "tools", "schema", "prompt", "stream")}
            told |= {"last_input": conversation.last_input, "side": False}
        if choice:
            told |= {"scenario": choice.scenario, "step": choice.number, "side": choice.side}
            told |= {"reply": choice.step.blocks, "fault": choice.fault.name if choice.fault else ""}
            told |= {"unexpected": choice.unexpected}
        self.model.note(
            Seen(
                number=0,
                at=time.time(),
                api=api,
                path=self.path,
                status=status,
                key_came=key == self.model.key if self.model.key else bool(key),
                header_names=tuple(sorted({name.lower() for name in self.headers})),
                **told,
            )
        )

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            length = int(self.headers.get("content-length") or 0)
            if not 0 <= length <= MAX_BODY:
                raise Unreadable(f"a body of {length} bytes")
            body = self.rfile.read(length)
            if len(body) < length:
                raise Unreadable("the body ended early")
        encoding = self.headers.get("content-encoding", "identity")
        if encoding not in ("identity", "gzip"):
            raise Unreadable(f"bodies in {encoding} are not understood here")
        return gzip.decompress(body) if encoding == "gzip" else body

    def _chunk(self) -> bytes:
        length = int(self.rfile.readline(64).partition(b";")[0], 16)
        if not 0 <= length <= MAX_BODY:
            raise Unreadable(f"a chunk of {length} bytes")
        part = self.rfile.read(length)
        self.rfile.readline(64)
        return part

    def _send(self, sent: Outgoing, *, pause: float = 0.0) -> None:
        if sent.ending == "mute":
            self.close_connection = True
            return
        self.send_response(sent.status)
        for name, value in {"content-type": sent.kind, "request-id": "req_scripted", **sent.headers}.items():
            self.send_header(name, value)
        if not sent.streamed:
            self.send_header("content-length", str(sum(map(len, sent.parts))))
            self.end_headers()
            self.wfile.write(b"".join(sent.parts))
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in sent.parts:
            self.server.closing.wait(pause)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if sent.ending == "whole":
            self.wfile.write(b"0\r\n\r\n")
            return
        if sent.ending == "hang":
            # Until the client or the model leaves.
            self.rfile.read(1)
        self.close_connection = True
