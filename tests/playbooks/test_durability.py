"""What a person or the world may do to a run: nothing is lost, nothing is done twice."""

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resolvent.domain.entry import Entry
from resolvent.domain.record import AgentChoice
from resolvent.engine.requests import Request
from resolvent.engine.world import Backoff, World
from resolvent.errors import Bug, SubjectTaken, UsageError
from resolvent.ports import Agent
from resolvent.testing.faulty_forge import Fault, FaultyForge
from resolvent.testing.stage import Stage, scene
from resolvent.working import Session

from .conftest import SetStage
from .looking import entry_of, files_of, proposed, pulls, said_once, upstream
from .scenes import ANALYZE, CLEAN, IMPLEMENT, LONG_STORY, STORY


def breaking(fail: dict[int | tuple[str, int], Fault]) -> Callable[[World], World]:
    """A world whose forge breaks at these writes, and that is asked again at once."""

    def adjust(world: World) -> World:
        return replace(world, forge=FaultyForge(world.forge, fail=fail), backoff=Backoff(first_s=0.001))

    return adjust


def started(starts: tuple[str, ...]) -> list[str]:
    return [start.split()[0] for start in starts]


@pytest.mark.conforms("S0.46")
@pytest.mark.spec("R2")
async def test_a_second_run_on_the_same_subject_is_refused_and_told_the_first(stage: Stage) -> None:
    issue = await stage.issue()
    pull = await proposed(stage, {"value.txt": "good\n"}, body=f"Fixes #{issue.number}")
    first = await stage.submit(Entry(kind="issue", reference=str(issue.number)))
    for entry in (Entry(kind="issue", reference=f"#{issue.number}"), entry_of(pull)):
        with pytest.raises(SubjectTaken) as taken:
            await stage.submit(entry)
        assert (taken.value.details["run"], first in taken.value.hint) == (first, True)
    assert [row.id for row in await stage.app.runs()] == [first]
    assert (await stage.go_on(first, scenes=[scene("analyze", "VERDICT=INVALID")])).outcome == "declined"
    assert await stage.submit(Entry(kind="issue", reference=str(issue.number))) != first


@pytest.mark.spec("R8")
async def test_cancelling_a_run_whose_agent_hangs_leaves_no_process(stage: Stage) -> None:
    fifo = stage.hooks / "held"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    run = await stage.submit()
    hanging = IMPLEMENT | {"wait_for": str(fifo)}
    following = asyncio.create_task(stage.go_on(run, scenes=[ANALYZE, hanging, CLEAN]))
    # Opening it for writing returns when the agent has opened it for reading.
    held = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    await Session(stage.app.home).cancel(run)
    played = await following
    os.close(held)
    assert (played.outcome, played.document["reason"]) == ("cancelled", "cancelled by a person")
    assert not read_by_somebody(fifo)
    assert started(played.starts) == ["analyze", "implement"]
    assert await pulls(stage) == ()
    jobs = await (await stage.app.home.journal()).jobs(run)
    assert [job.ending for job in jobs if job.agent] == ["exited", "cancelled"]
    again = await stage.app.retry(run)
    assert (await stage.go_on(again.id, scenes=STORY)).outcome == "proven"


def read_by_somebody(fifo: Path) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno == errno.ENXIO
        return False
    return True


@pytest.mark.conforms("S0.46")
@pytest.mark.spec("R9")
async def test_a_retry_asks_only_what_failed_again(stage: Stage) -> None:
    played = await stage.play([ANALYZE, IMPLEMENT | {"write": {}}, CLEAN])
    run = played.document["run"]
    assert played.outcome == "escalated"
    with pytest.raises(UsageError):
        await stage.app.decide(run, "retry", by="maintainer")
    await stage.app.retry(run)
    assert started((await stage.go_on(run, scenes=STORY)).starts) == ["analyze", "implement", "implement", "review"]
    assert (await stage.app.document(run))["outcome"] == "proven"
    assert len(await pulls(stage)) == 1
    with pytest.raises(UsageError, match="nothing to try again"):
        await stage.app.retry(run)


@pytest.mark.conforms("S0.46")
@pytest.mark.spec("R10")
async def test_a_fork_keeps_the_answers_before_its_step_and_writes_nothing_twice(stage: Stage) -> None:
    first = await stage.play(LONG_STORY)
    forge = await stage.hub()
    before = [await forge.issues(state="all"), await pulls(stage), [c.body for c in await said_once(stage, "pr-2")]]
    fork = await stage.app.fork(first.document["run"], from_step="verify")
    second = await stage.go_on(fork.id)
    assert second.outcome == "proven"
    assert started(second.starts[len(first.starts) :]) == ["verify", "fix", "review"]
    issues, opened = await forge.issues(state="all"), await pulls(stage)
    said = [comment.body for comment in await said_once(stage, "pr-2")]
    assert len(await stage.comments("pr-2")) == len(said) + 1
    assert [(issue.number, issue.title, issue.body, issue.state) for issue in issues] == [
        (issue.number, issue.title, issue.body, issue.state) for issue in before[0]
    ]
    assert [pull.number for pull in opened] == [2]
    assert opened[0].head_commit == second.document["change"]
    assert said[: len(before[2])] == before[2]
    assert sum("pantheon-verify" in body for body in said) == 1


@pytest.mark.spec("D4")
async def test_a_question_is_answered_while_no_worker_lives(set_stage: SetStage) -> None:
    stage = await set_stage("policy.max_fix_rounds=0")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=LONG_STORY)).outcome == "waiting"
    assert await Session(stage.app.home).worker() is None
    with pytest.raises(UsageError):
        await stage.app.decide(run, "maybe", by="maintainer")
    assert (await stage.app.decide(run, "continue", by="maintainer", reason="it is close")).answer == "continue"
    assert (await stage.app.run(run)).state == "queued"
    before = (await stage.played(run)).starts
    played = await stage.go_on(run)
    assert played.outcome == "proven"
    assert started(played.starts[len(before) :]) == ["fix", "review"]


@pytest.mark.spec("R4", "P4")
async def test_inputs_are_frozen_until_somebody_refreshes_them(stage: Stage) -> None:
    run = await stage.submit()
    (stage.project / ".resolvent/prompts").mkdir(parents=True)
    (stage.project / ".resolvent/prompts/analyze.md").write_text("---\nrole: reader\n---\nA prompt of our own.\n")
    await (await stage.hub()).rewrite("1", title="Changed", body="Do something else.")
    played = await stage.go_on(run, scenes=[scene("analyze", "I am lost", exit=1)])
    assert played.outcome == "escalated"
    assert "| The value is bad" in played.prompts["analyze"] and "Changed" not in played.prompts["analyze"]
    assert "our own" not in played.prompts["analyze"]
    await stage.app.retry(run, refresh=True)
    refreshed = await stage.go_on(run, scenes=[scene("analyze", "VERDICT=INVALID")])
    assert refreshed.outcome == "declined"
    assert "A prompt of our own." in refreshed.prompts["analyze"]
    assert (await stage.app.run(run)).inputs.issue.title == "Changed"


@pytest.mark.spec("R4")
async def test_base_policy_checks_and_agents_are_those_a_run_was_submitted_with(set_stage: SetStage) -> None:
    stage = await set_stage()
    run = await stage.submit()
    submitted = (await stage.app.run(run)).inputs
    await upstream(stage, {"newer.txt": "pushed since\n"})
    other = ("policy.merge=auto", 'checks.test="exit 7"', 'agents.author.command=["/no/such/story"]')
    later = await set_stage(*other)
    played = await later.go_on(run, scenes=STORY)
    assert (played.outcome, played.document["base"]) == ("proven", submitted.base.commit)
    assert {item["check"] for item in played.document["evidence"]} == {"reproducer"}
    assert "newer.txt" not in await files_of(later, played.document["change"])
    assert (await later.app.run(run)).inputs == submitted


@pytest.mark.spec("D1")
def test_the_id_of_a_verb_is_its_name_and_what_is_asked() -> None:
    asked = Request(run="r1", verb="ask", name="review", title="t", inputs={"a": 1, "b": {"c": ["d"], "e": None}})
    turned = {"b": {"e": None, "c": ["d"]}, "a": 1}
    same: list[dict[str, Any]] = [{"title": "u"}, {"position": 9}, {"shown": {"l": "x"}}, {"inputs": turned}]
    assert {asked.model_copy(update=one).id for one in same} == {asked.id}
    other: list[dict[str, Any]] = [
        {"run": "r2"},
        {"verb": "edit"},
        {"name": "fix"},
        {"attempt": 2},
        {"inputs": {"a": 2}},
    ]
    assert len({asked.id, *(asked.model_copy(update=one).id for one in other)}) == 1 + len(other)


@pytest.mark.spec("X1")
async def test_every_write_is_intended_before_it_is_made_and_done_after(stage: Stage) -> None:
    run, seen = await stage.submit(), []

    def adjust(world: World) -> World:
        forge = FaultyForge(world.forge, fail={})

        def watched(name: str) -> None:
            write = getattr(forge, name)

            async def looked(*args: Any, **kwargs: Any) -> Any:
                seen.append((name, [one.kind for one in await world.journal.effects(run) if one.state == "intended"]))
                return await write(*args, **kwargs)

            setattr(forge, name, looked)

        for name in ("push", "open_pull_request", "open_issue", "comment", "edit_comment"):
            watched(name)
        return replace(world, forge=forge)

    assert (await stage.go_on(run, scenes=LONG_STORY, adjust=adjust)).outcome == "proven"
    assert sorted(seen) == [
        ("comment", ["comment"]), ("comment", ["comment"]), ("comment", ["stick"]), ("edit_comment", ["stick"]),
        ("open_issue", ["file_issue"]), ("open_pull_request", ["publish"]), ("push", ["publish"]),
        ("push", ["publish"]),
    ]  # fmt: skip
    assert {one.state for one in await (await stage.app.home.journal()).effects(run)} == {"done"}


@pytest.mark.spec("X5")
async def test_a_forge_that_is_down_for_three_writes_gets_everything_once(stage: Stage) -> None:
    run = await stage.submit()
    adjust = breaking({1: "down", 2: "down", 3: "down", ("comment", 1): "lost", ("open_issue", 1): "lost"})
    played = await stage.go_on(run, scenes=LONG_STORY, adjust=adjust)
    assert played.outcome == "proven"
    assert len(await pulls(stage)) == 1
    titles = [issue.title for issue in await (await stage.hub()).issues("all")]
    assert titles == ["The value is bad", "[P1] there is no third file"]
    assert [body.body.splitlines()[0].split(":")[0] for body in await stage.comments("pr-2")] == [
        "<!-- pantheon-verify", "<!-- resolvent-evidence -->", "## ✅ Pantheon Issue Resolution Complete"
    ]  # fmt: skip
    assert sorted(effect["kind"] for effect in played.document["effects"]) == [
        "comment", "comment", "file_issue", "publish", "publish", "stick", "stick"
    ]  # fmt: skip


async def test_a_forge_that_loses_the_answer_to_a_push_and_a_pull_request_has_one_of_each(stage: Stage) -> None:
    run = await stage.submit()
    adjust = breaking({("push", 1): "lost", ("open_pull_request", 1): "lost"})
    played = await stage.go_on(run, scenes=STORY, adjust=adjust)
    assert played.outcome == "proven"
    assert [pull.head_commit for pull in await pulls(stage)] == [played.document["change"]]


@pytest.mark.spec("X5")
async def test_a_forge_that_stays_down_is_a_persons_question(stage: Stage) -> None:
    run = await stage.submit()
    adjust = breaking(dict.fromkeys(range(1, 100), "down"))
    played = await stage.go_on(run, scenes=STORY, adjust=adjust)
    assert played.outcome == "waiting"
    assert "connection refused" in played.document["decision"]["text"]
    await stage.app.decide(run, "stop", by="maintainer")
    ended = await stage.go_on(run)
    assert (ended.outcome, ended.document["reason"].split(":")[0]) == ("escalated", "ForgeDown")
    await stage.app.retry(run)
    assert (await stage.go_on(run)).outcome == "proven"


@pytest.mark.parametrize(("choice", "outcome"), [("retry", "proven"), ("stop", "failed")])
async def test_a_broken_invariant_parks_the_run_until_a_person_looked(stage: Stage, choice: str, outcome: str) -> None:
    def impossible(choice: AgentChoice) -> Agent:
        raise Bug("this cannot happen")

    run = await stage.submit()
    played = await stage.go_on(run, scenes=STORY, adjust=lambda world: replace(world, agent=impossible))
    assert (played.outcome, played.document["decision"]["text"]) == ("waiting", "Bug: this cannot happen")
    await stage.app.decide(run, choice, by="maintainer")
    adjust = (lambda world: world) if choice == "retry" else (lambda world: replace(world, agent=impossible))
    assert (await stage.go_on(run, adjust=adjust)).outcome == outcome
