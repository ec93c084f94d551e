"""The stage of the gateways' tests: gateways as the process they are, and servers that answer as a test says."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.jobs import proxy

from .proxy_stage import HOST, PATIENCE_S, Server, all_from

KEY = "sk-planted-0123456789/abcdef+XYZ"
# Started as its supervisor starts it. Nothing can be loaded once it serves: its user may be unable to read it.
PROGRAM = """
import json, sys
order = json.loads(sys.stdin.read())
sys.path.insert(0, order["beside"])
import proxy
ways = proxy.ways(order)._replace(resolve=lambda host, port: ["127.0.0.1"])
limits = proxy.Limits(**order["limits"])
sys.meta_path.clear()
proxy.serve(order["channel"], ways, limits=limits, log=order["log"], secrets=tuple(order["secrets"]))
"""
Answer = Callable[[socket.socket, bytearray], None]


class Gated:
    """A running process of gateways, and the addresses where they are reached, the proxy's first if there is one."""

    def __init__(self, directory: Path, upstreams: list[str], **order: Any) -> None:
        self.notes_file = directory / "notes"
        ours, theirs = socket.socketpair()
        headers = order.pop("headers", {"x-api-key": KEY})
        trusted = order.pop("trusted", None)
        network = order.pop("network", [])
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in [*network[:1], *upstreams]]
        self.addresses = [listener.getsockname() for listener in listeners]
        ports = [port for _, port in self.addresses[len(network[:1]) :]]
        gateways = [
            {"port": port, "upstream": upstream, "headers": headers}
            for port, upstream in zip(ports, upstreams, strict=True)
        ]
        with ours, theirs, self.notes_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM],
                stdin=subprocess.PIPE,
                pass_fds=(theirs.fileno(), log.fileno()),
                env={"SSL_CERT_FILE": f"{trusted}.crt"} if trusted else {},
            )
            told = {"network": network, "gateways": gateways, "limits": {}, "secrets": [], **order}
            told |= {"channel": theirs.fileno(), "log": log.fileno(), "beside": str(Path(proxy.__file__).parent)}
            assert self.process.stdin
            self.process.stdin.write(json.dumps(told).encode())
            self.process.stdin.close()
            socket.send_fds(ours, [b"L"], [listener.fileno() for listener in listeners])
        for listener in listeners:
            listener.close()

    def client(self, nth: int = 0) -> socket.socket:
        return socket.create_connection(self.addresses[nth], PATIENCE_S)

    def answer_to(self, request: bytes, nth: int = 0) -> bytes:
        """All that comes back for these bytes."""
        with self.client(nth) as client:
            client.sendall(request)
            return all_from(client)

    def threads(self) -> list[str]:
        return os.listdir(f"/proc/{self.process.pid}/task")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Stage:
    """Starts what a test needs and ends it with the test."""

    def __init__(self, directory: Path, ending: contextlib.ExitStack, certificate: Path) -> None:
        self._directory, self._ending = directory, ending
        self.certificate = certificate

    def server(self, answer: Answer, *, secure: bool = False) -> Server:
        """A server that reads the head of a request into what it heard, and then does as it is told."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)

        def serve(_: Server, client: socket.socket, heard: bytearray) -> None:
            with context.wrap_socket(client, server_side=True) if secure else client as spoken:
                while b"\r\n\r\n" not in heard and (chunk := spoken.recv(1 << 16)):
                    heard += chunk
                answer(spoken, heard)

        server = Server(serve)
        self._ending.callback(server.end)
        return server

    def gateways(self, *upstreams: str, **order: Any) -> Gated:
        gated = Gated(self._directory, list(upstreams), **order)
        self._ending.callback(gated.end)
        return gated

    def gateway_to(self, server: Server, *, secure: bool = False, path: str = "", **order: Any) -> Gated:
        """One gateway to this server, which it trusts."""
        scheme = "https" if secure else "http"
        return self.gateways(f"{scheme}://{HOST}:{server.port}{path}", trusted=self.certificate, **order)


@pytest.fixture
def stage(tmp_path: Path, certificate: Path) -> Iterator[Stage]:
    with contextlib.ExitStack() as ending:
        yield Stage(tmp_path, ending, certificate)


def hello(client: socket.socket, _: bytearray) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\r\nhello")


def refusal(answer: bytes) -> tuple[int, str]:
    """The status and the message of an answer of the gateway's own."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in head, answer
    error = json.loads(body)["error"]
    assert error["type"] == "gateway"
    return int(head.split()[1]), error["message"]
