"""The stage of the proxy's tests: the proxy as the process it is, servers that remember what reached them, clients."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.jobs import proxy

PATIENCE_S = 10.0
HOST = "api.test"
# For SO_LINGER: whoever closes with this breaks off.
RESET = struct.pack("ii", 1, 0)
# Started as its supervisor starts it. The names of hosts come from a table with one answer per time they are asked
# for, each is told on standard output; and the ports with rules of their own are ports that anybody may listen on.
PROGRAM = """
import json, os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
order = json.loads(sys.stdin.read())
sys.path.insert(0, order["beside"])
import proxy, proxy_hello, proxy_requests
proxy_hello.TLS_PORT = order["tls_port"] or 443
proxy_requests.PLAIN_PORT = order["plain_port"] or 80
def resolve(host, port):
    os.write(1, f"{host}\\n".encode())
    answers = order["names"].get(host)
    if not answers:
        raise OSError(-2, "Name or service not known")
    return answers.pop(0) if len(answers) > 1 else answers[0]
known = {"resolve": resolve} if order["names"] else {}
limits = proxy.Limits(**order["limits"])
# The user of a box may be unable to read the library: whatever is needed was loaded before.
sys.meta_path.clear()
proxy.serve(order["channel"], proxy.Ways(order["allowed"], **known), limits=limits, log=order["log"])
"""


def listen(channel: socket.socket) -> tuple[str, int]:
    """Hand out a socket that listens, and where."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        socket.send_fds(channel, [b"L"], [listener.fileno()])
        address: tuple[str, int] = listener.getsockname()
        return address


class Proxied:
    """A running proxy, and the address where it is reached."""

    def __init__(self, directory: Path, allowed: list[str], **order: Any) -> None:
        listening = order.pop("listening", listen)
        self.notes_file, self._lookups_file = directory / "notes", directory / "lookups"
        ours, theirs = socket.socketpair()
        with ours, theirs, self.notes_file.open("ab") as log, self._lookups_file.open("wb") as lookups:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=lookups,
                pass_fds=(theirs.fileno(), log.fileno(), *order.pop("leaked", ())),
            )
            usual = {"names": {}, "limits": {}, "tls_port": 0, "plain_port": 0, "log": log.fileno()}
            told = {**usual, **order, "allowed": allowed, "channel": theirs.fileno()}
            told["beside"] = str(Path(proxy.__file__).parent)
            assert self.process.stdin
            self.process.stdin.write(json.dumps(told).encode())
            self.process.stdin.close()
            self.address: tuple[str, int] = listening(ours)

    @property
    def notes(self) -> list[str]:
        return self.notes_file.read_text().splitlines()

    @property
    def lookups(self) -> list[str]:
        return self._lookups_file.read_text().splitlines()

    def descriptors(self) -> list[str]:
        return os.listdir(f"/proc/{self.process.pid}/fd")

    def threads(self) -> list[str]:
        return os.listdir(f"/proc/{self.process.pid}/task")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def client(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE_S)

    def answer_to(self, request: bytes) -> bytes:
        """All that comes back for these bytes."""
        with self.client() as client:
            client.sendall(request)
            return all_from(client)

    def tunnel(self, target: str) -> socket.socket:
        """A client whose CONNECT was granted."""
        client = self.client()
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += (more := client.recv(1))
            assert more, answer
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        return client


class Server:
    """Listens on loopback and serves every client in a thread; `heard` is what each connection brought."""

    def __init__(self, serve: Callable[["Server", socket.socket, bytearray], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._serve = serve
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytearray] = []
        self._last: tuple[str, int] | None = None
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            client, address = self._listener.accept()
            if address == self._last:
                return client.close()
            client.settimeout(PATIENCE_S)
            self.heard.append(bytearray())
            self._threads.append(threading.Thread(target=self._attend, args=(client, self.heard[-1]), daemon=True))
            self._threads[-1].start()

    def _attend(self, client: socket.socket, heard: bytearray) -> None:
        with client, contextlib.suppress(OSError):
            self._serve(self, client, heard)

    def end(self) -> list[bytearray]:
        """Wait for all that is under way; what was heard is final then."""
        if self._threads[0].is_alive():
            # Whoever connected before us is served before us.
            with socket.socket() as last:
                last.bind(("127.0.0.1", 0))
                self._last = last.getsockname()
                last.connect(self._listener.getsockname())
                self._threads[0].join(PATIENCE_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        return self.heard


def all_from(client: socket.socket) -> bytes:
    """Everything until the other end is done; a reset ends it as well."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1 << 16):
            said += chunk
    return said


def exactly(client: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        chunk = client.recv(size - len(said))
        assert chunk, f"{len(said)} of {size} bytes came"
        said += chunk
    return said


def echo(_: Server, client: socket.socket, heard: bytearray) -> None:
    while chunk := client.recv(1 << 16):
        heard += chunk
        client.sendall(chunk)


def web(_: Server, client: socket.socket, heard: bytearray) -> None:
    """Answers the first request and reads on, so that a second one would be heard."""
    while b"\r\n\r\n" not in heard and (chunk := client.recv(1 << 16)):
        heard += chunk
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    client.shutdown(socket.SHUT_WR)
    while chunk := client.recv(1 << 16):
        heard += chunk


def secure(certificate: Path, curve: str = "") -> Callable[[Server, socket.socket, bytearray], None]:
    """Says over TLS what it hears over TLS; with a curve that no client guesses, after it asked for a second hello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if curve:
        context.set_ecdh_curve(curve)

    def serve(_: Server, client: socket.socket, heard: bytearray) -> None:
        with context.wrap_socket(client, server_side=True) as safe:
            while chunk := safe.recv(1 << 16):
                heard += chunk
                safe.sendall(chunk)

    return serve


class Stage:
    """Starts what a test needs and ends it with the test."""

    def __init__(self, directory: Path, ending: contextlib.ExitStack) -> None:
        self._directory, self._ending = directory, ending

    def server(self, serve: Callable[[Server, socket.socket, bytearray], None]) -> Server:
        server = Server(serve)
        self._ending.callback(server.end)
        return server

    def proxy(self, *allowed: str, **order: Any) -> Proxied:
        """A proxy with this allow-list; the test's own host is at home unless the order says otherwise."""
        order.setdefault("names", {HOST: [["127.0.0.1"]], "other.test": [["127.0.0.1"]]})
        proxied = Proxied(self._directory, list(allowed), **order)
        self._ending.callback(proxied.end)
        return proxied


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with contextlib.ExitStack() as ending:
        yield Stage(tmp_path, ending)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the hosts of these tests, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on this machine")
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    subject = ["-subj", "/CN=test", "-addext", f"subjectAltName=DNS:{HOST},DNS:other.test,IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", str(file)]
    subprocess.run([openssl, "req", "-x509", *key, "-out", f"{file}.crt", *subject], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=f"{certificate}.crt")


def hello(name: str | None) -> bytes:
    """The ClientHello that OpenSSL really sends for this host, as one record."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def in_records(message: bytes, size: int) -> bytes:
    """The same message in records of this size at most."""
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in parts)


def with_extensions(record: bytes, *added: tuple[int, bytes], without: int = -1) -> bytes:
    """A ClientHello with more extensions at its end, and fewer of one kind."""
    body = record[9:]
    at = 34
    for width in (1, 2, 1):
        at += width + int.from_bytes(body[at : at + width])
    kept, rest = [], body[at + 2 :]
    while rest:
        size = int.from_bytes(rest[2:4])
        kept.append((int.from_bytes(rest[:2]), rest[4 : 4 + size]))
        rest = rest[4 + size :]
    listed = [one for one in kept if one[0] != without] + list(added)
    written = b"".join(kind.to_bytes(2) + len(value).to_bytes(2) + value for kind, value in listed)
    body = body[:at] + len(written).to_bytes(2) + written
    return in_records(b"\x01" + len(body).to_bytes(3) + body, 1 << 14)


def server_name(*names: bytes) -> bytes:
    listed = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    return len(listed).to_bytes(2) + listed


def until(true: Callable[[], object]) -> None:
    """Look again until it is so; the process we look at does not tell."""
    over = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < over
        os.sched_yield()


def get(port: int, *fields: str, body: bytes = b"", host: str = HOST) -> bytes:
    lines = [f"GET http://{host}:{port}/path?q=1 HTTP/1.1", "Host: whatever", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body
