"""What a client of the proxy of a box may take: of time, of bytes, of connections."""

import contextlib
import socket
import time

import pytest
from tests.contract.proxy_stage import (
    HOST,
    PATIENCE_S,
    RESET,
    Server,
    Stage,
    all_from,
    certificate,
    echo,
    exactly,
    get,
    hello,
    stage,
    web,
)

__all__ = ["certificate", "stage"]


def test_a_head_without_end_is_refused(stage: Stage) -> None:
    proxied = stage.proxy(f"private!{HOST}:80")
    endless = get(80, *(f"X-{number}: {'x' * 1000}" for number in range(100)))
    assert proxied.answer_to(endless).startswith(b"HTTP/1.1 431 ")
    assert proxied.answer_to(b"G" * 100_000).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("words", [b"\x05\x01\x00", b"\x04\x01\x00", hello(HOST)])
def test_another_protocol_is_told_at_once(stage: Stage, words: bytes) -> None:
    assert stage.proxy(f"private!{HOST}:80").answer_to(words).startswith(b"HTTP/1.1 400 this is an HTTP proxy")


def test_a_refusal_is_heard_by_a_client_that_talks_on(stage: Stage) -> None:
    proxied = stage.proxy(f"private!{HOST}:80")
    with proxied.client() as client:
        client.sendall(get(81, "Content-Length: 4000000"))
        for _ in range(40):
            client.sendall(bytes(100_000))
        assert all_from(client).startswith(b"HTTP/1.1 403 ")


def test_a_client_that_pours_while_its_server_is_silent_is_slowed_and_not_stored(stage: Stage) -> None:
    def silent(_: Server, client: socket.socket, heard: bytearray) -> None:
        while heard[-3:] != b"end" and (chunk := client.recv(1 << 16)):
            heard += chunk

    server = stage.server(silent)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.sendall(hello(HOST) + bytes(64 << 20))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    assert len(server.end()[0]) == len(hello(HOST))


def test_a_head_that_drips_is_refused_in_time(stage: Stage) -> None:
    proxied = stage.proxy(f"private!{HOST}:80", limits={"head_s": 0.3})
    with proxied.client() as client, contextlib.suppress(ConnectionError):
        begun, client_ended = time.monotonic(), False
        client.settimeout(0.02)
        client.sendall(b"GET http://")
        said = b""
        while not client_ended and time.monotonic() < begun + PATIENCE_S:
            client.sendall(b"a")
            with contextlib.suppress(TimeoutError):
                said += (chunk := client.recv(1 << 16))
                client_ended = not chunk
    assert said.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - begun < PATIENCE_S / 2


def test_a_silent_tunnel_is_cut(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"idle_s": 0.2})
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.sendall(b"hello")
        assert all_from(client) == b"hello"
    assert proxied.notes == [f"cut {HOST}:{server.port} the connection was silent or open for too long"]


def test_a_busy_tunnel_is_cut_when_its_time_is_over(stage: Stage) -> None:
    def endless(_: Server, client: socket.socket, heard: bytearray) -> None:
        while True:
            client.sendall(b"x" * 1000)

    server = stage.server(endless)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"total_s": 0.3})
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        begun = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            while client.recv(1 << 16):
                pass
    assert time.monotonic() - begun < PATIENCE_S / 2


def test_all_connections_together_move_no_more_than_the_job_may(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"job_bytes": 3000})
    target = f"{HOST}:{server.port}"
    with proxied.tunnel(target) as first, proxied.tunnel(target) as second:
        for client in (first, second):
            client.sendall(b"-" * 500)
            assert exactly(client, 500) == b"-" * 500
        first.sendall(b"-" * 900)
        assert len(all_from(first)) <= 900
        came = b""
        with contextlib.suppress(ConnectionError):
            second.sendall(b"-" * 900)
            came = all_from(second)
        assert came == b""
    assert sum(map(len, server.end())) <= 3000
    for request in (f"CONNECT {target} HTTP/1.1\r\n\r\n".encode(), get(server.port)):
        assert proxied.answer_to(request).startswith(
            b"HTTP/1.1 403 the job has used up its 3000 bytes of network traffic"
        )


def test_a_connection_too_many_waits_for_its_turn(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"connections": 2})
    first, second, third = (proxied.client() for _ in range(3))
    with first, second, third:
        for client in (first, second):
            client.sendall(b"GET ")
        third.sendall(get(server.port))
        first.close()
        assert all_from(third).endswith(b"hello")


def test_a_connection_too_many_is_told_when_its_turn_does_not_come(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", limits={"connections": 1, "head_s": 0.2})
    with proxied.tunnel(f"{HOST}:{server.port}"):
        answer = proxied.answer_to(get(server.port))
        assert answer.startswith(b"HTTP/1.1 503 1 connections are open already; close some")
