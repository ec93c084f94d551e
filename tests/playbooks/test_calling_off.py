"""A run that a person called off: nothing of it begins any more, and nothing of it is left half done or half known."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from resolvent.domain.change import Change
from resolvent.domain.entry import Entry
from resolvent.domain.outcome import CalledOff
from resolvent.domain.subject import MergeMethod, PullRequest
from resolvent.engine.playing import end
from resolvent.engine.world import World
from resolvent.testing.faulty_forge import FaultyForge
from resolvent.testing.stage import Stage, scene
from resolvent.working import Session

from .conftest import SetStage
from .dying import killed
from .looking import pulls
from .scenes import CLEAN, IMPLEMENT, STORY, design

SOON_S = 30
INVALID = scene("analyze", "VERDICT=INVALID", when=["Another one"])


def started(starts: tuple[str, ...]) -> list[str]:
    return [start.split()[0] for start in starts]


async def submitted(stage: Stage, title: str) -> str:
    """A run on an issue of its own."""
    return await stage.submit(Entry(kind="issue", reference=str((await stage.issue(title)).number)))


async def by_a_worker(stage: Stage, run: str) -> None:
    await Session(stage.app.home).cancel(run)


async def before_any_worker(stage: Stage, run: str) -> None:
    """As a worker does it that dies before it could take up anything."""
    journal = await stage.app.home.journal()
    await journal.ask_to_cancel(run)
    await end(await stage.app.home.world(), await journal.run(run), CalledOff(reason="cancelled by a person"))


async def settled(stage: Stage, run: str, *, step: str) -> None:
    """Return when nothing of that step is left to be taken up."""
    journal, seen = await stage.app.home.journal(), 0
    while not [
        one for one in await journal.steps(run) if one.id.startswith(f"{run}/{step}") and one.state != "running"
    ]:
        seen = await journal.changed(since=seen)


@pytest.mark.spec("R8")
@pytest.mark.parametrize("cancel", [by_a_worker, before_any_worker])
async def test_a_merge_that_a_dead_process_was_about_to_make_is_not_made_after_cancelling(
    set_stage: SetStage, cancel: Callable[[Stage, str], Awaitable[None]]
) -> None:
    stage = await set_stage("policy.merge=auto")
    run = await stage.submit()
    fifo = made_fifo(stage)
    await killed(stage, run, at="before merge:", scenes=[INVALID | {"wait_for": str(fifo)}, *STORY])
    await cancel(stage, run)
    # A later worker takes up what the dead one left, a moment after it started: it is kept at work until then.
    following = asyncio.create_task(stage.go_on(await submitted(stage, "Another one")))
    held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    async with asyncio.timeout(SOON_S):
        await settled(stage, run, step="merge:")
    os.close(held)
    assert (await following).outcome == "declined"
    played = await stage.played(run)
    assert played.outcome == "cancelled"
    assert [pull.state for pull in await pulls(stage)] == ["open"]
    assert started(played.starts) == ["analyze", "implement", "review", "analyze"]


async def test_an_effect_under_way_is_waited_for_and_listed(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage("policy.merge=auto")
    run = await stage.submit()
    entered, let_go = asyncio.Event(), asyncio.Event()
    looked: asyncio.Queue[str] = asyncio.Queue()

    def adjust(world: World) -> World:
        forge, running = FaultyForge(world.forge, fail={}), world.jobs.running
        merge = forge.merge

        async def held(pull: PullRequest, *, expect: Change, method: MergeMethod) -> PullRequest:
            entered.set()
            await let_go.wait()
            return await merge(pull, expect=expect, method=method)

        def noted(job: str) -> bool:
            looked.put_nowait(job)
            return running(job)

        monkeypatch.setattr(forge, "merge", held)
        monkeypatch.setattr(world.jobs, "running", noted)
        return replace(world, forge=forge)

    following = asyncio.create_task(stage.go_on(run, scenes=STORY, adjust=adjust))
    await entered.wait()
    cancelling = asyncio.create_task(Session(stage.app.home).cancel(run))
    # It looks at every job, and then again because something is still under way.
    for _ in range(len(await (await stage.app.home.journal()).jobs(run)) + 1):
        look = asyncio.ensure_future(looked.get())
        await asyncio.wait((look, cancelling), return_when=asyncio.FIRST_COMPLETED)
        assert not cancelling.done()
    let_go.set()
    await cancelling
    played = await following
    assert played.outcome == "cancelled"
    assert [pull.state for pull in await pulls(stage)] == ["merged"]
    assert [effect["kind"] for effect in played.document["effects"]] == ["publish", "stick", "comment", "merge"]


async def test_a_reproducer_that_was_cancelled_says_nothing_and_is_executed_again(
    set_stage: SetStage, tmp_path: Path
) -> None:
    stage = await set_stage(f'sandbox.reads=["{tmp_path / "story.hooks"}"]')
    fifo = made_fifo(stage)
    patient = f"{{ test ! -p {fifo} || cat {fifo}; }}; grep -q good value.txt || {{ echo the value is bad; exit 1; }}"
    story = [scene("analyze", design({"command": patient, "expect": {"exit": 1}})), IMPLEMENT, CLEAN]
    run = await stage.submit()
    following = asyncio.create_task(stage.go_on(run, scenes=story))
    held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    await Session(stage.app.home).cancel(run)
    played = await following
    os.close(held)
    assert (played.outcome, played.document["evidence"]) == ("cancelled", [])
    fifo.unlink()
    await stage.app.retry(run)
    played = await stage.go_on(run)
    assert played.outcome == "proven"
    assert started(played.starts) == ["analyze", "implement", "review"]
    jobs = await (await stage.app.home.journal()).jobs(run)
    assert [(job.name, job.ending) for job in jobs if not job.agent] == [
        ("reproducer", "cancelled"), ("reproducer", "exited"), ("reproducer", "exited")
    ]  # fmt: skip


def made_fifo(stage: Stage) -> Path:
    """Opening it for writing returns when somebody has opened it for reading."""
    fifo = stage.hooks / "held"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    return fifo


async def test_cancelling_a_run_that_waits_for_an_agent_slot_waits_for_nobody(set_stage: SetStage) -> None:
    stage = await set_stage("limits.agents=1", "policy.merge=ask")
    fifo = made_fifo(stage)
    holds = scene("analyze", "VERDICT=INVALID", when=["The long one"], wait_for=str(fifo))
    third = await stage.submit()
    assert (await stage.go_on(third, scenes=[holds, INVALID, *STORY])).outcome == "waiting"
    first = await submitted(stage, "The long one")
    following = asyncio.create_task(stage.go_on(first))
    held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    second = await submitted(stage, "Another one")
    async with asyncio.timeout(SOON_S):
        async for recorded in stage.app.tail(second):
            if recorded.event.event == "step_started":
                break
        await Session(stage.app.home).cancel(second)
        await stage.app.decide(third, "merge", by="maintainer")
        assert (await stage.go_on(third)).outcome == "merged"
    assert (await stage.app.run(first)).state == "running"
    os.close(held)
    assert (await following).outcome == "declined"
    assert (await stage.app.document(second))["outcome"] == "cancelled"
    assert started((await stage.played(first)).starts) == ["analyze", "implement", "review", "analyze"]


async def test_what_a_called_off_agent_says_it_spent_is_counted(stage: Stage) -> None:
    bell = made_fifo(stage)
    spends = f"""echo '{{"usd": 0.5}}' > "$RESOLVENT_USAGE"; echo > '{bell}'; sleep 1000"""
    run = await stage.submit()
    working = asyncio.create_task(stage.go_on(run, scenes=[scene("analyze", "", run=spends)]))
    await asyncio.to_thread(bell.read_text)
    await Session(stage.app.home).cancel(run)
    assert (await working).outcome == "cancelled"
    (job,) = [job for job in await (await stage.app.home.journal()).jobs(run) if job.agent]
    assert (job.ending, job.usage.usd) == ("cancelled", 0.5)
