"""Whom the proxy of a box lets its clients reach, and at which address."""

import socket

import pytest
from tests.contract.proxy_stage import (
    HOST,
    Stage,
    certificate,
    echo,
    exactly,
    get,
    stage,
    web,
)

__all__ = ["certificate", "stage"]


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
