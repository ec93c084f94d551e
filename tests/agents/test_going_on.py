"""Agents that are stuck, lost, too dear or away: who goes on, where, and what a person is asked."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from resolvent.domain.decision import Choice
from resolvent.errors import ConfigError
from resolvent.testing.model import Conversation, ScriptedModel
from resolvent.testing.model.playbook import by_step
from resolvent.working import Session

from .scene import NOTHING_TO_DO, Scene, real_agents, staged
from .test_crowd import Gate

BOTH = pytest.mark.parametrize("agent", ["claude", "codex"])


async def jobs_of(scene: Scene, run: str) -> list[Any]:
    return [job for job in await (await scene.app.home.journal()).jobs(run) if job.agent]


@real_agents
@BOTH
async def test_an_agent_that_is_stuck_is_told_so_and_goes_on_in_its_session(tmp_path: Path, agent: str) -> None:
    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        return {"structured": NOTHING_TO_DO} if conversation.turns > 1 else {"bash": "cat README.md"}

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        document = await scene.resolve()
        first, second = await jobs_of(scene, document["run"])
        await scene.app.home.close()
    assert document["outcome"] == "declined", document["reason"]
    assert (first.ending, second.ending) == ("cancelled", "exited")
    assert first.branch == second.branch and (first.turn, second.turn) == (1, 2)
    assert "over and over" in model.asked[-1].prompt


@real_agents
@BOTH
async def test_a_job_that_was_lost_goes_on_in_its_own_session_and_files(tmp_path: Path, agent: str) -> None:
    gate, seen = Gate(), []

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        if conversation.turns == 1:
            return gate.play(conversation, step)
        seen.append(conversation.last_input if step else "")
        return {"bash": "cat seen.txt"} if step == 0 else {"structured": NOTHING_TO_DO}

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        run = await scene.submit()
        working = asyncio.create_task(scene.go_on(run))
        await gate.reached(1)
        (started,) = scene.state.glob("jobs/*.ask.*/started")
        os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
        document = await working
        gate.open()
        jobs = await jobs_of(scene, run)
        await scene.app.home.close()
    assert document["outcome"] == "declined", document["reason"]
    assert [job.state for job in jobs] == ["lost", "ended"]
    # What the lost one had written is there, and what it had been told is remembered.
    assert "seen" in seen[-1] and any("interrupted" in one.prompt for one in model.asked)


@real_agents
async def test_a_run_that_spent_its_money_asks_before_it_spends_more(tmp_path: Path) -> None:
    dear = {"usage": {"in": 100_000, "out": 10_000}}
    steps = [{"bash": "ls", **dear}, {"structured": NOTHING_TO_DO, **dear}]
    with ScriptedModel(by_step({"analyze": steps})) as model:
        scene = await staged(tmp_path, model, "limits.cost_usd = 0.6", roles=("claude", "claude"))
        document = await scene.resolve()
        run, journal = document["run"], await scene.app.home.journal()
        (asked,) = [one for one in await journal.decisions(run) if one.answer is None]
        warned = await scene.events(run, "budget_warned")
        before = len(model.asked)
        await journal.decide(run, asked.question.key, Choice(answer="go on", by="maintainer", at=0.0))
        await scene.go_on(run)
        spent = sum(job.usage.usd for job in await jobs_of(scene, run))
        await scene.app.home.close()
    assert document["outcome"] == "waiting" and asked.question.choices == ("go on", "stop")
    assert warned and spent > 0.6
    assert len(model.asked) > before


@real_agents
async def test_another_takes_the_place_of_an_agent_only_where_a_person_said_so(tmp_path: Path) -> None:
    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        refused = {"fail": {"status": 401, "times": "always"}}
        return {"structured": NOTHING_TO_DO} | (refused if conversation.api == "messages" else {})

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, 'agents.claude.fallback = "codex"', roles=("claude", "claude"))
        document = await scene.resolve()
        told, *more = await scene.events(document["run"], "agent_replaced")
        assert not more, (told, more)
        jobs = await jobs_of(scene, document["run"])
        await scene.app.home.close()
    assert document["outcome"] == "declined", document["reason"]
    assert (told.event.agent, told.event.by) == ("claude", "codex") and "refused" in told.event.reason
    assert [job.agent for job in jobs] == ["claude", "codex"]


@real_agents
async def test_a_reviewer_of_the_authors_family_is_said_or_refused_as_policy_has_it(tmp_path: Path) -> None:
    with ScriptedModel([]) as model:
        warned = await staged(tmp_path / "warned", model, roles=("claude", "claude"))
        refused = await staged(tmp_path / "refused", model, 'policy.same_family = "refuse"', roles=("claude", "claude"))
        _, said = await warned.app.submit(await warned.submission())
        with pytest.raises(ConfigError, match="family anthropic"):
            await refused.submit()
        assert not await (await refused.app.home.journal()).runs()
        for scene in (warned, refused):
            await scene.app.home.close()
    assert any("family anthropic" in line for line in said)


@real_agents
@BOTH
async def test_a_cancelled_run_leaves_no_process_of_its_agent(tmp_path: Path, agent: str) -> None:
    gate = Gate()
    with ScriptedModel(by_step({"analyze": gate.play})) as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        run = await scene.submit()
        working = asyncio.create_task(scene.go_on(run))
        await gate.reached(1)
        (started,) = scene.state.glob("jobs/*.ask.*/started")
        supervisor = os.pidfd_open(json.loads(started.read_text())["pid"])
        await Session(scene.app.home).cancel(run)
        document = await working
        gate.open()
        os.close(supervisor)
        await scene.app.home.close()
    assert document["outcome"] == "cancelled"
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _bytes(path)]
    assert [path for path in left if b"nursery" not in _bytes(path)] == []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
