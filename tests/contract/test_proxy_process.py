"""The proxy of a box as a process that no client ends, from another network, and with real programs."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.proxy_stage import (
    HOST,
    PATIENCE_S,
    RESET,
    Proxied,
    Server,
    Stage,
    certificate,
    get,
    secure,
    stage,
    until,
    web,
)

from resolvent.adapters.jobs.proxy import environment

__all__ = ["certificate", "stage"]

GARBAGE = [
    b"\x00" * 100,
    b"\xff" * 5000,
    b"\x16\x03\x01\x02\x00\x01",
    b"\x05\x01\x00",
    b"\r\n\r\n\r\n",
    b"GET",
    b"\n\n\n\n",
]


@pytest.mark.parametrize("hard", [False, True])
def test_garbage_ends_its_own_connection_and_leaves_nothing_behind(stage: Stage, hard: bool) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"connections": 8})
    assert proxied.answer_to(get(server.port)).endswith(b"hello")
    until(lambda: len(proxied.threads()) == 1)
    before = sorted(proxied.descriptors())
    for garbage in GARBAGE * 5:
        for beginning in (b"", f"CONNECT {HOST}:{server.port} HTTP/1.1\r\n\r\n".encode(), get(server.port)):
            with proxied.client() as client:
                if hard:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.sendall(beginning + garbage)
    assert proxied.answer_to(get(server.port)).endswith(b"hello")
    until(lambda: len(proxied.threads()) == 1)
    assert sorted(proxied.descriptors()) == before
    assert proxied.process.poll() is None


def test_a_server_that_breaks_off_ends_its_own_connection(stage: Stage) -> None:
    def rude(_: Server, client: socket.socket, heard: bytearray) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    server, fine = stage.server(rude), stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", f"private!{HOST}:{fine.port}")
    for _ in range(20):
        proxied.answer_to(get(server.port))
    assert proxied.answer_to(get(fine.port)).endswith(b"hello")


def test_a_client_writes_no_line_of_its_own_into_the_log_nor_fills_it(stage: Stage) -> None:
    proxied = stage.proxy("api.test:443")
    proxied.answer_to(b"CONNECT \x1b[2Jevil:443 HTTP/1.1\r\n\r\n")
    proxied.answer_to(b"CONNECT evil:443'\\x0arefused HTTP/1.1\r\n\r\n")
    for number in range(300):
        proxied.answer_to(f"GET http://{number}.{'x' * 60}.test/ HTTP/1.1\r\n\r\n".encode())
    assert len(proxied.notes) == 200
    assert all(note.startswith("refused ") and note.isprintable() for note in proxied.notes)
    assert proxied.notes_file.stat().st_size < 1 << 16


def test_a_log_that_takes_nothing_stops_nobody(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", log=0)  # the end of a pipe that is for reading
    assert proxied.answer_to(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert proxied.answer_to(get(server.port)).endswith(b"hello")


def test_the_proxy_keeps_no_descriptor_of_anybody(stage: Stage, tmp_path: Path) -> None:
    server = stage.server(web)
    with (tmp_path / "lock").open("wb") as lock:
        proxied = stage.proxy(f"private!{HOST}:{server.port}", leaked=(lock.fileno(),))
        assert proxied.answer_to(get(server.port)).endswith(b"hello")
    until(lambda: len(proxied.threads()) == 1)
    links = [os.readlink(f"/proc/{proxied.process.pid}/fd/{one}") for one in proxied.descriptors()]
    assert str(tmp_path / "lock") not in links
    assert len([link for link in links if link.startswith("socket:")]) == 1


def test_a_box_that_never_starts_has_no_proxy_left_over(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"from resolvent.adapters.jobs import proxy; proxy.serve({theirs.fileno()}, proxy.Ways())"
        process = subprocess.Popen(
            [sys.executable, "-c", code], pass_fds=(theirs.fileno(), ours.fileno()), cwd=tmp_path
        )
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE_S) == 0


# From another network

# In a network of its own, where loopback is all there is: hand out the listener, then try both ways to the server.
CONFINED = """
import fcntl, socket, struct, sys
with socket.socket() as plug:
    fcntl.ioctl(plug, 0x8914, struct.pack("16sh22x", b"lo", 0x41))
channel = socket.socket(fileno=int(sys.argv[1]))
with socket.create_server(("127.0.0.1", 3128)) as listener:
    socket.send_fds(channel, [b"L"], [listener.fileno()])
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2]))).close()
except OSError as error:
    print(error.strerror)
with socket.create_connection(("127.0.0.1", 3128)) as client:
    client.sendall(f"GET http://127.0.0.1:{sys.argv[2]}/ HTTP/1.1\\r\\n\\r\\n".encode())
    while said := client.recv(65536):
        print(said.decode())
"""


def test_a_box_without_a_network_reaches_a_listed_server_and_only_through_the_proxy(stage: Stage) -> None:
    unshare = ("unshare", "--user", "--map-root-user", "--net")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces on this machine")
    server = stage.server(web)
    inside: list[subprocess.Popen[str]] = []

    def confined(channel: socket.socket) -> tuple[str, int]:
        command = [*unshare, sys.executable, "-c", CONFINED, str(channel.fileno()), str(server.port)]
        passed = (channel.fileno(),)
        inside.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=passed))
        return "127.0.0.1", 3128

    stage.proxy(f"private!127.0.0.1:{server.port}", listening=confined)
    said, _ = inside[0].communicate(timeout=PATIENCE_S)
    assert said.startswith("Connection refused\nHTTP/1.1 200 OK")
    assert said.endswith("hello\n")


# Real programs


def curl(proxied: Proxied, *arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("curl")
    if program is None:
        pytest.skip("no curl on this machine")
    told = environment(proxied.address[1], allowed=["private!127.0.0.1:1"])
    command = [program, "--silent", "--show-error", "--max-time", str(PATIENCE_S), *arguments]
    return subprocess.run(command, env=told, capture_output=True, text=True, check=False)


def test_curl_gets_a_page_with_and_without_tls(stage: Stage, certificate: Path) -> None:
    def page(server: Server, client: socket.socket, heard: bytearray) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        with context.wrap_socket(client, server_side=True) as safe:
            web(server, safe, heard)

    server, plain = stage.server(page), stage.server(web)
    proxied = stage.proxy(
        f"private!{HOST}:{server.port}",
        f"private!127.0.0.1:{server.port}",
        f"private!{HOST}:{plain.port}",
        tls_port=server.port,
    )
    trust = ("--cacert", f"{certificate}.crt")
    assert curl(proxied, *trust, f"https://{HOST}:{server.port}/").stdout == "hello"
    assert curl(proxied, *trust, f"https://127.0.0.1:{server.port}/").stdout == "hello"
    assert curl(proxied, "--data", "body", f"http://{HOST}:{plain.port}/").stdout == "hello"
    assert (
        curl(proxied, "--header", "Transfer-Encoding: chunked", "--data", "body", f"http://{HOST}:{plain.port}/").stdout
        == "hello"
    )
    assert curl(proxied, "--proxytunnel", f"http://{HOST}:{plain.port}/").stdout == "hello"
    assert proxied.notes == []


def test_curl_fronts_no_domain(stage: Stage, certificate: Path) -> None:
    server = stage.server(secure(certificate))
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    fronted = curl(
        proxied,
        "--insecure",
        "--connect-to",
        f"evil.test:{server.port}:{HOST}:{server.port}",
        f"https://evil.test:{server.port}/",
    )
    assert fronted.returncode == 35
    assert server.end() == [b""]
    assert proxied.notes == [f"cut {HOST}:{server.port} TLS asks for 'evil.test' in the tunnel to {HOST}"]
