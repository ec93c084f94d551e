"""Gateways of real boxes: what a job reaches by them, and that the key is nowhere it could look."""

import asyncio
import json
import os
import signal
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from resolvent.adapters.jobs.processes import descendants
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import Gateway
from resolvent.errors import ConfigError, JobLost, NoSandbox

from .boxed import trouble
from .gateway_stage import KEY, Stage, hello, stage
from .programs import readable
from .proxy_stage import PATIENCE_S, certificate
from .test_box import USER, Place, place

__all__ = ["certificate", "place", "stage"]
pytestmark = pytest.mark.skipif(bool(trouble()), reason=f"no boxes here: {trouble()}")
PORT = 4001
FETCH = """python3 -u -c '
import sys, urllib.request, urllib.error
for address in sys.argv[1:]:
    try:
        for line in urllib.request.urlopen(address, timeout=10): print(line.decode().strip())
    except urllib.error.HTTPError as error: print(error.code)
    except urllib.error.URLError as error: print(type(error.reason).__name__)
' """


def gateway(port: int, *, at: int = PORT, scheme: str = "http") -> Gateway:
    return Gateway(port=at, upstream=f"{scheme}://127.0.0.1:{port}", headers={"X-Api-Key": KEY})


@pytest.mark.spec("B17")
async def test_a_job_reaches_its_gateway_and_nothing_else(place: Place, stage: Stage) -> None:
    server = stage.server(hello)
    addresses = f"http://127.0.0.1:{PORT}/v1 http://127.0.0.1:{server.port}/ http://127.0.0.1:3128/"
    exit, said = await place.run(FETCH + addresses + "; env | grep -ic proxy", gateways=(gateway(server.port),))
    assert said.split() == ["hello", "ConnectionRefusedError", "ConnectionRefusedError", "0"], exit
    (heard,) = server.end()
    assert heard.startswith(b"GET /v1 HTTP/1.1\r\n") and f"x-api-key: {KEY}\r\n".encode() in heard


async def test_an_allow_list_and_gateways_stand_side_by_side(place: Place, stage: Stage) -> None:
    plain, first, second = stage.server(hello), stage.server(hello), stage.server(hello)
    gateways = (gateway(first.port), gateway(second.port, at=PORT + 1))
    walls = replace(place.walls, network=("api.test:443",))
    addresses = f"http://127.0.0.1:{PORT + 1}/ http://127.0.0.1:{plain.port}/ http://127.0.0.1:{PORT}/ http://a.test/"
    more = {"gateways": gateways, "network": (f"private!127.0.0.1:{plain.port}",), "walls": walls}
    _, said = await place.run(FETCH + addresses, **more)
    assert said.split() == ["hello", "hello", "hello", "403"]
    keys = [KEY.encode() in b"".join(map(bytes, server.end())) for server in (plain, first, second)]
    assert keys == [False, True, True]


async def test_a_server_with_tls_is_reached_by_whom_the_caller_trusts(place: Place, stage: Stage) -> None:
    server = stage.server(hello, secure=True)
    trusting = SupervisedJobs(place.path / "trusting", {"SSL_CERT_FILE": f"{stage.certificate}.crt"})
    said = []
    for jobs in (trusting, place.jobs):
        job = place.job(FETCH + f"http://127.0.0.1:{PORT}/", gateways=(gateway(server.port, scheme="https"),))
        await jobs.ensure(job)
        said.append(jobs.output(job.id).read_text())
    assert said == ["hello\n", "502\n"]


async def test_events_reach_a_job_while_the_answer_goes_on(place: Place, stage: Stage) -> None:
    heard = threading.Event()

    def events(client: socket.socket, _: bytearray) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n")
        assert heard.wait(PATIENCE_S)
        client.sendall(b"data: two\n")

    job = place.job(FETCH + f"http://127.0.0.1:{PORT}/", gateways=(gateway(stage.server(events).port),))
    running = asyncio.create_task(place.jobs.ensure(job))
    lines = []
    async for line in place.jobs.lines(job.id):
        lines.append(line)
        heard.set()
    assert (lines, (await running).exit) == ([b"data: one", b"data: two"], 0)


# Everything a job can look into. It is told in two pieces what it looks for, and finds what it planted itself.
SEARCH = """python3 -c '
import os, sys
wanted, found = (sys.argv[1] + sys.argv[2]).encode(), []
open("/tmp/planted", "wb").write(wanted)
for top in ("/proc", "/run", "/tmp", "/workspace", "/dev/shm", "/etc"):
    for directory, below, names in os.walk(top):
        below[:] = [name for name in below if name not in ("task", "map_files", "sys", "irq", "tty", "bus", "fs")]
        for path in (os.path.join(directory, name) for name in names if not name.startswith(("k", "mem", "pagemap"))):
            try:
                with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
                    found += [path] if wanted in (opened.read(1 << 22) or b"") else []
            except OSError: continue
print(found, wanted in repr(os.environ).encode())
' """


@pytest.mark.spec("B17")
async def test_the_key_is_nowhere_in_the_box_nor_in_any_file_outside(place: Place, stage: Stage) -> None:
    server = stage.server(hello)
    half = len(KEY) // 2
    job = place.job(
        FETCH + f"http://127.0.0.1:{PORT}/; {SEARCH} '{KEY[:half]}' '{KEY[half:]}'",
        gateways=(gateway(server.port),),
        secrets=(KEY,),
    )
    await place.jobs.ensure(job)
    assert place.jobs.output(job.id).read_text().split("\n")[:2] == ["hello", "['/tmp/planted'] False"]
    assert KEY.encode() in server.end()[0]
    kept = [file for file in place.path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert kept == []
    written = json.loads((place.path / "jobs" / job.id / "job.json").read_text())
    for gateways in (written["gateways"], written["box"]["gateways"]):
        assert [one["headers"] for one in gateways] == [{"X-Api-Key": ""}]


async def held_open(place: Place, stage: Stage) -> tuple["asyncio.Task[object]", int, list[int]]:
    """A job in the middle of a request: its task, its supervisor, and descriptors of all that is below that."""
    begun = threading.Event()

    def thinking(client: socket.socket, _: bytearray) -> None:
        begun.set()
        client.recv(1)

    job = place.job(FETCH + f"http://127.0.0.1:{PORT}/", gateways=(gateway(stage.server(thinking).port),))
    running: asyncio.Task[object] = asyncio.create_task(place.jobs.ensure(job))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    supervisor = json.loads((place.path / "jobs" / job.id / "started").read_text())["pid"]
    return running, supervisor, descendants(supervisor)


def is_gateway(pid: int) -> bool:
    """It is outside of the box, and yet below the supervisor."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except PermissionError:  # it lets nobody look but root
        return True


async def test_the_end_of_the_supervisor_is_the_end_of_its_gateways(place: Place, stage: Stage) -> None:
    running, supervisor, below = await held_open(place, stage)
    assert [pid for pid in below if is_gateway(pid)]
    ends = [os.pidfd_open(pid) for pid in below]
    os.kill(supervisor, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        for end in ends:
            await readable(end)
            os.close(end)
    with pytest.raises(JobLost):
        await running


async def test_nobody_looks_into_the_process_that_has_the_key(place: Place, stage: Stage) -> None:
    running, supervisor, below = await held_open(place, stage)
    (holder,) = [pid for pid in below if is_gateway(pid)]
    user = next(line for line in Path(f"/proc/{holder}/status").read_text().split("\n") if line.startswith("Uid:"))
    assert set(user.split()[1:]) == {str(USER or os.getuid())}
    # The kernel gives these files to root where a process must not be looked into, whoever runs it.
    assert os.stat(f"/proc/{holder}/mem").st_uid == 0 != int(user.split()[1])
    words = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (supervisor, *below))
    assert KEY.encode() not in words
    running.cancel()
    await place.jobs.cancel("job1")


async def test_two_ways_out_at_one_port_are_no_box(place: Place) -> None:
    exit, _ = await place.run("true", gateways=(gateway(1), gateway(2)))
    assert exit.ending == "unstartable" and f"port {PORT}" in exit.message


@pytest.mark.parametrize(
    ("upstream", "headers"),
    [
        ("ftp://host", {}),
        ("https://user@host", {}),
        ("https://host/?query", {}),
        ("https://host:99999", {}),
        ("https://", {}),
        ("https://host", {"x-api-key": f"{KEY}\n"}),
        ("https://host", {"x-api-key": f"{KEY}\r\nx: y"}),
        ("https://host", {"x-api-key": f"{KEY}\u20ac"}),
        ("https://host", {"a b": KEY}),
        ("https://host", {"Host": KEY}),
        ("https://host", {"transfer-encoding": KEY}),
    ],
)
def test_a_gateway_that_leads_nowhere_is_an_error_without_the_key(
    place: Place, upstream: str, headers: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        place.job("true", gateways=(Gateway(port=PORT, upstream=upstream, headers=headers),))
    assert KEY not in f"{refused.value} {refused.value.hint}"


def test_where_there_is_no_network_to_put_it_a_gateway_is_refused(place: Place) -> None:
    with pytest.raises(NoSandbox, match="landlock"):
        place.job("true", walls=replace(place.walls, kind="landlock"), gateways=(gateway(1),))
