"""One run per subject across hosts, on a forge that is shared: whoever asks, and for as long as the run is there."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from resolvent.domain.entry import Entry
from resolvent.engine.claiming import Claims
from resolvent.engine.holder import holder_name, holder_run, holder_said
from resolvent.engine.stopping import release
from resolvent.errors import SubjectTaken
from resolvent.intake import intake as intake_module
from resolvent.intake.claims import claims
from resolvent.submissions import Submission
from resolvent.testing.demo_story import write_story
from resolvent.testing.faulty_forge import FaultyForge
from resolvent.testing.rehearsal import Rehearsing, rehearsing
from resolvent.testing.stage import Stage
from resolvent.working import Session
from tests.playbooks.scenes import STORY

from .scene import DECLINED, QUICK, Host, Town

OTHER = "omega.0123abcd.r99999999.20260105T090000Z"
SAID = "run r99999999 on omega (store 0123abcd) since 2026-01-05 09:00 UTC"


@pytest.fixture
async def rehearsal(tmp_path: Path) -> AsyncIterator[Rehearsing]:
    async with rehearsing(tmp_path / "forge") as served:
        await served.held.account("ada", permission="write")
        yield served


@pytest.fixture
async def host(rehearsal: Rehearsing, tmp_path: Path) -> AsyncIterator[Host]:
    stage = await Stage.set_up(tmp_path / "alpha", overrides=QUICK, rehearsal=rehearsal)
    await stage.issue()
    write_story(stage.directory / "story.json", DECLINED)
    yield Host(stage)
    await stage.close()


async def held(rehearsal: Rehearsing) -> list[str]:
    """The subjects that are claimed on the forge."""
    refs = (await rehearsal.held.holdings()).refs
    return sorted(ref.rpartition("/")[2] for ref in refs if ref.startswith("refs/resolvent/claims/"))


async def resolve(host: Host) -> str:
    row, _ = await host.stage.app.submit(Submission(entry=Entry(kind="issue", reference="1")))
    return row.id


async def test_what_a_person_asks_for_is_claimed_there_and_given_back(rehearsal: Rehearsing, host: Host) -> None:
    run = await resolve(host)
    assert await held(rehearsal) == ["issue-1"]
    assert f".{run}." in await (await host.home.forge()).holder("issue-1")
    await Session(host.home).serve_until_idle()
    assert await held(rehearsal) == []
    assert await (await host.home.journal()).holds() == ()


@pytest.mark.spec("N3")
async def test_what_another_host_holds_is_refused_to_a_person_who_is_told_who(
    rehearsal: Rehearsing, host: Host
) -> None:
    await rehearsal.held.forge.claim("issue-1", OTHER)
    with pytest.raises(SubjectTaken) as taken:
        await resolve(host)
    assert taken.value.message == f"issue-1 is held by {SAID}"
    assert (taken.value.hint, taken.value.details["run"]) == ("resolvent claim ls", "r99999999")
    assert (await host.runs(), await held(rehearsal)) == ([], ["issue-1"])
    assert [(one.subject, one.holder, one.ours) for one in await claims(host.home)] == [("issue-1", OTHER, False)]
    await rehearsal.held.forge.release("issue-1", OTHER)
    assert await claims(host.home) == ()


async def test_a_run_of_this_store_is_named_as_such(rehearsal: Rehearsing, host: Host) -> None:
    run = await resolve(host)
    with pytest.raises(SubjectTaken, match=f"run {run} is active on issue-1") as taken:
        await resolve(host)
    assert taken.value.hint == f"resolvent watch {run}"
    assert (len(await host.runs()), len(await (await host.home.journal()).holds())) == (1, 1)


@pytest.mark.spec("R8")
async def test_a_run_that_is_tried_again_claims_first(rehearsal: Rehearsing, host: Host) -> None:
    run = await resolve(host)
    await Session(host.home).cancel(run)
    assert await held(rehearsal) == []
    await rehearsal.held.forge.claim("issue-1", OTHER)
    with pytest.raises(SubjectTaken, match="omega"):
        await host.stage.app.retry(run)
    assert [row.state for row in await host.runs()] == ["ended"]
    await rehearsal.held.forge.release("issue-1", OTHER)
    await host.stage.app.retry(run)
    assert await held(rehearsal) == ["issue-1"]


async def test_a_fork_claims_first(rehearsal: Rehearsing, host: Host) -> None:
    run = await resolve(host)
    await Session(host.home).serve_until_idle()
    first, *_ = await (await host.home.journal()).steps(run)
    await rehearsal.held.forge.claim("issue-1", OTHER)
    with pytest.raises(SubjectTaken, match="omega"):
        await host.stage.app.fork(run, from_step=first.name)
    assert len(await host.runs()) == 1
    await rehearsal.held.forge.release("issue-1", OTHER)
    await host.stage.app.fork(run, from_step=first.name)
    assert await held(rehearsal) == ["issue-1"]


async def test_a_claim_takes_few_calls_and_so_does_giving_it_back(rehearsal: Rehearsing, host: Host) -> None:
    forge = await host.home.forge()
    await forge.claim("issue-7", "warm")
    rehearsal.serving.requests.clear()
    await forge.claim("issue-1", "host")
    assert len(rehearsal.serving.requests) <= 3
    rehearsal.serving.requests.clear()
    assert await forge.holder("issue-1") == "host"
    assert {one.method for one in rehearsal.serving.requests} == {"GET"}
    rehearsal.serving.requests.clear()
    await forge.release("issue-1", "host")
    # One look; git, which removes it from exactly that commit, is not counted by GitHub.
    assert len([one for one in rehearsal.serving.requests if "/api/" in one.path]) <= 1


@pytest.mark.spec("R2")
async def test_the_pull_request_a_run_published_is_claimed_until_it_ends(town: Town) -> None:
    host = await town.host("alpha", "policy.merge=ask")
    await town.issue("resolvent")
    await host.look()
    await host.work(STORY)
    assert [row.state for row in await host.runs()] == ["waiting"]
    (run,) = await host.runs()
    found = await town.claims()
    assert sorted(found) == ["issue-1", "pr-2"]
    assert all(f".{run.id}." in holder for holder in found.values())
    await Session(host.home).cancel(run.id)
    assert await town.claims() == {}


async def test_a_pull_request_that_somebody_else_holds_ends_the_run_as_escalated(town: Town) -> None:
    host = await town.host("alpha", "policy.merge=ask")
    await town.issue("resolvent")
    await host.look()
    await town.hub.forge.claim("pr-2", OTHER)
    await host.work(STORY)
    ((outcome, reason),) = await host.outcomes()
    assert (outcome, f"pr-2 is held by {SAID}" in reason) == ("escalated", True)
    assert list(await town.claims()) == ["pr-2"]


async def test_a_claim_is_not_given_back_under_a_run_that_is_tried_again_meanwhile(
    rehearsal: Rehearsing, host: Host
) -> None:
    run = await resolve(host)
    forge, journal = await host.home.forge(), await host.home.journal()
    down, slow = FaultyForge(forge, fail={("release", 1): "down"}), FaultyForge(forge, fail={})
    await Session(host.home, adjust=lambda world: replace(world, forge=down)).cancel(run)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def late(subject: str, holder: str) -> None:
        reached.set()
        await go_on.wait()
        await forge.release(subject, holder)

    slow.release = late  # type: ignore[method-assign, assignment]
    releasing = asyncio.create_task(release(journal, slow))
    async with asyncio.timeout(60):
        await reached.wait()
        await host.stage.app.retry(run)
    mine = await forge.holder("issue-1")
    go_on.set()
    await releasing
    assert [row.state for row in await host.runs()] == ["queued"]
    assert f".{run}." in mine
    assert await forge.holder("issue-1") == mine
    assert [one.holder for one in await journal.holds(run)] == [mine]


async def test_what_is_held_for_a_run_about_to_begin_is_not_given_back(rehearsal: Rehearsing, host: Host) -> None:
    journal, forge = await host.home.journal(), await host.home.forge()
    mine = Claims(journal, forge, host.home.clock, host.home.host)
    async with mine.holding("r1", ("issue-1", "file-x")):
        await release(journal, forge)
        assert await held(rehearsal) == ["issue-1"]
    assert (await held(rehearsal), await journal.holds()) == ([], ())


async def test_a_hold_whose_maker_died_is_given_back_when_its_time_is_over(town: Town) -> None:
    host = await town.host()
    journal, forge = await host.home.journal(), await host.home.forge()
    dead = Claims(journal, forge, host.home.clock, host.home.host)
    await dead.claim("r1", "issue-1")
    await release(journal, forge)
    assert list(await town.claims()) == ["issue-1"]
    await journal.settle_holds("r1")
    await release(journal, forge)
    assert (await town.claims(), await journal.holds()) == ({}, ())


async def test_a_run_that_published_claims_its_pull_request_again_when_it_is_tried_again(
    rehearsal: Rehearsing, tmp_path: Path
) -> None:
    stage = await Stage.set_up(tmp_path / "beta", overrides=(*QUICK, "policy.merge=ask"), rehearsal=rehearsal)
    await stage.issue()
    host = Host(stage)
    run = await resolve(host)
    await host.work(STORY)
    assert (await host.runs())[0].state == "waiting"
    assert await held(rehearsal) == ["issue-1", "pr-2"]
    await Session(host.home).cancel(run)
    assert await held(rehearsal) == []
    await rehearsal.held.forge.claim("pr-2", OTHER)
    with pytest.raises(SubjectTaken, match="pr-2 is held by run r99999999"):
        await stage.app.retry(run)
    assert await held(rehearsal) == ["pr-2"]
    await rehearsal.held.forge.release("pr-2", OTHER)
    await stage.app.retry(run)
    assert await held(rehearsal) == ["issue-1", "pr-2"]
    await stage.close()


async def test_a_run_that_claims_again_in_the_same_second_does_so_under_another_name() -> None:
    first, second = (holder_name("alpha.0123abcd", "r1", at=1_767_603_600.0 + after) for after in (0.0, 0.001))
    assert first != second
    said = "run r1 on alpha (store 0123abcd) since 2026-01-05 09:00 UTC"
    assert [holder_said(one) for one in (first, second)] == [said, said]
    assert (holder_said(OTHER), holder_run(first)) == (SAID, "r1")


async def test_who_asks_while_a_claim_of_ours_cannot_be_given_back_is_heard_when_it_can(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "PAUSE_S", 0.0)
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    forge = FaultyForge(await host.home.forge(), fail={("release", nth): "down" for nth in range(1, 4)})
    host.home._opened["forge"] = forge
    await host.work()
    assert (forge.writes.count("release"), list(await town.claims())) == (1, ["issue-1"])
    await town.says("ada", 1, "@resolvent")
    assert await host.look() == []
    assert [error.message.partition(" for ")[0] for error in host.troubles] == ["issue-1 is still claimed"]
    assert await host.look() == [("mentioned", "issue-1", "taken")]
    assert len(await host.runs()) == 2


async def test_what_could_not_be_given_back_is_at_the_next_look(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    forge = FaultyForge(await host.home.forge(), fail={("release", 1): "down"})
    host.home._opened["forge"] = forge
    await host.work()
    assert list(await town.claims()) == ["issue-1"]
    assert await host.look() == []
    assert (await town.claims(), await (await host.home.journal()).holds()) == ({}, ())
