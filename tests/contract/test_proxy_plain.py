"""Requests without TLS through the proxy of a box: one server, one request, in words of our own."""

import contextlib
import socket
import threading

import pytest
from tests.contract.proxy_stage import (
    HOST,
    PATIENCE_S,
    Server,
    Stage,
    all_from,
    certificate,
    echo,
    get,
    stage,
    web,
)

__all__ = ["certificate", "stage"]


def test_a_plain_request_reaches_its_server_in_its_own_words_only(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    fields = (
        "Host: evil.test",
        "Accept: a, b",
        "X-Two: 2",
        "Connection: keep-alive, X-Two, Content-Length",
        "Keep-Alive: 5",
    )
    more = ("Proxy-Connection: x", "Proxy-Authorization: Basic x", "TE: trailers", "Upgrade: h2c", "Content-Length: 4")
    answer = proxied.answer_to(get(server.port, *fields, *more, body=b"body"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"hello")
    lines = [
        "GET /path?q=1 HTTP/1.1",
        f"host: {HOST}:{server.port}",
        "accept: a, b",
        "content-length: 4",
        "connection: close",
    ]
    assert server.end() == ["\r\n".join([*lines, "", "body"]).encode()]


@pytest.mark.parametrize(
    ("url", "path"),
    [("http://{}", "/"), ("http://{}?q", "/?q"), ("HTTP://{}/a//b/../c?d=http://e", "/a//b/../c?d=http://e")],
)
def test_the_path_is_what_follows_the_host(stage: Stage, url: str, path: str) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", plain_port=server.port)
    assert proxied.answer_to(f"GET {url.format('Api.Test')} HTTP/1.0\r\n\r\n".encode()).endswith(b"hello")
    assert server.end() == [f"GET {path} HTTP/1.0\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode()]


CHUNKED = b"5\r\nhello\r\n0A\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("field", "body"),
    [("X-None: 1", b""), ("Content-Length: 4", b"body"), ("Transfer-Encoding: chunked", CHUNKED)],
)
def test_no_second_request_rides_along(stage: Stage, field: str, body: bytes) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with proxied.client() as client:
        request = get(server.port, field, "Connection: keep-alive", body=body)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in request:
            client.sendall(bytes((octet,)))
        with contextlib.suppress(OSError):
            client.sendall(get(server.port, "X-Second: 1") * 10)
        assert all_from(client).endswith(b"hello")
    (heard,) = server.end()
    assert heard.endswith(b"\r\n\r\n" + body)
    assert heard.count(b"HTTP/1.1") == 1
    assert proxied.answer_to(request).startswith(b"HTTP/1.1 502")


def test_a_second_request_in_the_same_packet_is_dropped(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    answer = proxied.answer_to(get(server.port, "Content-Length: 1", body=b"x" + get(server.port, host="other.test")))
    assert answer.endswith(b"hello")
    assert server.end()[0].endswith(b"\r\n\r\nx")


@pytest.mark.parametrize(
    "body",
    [
        b"x\r\n",
        b"5 \r\nhello\r\n",
        b"5;a=b\r\n",
        b"-1\r\n",
        b"123456789\r\n",
        b"1\r\nab\r\n",
        b"1\nx\n",
        b"0\r\nX: y\r\n\r\n",
    ],
)
def test_a_malformed_chunk_ends_the_request(stage: Stage, body: bytes) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    proxied.answer_to(get(server.port, "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n" + body + get(1)))
    assert b"http://" not in b"".join(server.end())
    assert [note.endswith("a chunk of the body is malformed") for note in proxied.notes] == [True]


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 4"),
        ("Content-Length: 4, 4",),
        ("Content-Length: +4",),
        ("Content-Length: 4\v",),
        ("Content-Length:",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",),
        ("X: 1", " folded"),
        ("no colon",),
        (": no name",),
        ("X: a\rb",),
        ("X: a\nY: b",),
        ("X: a\0b",),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(stage: Stage, fields: tuple[str, ...]) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    assert proxied.answer_to(get(server.port, *fields)).startswith(b"HTTP/1.1 400 ")
    assert server.end() == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "GET / HTTP/1.1",
            "GET * HTTP/1.1",
            "GET ftp://{} HTTP/1.1",
            "GET https://{} HTTP/1.1",
            "GET http:{} HTTP/1.1",
        ),
        *(
            "GET http://user@{}/ HTTP/1.1",
            "GET http://user:x@{}/ HTTP/1.1",
            "GET http://{}/#x HTTP/1.1",
            "GET http:///x HTTP/1.1",
        ),
        *(
            "GET http://{}/ HTTP/2.0",
            "GET http://{}/",
            "GET  http://{}/ HTTP/1.1",
            "GET http://{}/ x HTTP/1.1",
            "connect {} HTTP/1.1",
        ),
        *("GET http://{}\\@evil.test/ HTTP/1.1", "GET http://api.test:/ HTTP/1.1", "G(T http://{}/ HTTP/1.1"),
    ],
)
def test_any_other_request_line_is_refused(stage: Stage, line: str) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", f"private!{HOST}:80")
    asked = line.format(f"{HOST}:{server.port}")
    assert proxied.answer_to(f"{asked}\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")
    assert server.end() == []


def test_no_plain_request_goes_to_the_port_of_tls(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", tls_port=server.port)
    assert b" takes TLS: use CONNECT" in proxied.answer_to(get(server.port))
    assert server.end() == []


def test_a_tunnel_to_the_port_of_plain_http_asks_for_no_other_host_either(stage: Stage) -> None:
    server = stage.server(web)
    target = f"{HOST}:{server.port}"
    proxied = stage.proxy(f"private!{target}", plain_port=server.port)
    with proxied.tunnel(target) as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /y HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert all_from(client).endswith(b"hello")
    with proxied.tunnel(target) as client:
        client.sendall(b"GET http://evil.test/x HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert all_from(client).startswith(b"HTTP/1.1 403 ")
    assert server.end() == [f"GET /x HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode(), b""]


def test_an_answer_before_the_end_of_the_body_arrives(stage: Stage) -> None:
    def hasty(_: Server, client: socket.socket, heard: bytearray) -> None:
        heard += client.recv(1 << 16)
        client.sendall(b"HTTP/1.1 413 Too much\r\nConnection: close\r\n\r\nenough")

    server = stage.server(hasty)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with proxied.client() as client:
        client.sendall(get(server.port, "Content-Length: 1000000", body=bytes(1000)))
        assert all_from(client).endswith(b"enough")


def test_a_client_that_has_said_all_of_a_plain_request_still_hears_the_answer(stage: Stage) -> None:
    ended = threading.Event()

    def pondering(_: Server, client: socket.socket, heard: bytearray) -> None:
        while chunk := client.recv(1 << 16):
            heard += chunk
        ended.set()
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlater")

    server = stage.server(pondering)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with proxied.client() as client:
        client.sendall(get(server.port))
        client.shutdown(socket.SHUT_WR)
        assert ended.wait(PATIENCE_S)
        assert all_from(client).endswith(b"later")


def test_a_server_is_told_when_its_client_has_left(stage: Stage) -> None:
    asked = threading.Event()

    def pondering(_: Server, client: socket.socket, heard: bytearray) -> None:
        heard += client.recv(1 << 16)
        asked.set()
        heard += client.recv(1) or b"left"

    server = stage.server(pondering)
    proxied = stage.proxy(f"private!{HOST}:{server.port}")
    with proxied.client() as client:
        client.sendall(get(server.port) + b"more")
        assert asked.wait(PATIENCE_S)
    assert server.end()[0].endswith(b"\r\n\r\nleft")
