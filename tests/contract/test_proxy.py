"""The proxy of a box as a process: what gets through it, what does not, and that nothing a client does ends it."""

import contextlib
import hashlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.proxy_stage import (
    HOST,
    PATIENCE_S,
    Proxied,
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
    web,
)

from resolvent.adapters.jobs.proxy import environment
from resolvent.adapters.jobs.proxy_hello import ASK_AGAIN, FAREWELL

__all__ = ["certificate", "stage"]

# For SO_LINGER: whoever closes with this breaks off.
RESET = struct.pack("ii", 1, 0)
GARBAGE = [
    b"\x00" * 100,
    b"\xff" * 5000,
    b"\x16\x03\x01\x02\x00\x01",
    b"\x05\x01\x00",
    b"\r\n\r\n\r\n",
    b"GET",
    b"\n\n\n\n",
]


def until(true: Callable[[], object]) -> None:
    """Look again until it is so; the process we look at does not tell."""
    over = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < over
        os.sched_yield()


def get(port: int, *fields: str, body: bytes = b"", host: str = HOST) -> bytes:
    lines = [f"GET http://{host}:{port}/path?q=1 HTTP/1.1", "Host: whatever", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


# Tunnels


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


# Targets


def test_an_unlisted_target_is_refused_with_one_line_for_the_agent_and_one_for_people(stage: Stage) -> None:
    proxied = stage.proxy(f"private!{HOST}:443")
    for _ in range(3):
        answer = proxied.answer_to(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 evil.test:443 is not on the allow-list of this job\r\n")
    assert answer.endswith(b"\r\n\r\nevil.test:443 is not on the allow-list of this job\n")
    assert proxied.answer_to(get(80, host="evil.test")).startswith(b"HTTP/1.1 403 ")
    assert proxied.notes == [
        f"refused evil.test:{port} evil.test:{port} is not on the allow-list of this job" for port in (443, 80)
    ]
    assert proxied.lookups == []


def test_another_port_of_a_listed_host_is_another_target(stage: Stage) -> None:
    proxied = stage.proxy(f"private!{HOST}:443")
    assert proxied.answer_to(f"CONNECT {HOST}:22 HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "target",
    ["api.test", "api.test:443:443", "*:443", "api.test:", "[::1:443", "0x7f.1:80", "b\xfccher.test:443", "a" * 300],
)
def test_an_odd_target_is_refused(stage: Stage, target: str) -> None:
    proxied = stage.proxy(f"private!{HOST}:443")
    assert proxied.answer_to(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
)
def test_a_listed_name_that_stands_for_a_private_address_is_refused(stage: Stage, address: str) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"{HOST}:{server.port}", names={HOST: [[address]]})
    for request in (f"CONNECT {HOST}:{server.port} HTTP/1.1\r\n\r\n".encode(), get(server.port)):
        answer = proxied.answer_to(request)
        assert answer.startswith(f"HTTP/1.1 403 {HOST}:{server.port} stands for no public address".encode())
    assert server.end() == []
    assert len(proxied.notes) == 1


def test_a_name_is_looked_up_once_so_that_it_cannot_change_in_between(stage: Stage) -> None:
    server = stage.server(echo)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", names={HOST: [["127.0.0.1"], ["169.254.169.254"]]})
    with proxied.tunnel(f"{HOST}:{server.port}") as client:
        client.sendall(b"hello")
        assert exactly(client, 5) == b"hello"
    assert proxied.lookups == [HOST]
    assert proxied.answer_to(get(server.port)).startswith(b"HTTP/1.1 403 ")
    assert proxied.lookups == [HOST, HOST]


def test_the_next_address_is_tried_when_one_takes_no_connection(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!{HOST}:{server.port}", names={HOST: [["127.0.0.2", "127.0.0.1"]]})
    assert proxied.answer_to(get(server.port)).endswith(b"hello")


def test_the_system_s_own_resolver_is_asked_without_one_of_ours(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy(f"private!localhost:{server.port}", f"localhost:{server.port + 1}", names={})
    assert proxied.answer_to(get(server.port, host="localhost")).endswith(b"hello")
    assert proxied.answer_to(get(server.port + 1, host="localhost")).startswith(b"HTTP/1.1 403 ")


def test_a_host_that_is_not_there_is_told_from_one_that_is_forbidden(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    proxied = stage.proxy(f"private!{HOST}:{port}", "unknown.test:443")
    assert proxied.answer_to(get(port)).startswith(
        b"HTTP/1.1 502 api.test:%d cannot be reached: Connection refused" % port
    )
    unknown = proxied.answer_to(b"CONNECT unknown.test:443 HTTP/1.1\r\n\r\n")
    assert unknown.startswith(b"HTTP/1.1 502 unknown.test cannot be looked up: Name or service not known")
    assert proxied.notes == []


def test_an_entry_that_cannot_be_read_permits_nothing_and_is_told(stage: Stage) -> None:
    server = stage.server(web)
    proxied = stage.proxy("*:443", "two\nlines", f"private!{HOST}:{server.port}")
    assert proxied.answer_to(get(server.port)).endswith(b"hello")
    assert [note.partition(" is no entry")[0] for note in proxied.notes] == ["refused *:443", r"refused two\nlines"]


# Requests without TLS


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


# Limits


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
        with contextlib.suppress(ConnectionError):
            second.sendall(b"-" * 900)
            assert all_from(second) == b""
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


# Nothing ends it


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
        code = f"from resolvent.adapters.jobs import proxy; proxy.serve({theirs.fileno()}, allowed=[])"
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
