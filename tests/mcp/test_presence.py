"""Callers that hang up, and servers that are busy: nobody is worked for who is gone, everybody else is answered."""

import asyncio
import json
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from resolvent.cli.main import BROKEN
from resolvent.domain.exploration import Exploration
from resolvent.exploring import Asked, Explorer
from resolvent.exploring_work import MAKING
from resolvent.mcp import serving
from resolvent.mcp.listening import Listener, listen

from .place import RESOLVENT, Place, Server
from .workshop import ended, exploring, working

WAYS = {
    "json": {"Accept": "application/json"},
    "events": {"Accept": "text/event-stream"},
    "modern": {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"},
}


class Held(Explorer):
    """Waits and explores until it is told that nobody wants to know any more."""

    begun: asyncio.Event
    left: asyncio.Event

    async def wait(self, named: str, *, timeout_s: float) -> Exploration:
        return await self._hold()

    async def _revision(self, named: str) -> Any:
        return await self._hold()

    async def _hold(self) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@asynccontextmanager
async def served(explorer: Explorer) -> AsyncIterator[Listener]:
    """The server inside of the test's own process."""
    listener = listen("127.0.0.1:0", token="")
    task = asyncio.create_task(serving.serve_http(explorer, listener))
    try:
        yield listener
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        listener.socket.close()


async def called(listener: Listener, tool: str, way: str = "json", **arguments: Any) -> Any:
    """The two ends of a connection on which a tool was called."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"} | WAYS[way]
    if way == "modern":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reader, writer = await asyncio.open_connection(*listener.socket.getsockname())
    writer.write(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tool", ["wait_branch", "parallel_explore"])
async def test_a_call_ends_when_its_caller_hangs_up(place: Place, tool: str, way: str) -> None:
    async with exploring(place) as explorer:
        held = Held(explorer._home, explorer._ground)
        held.begun, held.left = asyncio.Event(), asyncio.Event()
        arguments = {"branch_id": "x", "timeout_seconds": 600} if tool == "wait_branch" else {}
        arguments |= {"shared_prompt_sequence": ["true"]} if tool == "parallel_explore" else {}
        async with served(held) as listener, asyncio.timeout(30):
            _, writer = await called(listener, tool, way, **arguments)
            await held.begun.wait()
            writer.close()
            await held.left.wait()
        assert await explorer.branches() == ()


async def test_calls_are_answered_while_every_thread_that_makes_branches_is_taken(place: Place) -> None:
    async with exploring(place) as explorer:
        async with working(explorer):
            (row,) = await explorer.explore(Asked(prompts=("echo here",)))
            await ended(explorer, row.id)
        go_on = threading.Event()
        async with served(explorer) as listener, asyncio.timeout(30):
            reader, _ = await called(listener, "list_branches")
            assert b"200 OK" in await reader.read()
            copying = [asyncio.create_task(asyncio.to_thread(go_on.wait)) for _ in range(40)]
            try:
                reader, _ = await called(listener, "branch_output", branch_id=row.id)
                assert b"here" in await reader.read()
            finally:
                go_on.set()
                await asyncio.gather(*copying)


async def test_few_branches_are_made_at_once(place: Place) -> None:
    async with exploring(place) as explorer:
        making, most, go_on, real = 0, [0], asyncio.Event(), explorer._ground.workspace

        class Counting:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            async def root(self, *what: Any, **more: Any) -> Any:
                nonlocal making
                making += 1
                most.append(making)
                await go_on.wait()
                making -= 1
                return await real.root(*what, **more)

        counting = Explorer(explorer._home, replace(explorer._ground, workspace=Counting()))  # type: ignore[arg-type]
        async with working(counting):
            rows = await counting.explore(Asked(prompts=("true",), count=2 * MAKING))
            while len(most) <= MAKING:
                await asyncio.sleep(0)
            assert (await counting.wait(rows[0].id, timeout_s=0.05)).snap == ""
            go_on.set()
            for row in rows:
                await ended(counting, row.id)
        assert max(most) == MAKING


BROKEN_LATER = """
import asyncio, sys
from resolvent.cli.main import main
from resolvent.exploring import Explorer

asked = asyncio.Event()

async def branches(self, **_):
    asked.set()
    return ()

async def work(self):
    await asked.wait()
    raise RuntimeError("fell over")

Explorer.branches, Explorer.work = branches, work
sys.argv = ["resolvent", "mcp"]
main()
"""


def test_over_standard_input_a_bug_ends_the_server_though_the_client_says_nothing_more(place: Place) -> None:
    with subprocess.Popen(
        [RESOLVENT[0], "-c", BROKEN_LATER], cwd=place.project, env=place.environ,
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stderr is not None
        try:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            for message in (
                {"id": 1, "method": "initialize", "params": hello},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/call", "params": {"name": "list_branches", "arguments": {}}},
            ):
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                server.stdin.flush()
            assert server.wait(timeout=30) == BROKEN
        finally:
            server.kill()
        assert "fell over" in server.stderr.read()


def test_what_the_repository_holds_is_fetched_before_the_address_is_told(place: Place, server: Server) -> None:
    fetched = place.git(
        "--git-dir", str(place.state / "upstream.git"), "cat-file", "-t", place.git("rev-parse", "HEAD")
    )
    assert fetched == "commit", "no call has to wait for that"
