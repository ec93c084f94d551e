"""The rehearsal forge posts its webhooks over HTTP to a host that works: from a label to a stop, each once."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from resolvent.errors import ConfigError, UsageError
from resolvent.forge_server.serving import Serving, serving
from resolvent.intake.listening import MIN_SECRET, Listener, listen
from resolvent.testing.demo_story import write_story
from resolvent.testing.stage import scene
from resolvent.working import Session

from .scene import SOON_S, Town, until

SECRET = "a-secret-of-the-test"


@pytest.fixture
async def served(town: Town) -> AsyncIterator[Serving]:
    async with serving(town.hub) as forge:
        yield forge


async def test_webhooks_take_an_issue_up_and_stop_it_and_a_redelivery_does_nothing(town: Town, served: Serving) -> None:
    host = await town.host("alpha", "intake.poll=0")
    fifo = host.stage.hooks / "held"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    write_story(host.stage.directory / "story.json", [scene("analyze", "VERDICT=INVALID", wait_for=str(fifo))])
    opened = socket.create_server(("127.0.0.1", 0))
    listener = Listener(opened, f"http://127.0.0.1:{opened.getsockname()[1]}/webhook", SECRET)
    intake = await host.intake()
    # From here on only webhooks tell.
    assert await host.look() == []
    working = asyncio.create_task(Session(host.home, beside=lambda: intake.run(listener)).serve(began=lambda: None))
    hook = await served.hooks.add(listener.url, secret=SECRET, events=("*",))
    await town.issue("resolvent")
    async with asyncio.timeout(SOON_S):
        held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
        await served.hooks.idle()
    for made in served.hooks.deliveries(hook.id):
        await served.hooks.redeliver(made.id)
    await town.hub.edit_item(await town.person("ada"), 1, title="Another title")

    async def ended() -> bool:
        return [row.state for row in await host.runs()] == ["ended"] and not await town.claims()

    await until(ended, host, beside=working)
    await served.hooks.idle()
    async with httpx.AsyncClient() as client:
        assert (await client.get(listener.url.replace("/webhook", "/healthz"))).json() == {"message": "ok"}
    working.cancel()
    await asyncio.wait((working,))
    os.close(held)
    statuses = {(made.event, made.status) for made in served.hooks.deliveries(hook.id)}
    assert statuses == {("ping", 200), ("issues", 202)}
    assert await host.outcomes() == [("cancelled", "the title of #1 changed since it began")]
    assert len([one for one in await town.comments("issue-1") if "resolvent-stopped" in one.body]) == 1
    assert await town.reactions(1) == [("issue", "eyes")]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(listener.url.rpartition(":")[2].partition("/")[0])))


async def test_nothing_is_listened_for_without_a_secret_worth_the_name(town: Town) -> None:
    plain = await town.host("alpha", 'intake.listen="127.0.0.1:1"')
    with pytest.raises(ConfigError, match=r"intake\.secret"):
        listen(plain.home)
    named = await town.host("alpha", 'intake.listen="127.0.0.1:1"', 'intake.secret="$HOOK"')
    for weak in ("", "x" * (MIN_SECRET - 1), "two words " * 4):
        named.home.environ["HOOK"] = weak  # type: ignore[index]
        with pytest.raises(ConfigError, match=r"\$HOOK") as told:
            listen(named.home)
        assert not weak or weak not in f"{told.value}{told.value.hint}"
    assert listen((await town.host("alpha")).home) is None


async def test_an_address_that_is_taken_is_told(town: Town) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        host = await town.host("alpha", f'intake.listen="127.0.0.1:{port}"', 'intake.secret="$HOOK"')
        host.home.environ["HOOK"] = "x" * MIN_SECRET  # type: ignore[index]
        with pytest.raises(UsageError, match="cannot listen"):
            listen(host.home)
