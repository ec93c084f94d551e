"""Who may call the server over HTTP, and under which names."""

import http.client
import json
import os
import socket
import subprocess

import pytest

from resolvent.mcp.peer import user_of

from .place import HEADERS, PLAIN, RESOLVENT, Place, Server

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_branches"}})


def status(server: Server, method: str = "POST", path: str = "/mcp", **headers: str | None) -> int:
    """What a request with exactly these headers is answered with."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    given = {"host": f"127.0.0.1:{server.port}", **{name.lower(): value for name, value in HEADERS.items()}, **headers}
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in given.items():
        if value is not None:
            connection.putheader(name.replace("_", "-"), value)
    connection.putheader("content-length", str(len(LIST)))
    connection.endheaders(LIST.encode())
    answered = connection.getresponse().status
    connection.close()
    return answered


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "localhost.:1", "127.0.0.1:8000", "127.8.8.8", "[::1]", "[::1]:99"]
)
def test_names_of_this_machine_are_fine(shared: Server, host: str) -> None:
    assert status(shared, host=host) == 200


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example@localhost", "0.0.0.0:1",
        "localhost:80:80", "[::]", "192.168.1.1", "localhost/", "", "2130706433",
    ],
)  # fmt: skip
def test_any_other_host_name_is_refused(shared: Server, host: str) -> None:
    assert status(shared, host=host) == 421


@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "http://127.0.0.1", "https://[::1]:1"])
def test_pages_of_this_machine_may_call(shared: Server, origin: str | None) -> None:
    assert status(shared, origin=origin) == 200


@pytest.mark.spec("M4")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost.evil.example", "localhost"])
def test_pages_from_elsewhere_may_not(shared: Server, origin: str) -> None:
    assert status(shared, origin=origin) == 403


def test_a_form_cannot_be_posted(shared: Server) -> None:
    assert status(shared, **{"content-type": "text/plain"}) == 415
    assert status(shared, **{"content-type": None}) == 415


def test_only_post_is_allowed_and_only_there(shared: Server) -> None:
    for method in ("GET", "DELETE", "PUT", "OPTIONS", "HEAD"):
        assert status(shared, method) == 405
        assert status(shared, method, path="/mcp/sse") == 405
    assert status(shared, path="/") == 404
    assert status(shared, path="/mcp/other") == 404
    assert status(shared, accept="image/png") == 406


def test_a_caller_cannot_say_that_he_is_somebody_else(shared: Server) -> None:
    assert status(shared, **{"x-forwarded-for": "10.0.0.1", "forwarded": "for=10.0.0.1"}) == 200


@pytest.mark.spec("M4")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as another user")
def test_another_user_of_this_machine_is_refused(shared: Server) -> None:
    told = []
    for user in (65534, 0):
        connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=30)
        os.seteuid(user)
        try:
            connection.connect()
        finally:
            os.seteuid(0)
        connection.request("POST", "/mcp", body=LIST, headers={"content-type": "application/json"})
        told.append(connection.getresponse().status)
        connection.close()
    assert told == [403, 200]


def test_an_agent_in_its_sandbox_cannot_reach_the_server(place: Place, server: Server) -> None:
    knock = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{server.port}' 2>&1 && echo came in"
    branch = server.explore(f"{knock}; true")
    assert server.end(branch)["status"] == "succeed"
    assert "refused" in server.output(branch) and "came in" not in server.output(branch)


@pytest.mark.parametrize(
    ("family", "listening", "called"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_the_kernel_tells_who_holds_the_other_end(family: int, listening: str, called: str) -> None:
    with socket.create_server((listening, 0), family=socket.AF_INET6 if ":" in listening else socket.AF_INET) as server:
        with socket.socket(family) as client:
            client.connect((called, server.getsockname()[1]))
            accepted, peer = server.accept()
            here = accepted.getsockname()[:2]
            assert user_of(peer[:2], here) == os.geteuid()
            assert user_of(("127.0.0.1", 1), here) is None
        # Closed by its process: nobody holds it, whatever the kernel says of its user.
        assert user_of(peer[:2], here) is None
        accepted.close()


def start(place: Place, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """A server that must not start."""
    return subprocess.run(
        [*RESOLVENT, "mcp", *PLAIN, *words],
        cwd=place.project, env=place.environ | extra, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.spec("M4")
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_can_reach_takes_a_token(place: Place, address: str) -> None:
    said = start(place, "--http", address)
    assert said.returncode == 2 and "that takes a token" in said.stderr and "--token-file" in said.stderr


@pytest.mark.parametrize(
    "address", ["x", "127.0.0.1", "127.0.0.1:99999", "a:b:1", "no-such-host.invalid:80", "[::1", "a..b:80"]
)
def test_what_is_no_address_is_refused(place: Place, address: str) -> None:
    said = start(place, "--http", address)
    assert said.returncode == 2 and "next:" in said.stderr and "Traceback" not in said.stderr


def test_an_address_in_use_is_said_to_be(place: Place, server: Server) -> None:
    said = start(place, "--http", f"127.0.0.1:{server.port}")
    assert said.returncode == 2 and "Address already in use" in said.stderr


@pytest.mark.parametrize("content", ["", "short", "with space in it and long", "ümläut-ümläut-ümläut"])
def test_a_token_that_is_none_is_refused(place: Place, content: str) -> None:
    file = place.directory / "token"
    file.write_text(content, encoding="utf-8")
    file.chmod(0o600)
    said = start(place, "--http", "127.0.0.1:0", "--token-file", str(file))
    assert said.returncode == 2 and "holds no token" in said.stderr


def test_a_token_file_that_others_can_read_is_refused(place: Place) -> None:
    file = place.directory / "token"
    file.write_text("0123456789abcdef", encoding="utf-8")
    file.chmod(0o644)
    said = start(place, "--http", "127.0.0.1:0", "--token-file", str(file))
    assert said.returncode == 2 and "chmod 600" in said.stderr
    os.mkfifo(place.directory / "pipe", 0o600)
    said = start(place, "--http", "127.0.0.1:0", "--token-file", str(place.directory / "pipe"))
    assert said.returncode == 2 and "is no regular file" in said.stderr
    said = start(place, "--http", "127.0.0.1:0", "--token-file", str(place.directory / "none"))
    assert said.returncode == 2 and "cannot be read" in said.stderr


@pytest.mark.spec("M4")
def test_with_a_token_only_its_holder_may_call(place: Place) -> None:
    token = "0123456789abcdef0123456789abcdef"
    file = place.directory / "token"
    file.write_text(f"{token}\n", encoding="utf-8")
    file.chmod(0o600)
    server = place.serve("--http", "0.0.0.0:0", "--token-file", str(file))
    assert status(server) == 401
    wrong = ("", "Bearer", "Bearer x", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", token, "Bearer ü")
    for said in wrong:
        assert status(server, authorization=said) == 401, said
    assert status(server, authorization=f"Bearer {token}") == 200
    assert status(server, authorization=f"bearer {token}", host="branches.example:8000") == 200
    assert status(server, authorization=f"Bearer {token}", origin="https://evil.example") == 403


def test_the_token_may_come_from_the_environment(place: Place) -> None:
    said = start(place, "--http", "0.0.0.0:0", RESOLVENT_MCP_TOKEN="short")
    assert said.returncode == 2 and "$RESOLVENT_MCP_TOKEN holds no token" in said.stderr and "short" not in said.stderr
    token = "from-the-environment-0123456789"
    place.extra["RESOLVENT_MCP_TOKEN"] = token
    server = place.serve("--http", "0.0.0.0:0")
    assert status(server) == 401
    assert status(server, authorization=f"Bearer {token}") == 200
