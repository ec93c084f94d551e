"""Listening: each connection in a thread of its own, and an end that ends all of them."""

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """A server on loopback; ending it lets go of every connection."""

    daemon_threads = True
    # Who still waits for an answer is cut off by `end`, not waited for.
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, exchange: Callable[..., BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), exchange)
        self.closing = threading.Event()
        # Mistakes of a scenario, to be told when the model ends.
        self.broken: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def begin(self) -> None:
        """Take requests."""
        self._thread.start()

    def end(self) -> None:
        """Take no more, and let go of everybody."""
        self.closing.set()
        self._hang_up(self.socket)
        self._thread.join()
        with self._guard:
            for connection in self._open:
                self._hang_up(connection)
        self.server_close()

    def _accept(self) -> None:
        while not self.closing.is_set():
            # A client may be gone before it is taken, and the end of the server is an error here too.
            with suppress(OSError):
                self.process_request(*self.get_request())

    def _hang_up(self, connection: socket.socket) -> None:
        # Whoever waits on it sees its end at once, and closes it; the other side may have left already.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember who is connected."""
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget who left."""
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave when they like; everything else is a mistake that somebody should see."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.broken.append(error)
