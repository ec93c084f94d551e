"""What calls a run off: it ends cleanly, and one comment says why and how to start again."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import pytest

from resolvent.engine.world import Backoff
from resolvent.errors import ForgeDown, ForgeRefused, NotFound
from resolvent.testing.demo_story import write_story
from resolvent.testing.faulty_forge import FaultyForge
from resolvent.testing.stage import scene
from resolvent.working import Session
from tests.playbooks.scenes import STORY

from .scene import SOON_S, Host, Town, until


async def at_work(town: Town, *overrides: str) -> Host:
    """A host that took up issue 1 because of its label, and has not begun."""
    host = await town.host("alpha", *overrides)
    await town.issue("resolvent")
    assert await host.look() == [("labelled", "issue-1", "taken")]
    return host


async def closed(town: Town) -> None:
    await town.hub.set_state(await town.person("ada"), 1, "closed")


async def unlabelled(town: Town) -> None:
    await town.hub.label(await town.person("ada"), 1, remove=["resolvent"])


async def retitled(town: Town) -> None:
    await town.hub.edit_item(await town.person("ada"), 1, title="Another title")


async def rewritten(town: Town) -> None:
    await town.hub.edit_item(await town.person("ada"), 1, body="Something else entirely.\n<!-- x -->")


async def told_to_stop(town: Town) -> None:
    await town.says("ada", 1, "@resolvent stop, please")


REASONS: list[tuple[Any, str]] = [
    (closed, "#1 was closed"),
    (unlabelled, "the label was taken from #1"),
    (retitled, "the title of #1 changed since it began"),
    (rewritten, "the body of #1 changed since it began"),
    (told_to_stop, "ada asked to stop"),
]


async def notes(town: Town, run: str, target: str = "issue-1") -> list[str]:
    """The comments of ours that say that the run was stopped."""
    marker = f"<!-- resolvent-stopped:{run} -->"
    return [one.body for one in await town.comments(target) if marker in one.body and one.author == "resolvent"]


@pytest.mark.spec("N4")
@pytest.mark.parametrize(("happens", "reason"), REASONS)
async def test_a_run_stops_with_one_comment_that_says_why(town: Town, happens: Any, reason: str) -> None:
    host = await at_work(town)
    (run,) = await host.runs()
    await happens(town)
    assert [fate for *_, fate in await host.look()] == ["stopped"]
    await host.work(STORY)
    assert await host.outcomes() == [("cancelled", reason)]
    (said,) = await notes(town, run.id)
    assert f"Stopped {run.id}: " in said
    assert "To start again, " in said
    assert "comment `@resolvent resolve`" in said
    assert await town.claims() == {}
    assert [fate for *_, fate in await host.look()] == []
    assert len(await notes(town, run.id)) == 1


async def test_after_an_edit_the_label_taken_away_and_put_on_again_starts_anew_with_the_new_text(town: Town) -> None:
    host, ada = await at_work(town), await town.person("ada")
    await rewritten(town)
    await host.look()
    await host.work(STORY)
    await town.hub.label(ada, 1, remove=["resolvent"])
    await host.look()
    await town.hub.label(ada, 1, add=["resolvent"])
    assert await host.look() == [("labelled", "issue-1", "taken")]
    assert "Something else" in (await host.runs())[1].inputs.issue.body


async def test_who_asks_again_before_the_run_has_ended_is_taken_up_when_it_has(town: Town) -> None:
    host = await at_work(town)
    await rewritten(town)
    await host.look()
    await town.says("ada", 1, "@resolvent resolve")
    assert await host.look() == []
    await host.work(STORY)
    assert await host.look() == [("mentioned", "issue-1", "taken")]
    assert [row.state for row in await host.runs()] == ["ended", "queued"]


async def test_who_may_not_ask_may_not_stop(town: Town) -> None:
    host = await at_work(town)
    await town.says("eve", 1, "@resolvent stop")
    assert await host.look() == [("mentioned", "issue-1", "refused")]
    assert not (await host.runs())[0].cancelling


async def test_the_label_is_no_reason_for_a_run_that_a_mention_began(town: Town) -> None:
    host = await town.host()
    await town.issue("bug")
    await town.says("ada", 1, "@resolvent")
    await host.look()
    await town.hub.label(await town.person("ada"), 1, remove=["bug"])
    assert await host.look() == []
    assert not (await host.runs())[0].cancelling


async def test_a_comment_or_another_label_stops_nothing(town: Town) -> None:
    host = await at_work(town)
    await town.says("eve", 1, "any news?")
    await town.hub.label(await town.person("ada"), 1, add=["bug"])
    assert await host.look() == []
    assert not (await host.runs())[0].cancelling


async def test_an_agent_at_work_is_ended_while_intake_runs_beside_the_worker(town: Town) -> None:
    host = await town.host("alpha", "intake.poll=0.2")
    await town.issue("resolvent")
    fifo = host.stage.hooks / "held"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    write_story(host.stage.directory / "story.json", [scene("analyze", "VERDICT=INVALID", wait_for=str(fifo))])
    intake = await host.intake()
    serving = asyncio.create_task(Session(host.home, beside=intake.run).serve(began=lambda: None))
    async with asyncio.timeout(SOON_S):
        held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    await rewritten(town)

    async def ended() -> bool:
        return [row.state for row in await host.runs()] == ["ended"] and not await town.claims()

    await until(ended, host, beside=serving)
    serving.cancel()
    await asyncio.wait((serving,))
    os.close(held)
    (run,) = await host.runs()
    assert (run.outcome, len(await notes(town, run.id))) == ("cancelled", 1)


async def test_a_waiting_run_whose_pull_request_was_closed_stops(town: Town) -> None:
    host = await at_work(town, "policy.merge=ask")
    await host.work(STORY)
    assert [row.state for row in await host.runs()] == ["waiting"]
    await town.hub.set_state(await town.person("ada"), 2, "closed")
    assert await host.look() == [("closed", "issue-1", "stopped")]
    await host.work(STORY)
    assert await host.outcomes() == [("cancelled", "pull request #2 was closed")]
    (run,) = await host.runs()
    assert len(await notes(town, run.id)) == 1


async def test_what_the_run_merged_itself_does_not_stop_it(town: Town) -> None:
    host = await at_work(town, "policy.merge=auto")
    write_story(host.stage.directory / "story.json", STORY)
    looked: list[Any] = []
    forge = FaultyForge(await host.home.forge(), fail={})
    merge = forge.merge

    async def looked_at(*words: Any, **named: Any) -> Any:
        merged = await merge(*words, **named)
        looked.append(((await town.item(1)).state, await host.look()))
        return merged

    forge.merge = looked_at  # type: ignore[method-assign]
    await Session(host.home, adjust=lambda world: replace(world, forge=forge)).serve_until_idle()
    assert looked == [("closed", [])]
    assert [outcome for outcome, _ in await host.outcomes()] == ["merged"]


@pytest.mark.parametrize("fault", [ForgeDown("no answer"), ForgeRefused("it is locked")])
async def test_a_run_ends_also_where_nobody_can_be_told(town: Town, fault: Exception) -> None:
    host = await at_work(town)
    await rewritten(town)
    await host.look()
    (run,) = await host.runs()
    real = await host.home.forge()
    broken = FaultyForge(real, fail={})

    async def comment(target: str, body: str) -> Any:
        raise fault

    broken.comment = comment  # type: ignore[method-assign, assignment]
    quickly = Backoff(first_s=0.01, tries=3)
    adjusted = Session(host.home, adjust=lambda world: replace(world, forge=broken, backoff=quickly))
    await adjusted.serve_until_idle()
    ((outcome, reason),) = await host.outcomes()
    assert outcome == "cancelled"
    assert reason.startswith("the body of #1 changed since it began; issue-1 could not be told: ")
    assert await notes(town, run.id) == []
    assert await town.claims() == {}


async def test_a_lost_answer_leaves_one_comment(town: Town) -> None:
    host = await at_work(town)
    await rewritten(town)
    await host.look()
    (run,) = await host.runs()
    real = await host.home.forge()

    losing = FaultyForge(real, fail={})

    async def comment(target: str, body: str) -> Any:
        losing.comment = real.comment  # type: ignore[method-assign]
        await real.comment(target, body)
        raise ForgeDown("the answer was lost")

    losing.comment = comment  # type: ignore[method-assign, assignment]
    await Session(host.home, adjust=lambda world: replace(world, forge=losing)).serve_until_idle()
    assert [outcome for outcome, _ in await host.outcomes()] == ["cancelled"]
    assert len(await notes(town, run.id)) == 1


async def test_a_person_who_cancels_here_leaves_no_comment_there(town: Town) -> None:
    host = await at_work(town)
    (run,) = await host.runs()
    await Session(host.home).cancel(run.id)
    assert await host.outcomes() == [("cancelled", "cancelled by a person")]
    assert await town.comments("issue-1") == ()
    assert await town.claims() == {}


async def test_a_run_that_was_tried_again_is_called_off_again_by_the_same_worker(town: Town) -> None:
    host = await at_work(town)
    (run,) = await host.runs()
    fifo = host.stage.hooks / "held"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    write_story(host.stage.directory / "story.json", [scene("analyze", "VERDICT=INVALID", wait_for=str(fifo))])
    serving = asyncio.create_task(Session(host.home).serve(began=lambda: None))
    journal = await host.home.journal()
    async with asyncio.timeout(SOON_S):
        for reason in ("once\nTo start again, …", "twice\nTo start again, …"):
            held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
            await journal.ask_to_cancel(run.id, reason=reason)
            async for _ in host.stage.app.tail(run.id):
                pass
            os.close(held)
            if reason.startswith("once"):
                await host.stage.app.retry(run.id)
    serving.cancel()
    await asyncio.wait((serving,))
    assert await host.outcomes() == [("cancelled", "twice")]
    # One comment for the run, which says why it was stopped last.
    assert [f"Stopped {run.id}: twice." in said for said in await notes(town, run.id)] == [True]


async def test_a_limit_that_the_forge_states_is_waited_for_and_then_it_is_told(town: Town) -> None:
    host = await at_work(town)
    await rewritten(town)
    await host.look()
    (run,) = await host.runs()
    real = await host.home.forge()
    limited, tries = FaultyForge(real, fail={}), []
    until = host.home.clock.now() + 5.0

    async def comment(target: str, body: str) -> Any:
        tries.append(host.home.clock.now())
        if tries[-1] < until:
            raise ForgeDown("too many requests", until=until)
        return await real.comment(target, body)

    limited.comment = comment  # type: ignore[method-assign, assignment]
    quickly = Backoff(first_s=0.001, tries=2)
    await Session(host.home, adjust=lambda world: replace(world, forge=limited, backoff=quickly)).serve_until_idle()
    assert await host.outcomes() == [("cancelled", "the body of #1 changed since it began")]
    assert (len(tries), len(await notes(town, run.id))) == (2, 1)


async def test_a_worker_that_is_about_to_end_does_not_wait_for_a_limit_and_the_next_one_tells(town: Town) -> None:
    host = await at_work(town)
    await rewritten(town)
    await host.look()
    (run,) = await host.runs()
    limited, asked = FaultyForge(await host.home.forge(), fail={}), asyncio.Event()

    async def comment(target: str, body: str) -> Any:
        asked.set()
        raise ForgeDown("too many requests", until=host.home.clock.now() + 3000)

    limited.comment = comment  # type: ignore[method-assign, assignment]
    session = Session(host.home, adjust=lambda world: replace(world, forge=limited))
    serving = asyncio.create_task(session.serve(began=lambda: None))
    async with asyncio.timeout(SOON_S):
        await asked.wait()
        serving.cancel()
        await asyncio.wait((serving,))
    assert [row.state for row in await host.runs()] != ["ended"]
    await host.work(STORY)
    assert await host.outcomes() == [("cancelled", "the body of #1 changed since it began")]
    assert len(await notes(town, run.id)) == 1


async def test_a_merge_that_was_refused_does_not_hide_that_the_issue_was_closed(town: Town) -> None:
    host = await at_work(town, "policy.merge=auto")
    write_story(host.stage.directory / "story.json", STORY)
    forge = FaultyForge(await host.home.forge(), fail={("merge", 1): "auth"})
    await Session(host.home, adjust=lambda world: replace(world, forge=forge)).serve_until_idle()
    assert [row.state for row in await host.runs()] == ["waiting"]
    await closed(town)
    assert await host.look() == [("closed", "issue-1", "stopped")]


async def test_a_pull_request_that_is_not_found_does_not_keep_us_from_looking_after_the_others(town: Town) -> None:
    host = await at_work(town, "policy.merge=ask")
    await host.work(STORY)
    assert [row.state for row in await host.runs()] == ["waiting"]
    await town.issue("resolvent")
    forge = FaultyForge(await host.home.forge(), fail={})

    async def pull_request(reference: str) -> Any:
        raise NotFound(f"there is no {reference}")

    forge.pull_request = pull_request  # type: ignore[method-assign, assignment]
    host.home._opened["forge"] = forge
    assert await host.look() == [("labelled", "issue-3", "taken")]
    assert host.troubles == []
