"""Intake through the GitHub adapter, over HTTPS, on the rehearsal forge: the same outcome, few calls, lost answers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from resolvent.forge_server.faults import Fault
from resolvent.forge_server.holdings import Account
from resolvent.intake.intake import Ears, Intake
from resolvent.intake.listening import Listener
from resolvent.testing.demo_story import write_story
from resolvent.testing.rehearsal import Rehearsing, rehearsing
from resolvent.testing.stage import Stage
from resolvent.working import Session

from .scene import DECLINED, QUICK, SOON_S, Host

SECRET = "a-secret-of-the-test"


@pytest.fixture
async def rehearsal(tmp_path: Path) -> AsyncIterator[Rehearsing]:
    async with rehearsing(tmp_path / "forge") as served:
        await served.held.account("ada", permission="write")
        await served.held.account("eve", permission="read")
        yield served


@pytest.fixture
async def host(rehearsal: Rehearsing, tmp_path: Path) -> AsyncIterator[Host]:
    stage = await Stage.set_up(tmp_path / "alpha", overrides=QUICK, rehearsal=rehearsal)
    write_story(stage.directory / "story.json", DECLINED)
    yield Host(stage)
    await stage.close()


async def person(rehearsal: Rehearsing, login: str) -> Account:
    return (await rehearsal.held.holdings()).accounts[login]


async def test_a_label_and_a_mention_are_taken_up_claimed_and_given_back(rehearsal: Rehearsing, host: Host) -> None:
    hub, ada, eve = rehearsal.held, await person(rehearsal, "ada"), await person(rehearsal, "eve")
    await hub.open_issue(ada, title="The value is bad 🐛", body="x" * 65536, labels=["Resolvent"])
    await hub.open_issue(eve, title="Another")
    await hub.remark(ada, 2, "@resolvent resolve\r\n\r\n> @resolvent stop")
    await hub.remark(eve, 2, "@resolvent stop")
    looked = await host.look()
    assert host.troubles == []
    assert looked == [
        ("labelled", "issue-1", "taken"),
        ("mentioned", "issue-2", "taken"),
        ("mentioned", "issue-2", "refused"),
    ]
    items = (await hub.holdings()).items
    assert [one.content for one in items[1].reactions] == ["eyes"]
    assert [[one.content for one in said.reactions] for said in items[2].remarks] == [["eyes"], ["confused"]]
    assert [ref for ref in (await hub.holdings()).refs if "claims" in ref] == [
        "refs/resolvent/claims/issue-1",
        "refs/resolvent/claims/issue-2",
    ]
    await Session(host.home).serve_until_idle()
    assert [outcome for outcome, _ in await host.outcomes()] == ["declined", "declined"]
    assert [ref for ref in (await hub.holdings()).refs if "claims" in ref] == []


async def test_a_quiet_look_asks_little_and_is_told_that_nothing_changed(rehearsal: Rehearsing, host: Host) -> None:
    hub, ada = rehearsal.held, await person(rehearsal, "ada")
    await hub.open_issue(ada, title="The value is bad", labels=["resolvent"])
    await host.look()
    await host.look()
    rehearsal.serving.requests.clear()
    assert await host.look() == []
    asked = [(one.method, one.status) for one in rehearsal.serving.requests]
    assert len(asked) <= 5
    assert set(asked) == {("GET", 304)}


async def test_an_edit_stops_the_run_with_one_comment_though_answers_are_lost(
    rehearsal: Rehearsing, host: Host
) -> None:
    hub, ada = rehearsal.held, await person(rehearsal, "ada")
    await hub.open_issue(ada, title="The value is bad", labels=["resolvent"])
    await host.look()
    await hub.edit_item(ada, 1, body="Something else.")
    assert await host.look() == [("edited", "issue-1", "stopped")]
    rehearsal.serving.faults.add(Fault(kind="lost", method="POST", path="/comments$", times=1))
    await Session(host.home).serve_until_idle()
    assert await host.outcomes() == [("cancelled", "the body of #1 changed since it began")]
    said = (await hub.holdings()).items[1].remarks
    assert len([one for one in said if "resolvent-stopped" in one.body]) == 1


async def test_a_refused_token_is_told_once_and_nothing_is_lost(rehearsal: Rehearsing, host: Host) -> None:
    hub, ada = rehearsal.held, await person(rehearsal, "ada")
    await hub.open_issue(ada, title="The value is bad", labels=["resolvent"])
    refused = Stage(host.stage.directory, overrides=QUICK, rehearsal=rehearsal)
    refused.app.home.environ[next(iter(rehearsal.environment))] = "wrong"  # type: ignore[index]
    other = Host(refused)
    intake = await Intake.open(refused.app.home, Ears(other.told.append, other.troubles.append))
    await intake.once()
    await intake.once()
    assert [type(error).__name__ for error in other.troubles] == ["ForgeRefused"]
    await refused.close()
    assert await host.look() == [("labelled", "issue-1", "taken")]


@pytest.mark.spec("N5")
async def test_a_webhook_about_ci_ends_the_wait_for_it_long_before_the_next_look(
    rehearsal: Rehearsing, tmp_path: Path
) -> None:
    stage = await Stage.set_up(tmp_path / "alpha", overrides=(*QUICK, 'forge.poll="1h"'), rehearsal=rehearsal)
    host, hub = Host(stage), rehearsal.held
    await hub.require(["unit"])
    forge, intake = await host.home.forge(), await host.intake()
    commit = str(await forge.head_of(await forge.default_branch()))
    opened = socket.create_server(("127.0.0.1", 0))
    listener = Listener(opened, f"http://127.0.0.1:{opened.getsockname()[1]}/webhook", SECRET)
    served = asyncio.create_task(intake.run(listener))
    faults, hooks = rehearsal.serving.faults, rehearsal.serving.hooks
    await hooks.add(listener.url, secret=SECRET, events=("check_run",))
    # Check runs are read before statuses: while those are held, the first look has seen nothing of the check.
    faults.add(Fault(kind="slow", path="/status", times=1))
    waiting = asyncio.create_task(forge.await_checks(commit, timeout_s=3600))
    async with asyncio.timeout(SOON_S):
        await faults.until_held()
        await hub.report(commit, "unit", conclusion="failure")
        await hooks.idle()
        faults.release()
        checks = await waiting
    assert [(check.name, check.state) for check in checks] == [("unit", "failed")]
    served.cancel()
    await asyncio.wait((served,))
    await stage.close()
