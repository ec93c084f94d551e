"""The server as such: its certificates, its port, its proxy, and how it ends."""

import asyncio
import ssl
import stat
import time
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.errors import UsageError
from resolvent.forge_server import tls
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.serving import serving
from resolvent.forge_server.tls import certificates


async def said(proxy: str, request: bytes) -> bytes:
    """What the proxy answers to exactly these bytes."""
    host, port = proxy.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    try:
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


def test_certificates_are_for_their_owner_only_and_used_again(tmp_path: Path) -> None:
    first = certificates(tmp_path / "tls")
    files = (first.ca, first.chain, first.key)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    before = [path.read_bytes() for path in files]
    assert certificates(tmp_path / "tls") == first
    assert [path.read_bytes() for path in files] == before
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == ["ca.pem", "server.key", "server.pem"]


@pytest.mark.parametrize("spoiled", ["ca.pem", "server.pem", "server.key"])
def test_certificates_that_do_not_fit_are_made_anew(tmp_path: Path, spoiled: str) -> None:
    made = certificates(tmp_path)
    before = made.chain.read_bytes()
    (tmp_path / spoiled).write_text("nonsense") if spoiled != "server.key" else (tmp_path / spoiled).unlink()
    again = certificates(tmp_path)
    assert again.chain.read_bytes() != before
    ssl.create_default_context(cafile=again.ca)


def test_certificates_that_end_soon_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LASTS", timedelta(days=2))
    before = certificates(tmp_path).chain.read_bytes()
    monkeypatch.setattr(tls, "LASTS", timedelta(days=300))
    assert certificates(tmp_path).chain.read_bytes() != before


async def test_a_client_that_does_not_trust_the_authority_is_not_served(served: Served) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(served.url)


@pytest.mark.parametrize(
    "target", ["example.org:443", "github.com:80", "github.com:22", "localhost:443", "gist.github.com:443"]
)
async def test_the_proxy_leads_nowhere_else(served: Served, target: str) -> None:
    answer = await said(served.proxy, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("line", [b"GET http://github.com/ HTTP/1.1", b"", b"CONNECT", b"\xff\xfe \xff", b"x" * 200])
async def test_the_proxy_refuses_what_is_no_tunnel(served: Served, line: bytes) -> None:
    assert (await said(served.proxy, line + b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
    assert (await served.client(public=True).get("/user")).status_code == 200


async def test_the_proxy_hangs_up_on_who_never_ends(served: Served) -> None:
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await said(served.proxy, b"x" * (64 << 10))
    assert (await served.client(public=True).get("/user")).status_code == 200


async def test_a_port_that_is_taken_is_said_so(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"port {port} ") as raised:
        async with serving(served.hub, port=port):
            pass
    assert raised.value.hint == "resolvent forge serve --port 0"


async def test_the_server_ends_at_once_and_its_port_is_free(tmp_path: Path, certified: Path) -> None:
    hub = await Hub.open(tmp_path, owner=OWNER, name=NAME)
    token = await hub.token(OWNER)
    trusting = ssl.create_default_context(cafile=certificates(certified).ca)
    async with httpx.AsyncClient(
        verify=trusting, trust_env=False, headers={"authorization": f"token {token}"}
    ) as client:
        async with serving(hub, certified=certified) as first:
            # A connection that is kept open must not keep the server.
            assert (await client.get(f"{first.url}/api/v3/user")).status_code == 200
            begun = time.monotonic()
        assert time.monotonic() - begun < 1
        port = int(first.url.rpartition(":")[2])
        async with serving(hub, port=port, certified=certified) as second:
            assert second.url == first.url
            assert (await client.get(f"{second.url}/api/v3/user")).status_code == 200
    await hub.close()


async def test_many_ask_at_once(served: Served) -> None:
    client = served.client()
    answers = await asyncio.gather(*(client.get("/user") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}


async def test_what_is_no_http_does_not_disturb_the_others(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    trusting = ssl.create_default_context(cafile=served.ca)
    for greeting in (b"\x16\x03nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nhost: \xff\r\n\r\n"):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
        writer.write(greeting)
        await reader.read(1024)
        writer.close()
    assert (await served.client().get("/user")).status_code == 200
