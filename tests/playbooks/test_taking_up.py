"""A run that is taken up again, after a crash, an error nobody thought of, an answer or a retry: once, to its end."""

import asyncio
import errno
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.journal import queries
from resolvent.adapters.workspace import boots
from resolvent.domain.entry import Entry
from resolvent.domain.job import Branch
from resolvent.domain.record import RunRow
from resolvent.engine.world import Backoff, World
from resolvent.errors import StepFailed, StoreBusy, UsageError
from resolvent.testing.faulty_forge import FaultyForge
from resolvent.testing.stage import Stage, scene
from resolvent.working import Session

from .conftest import SetStage
from .dying import killed
from .looking import files_of, pulls, pushed
from .scenes import ANALYZE, CLEAN, FIX, IMPLEMENT, STORY, claim, design, findings, named, placed, triage

SOON_S = 30
Broken = Callable[..., Coroutine[Any, Any, Any]]


def started(starts: tuple[str, ...]) -> list[str]:
    return [start.split()[0] for start in starts]


async def open_questions(stage: Stage, run: str) -> list[str]:
    decisions = await (await stage.app.home.journal()).decisions(run)
    return [decision.question.key for decision in decisions if decision.answer is None]


def raising(error: Exception) -> Broken:
    async def broken(*_: Any, **__: Any) -> Any:
        raise error

    return broken


def down(world: World) -> World:
    """A world whose forge takes nothing."""
    forge = FaultyForge(world.forge, fail=dict.fromkeys(range(1, 100), "down"))
    return replace(world, forge=forge, backoff=Backoff(first_s=0.001, tries=2))


# A crash, and what nobody thought of


async def test_a_crash_a_cancel_and_a_retry_play_the_run_once(stage: Stage) -> None:
    run = await stage.submit()
    await killed(stage, run, at="before edit:implement", scenes=STORY)
    await Session(stage.app.home).cancel(run)
    played = await stage.played(run)
    assert (played.outcome, started(played.starts)) == ("cancelled", ["analyze"])
    await stage.app.retry(run)
    played = await stage.go_on(run)
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "implement", "review"])


@pytest.mark.spec("R5")
async def test_what_was_read_from_the_forge_before_a_crash_is_what_is_seen_after_it(stage: Stage) -> None:
    run = await stage.submit()
    await killed(stage, run, at="after observe:head", scenes=STORY)
    # Whoever looked again would find the name taken and choose another one.
    theirs = await pushed(stage, {"mine.txt": "mine\n"}, head="resolvent/issue-1")
    played = await stage.go_on(run)
    assert (played.outcome, played.document["reason"].split(":")[0]) == ("escalated", "HeadMoved")
    assert (await (await stage.hub()).head_of("resolvent/issue-1"), await pulls(stage)) == (theirs, ())


async def test_an_error_nobody_thought_of_is_a_question_and_a_retry_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adjust(world: World) -> World:
        monkeypatch.setattr(world.workspace, "fork", raising(KeyError("nobody thought of this")))
        return world

    run = await stage.submit()
    played = await stage.go_on(run, scenes=STORY, adjust=adjust)
    assert (played.outcome, await open_questions(stage, run)) == ("waiting", ["bug:1"])
    assert "nobody thought of this" in played.document["decision"]["text"]
    monkeypatch.undo()
    await stage.app.decide(run, "retry", by="maintainer")
    assert (await stage.go_on(run)).outcome == "proven"


@pytest.mark.spec("D6")
async def test_a_full_disk_ends_the_worker_and_the_next_one_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adjust(world: World) -> World:
        monkeypatch.setattr(world.workspace, "fork", raising(OSError(errno.ENOSPC, "No space left on device")))
        return world

    run = await stage.submit()
    with pytest.raises(StoreBusy, match="No space left"):
        async with asyncio.timeout(SOON_S):
            await stage.go_on(run, scenes=STORY, adjust=adjust)
    # Whatever the library left waiting would wake up when it is collected, in the middle of something else.
    left = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    assert [code for code in left if code and "/dbos/" in code.co_filename] == []
    assert await open_questions(stage, run) == []
    monkeypatch.undo()
    played = await stage.go_on(run)
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "implement", "review"])


async def test_a_step_whose_files_the_machine_may_have_torn_is_done_again_in_a_fresh_branch(
    set_stage: SetStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()

    def adjust(world: World) -> World:
        sealed = world.workspace.snapshot

        async def snapshot(branch: Branch) -> None:
            if "edit:implement" in branch.id:
                raise OSError(errno.ENOSPC, "No space left on device")
            await sealed(branch)

        monkeypatch.setattr(world.workspace, "snapshot", snapshot)
        return world

    run = await stage.submit()
    with pytest.raises(StoreBusy):
        async with asyncio.timeout(SOON_S):
            await stage.go_on(run, scenes=STORY, adjust=adjust)
    monkeypatch.undo()
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(boots, "BOOT_ID", tmp_path / "boot")
    played = await (await set_stage()).go_on(run, scenes=STORY)
    # Its agent had ended well, and what it left was not on the disk yet; what was asked before was.
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "implement", "implement", "review"])


@pytest.mark.spec("D6")
async def test_a_store_that_breaks_at_the_end_of_a_run_ends_the_worker(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await stage.submit()
    with monkeypatch.context() as patch, pytest.raises(StoreBusy, match="locked"):
        patch.setattr(await stage.app.home.journal(), "end_run", raising(StoreBusy("the store is locked")))
        async with asyncio.timeout(SOON_S):
            await stage.go_on(run, scenes=STORY)
    played = await stage.go_on(run)
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "implement", "review"])


async def test_files_that_cannot_be_removed_do_not_fail_a_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def adjust(world: World) -> World:
        monkeypatch.setattr(world.workspace, "drop", raising(StepFailed("Permission denied: 'owned by root'")))
        return world

    assert (await stage.go_on(await stage.submit(), scenes=STORY, adjust=adjust)).outcome == "proven"


async def test_following_a_run_does_not_play_the_one_behind_it(set_stage: SetStage) -> None:
    stage = await set_stage("limits.runs=1")
    first, second = await stage.submit(), await stage.submit()
    played = await stage.go_on(first, scenes=STORY)
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "implement", "review"])
    assert (await stage.app.run(second)).state in ("queued", "running")
    assert (await stage.go_on(second)).outcome == "proven"


# Answers


async def test_an_answer_that_a_dead_process_left_behind_is_taken_up(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=ask")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=STORY)).outcome == "waiting"
    (key,) = await open_questions(stage, run)
    journal = await stage.app.home.journal()
    await journal.store.write(queries.DECIDE, run=run, key=key, answer="merge", by="ann", reason="", at=1.0)
    assert (await stage.app.run(run)).state == "waiting"
    async with asyncio.timeout(SOON_S):
        assert (await stage.go_on(run)).outcome == "merged"


async def test_an_answer_that_came_before_the_run_was_waiting_is_taken_up(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage("policy.merge=ask")
    run = await stage.submit()
    journal = await stage.app.home.journal()
    set_state = journal.set_state

    async def answered_first(run: str, state: Any, *, reason: str = "") -> None:
        if state == "waiting" and await open_questions(stage, run):
            await stage.app.decide(run, "merge", by="maintainer")
        await set_state(run, state, reason=reason)

    monkeypatch.setattr(journal, "set_state", answered_first)
    async with asyncio.timeout(SOON_S):
        assert (await stage.go_on(run, scenes=STORY)).outcome == "merged"


async def test_a_conflict_that_arose_at_the_last_question_is_fixed_on_a_retry(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=ask")
    both = IMPLEMENT | {"write": {"value.txt": "good\n", "other.txt": "ours\n"}}
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=[ANALYZE, both, CLEAN, FIX])).outcome == "waiting"
    await pushed(stage, {"other.txt": "theirs\n"}, head="main")
    await stage.app.decide(run, "merge", by="maintainer")
    assert (await stage.go_on(run)).outcome == "escalated"
    await stage.app.retry(run)
    played = await stage.go_on(run)
    assert (played.outcome, started(played.starts)[3:]) == ("waiting", ["fix", "review"])
    await stage.app.decide(run, "merge", by="maintainer")
    assert (await stage.go_on(run)).outcome == "merged"
    assert (await files_of(stage, "main"))["other.txt"] == "theirs"


async def test_after_a_stop_and_a_retry_only_the_question_it_waits_at_is_open(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=ask")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=STORY, adjust=down)).outcome == "waiting"
    await stage.app.decide(run, "stop", by="maintainer")
    assert (await stage.go_on(run, adjust=down)).outcome == "escalated"
    await stage.app.retry(run)
    played = await stage.go_on(run)
    assert (played.outcome, played.document["decision"]["choices"]) == ("waiting", ["merge", "leave"])
    assert [key.partition(":")[0] for key in await open_questions(stage, run)] == ["merge"]
    await stage.app.decide(run, "merge", by="maintainer")
    assert (await stage.go_on(run)).outcome == "merged"


async def test_after_a_cancel_and_a_retry_only_the_question_it_waits_at_is_open(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=ask")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=STORY, adjust=down)).outcome == "waiting"
    await Session(stage.app.home).cancel(run)
    await stage.app.retry(run)
    played = await stage.go_on(run)
    assert (played.outcome, played.document["decision"]["choices"]) == ("waiting", ["merge", "leave"])
    assert len(await open_questions(stage, run)) == 1


# Forks


async def test_a_fork_has_what_it_inherits_before_anybody_can_see_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await stage.play(STORY)
    journal = await stage.app.home.journal()
    kept = [step.key for step in await journal.steps(first.document["run"]) if step.verb in ("ask", "edit")][:2]
    add_run, there = journal.add_run, []

    async def noted(run: RunRow, **more: Any) -> None:
        there.extend([await journal.copied_result(run.id, key) is not None for key in kept])
        await add_run(run, **more)

    monkeypatch.setattr(journal, "add_run", noted)
    fork = await stage.app.fork(first.document["run"], from_step="review")
    assert (there, fork.forked_from) == ([True, True], first.document["run"])


@pytest.mark.spec("R10")
async def test_a_fork_is_made_of_an_ended_run_and_inherits_its_checks(stage: Stage) -> None:
    run = await stage.submit()
    with pytest.raises(UsageError, match="only an ended run is forked"):
        await stage.app.fork(run, from_step="review")
    first = await stage.go_on(run, scenes=STORY)
    fork = await stage.app.fork(run, from_step="review")
    second = await stage.go_on(fork.id)
    assert (second.outcome, second.document["change"]) == ("proven", first.document["change"])
    journal = await stage.app.home.journal()
    ran = [[job.name for job in await journal.jobs(one) if not job.agent] for one in (run, fork.id)]
    assert ran == [["reproducer", "reproducer"], ["reproducer"]], "on the base it was executed before the review"


async def test_retrying_an_inherited_step_asks_again_instead_of_reading_it_out(stage: Stage) -> None:
    elsewhere = IMPLEMENT | {"write": {"value.txt": "good\n", ".github/workflows/ci.yml": "on: push\n"}}
    run = await stage.submit()
    await stage.go_on(run, scenes=[ANALYZE, elsewhere, CLEAN])
    await stage.app.decide(run, "push", by="maintainer")
    assert (await stage.go_on(run)).outcome == "proven"
    fork = await stage.app.fork(run, from_step="head")
    assert (await stage.go_on(fork.id)).outcome == "waiting"
    await stage.app.decide(fork.id, "stop", by="maintainer")
    ended = await stage.go_on(fork.id)
    assert (ended.outcome, started(ended.starts)) == ("escalated", ["analyze", "implement", "review"])
    await stage.app.retry(fork.id)
    played = await stage.go_on(fork.id, scenes=STORY)
    assert (played.outcome, started(played.starts)[3:]) == ("proven", ["implement", "review"])


# What agents and people leave behind


KEPT = {"path": "shown.sh", "text": "grep -q good value.txt || { echo the value is bad; exit 1; }\n"}
SHOWN = {"command": "sh shown.sh", "files": [KEPT], "expect": {"exit": 1}}


@pytest.mark.parametrize("left", [KEPT["text"], "grep -q good value.txt\n"])
async def test_a_reproducer_may_become_part_of_the_change_it_shows(stage: Stage, left: str) -> None:
    analyze = scene("analyze", design(SHOWN), write={"shown.sh": KEPT["text"]})
    played = await stage.play([analyze, IMPLEMENT | {"write": {"value.txt": "good\n", "shown.sh": left}}, CLEAN])
    assert played.outcome == "proven"
    assert (await files_of(stage, played.document["change"]))["shown.sh"] == left.strip()


@pytest.mark.spec("B6")
async def test_a_claim_that_would_overwrite_a_file_of_the_base_shows_nothing(stage: Stage) -> None:
    fake = named({"command": "grep -q good value.txt", "files": [{"path": "value.txt", "text": "bad\n"}]})
    bold = claim("the value is still bad", None).replace(named(None).strip(), fake.strip())
    review = scene("review", findings(bold))
    verify = scene("verify", triage(placed("F1", "INVALID_OR_ALREADY_FIXED", validity="invalid")))
    played = await stage.play([ANALYZE, IMPLEMENT, review, verify])
    assert played.outcome == "proven"
    (finding,) = played.document["findings"]
    assert (finding["basis"], finding["triage"]) == ("argued", "INVALID_OR_ALREADY_FIXED")
    said = [item["execution"] for item in played.document["evidence"] if item["check"] == "reproducer F1"]
    assert said == ["BROKEN", "BROKEN"]


@pytest.mark.spec("F3")
async def test_a_commit_of_a_person_on_our_head_is_never_overwritten(stage: Stage) -> None:
    issue = await stage.issue()
    entry = Entry(kind="issue", reference=str(issue.number))
    assert (await stage.play(STORY, entry=entry)).outcome == "proven"
    ours = f"resolvent/issue-{issue.number}"
    theirs = await pushed(stage, {"third.txt": "by hand\n"}, head=ours)
    played = await stage.play(STORY, entry=entry)
    assert played.outcome == "proven"
    heads = {pull.head: pull.head_commit for pull in await pulls(stage)}
    assert heads == {ours: theirs, f"{ours}-2": played.document["change"]}


async def test_a_rerun_that_was_asked_for_before_a_crash_is_not_asked_for_again(set_stage: SetStage) -> None:
    stage = await set_stage("checks.ci_wait=10")
    forge = await stage.hub()
    await forge.require_check("ci")
    run = await stage.submit()

    async def red() -> None:
        async for recorded in stage.app.tail(run):
            if recorded.event.event == "step_started" and recorded.event.title == "look: required checks":
                await forge.report_check((await pulls(stage))[0].head_commit, "ci", state="failed")
                return

    ci = asyncio.create_task(red())
    await killed(stage, run, at="during rerun ci", scenes=STORY)
    await ci
    head = (await pulls(stage))[0].head_commit
    await forge.report_check(head, "ci", state="passed")
    assert (await stage.go_on(run)).outcome == "proven"
    assert [(check.state, check.attempt) for check in await forge.required_checks(head)] == [("passed", 2)]


async def test_an_answer_file_that_is_too_long_gets_one_more_turn(stage: Stage) -> None:
    long = {"verdict": "INVALID", "reason": "x" * (1 << 20)}
    played = await stage.play([scene("analyze", "", turn=1, answer=long), *STORY])
    assert played.outcome == "proven"
    assert started(played.starts) == ["analyze", "analyze", "implement", "review"]
    assert "its answer file cannot be used" in played.prompts["analyze"]


async def test_an_answer_file_that_is_a_link_gets_one_more_turn(set_stage: SetStage, tmp_path: Path) -> None:
    player = files("resolvent").joinpath("testing/scripted_agent.py")
    agent = tmp_path / "agent.sh"
    agent.write_text(
        'if [ "$RESOLVENT_STEP $RESOLVENT_TURN" = "analyze 1" ]; then ln -s /etc/passwd "$RESOLVENT_ANSWER"; fi\n'
        f"exec {sys.executable} -I -S {player} {tmp_path / 'story.json'}\n"
    )
    reads = [str(player), str(tmp_path / "story.json"), sys.executable, sys.prefix, sys.base_prefix]
    stage = await set_stage(
        'agents.author.use="command"',
        f'agents.author.command=["/bin/sh", "{agent}"]',
        f"agents.author.reads={json.dumps(reads)}",
        f'agents.author.writes=["{tmp_path / "story.hooks"}"]',
    )
    played = await stage.play(STORY)
    assert (played.outcome, started(played.starts)) == ("proven", ["analyze", "analyze", "implement", "review"])
    assert "its answer file cannot be used" in played.prompts["analyze"] and "root:" not in played.prompts["analyze"]
