"""Every dollar is counted once: also those of turns that were cut short, gone on with, or said again."""

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from resolvent.engine.budgets import Budgets
from resolvent.errors import BudgetSpent
from resolvent.testing.model import Conversation, ScriptedModel
from resolvent.testing.model.playbook import by_step
from resolvent.working import Session

from .scene import NOTHING_TO_DO, real_agents, staged, worker
from .test_crowd import Gate
from .test_going_on import BOTH, answered, jobs_of

# What a request costs: as claude itself counts it, and for codex after our own table of prices.
USAGE = {"usage": {"in": 100_000, "out": 10_000}}
PRICES = {"claude": 0.6, "codex": 0.225}


@real_agents
@BOTH
async def test_a_turn_that_was_stopped_and_told_so_is_paid_for_once(tmp_path: Path, agent: str) -> None:
    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        said = {"structured": NOTHING_TO_DO} if conversation.turns > 1 else {"bash": "cat README.md"}
        return said | USAGE

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        document = await scene.resolve()
        spent = [job.usage.usd for job in await jobs_of(scene, document["run"])]
        await scene.app.home.close()
    assert document["outcome"] == "declined" and len(spent) == 2
    # The request that was under way when it was stopped may have been paid for, or not.
    whole = len(model.asked) * PRICES[agent]
    assert whole - 2 * PRICES[agent] < sum(spent) < whole + 0.001, (spent, whole)


@real_agents
@pytest.mark.parametrize("how", ["lost", "cancelled"])
async def test_what_a_lost_or_cancelled_agent_spent_is_counted(tmp_path: Path, how: str) -> None:
    gate = Gate()

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        if conversation.turns > 1:
            return {"structured": NOTHING_TO_DO}
        return gate.play(conversation, step) | USAGE

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=("claude", "claude"))
        run = await scene.submit()
        working = asyncio.create_task(scene.go_on(run))
        await gate.reached(1)
        if how == "lost":
            (started,) = scene.state.glob("jobs/*.ask.*/started")
            os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
        else:
            await Session(scene.app.home).cancel(run)
        await working
        gate.open()
        first = (await jobs_of(scene, run))[0]
        counted = await scene.app.home.journal()
        today = (await counted.spent(since=scene.app.home.clock.now() - 3600)).usd
        await scene.app.home.close()
    # Of an answer that was not told to its end only the beginning is known: at least what went in is counted.
    assert first.usage.usd >= 0.4 and first.usage.input_tokens >= 100_000
    assert today >= first.usage.usd


@real_agents
@BOTH
async def test_a_turn_that_ended_over_its_budget_counts_and_the_next_one_asks(tmp_path: Path, agent: str) -> None:
    limit = f"limits.cost_usd = {PRICES[agent] * 1.7:g}"
    steps = [{"bash": "echo seen > seen.txt", **USAGE}, {"text": "I looked at it.", **USAGE}]

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        if conversation.turns > 1 or (step > 1 and agent == "claude"):
            return {"structured": NOTHING_TO_DO, **USAGE}
        return steps[min(step, 1)]

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, limit, roles=(agent, agent))
        document = await scene.resolve()
        before = await jobs_of(scene, document["run"])
        asked_before = len(model.asked)
        after = await answered(scene, document["run"], "go on")
        jobs = await jobs_of(scene, document["run"])
        await scene.app.home.close()
    assert document["outcome"] == "waiting", document
    assert sum(job.usage.usd for job in before) == pytest.approx(PRICES[agent] * asked_before)
    # One grant is enough, in the same session, and nothing is paid for twice.
    assert after["outcome"] == "declined", after["reason"]
    assert len(jobs) == 2 and jobs[0].private == jobs[1].private
    assert sum(job.usage.usd for job in jobs) == pytest.approx(PRICES[agent] * len(model.asked))


@pytest.mark.spec("A14")
@real_agents
async def test_a_spent_day_is_asked_about_as_one_and_a_job_that_was_let_in_stays_so(tmp_path: Path) -> None:
    with ScriptedModel(by_step({"analyze": [{"structured": NOTHING_TO_DO, **USAGE}]})) as model:
        scene = await staged(tmp_path, model, "limits.cost_day_usd = 0.2", roles=("codex", "codex"))
        first, second = await scene.resolve(), await scene.resolve()
        journal = await scene.app.home.journal()
        (asked,) = [one.question for one in await journal.decisions(second["run"]) if one.answer is None]
        (job,) = await jobs_of(scene, first["run"])
        row = await scene.app.run(first["run"])
        budgets, chosen = Budgets(journal, scene.app.home.clock, 0.2), row.inputs.agents["writer"]
        assert await budgets.left(row.id, row.inputs, chosen, job=job.id) == pytest.approx(0.2)
        with pytest.raises(BudgetSpent):
            await budgets.left(row.id, row.inputs, chosen, job="another")
        await scene.app.home.close()
    assert (first["outcome"], second["outcome"]) == ("declined", "waiting")
    # To give this run more would not help it.
    assert asked.choices == ("retry", "stop") and "limits.cost_day_usd" in asked.text


@real_agents
async def test_what_an_agent_spent_is_counted_when_its_run_is_called_off_with_nobody_at_work(tmp_path: Path) -> None:
    gate = Gate()

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        return gate.play(conversation, step) | USAGE

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=("claude", "claude"))
        run = await scene.submit()
        with worker(scene) as process:
            await gate.reached(1)
            process.kill()
        # Its agent goes on without it, until the run is called off.
        await Session(scene.app.home).cancel(run)
        gate.open()
        (job,) = await jobs_of(scene, run)
        document = await scene.app.document(run)
        await scene.app.home.close()
    assert document["outcome"] == "cancelled" and job.state == "lost"
    assert job.usage.usd >= 0.4 and document["cost"]["usd"] == job.usage.usd


@real_agents
async def test_agents_at_work_at_the_same_time_share_what_is_left_of_a_day(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        if step == 0:
            together.wait(60)
        return {"bash": f"echo {step} > seen.txt", **USAGE} if step < 20 else {"structured": NOTHING_TO_DO}

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, "limits.cost_day_usd = 3.0", roles=("claude", "claude"))
        runs = [await scene.submit() for _ in range(2)]
        await Session(scene.app.home).serve_until_idle()
        journal = await scene.app.home.journal()
        asked = [one.question for run in runs for one in await journal.decisions(run)]
        spent = (await journal.spent(since=0)).usd
        await scene.app.home.close()
    # Each alone would have stopped at three dollars.
    assert spent < 5.0 and len(model.asked) < 9, (spent, len(model.asked))
    assert [one.choices for one in asked] == [("retry", "stop")] * 2
