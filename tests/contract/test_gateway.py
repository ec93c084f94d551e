"""Gateways: requests and answers as they pass, what is refused, and that keys stay outside."""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from .gateway_stage import KEY, Stage, hello, refusal, stage
from .proxy_stage import HOST, PATIENCE_S, all_from, certificate, exactly

__all__ = ["certificate", "stage"]
GET = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:4000\r\n\r\n"
LARGE = 10 << 20
RESET = b"\1\0\0\0\0\0\0\0"

kinds = pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])


def until(true: Callable[[], object]) -> None:
    """Look again until it is so; the process we look at does not tell."""
    over = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < over
        os.sched_yield()


@kinds
def test_a_request_arrives_with_the_key_and_the_answer_comes_back(stage: Stage, secure: bool) -> None:
    server = stage.server(hello, secure=secure)
    gated = stage.gateway_to(server, secure=secure, path="/api/")
    answer = gated.answer_to(
        b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nX-API-Key: mine\r\nx-api-key: other\r\n"
        b"Connection: keep-alive, x-gone\r\nX-Gone: 1\r\nKeep-Alive: 9\r\nUpgrade: websocket\r\n"
        b"Proxy-Authorization: me\r\nAccept: text/event-stream\r\nContent-Length: 0\r\n\r\n"
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"hello")
    assert head.lower().count(b"connection:") == 1 and b"\r\nconnection: close" in head
    asked = bytes(server.end()[0]).split(b"\r\n")
    assert asked[:2] == [b"POST /api/v1/messages?beta=true HTTP/1.1", f"host: {HOST}:{server.port}".encode()]
    assert sorted(asked[2:]) == [
        b"",
        b"",
        b"accept: text/event-stream",
        b"connection: close",
        b"content-length: 0",
        f"x-api-key: {KEY}".encode(),
    ]


def test_a_program_cannot_have_the_key_left_out_on_the_way(stage: Stage) -> None:
    server = stage.server(hello)
    gated = stage.gateway_to(server)
    gated.answer_to(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: x-api-key\r\nX-Api-Key: mine\r\n\r\n")
    assert [line for line in bytes(server.end()[0]).split(b"\r\n") if line.startswith(b"x-api-key")] == [
        f"x-api-key: {KEY}".encode()
    ]


@kinds
def test_events_arrive_one_by_one_while_the_answer_goes_on(stage: Stage, secure: bool) -> None:
    seen = [threading.Event() for _ in range(3)]

    def events(client: socket.socket, _: bytearray) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, one in enumerate(seen):
            client.sendall(b"8\r\ndata: %d\n\r\n" % number)
            assert one.wait(PATIENCE_S)
        client.sendall(b"0\r\n\r\n")

    gated = stage.gateway_to(stage.server(events, secure=secure), secure=secure)
    with gated.client() as client:
        client.sendall(GET)
        said = b""
        for number, one in enumerate(seen):
            while b"data: %d\n" % number not in said:
                said += (more := client.recv(1 << 16))
                assert more
            one.set()
        assert (said + all_from(client)).endswith(b"0\r\n\r\n")


@kinds
@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_pass_both_ways(stage: Stage, secure: bool, chunked: bool) -> None:
    body = os.urandom(LARGE)
    framed = b"".join(b"%x\r\n%b\r\n" % (1 << 20, body[at : at + (1 << 20)]) for at in range(0, LARGE, 1 << 20))
    sent = framed + b"0\r\n\r\n" if chunked else body
    got: list[bytes] = []

    def swallow(client: socket.socket, heard: bytearray) -> None:
        begun = bytes(heard).partition(b"\r\n\r\n")[2]
        got.append(begun + exactly(client, len(sent) - len(begun)))
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE + body)
        # Until the other end is done: to close with something unread would take the answer back.
        assert client.recv(1) == b""

    gated = stage.gateway_to(stage.server(swallow, secure=secure), secure=secure)
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(sent)
    with gated.client() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        client.sendall(sent)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += exactly(client, 1)
        assert exactly(client, LARGE) == body
    assert hashlib.sha256(got[0]).digest() == hashlib.sha256(sent).digest()


def test_a_body_waits_until_the_server_says_go_on(stage: Stage) -> None:
    def hesitant(client: socket.socket, heard: bytearray) -> None:
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        heard += exactly(client, 4)
        hello(client, heard)

    server = stage.server(hesitant)
    gated = stage.gateway_to(server)
    with gated.client() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert exactly(client, 25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert all_from(client).endswith(b"\r\nconnection: close\r\n\r\nhello")
    assert server.end()[0].endswith(b"\r\n\r\nbody")


def test_an_answer_before_the_end_of_the_body_arrives(stage: Stage) -> None:
    def impatient(client: socket.socket, _: bytearray) -> None:
        client.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        client.shutdown(socket.SHUT_WR)

    gated = stage.gateway_to(stage.server(impatient))
    with gated.client() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 1000)
        assert all_from(client).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_leaves_ends_the_request_at_the_server(stage: Stage) -> None:
    left = threading.Event()

    def thinking(client: socket.socket, _: bytearray) -> None:
        assert client.recv(1) == b""
        left.set()

    gated = stage.gateway_to(stage.server(thinking))
    with gated.client() as client:
        client.sendall(GET)
    assert left.wait(PATIENCE_S)
    until(lambda: len(gated.threads()) == 1)


def test_a_server_that_never_closes_holds_nobody_up(stage: Stage) -> None:
    def open_for_ever(client: socket.socket, heard: bytearray) -> None:
        hello(client, heard)
        assert client.recv(1) == b""

    gated = stage.gateway_to(stage.server(open_for_ever))
    with gated.client() as client:
        client.sendall(GET)
        said = b""
        while not said.endswith(b"hello"):
            said += client.recv(100)
    until(lambda: len(gated.threads()) == 1)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (f"GET http://{HOST}/v1 HTTP/1.1", 403),
        ("GET http://evil.test/ HTTP/1.1", 403),
        (f"CONNECT {HOST}:443 HTTP/1.1", 405),
        ("TRACE / HTTP/1.1", 405),
        ("OPTIONS * HTTP/1.1", 403),
        ("GET /../admin HTTP/1.1", 400),
        ("GET /v1/%2E%2e/admin HTTP/1.1", 400),
        ("GET /v1/..%2fadmin HTTP/1.1", 400),
        ("GET /v1/..;x=1/admin HTTP/1.1", 400),
        ("GET /v1\\..\\admin HTTP/1.1", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET / HTTP/2.0", 400),
        ("GET / HTTP/1.1\r\nX-Folded: a\r\n b", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("POST / HTTP/1.1\r\nContent-Length: -1", 400),
        ("GET / HTTP/1.1\r\nX: " + "x" * (33 << 10), 431),
        ("\x16\x03\x01", 400),
    ],
)
def test_what_is_no_request_for_its_server_is_refused(stage: Stage, request_line: str, status: int) -> None:
    server = stage.server(hello)
    gated = stage.gateway_to(server, path="/api")
    said, why = refusal(gated.answer_to(request_line.encode() + b"\r\nHost: x\r\n\r\n"))
    assert said == status, why
    assert KEY not in why
    assert server.end() == []


def test_a_second_request_does_not_ride_along(stage: Stage) -> None:
    server = stage.server(hello)
    gated = stage.gateway_to(server)
    assert gated.answer_to(GET + b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"hello")
    assert b"/other" not in server.end()[0]


def nothing(_: socket.socket, __: bytearray) -> None: ...


def reset(client: socket.socket, _: bytearray) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def another_protocol(client: socket.socket, _: bytearray) -> None:
    client.sendall(b"220 mail.test ESMTP\r\n\r\n")


def endless_head(client: socket.socket, _: bytearray) -> None:
    with contextlib.suppress(OSError):
        client.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000)


@pytest.mark.parametrize("broken", [nothing, reset, another_protocol, endless_head])
def test_a_server_without_an_answer_is_told_as_such(stage: Stage, broken: Callable[..., None]) -> None:
    gated = stage.gateway_to(stage.server(broken))
    status, why = refusal(gated.answer_to(GET))
    assert status == 502 and HOST in why and KEY not in why


def test_a_server_that_is_not_there_is_told_as_such(stage: Stage) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        status, why = refusal(stage.gateways(f"http://{HOST}:{taken.getsockname()[1]}").answer_to(GET))
    assert status == 502 and "cannot be reached: Connection refused" in why


def test_a_server_that_says_nothing_is_waited_for_and_then_told_as_such(stage: Stage) -> None:
    def silent(client: socket.socket, _: bytearray) -> None:
        assert client.recv(1) == b""

    gated = stage.gateway_to(stage.server(silent), limits={"total_s": 0.3})
    status, why = refusal(gated.answer_to(GET))
    assert status == 504 and "did not answer in time" in why


@pytest.mark.spec("B17")
def test_a_certificate_of_nobody_we_trust_gets_no_request_and_no_key(stage: Stage) -> None:
    def unreached(client: socket.socket, _: bytearray) -> None:
        raise AssertionError(client)

    server = stage.server(unreached, secure=True)
    address = f"https://{HOST}:{server.port}"
    status, why = refusal(stage.gateways(address).answer_to(GET))
    assert status == 502 and "self-signed" in why.replace("self signed", "self-signed") and KEY not in why
    renamed = f"https://elsewhere.test:{server.port}"
    status, why = refusal(stage.gateways(renamed, trusted=stage.certificate).answer_to(GET))
    assert status == 502 and "elsewhere.test" in why


def test_plain_http_where_tls_was_asked_for_gets_no_key(stage: Stage) -> None:
    server = stage.server(hello)
    gated = stage.gateway_to(server, secure=True, limits={"connect_s": 0.3})
    assert refusal(gated.answer_to(GET))[0] == 502
    gated.end()
    assert KEY.encode() not in b"".join(map(bytes, server.end()))


def test_every_gateway_has_a_server_of_its_own(stage: Stage) -> None:
    one, other = stage.server(hello), stage.server(hello)
    gated = stage.gateways(f"http://{HOST}:{one.port}", f"http://{HOST}:{other.port}/second")
    assert gated.answer_to(GET, 1).endswith(b"hello")
    assert one.end() == [] and other.end()[0].startswith(b"GET /second/v1/models ")


@pytest.mark.parametrize("tunnelled", [False, True])
def test_who_asks_the_proxy_for_the_boxs_own_loopback_gets_to_the_gateway_too(stage: Stage, tunnelled: bool) -> None:
    server = stage.server(hello)
    gated = stage.gateway_to(server, network=["private!127.0.0.1:9"])
    host, port = gated.addresses[1]
    request = f"GET http://{host}:{port}/v1/models HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    if tunnelled:
        request = f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode() + GET
    assert gated.answer_to(request).endswith(b"hello")
    assert KEY.encode() in server.end()[0]
    assert gated.answer_to(b"GET http://evil.test/ HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_a_client_that_says_nothing_is_sent_away_and_the_others_are_served(stage: Stage) -> None:
    gated = stage.gateway_to(stage.server(hello), limits={"head_s": 0.2, "connections": 3})
    with gated.client() as one, gated.client() as other:
        other.sendall(b"GET /v1")
        assert gated.answer_to(GET).endswith(b"hello")
        assert refusal(all_from(one))[0] == refusal(all_from(other))[0] == 408


def test_garbage_ends_its_own_connection_only(stage: Stage) -> None:
    gated = stage.gateway_to(stage.server(hello))
    for garbage in (
        b"\0" * 100,
        b"GET / HTTP/1.1\r\n" * 9,
        b"\r\n\r\n",
        GET[:9],
        b"POST / HTTP/1.1\r\n\xff\xfe: x\r\n\r\n",
    ):
        with gated.client() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.sendall(garbage)
    assert gated.answer_to(GET).endswith(b"hello")
    until(lambda: len(gated.threads()) == 1)


def test_what_a_client_says_is_noted_without_the_jobs_secrets(stage: Stage) -> None:
    gated = stage.gateway_to(stage.server(hello), network=["api.test:443"], secrets=["a-planted-secret"])
    gated.answer_to(b"GET http://a-planted-secret.evil.test/ HTTP/1.1\r\n\r\n")
    assert gated.notes_file.read_text().startswith("refused [redacted].evil.test:80 ")


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_server_that_wants_to_be_left_alone_is_noted_with_the_time(stage: Stage, status: int) -> None:
    def away(client: socket.socket, _: bytearray) -> None:
        client.sendall(f"HTTP/1.1 {status} No\r\nRetry-After: 3600\r\nContent-Length: 2\r\n\r\nno".encode())

    server = stage.server(away)
    gated = stage.gateway_to(server)
    began = time.time()
    assert gated.answer_to(GET).endswith(b"\r\n\r\nno")
    # Written before the answer was given: who asked may be gone after it, and the gateway with it.
    deed, name, said, at, after = gated.notes_file.read_text().split()
    assert (deed, name, said, after) == ("away", f"{HOST}:{server.port}", str(status), "3600")
    assert began - 0.01 <= float(at) <= time.time() + 0.01


def test_nothing_is_noted_of_a_server_that_states_no_time_or_answers(stage: Stage) -> None:
    answers = [b"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nRetry-After: 9\r\n\r\n"]
    gated = stage.gateway_to(stage.server(lambda client, _: client.sendall(answers.pop())))
    for _ in range(2):
        gated.answer_to(GET)
    assert gated.notes_file.read_text() == ""
