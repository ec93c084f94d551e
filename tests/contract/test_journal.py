"""One suite for the journal, over SQLite and over a real Postgres."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest
from tests.contract.journal_stage import HOSTILE, a_finding, a_job, a_run, a_step, an_effect, an_evidence, child, frozen

from resolvent.adapters.journal import connect, runs
from resolvent.adapters.journal.store import Connection
from resolvent.domain.decision import Choice, Question
from resolvent.domain.events import RunEnded, RunResumed, StepStarted
from resolvent.domain.job import Branch, Usage
from resolvent.errors import Bug, NotFound, SubjectTaken, UsageError
from resolvent.ports import Journal


@pytest.fixture
async def journal(store_url: str) -> AsyncIterator[Journal]:
    opened = await connect(store_url, now=lambda: 5000.0)
    yield opened
    await opened.close()


@pytest.fixture
async def with_run(journal: Journal) -> Journal:
    await journal.add_run(a_run(), subjects=["issue-7"])
    return journal


CAP = Question(key="cap:1", text="Go on?", choices=("continue", "stop"))


# Runs


async def test_a_run_comes_back_as_it_was_recorded(journal: Journal) -> None:
    row = a_run(
        state="waiting",
        outcome="",
        reason="why",
        plays=3,
        cancelling=True,
        forked_from="run-0",
        result={"a": [1, None]},
    )
    await journal.add_run(row, subjects=[])
    assert await journal.run("run-1") == row


async def test_adding_the_same_run_again_changes_nothing(with_run: Journal) -> None:
    await with_run.set_state("run-1", "running")
    await with_run.add_run(a_run(), subjects=["issue-7"])
    assert (await with_run.run("run-1")).state == "running"


async def test_two_different_runs_of_one_name_are_a_bug(with_run: Journal) -> None:
    with pytest.raises(Bug, match="run-1"):
        await with_run.add_run(a_run(created_at=2000.0), subjects=[])


async def test_a_taken_subject_names_its_run_and_nothing_of_the_second_run_is_kept(with_run: Journal) -> None:
    with pytest.raises(SubjectTaken, match="run-1 is active on issue-7") as taken:
        await with_run.add_run(a_run("run-2"), subjects=["issue-6", "issue-7"])
    assert taken.value.details["run"] == "run-1"
    assert taken.value.hint == "resolvent watch run-1"
    with pytest.raises(NotFound):
        await with_run.run("run-2")
    await with_run.add_run(a_run("run-3"), subjects=["issue-6"])


CLAIMS = """
journal = await connect(URL)
say("ready"); pause()
try:
    await journal.add_run(a_run(ARGUMENT), subjects=["issue-1", "issue-2"])
    say("mine")
except SubjectTaken as taken:
    say("taken by " + taken.details["run"])
await journal.close()
"""


@pytest.mark.spec("R2")
async def test_of_many_processes_that_claim_one_subject_exactly_one_gets_it(store_url: str, journal: Journal) -> None:
    async with contextlib.AsyncExitStack() as stack:
        rivals = [await stack.enter_async_context(child(store_url, CLAIMS, f"rival-{nth}")) for nth in range(3)]
        assert [await rival.says() for rival in rivals] == ["ready"] * 3
        for rival in rivals:
            await rival.go()
        said = [await rival.says() for rival in rivals]
    assert said.count("mine") == 1
    winner = f"rival-{said.index('mine')}"
    assert said.count(f"taken by {winner}") == 2
    assert [run.id for run in await journal.runs()] == [winner]


async def test_two_runs_that_claim_the_same_subjects_crosswise_do_not_block_each_other(postgres_url: str) -> None:
    first, second = await connect(postgres_url), await connect(postgres_url)
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> None:
        runs.add(connection, a_run("run-1"), ["issue-1"])
        begun.set()
        go_on.wait(20)
        runs.claim(connection, "run-1", "issue-2")

    claiming = asyncio.ensure_future(first.store.transaction(slowly))
    await asyncio.to_thread(begun.wait, 20)
    crossing = asyncio.ensure_future(second.add_run(a_run("run-2"), subjects=["issue-2", "issue-1"]))
    with psycopg.connect(postgres_url, autocommit=True) as watching:
        while not watching.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
            await asyncio.wait({crossing}, timeout=0.01)
    go_on.set()
    await claiming
    with pytest.raises(SubjectTaken, match="run-1"):
        await crossing
    await first.close()
    await second.close()


async def test_a_run_may_claim_its_own_subject_again_but_no_other_runs(with_run: Journal) -> None:
    await with_run.claim("run-1", "issue-7")
    await with_run.claim("run-1", "pr-9")
    await with_run.add_run(a_run("run-2"), subjects=[])
    with pytest.raises(SubjectTaken, match="run-1"):
        await with_run.claim("run-2", "pr-9")


async def test_an_ended_or_unknown_run_claims_nothing(with_run: Journal) -> None:
    await with_run.end_run("run-1", outcome="proven", reason="", result={})
    with pytest.raises(UsageError, match="ended"):
        await with_run.claim("run-1", "pr-9")
    with pytest.raises(NotFound):
        await with_run.claim("nobody", "pr-9")


async def test_a_run_is_found_by_a_prefix_only_it_has(journal: Journal) -> None:
    for id in ("abc", "abcd-1", "abcd-2", "x_%"):
        await journal.add_run(a_run(id), subjects=[])
    assert (await journal.run("abc")).id == "abc"
    assert (await journal.run("abcd-2")).id == "abcd-2"
    assert (await journal.run("x")).id == "x_%"
    with pytest.raises(UsageError, match="abcd-1, abcd-2") as several:
        await journal.run("abcd")
    assert not isinstance(several.value, NotFound)


@pytest.mark.parametrize("name", ["zzz", "", "%", "_bc", "ABC", "ab\0", "\ud800", "abc' OR '1'='1"])
async def test_a_name_no_run_starts_with_is_not_found(journal: Journal, name: str) -> None:
    await journal.add_run(a_run("abc"), subjects=[])
    with pytest.raises(NotFound) as unknown:
        await journal.run(name)
    assert unknown.value.hint == "resolvent runs"


async def test_runs_are_listed_newest_first_by_state_and_up_to_a_limit(journal: Journal) -> None:
    states = ("queued", "running", "waiting", "queued")
    for nth, state in enumerate(states):
        await journal.add_run(a_run(f"run-{nth}", created_at=float(nth), state=state), subjects=[])
    assert [run.id for run in await journal.runs()] == ["run-3", "run-2", "run-1", "run-0"]
    assert [run.id for run in await journal.runs(states=("queued", "waiting"))] == ["run-3", "run-2", "run-0"]
    assert [run.id for run in await journal.runs(states=("queued",), limit=1)] == ["run-3"]
    assert [run.id for run in await journal.runs(limit=2)] == ["run-3", "run-2"]
    assert await journal.runs(states=("ended",)) == ()


async def test_a_state_is_set_with_its_reason_and_its_time(with_run: Journal) -> None:
    await with_run.set_state("run-1", "waiting", reason="Go on?")
    run = await with_run.run("run-1")
    assert (run.state, run.reason, run.updated_at) == ("waiting", "Go on?", 5000.0)
    with pytest.raises(NotFound):
        await with_run.set_state("nobody", "running")


async def test_only_an_outcome_ends_a_run_and_nothing_but_reopening_wakes_it(with_run: Journal) -> None:
    with pytest.raises(Bug):
        await with_run.set_state("run-1", "ended")
    await with_run.end_run("run-1", outcome="proven", reason="", result={})
    await with_run.set_state("run-1", "running")
    await with_run.set_state("run-1", "ended")
    assert (await with_run.run("run-1")).outcome == "proven"
    assert (await with_run.run("run-1")).state == "ended"


async def test_the_first_ending_stays(with_run: Journal) -> None:
    await with_run.end_run("run-1", outcome="proven", reason="all shown", result={"rounds": 2})
    await with_run.end_run("run-1", outcome="cancelled", reason="late", result={})
    run = await with_run.run("run-1")
    assert (run.state, run.outcome, run.reason, run.result) == ("ended", "proven", "all shown", {"rounds": 2})
    with pytest.raises(NotFound):
        await with_run.end_run("nobody", outcome="failed", reason="", result={})


async def test_an_ended_run_holds_no_subject(with_run: Journal) -> None:
    await with_run.claim("run-1", "pr-9")
    await with_run.end_run("run-1", outcome="declined", reason="", result={})
    await with_run.add_run(a_run("run-2"), subjects=["issue-7", "pr-9"])


async def test_an_ended_run_is_reopened_with_its_subjects_and_one_more_play(with_run: Journal) -> None:
    await with_run.ask_to_cancel("run-1")
    await with_run.end_run("run-1", outcome="cancelled", reason="by a person", result={"rounds": 1})
    await with_run.reopen("run-1", subjects=["issue-7", "pr-9"])
    run = await with_run.run("run-1")
    assert (run.state, run.plays, run.outcome, run.reason, run.result) == ("queued", 2, "", "", None)
    assert not run.cancelling
    with pytest.raises(SubjectTaken):
        await with_run.add_run(a_run("run-2"), subjects=["pr-9"])


async def test_an_ended_run_whose_subject_went_to_another_stays_ended(with_run: Journal) -> None:
    await with_run.end_run("run-1", outcome="escalated", reason="", result={})
    await with_run.add_run(a_run("run-2"), subjects=["issue-7"])
    with pytest.raises(SubjectTaken, match="run-2"):
        await with_run.reopen("run-1", subjects=["issue-7"])
    run = await with_run.run("run-1")
    assert (run.state, run.plays, run.outcome) == ("ended", 1, "escalated")


@pytest.mark.spec("R9")
async def test_a_waiting_run_is_reopened_once_and_keeps_the_wish_to_cancel(with_run: Journal) -> None:
    await with_run.set_state("run-1", "waiting")
    await with_run.ask_to_cancel("run-1")
    await with_run.reopen("run-1", subjects=["issue-7"])
    await with_run.reopen("run-1", subjects=["issue-7"])
    run = await with_run.run("run-1")
    assert (run.state, run.plays, run.cancelling) == ("queued", 2, True)


async def test_reopening_leaves_a_running_run_alone_and_knows_no_unknown_one(with_run: Journal) -> None:
    await with_run.set_state("run-1", "running")
    await with_run.reopen("run-1", subjects=["pr-9"])
    run = await with_run.run("run-1")
    assert (run.state, run.plays) == ("running", 1)
    await with_run.add_run(a_run("run-2"), subjects=["pr-9"])
    with pytest.raises(NotFound):
        await with_run.reopen("nobody", subjects=[])


async def test_a_wish_to_cancel_is_kept_for_active_runs_only(with_run: Journal) -> None:
    await with_run.ask_to_cancel("run-1")
    assert (await with_run.run("run-1")).cancelling
    await with_run.add_run(a_run("run-2"), subjects=[])
    await with_run.end_run("run-2", outcome="proven", reason="", result={})
    await with_run.ask_to_cancel("run-2")
    assert not (await with_run.run("run-2")).cancelling
    with pytest.raises(NotFound):
        await with_run.ask_to_cancel("nobody")


async def test_a_worker_is_due_for_what_is_queued_running_called_off_or_answered(journal: Journal) -> None:
    for place, state in enumerate(("queued", "running", "waiting", "waiting", "waiting", "running")):
        await journal.add_run(a_run(f"run-{place}", state=state, created_at=1000.0 - place), subjects=[])
        await journal.ask(f"run-{place}", CAP, at=1.0)
    await journal.ask_to_cancel("run-3")
    await journal.decide("run-5", "cap:1", Choice(answer="stop", by="ann", reason="", at=2.0))
    await journal.set_state("run-5", "waiting", reason="cap:1")
    await journal.add_run(a_run("run-6"), subjects=[])
    await journal.end_run("run-6", outcome="proven", reason="", result={})
    assert [(due.id, due.plays, due.state, due.cancelling) for due in await journal.due()] == [
        ("run-5", 1, "waiting", False),
        ("run-3", 1, "waiting", True),
        ("run-1", 1, "running", False),
        ("run-0", 1, "queued", False),
    ]


async def test_inputs_are_replaced_unless_the_run_is_played(with_run: Journal) -> None:
    await with_run.refreeze("run-1", frozen("It breaks differently"))
    assert (await with_run.run("run-1")).inputs.issue.title == "It breaks differently"
    await with_run.set_state("run-1", "running")
    with pytest.raises(UsageError, match="running"):
        await with_run.refreeze("run-1", frozen())
    with pytest.raises(NotFound):
        await with_run.refreeze("nobody", frozen())


async def test_an_ended_run_is_deleted_whole_and_an_active_one_is_not(with_run: Journal) -> None:
    await with_run.add_run(a_run("run-2"), subjects=[])
    for run in ("run-1", "run-2"):
        await with_run.raise_attempt(run, "key", beyond=1)
        await with_run.save_step(a_step(run=run))
        await with_run.copy_results(run, {"key": {}})
        await with_run.save_branch(run, Branch(id="b", parent=None, commit="c"))
        await with_run.save_job(a_job(run=run))
        await with_run.save_evidence(run, an_evidence())
        await with_run.save_finding(run, a_finding())
        await with_run.save_effect(an_effect(run=run))
        await with_run.ask(run, CAP, at=1.0)
        await with_run.tell(run, RunResumed(play=2), at=1.0)
    with pytest.raises(UsageError, match="queued"):
        await with_run.delete_run("run-1")
    await with_run.end_run("run-1", outcome="proven", reason="", result={})
    await with_run.delete_run("run-1")
    with pytest.raises(NotFound):
        await with_run.delete_run("run-1")
    assert await _everything_of(with_run, "run-1") == [1, None, *[()] * 8]
    assert () not in await _everything_of(with_run, "run-2")


async def _everything_of(journal: Journal, run: str) -> list[object]:
    return [
        await journal.attempt(run, "key"),
        await journal.copied_result(run, "key"),
        *[
            await read(run)
            for read in (
                journal.steps,
                journal.branches,
                journal.jobs,
                journal.evidence,
                journal.findings,
                journal.effects,
                journal.decisions,
                journal.events,
            )
        ],
    ]


# What verbs record


async def test_attempts_start_at_one_and_only_rise(with_run: Journal) -> None:
    assert await with_run.attempt("run-1", "ask:x") == 1
    assert await with_run.raise_attempt("run-1", "ask:x", beyond=1) == 2
    assert await with_run.raise_attempt("run-1", "ask:x", beyond=1) == 2
    assert await with_run.raise_attempt("run-1", "ask:x", beyond=5) == 6
    assert await with_run.raise_attempt("run-1", "ask:x", beyond=3) == 6
    assert await with_run.attempt("run-1", "ask:x") == 6
    assert await with_run.attempt("run-1", "ask:y") == 1


async def test_two_who_raise_the_same_attempt_at_once_raise_it_once(store_url: str, with_run: Journal) -> None:
    other = await connect(store_url)
    try:
        raised = await asyncio.gather(
            *(who.raise_attempt("run-1", "key", beyond=1) for who in (with_run, other) for _ in range(10))
        )
    finally:
        await other.close()
    assert raised == [2] * 20


async def test_steps_come_in_the_order_they_first_started(with_run: Journal) -> None:
    first, second = a_step("one", started_at=5.0), a_step("two", started_at=4.0, position=9)
    await with_run.save_step(first)
    await with_run.save_step(second)
    ended = {"state": "done", "ended_at": 9.0, "summary": "found it", "result": {"ok": {"x": 1}}}
    await with_run.save_step(first.model_copy(update=ended | {"started_at": 8.0}))
    assert await with_run.steps("run-1") == (first.model_copy(update=ended), second)


async def test_a_step_that_ended_is_not_reopened_by_a_replay_but_a_later_ending_counts(with_run: Journal) -> None:
    failed = a_step(state="failed", ended_at=2.0, summary="no")
    await with_run.save_step(failed)
    await with_run.save_step(a_step())
    assert await with_run.steps("run-1") == (failed,)
    await with_run.save_step(a_step(state="done", ended_at=3.0))
    assert [step.state for step in await with_run.steps("run-1")] == ["done"]


async def test_a_fork_inherits_results_by_key_even_before_it_is_recorded(journal: Journal) -> None:
    await journal.copy_results("fork", {"a": {"ok": 1}, "b": {"error": None}})
    assert await journal.copied_result("fork", "a") == {"ok": 1}
    assert await journal.copied_result("fork", "b") == {"error": None}
    assert await journal.copied_result("fork", "c") is None
    assert await journal.copied_result("other", "a") is None


async def test_branches_and_jobs_are_kept_once_per_id(with_run: Journal) -> None:
    root = Branch(id="root", parent=None, commit="1" * 40)
    child_branch = Branch(id="child", parent="root", commit="1" * 40)
    for branch in (root, child_branch, root):
        await with_run.save_branch("run-1", branch)
    sealed = child_branch.model_copy(update={"commit": "2" * 40})
    await with_run.save_branch("run-1", sealed)
    assert await with_run.branches("run-1") == (root, sealed)

    ended = a_job(
        state="ended", ending="exited", exit=0, seconds=1.5, usage=Usage(usd=0.25, input_tokens=3 << 33), agent="claude"
    )
    for job in (a_job(agent="claude"), ended, a_job(agent="claude")):
        await with_run.save_job(job)
    assert await with_run.jobs("run-1") == (ended,)


async def test_the_jobs_of_agents_are_found_by_when_they_were_over(with_run: Journal) -> None:
    at = {"early": 99.9, "second": 150.0, "first": 100.0, "late": 200.0}
    for id, over in at.items():
        await with_run.save_job(a_job(id, agent="claude", state="ended", at=over, usage=Usage(usd=over)))
    await with_run.save_job(a_job("check", state="ended", at=120.0))
    await with_run.save_job(a_job("running", agent="claude"))
    found = await with_run.jobs_over(since=100.0, until=200.0)
    assert [(job.id, job.usage.usd) for job in found] == [("first", 100.0), ("second", 150.0)]


@pytest.mark.spec("E2")
async def test_evidence_never_changes_once_it_was_seen(with_run: Journal) -> None:
    await with_run.save_evidence("run-1", an_evidence())
    await with_run.save_evidence("run-1", an_evidence(exit=0, execution="PASSED"))
    await with_run.save_evidence("run-1", an_evidence("evidence-2"))
    assert await with_run.evidence("run-1") == (an_evidence(), an_evidence("evidence-2"))


async def test_a_finding_is_kept_as_it_was_judged_last(with_run: Journal) -> None:
    await with_run.save_finding("run-1", a_finding())
    await with_run.save_finding("run-1", a_finding("finding-2"))
    judged = a_finding(valid=True, origin="introduced", basis="executed", scope="FIX_IN_THIS_PR")
    await with_run.save_finding("run-1", judged)
    assert await with_run.findings("run-1") == (judged, a_finding("finding-2"))


@pytest.mark.conforms("S0.26")
async def test_a_done_effect_never_becomes_intended_again(with_run: Journal) -> None:
    done = an_effect(state="done", result={"url": "https://forge/1"})
    for row in (an_effect(), done, an_effect()):
        await with_run.save_effect(row)
    assert await with_run.effects("run-1") == (done,)


async def test_only_a_commit_that_a_done_publish_left_counts_as_published(with_run: Journal) -> None:
    ours, meant, said = "a" * 40, "b" * 40, "c" * 40
    left = {"pull_request": {"head_commit": ours}, "summary": "published"}
    await with_run.save_effect(an_effect("e1", kind="publish", state="done", result=left))
    await with_run.save_effect(an_effect("e2", kind="publish", result={"pull_request": {"head_commit": meant}}))
    quoted = {"comment": {"body": f'{{"head_commit":"{said}"}}'}, "pull_request": {"head_commit": said}}
    await with_run.save_effect(an_effect("e3", kind="comment", state="done", result=quoted))
    assert [await with_run.published(commit) for commit in (ours, meant, said, "d" * 40)] == [True, False, False, False]


async def test_what_two_runs_record_under_one_id_stays_apart(with_run: Journal) -> None:
    await with_run.add_run(a_run("run-2"), subjects=[])
    await with_run.save_evidence("run-1", an_evidence())
    await with_run.save_evidence("run-2", an_evidence(exit=2))
    assert [item.exit for item in await with_run.evidence("run-2")] == [2]
    assert [item.exit for item in await with_run.evidence("run-1")] == [1]


async def test_nothing_can_be_recorded_of_a_run_that_does_not_exist(journal: Journal) -> None:
    for writing in (
        journal.save_step(a_step()),
        journal.save_job(a_job()),
        journal.save_effect(an_effect()),
        journal.save_evidence("run-1", an_evidence()),
        journal.ask("run-1", CAP, at=1.0),
        journal.tell("run-1", RunResumed(play=2), at=1.0),
        journal.raise_attempt("run-1", "key", beyond=1),
    ):
        with pytest.raises(NotFound):
            await writing
    assert await journal.events() == ()


# Decisions


async def test_a_question_is_asked_once_and_answered_once(with_run: Journal) -> None:
    asked = await with_run.ask("run-1", CAP, at=1.0)
    assert (asked.question, asked.answer, asked.asked_at) == (CAP, None, 1.0)
    answered = await with_run.decide("run-1", "cap:1", Choice(answer="continue", by="ann", reason="close", at=2.0))
    assert (answered.answer, answered.by, answered.reason, answered.answered_at) == ("continue", "ann", "close", 2.0)
    again = await with_run.ask("run-1", CAP.model_copy(update={"text": "Other words"}), at=3.0)
    assert again == answered
    assert await with_run.decisions("run-1") == (answered,)


async def test_an_answer_is_refused_when_it_is_late_not_offered_or_to_nothing(with_run: Journal) -> None:
    await with_run.ask("run-1", CAP, at=1.0)
    with pytest.raises(UsageError, match="continue, stop"):
        await with_run.decide("run-1", "cap:1", Choice(answer="maybe", by="", reason="", at=2.0))
    with pytest.raises(NotFound, match="cap:2"):
        await with_run.decide("run-1", "cap:2", Choice(answer="stop", by="", reason="", at=2.0))
    await with_run.decide("run-1", "cap:1", Choice(answer="stop", by="ann", reason="", at=2.0))
    with pytest.raises(UsageError, match="answered already: stop"):
        await with_run.decide("run-1", "cap:1", Choice(answer="continue", by="bob", reason="", at=3.0))
    assert [(item.answer, item.by) for item in await with_run.decisions("run-1")] == [("stop", "ann")]


async def test_an_answer_queues_a_run_that_waits_and_leaves_one_that_is_played_alone(with_run: Journal) -> None:
    later = Question(key="cap:2", text="And now?", choices=("continue", "stop"))
    for question in (CAP, later):
        await with_run.ask("run-1", question, at=1.0)
    await with_run.set_state("run-1", "running")
    await with_run.decide("run-1", "cap:1", Choice(answer="continue", by="ann", reason="", at=2.0))
    assert ((await with_run.run("run-1")).state, (await with_run.run("run-1")).plays) == ("running", 1)
    await with_run.set_state("run-1", "waiting", reason="cap:2")
    seen = await with_run.changed(since=0)
    with pytest.raises(UsageError):
        await with_run.decide("run-1", "cap:2", Choice(answer="maybe", by="ann", reason="", at=3.0))
    assert (await with_run.run("run-1")).state == "waiting"
    await with_run.decide("run-1", "cap:2", Choice(answer="continue", by="ann", reason="", at=3.0))
    assert ((await with_run.run("run-1")).state, (await with_run.run("run-1")).plays) == ("queued", 2)
    assert await with_run.changed(since=seen) > seen


async def test_of_an_answer_that_cannot_queue_its_run_nothing_is_kept(
    with_run: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_run.ask("run-1", CAP, at=1.0)
    await with_run.set_state("run-1", "waiting", reason="cap:1")

    def broken(*_: object, **__: object) -> None:
        raise Bug("the process dies here")

    monkeypatch.setattr(runs, "reopen", broken)
    with pytest.raises(Bug):
        await with_run.decide("run-1", "cap:1", Choice(answer="continue", by="ann", reason="", at=2.0))
    assert [item.answer for item in await with_run.decisions("run-1")] == [None]
    assert (await with_run.run("run-1")).state == "waiting"


async def test_an_answer_can_be_taken_back_and_given_anew(with_run: Journal) -> None:
    later = Question(key="cap:2", text="And now?", choices=("continue", "stop"))
    for question, answer in ((CAP, "continue"), (later, "stop")):
        await with_run.ask("run-1", question, at=1.0)
        await with_run.decide("run-1", question.key, Choice(answer=answer, by="ann", reason="r", at=2.0))
    await with_run.withdraw("run-1", "stop")
    assert [item.answer for item in await with_run.decisions("run-1")] == ["continue"]
    again = await with_run.ask("run-1", later, at=3.0)
    assert (again.answer, again.asked_at) == (None, 3.0)
    await with_run.withdraw("run-1", "stop")
    assert [item.question.key for item in await with_run.decisions("run-1")] == ["cap:1"]
    await with_run.ask("run-1", later, at=4.0)
    await with_run.decide("run-1", "cap:2", Choice(answer="continue", by="bob", reason="", at=5.0))


# Events


async def test_events_are_read_in_order_of_one_run_or_of_all(with_run: Journal) -> None:
    await with_run.add_run(a_run("run-2"), subjects=[])
    started = StepStarted(step="s", verb="ask", title="Analyse")
    await with_run.tell("run-1", started, at=1.0)
    await with_run.tell("run-2", RunResumed(play=2), at=2.0)
    await with_run.tell("run-1", RunEnded(outcome="proven"), at=3.0)
    everything = await with_run.events()
    assert [(told.run, told.at) for told in everything] == [("run-1", 1.0), ("run-2", 2.0), ("run-1", 3.0)]
    assert everything[0].event == started
    mine = await with_run.events("run-1")
    assert mine == (everything[0], everything[2])
    assert await with_run.events("run-1", after=mine[0].seq) == mine[1:]
    assert await with_run.events(limit=2) == everything[:2]


async def test_an_event_with_a_key_is_told_at_most_once_per_run(store_url: str, with_run: Journal) -> None:
    await with_run.add_run(a_run("run-2"), subjects=[])
    other = await connect(store_url)
    try:
        await asyncio.gather(
            *(who.tell("run-1", RunResumed(play=2), at=1.0, key="k") for who in (with_run, other) for _ in range(10))
        )
    finally:
        await other.close()
    await with_run.tell("run-2", RunResumed(play=2), at=1.0, key="k")
    for _ in range(2):
        await with_run.tell("run-1", RunResumed(play=3), at=1.0)
    assert [told.run for told in await with_run.events()] == ["run-1", "run-2", "run-1", "run-1"]


async def test_whoever_reads_on_from_the_last_event_misses_none_of_several_writers(
    store_url: str, with_run: Journal
) -> None:
    body = """
journal = await connect(URL)
say("ready"); pause()
for nth in range(60):
    await journal.tell("run-1", RunResumed(play=nth), at=float(ARGUMENT))
say("done"); pause()
"""
    seen: list[int] = []
    async with contextlib.AsyncExitStack() as stack:
        writers = [await stack.enter_async_context(child(store_url, body, str(nth))) for nth in range(3)]
        for writer in writers:
            await writer.says()
        for writer in writers:
            await writer.go()
        counter = 0
        while len(seen) < 180:
            fresh = await with_run.events("run-1", after=seen[-1] if seen else 0)
            seen.extend(told.seq for told in fresh)
            if len(seen) < 180:
                counter = await with_run.changed(since=counter)
    assert seen == [told.seq for told in await with_run.events("run-1")]
    by_writer = [[told.event.play for told in await with_run.events("run-1") if told.at == nth] for nth in range(3)]
    assert by_writer == [list(range(60))] * 3


# Hostile text


async def test_hostile_text_comes_back_as_it_went_in(journal: Journal) -> None:
    big = HOSTILE * 12_000
    row = a_run("run-1", subject=HOSTILE, title=HOSTILE, reason=HOSTILE, inputs=frozen(HOSTILE, analyze=big))
    await journal.add_run(row, subjects=[HOSTILE])
    assert await journal.run("run-1") == row
    with pytest.raises(SubjectTaken):
        await journal.add_run(a_run("run-2"), subjects=[HOSTILE])

    await journal.save_step(a_step(summary=HOSTILE, key=HOSTILE, result={HOSTILE: [big]}))
    assert (await journal.steps("run-1"))[0] == a_step(summary=HOSTILE, key=HOSTILE, result={HOSTILE: [big]})
    await journal.ask("run-1", Question(key=HOSTILE, text=HOSTILE, choices=(HOSTILE,)), at=1.0)
    decision = await journal.decide("run-1", HOSTILE, Choice(answer=HOSTILE, by=HOSTILE, reason=HOSTILE, at=2.0))
    assert (decision.answer, decision.by, decision.reason) == (HOSTILE,) * 3
    await journal.tell("run-1", RunEnded(outcome=HOSTILE, reason=big), at=1.0, key=HOSTILE)
    await journal.tell("run-1", RunEnded(outcome="twice"), at=1.0, key=HOSTILE)
    (told,) = await journal.events("run-1")
    assert told.event == RunEnded(outcome=HOSTILE, reason=big)
    await journal.save_evidence("run-1", an_evidence(log=HOSTILE))
    assert await journal.evidence("run-1") == (an_evidence(log=HOSTILE),)
    await journal.copy_results("run-1", {HOSTILE: {"text": HOSTILE}})
    assert await journal.copied_result("run-1", HOSTILE) == {"text": HOSTILE}
