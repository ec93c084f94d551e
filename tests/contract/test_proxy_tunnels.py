"""Tunnels through the proxy of a box: whom they lead to, and how both ends talk in them."""

import hashlib
import os
import socket
import ssl
import threading
from pathlib import Path

import pytest
from tests.contract.proxy_stage import (
    HOST,
    Server,
    Stage,
    all_from,
    certificate,
    echo,
    exactly,
    hello,
    in_records,
    secure,
    stage,
    trusting,
)

from resolvent.adapters.jobs.proxy_hello import ASK_AGAIN, FAREWELL

__all__ = ["certificate", "stage"]


def test_tls_to_a_listed_host_goes_through(stage: Stage, certificate: Path) -> None:
    server = stage.server(secure(certificate))
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    with trusting(certificate).wrap_socket(proxied.tunnel(f"{HOST}:{server.port}"), server_hostname=HOST) as client:
        client.sendall(b"ping")
        assert exactly(client, 4) == b"ping"
    assert proxied.notes == []


@pytest.mark.parametrize("spelling", ["API.TEST", "api.test.", "Api.Test."])
def test_a_host_is_the_same_in_any_spelling(stage: Stage, certificate: Path, spelling: str) -> None:
    server = stage.server(secure(certificate))
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with trusting(certificate).wrap_socket(proxied.tunnel(f"{spelling}:{server.port}"), server_hostname=HOST) as client:
        client.sendall(b"ping")
        assert exactly(client, 4) == b"ping"


def test_a_server_that_asks_for_a_second_hello_gets_it(stage: Stage, certificate: Path) -> None:
    server = stage.server(secure(certificate, curve="secp384r1"))
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    context = trusting(certificate)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with context.wrap_socket(proxied.tunnel(f"{HOST}:{server.port}"), server_hostname=HOST) as client:
        client.sendall(b"ping")
        assert exactly(client, 4) == b"ping"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_goes_through(stage: Stage, certificate: Path, version: ssl.TLSVersion) -> None:
    server = stage.server(secure(certificate))
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    context = trusting(certificate)
    context.minimum_version = context.maximum_version = version
    session = None
    for resumed in (False, True):
        tunnel = proxied.tunnel(f"{HOST}:{server.port}")
        with context.wrap_socket(tunnel, server_hostname=HOST, session=session) as client:
            client.sendall(b"ping")
            assert exactly(client, 4) == b"ping"
            assert client.session_reused is resumed
            session = client.session


def test_a_hello_in_pieces_goes_through(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    pieces = in_records(hello(HOST)[5:], 100)
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in pieces:
            client.sendall(bytes((octet,)))
        assert exactly(client, len(pieces)) == pieces


def test_a_hello_may_come_with_the_request(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    with proxied.client() as client:
        client.sendall(f"CONNECT {HOST}:{server.port} HTTP/1.1\r\n\r\n".encode() + hello(HOST))
        welcome = b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert exactly(client, len(welcome) + len(hello(HOST))).startswith(welcome + b"\x16\x03")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (hello("other.test"), f"TLS asks for 'other.test' in the tunnel to {HOST}"),
        (hello(None), f"TLS asks for no host in the tunnel to {HOST}"),
        (b"GET / HTTP/1.1\r\n\r\n", "what was sent is not TLS"),
    ],
)
def test_a_tunnel_is_cut_when_tls_asks_for_anybody_else(stage: Stage, words: bytes, why: str) -> None:
    server = stage.server(echo)
    target = f"{HOST}:{server.port}"
    proxied = stage.proxy(f"private!{target}", f"private!other.test:{server.port}", tls_port=server.port)
    with proxied.tunnel(target) as client:
        client.sendall(words)
        assert all_from(client) == FAREWELL
    assert server.end() == [b""]
    assert proxied.notes == [f"cut {target} {why}"]


def test_a_second_hello_for_another_host_is_cut(stage: Stage) -> None:
    asks = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + ASK_AGAIN

    def asking(_: Server, client: socket.socket, heard: bytearray) -> None:
        heard += client.recv(1 << 16)
        client.sendall(asks)
        while chunk := client.recv(1 << 16):
            heard += chunk

    server = stage.server(asking)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    first = hello(HOST)
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.sendall(first)
        assert exactly(client, len(asks)) == asks
        client.sendall(hello("other.test"))
        assert all_from(client) == FAREWELL
    assert server.end() == [first]


def test_a_tunnel_that_owes_its_hello_is_cut_in_time(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port, limits={"head_s": 0.2})
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.sendall(hello(HOST)[:100])
        assert all_from(client) == b""
    assert server.end() == [b""]


def test_a_server_may_speak_first_where_tls_is_not_due(stage: Stage) -> None:
    def polite(server: Server, client: socket.socket, heard: bytearray) -> None:
        client.sendall(b"220 hello\r\n")
        echo(server, client, heard)

    server = stage.server(polite)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        assert exactly(client, 11) == b"220 hello\r\n"
        client.sendall(b"EHLO\r\n")
        assert exactly(client, 6) == b"EHLO\r\n"


def test_both_directions_flow_at_once_and_none_waits_for_the_other(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!127.0.0.1:{server.port}")
    block = os.urandom(1 << 20)
    digest, sent = hashlib.sha256(), hashlib.sha256(block * 16)
    with proxied.tunnel(f"127.0.0.1:{server.port}") as client:

        def say() -> None:
            client.sendall(b"-" + block * 16)
            client.shutdown(socket.SHUT_WR)

        speaker = threading.Thread(target=say)
        speaker.start()
        assert exactly(client, 1) == b"-"
        while chunk := client.recv(1 << 16):
            digest.update(chunk)
        speaker.join()
    assert digest.digest() == sent.digest()


def test_a_client_that_has_said_all_still_hears_the_answer(stage: Stage) -> None:
    def patient(_: Server, client: socket.socket, heard: bytearray) -> None:
        while chunk := client.recv(1 << 16):
            heard += chunk
        client.sendall(b"you said " + heard)

    server = stage.server(patient)
    proxied = stage.proxy(f"private!127.0.0.1:{server.port}")
    with proxied.tunnel(f"127.0.0.1:{server.port}") as client:
        client.sendall(b"all")
        client.shutdown(socket.SHUT_WR)
        assert all_from(client) == b"you said all"
