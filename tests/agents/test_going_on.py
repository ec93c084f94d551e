"""Agents that are stuck, lost, too dear or away: who goes on, where, and what a person is asked."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from resolvent.domain.decision import Choice
from resolvent.errors import ConfigError
from resolvent.testing.demo import sample_issue
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


async def answered(scene: Scene, run: str, answer: str) -> dict[str, Any]:
    """What comes of a run after a person answered the one thing that it asked."""
    journal = await scene.app.home.journal()
    (asked,) = [one for one in await journal.decisions(run) if one.answer is None]
    assert asked.question.choices == (answer, "stop"), asked.question
    await journal.decide(run, asked.question.key, Choice(answer=answer, by="maintainer", at=0.0))
    return await scene.go_on(run)


def sessions_of(scene: Scene, jobs: list[Any]) -> list[str]:
    """The session that each job says it is in."""
    words = re.compile(r'"(?:session_id|thread_id)":\s*"([0-9a-f-]{36})"')
    return [words.findall(scene.app.home.jobs().output(job.id).read_text())[0] for job in jobs]


@pytest.mark.spec("A14")
@real_agents
async def test_a_run_that_spent_its_money_asks_before_it_spends_more(tmp_path: Path) -> None:
    dear, cheap = {"usage": {"in": 100_000, "out": 10_000}}, {"usage": {"in": 20_000, "out": 0}}
    heard: list[Conversation] = []

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        heard.append(conversation)
        if conversation.turns == 1:
            return {"bash": "echo seen > seen.txt", **dear}
        return {"bash": "cat seen.txt", **cheap} if step == 0 else {"structured": NOTHING_TO_DO, **cheap}

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, "limits.cost_usd = 0.6", roles=("claude", "claude"))
        document = await scene.resolve()
        run = document["run"]
        warned = await scene.events(run, "budget_warned")
        (first,) = await jobs_of(scene, run)
        # The one grant is enough: it is what the rest may cost, not what the whole session may.
        after = await answered(scene, run, "go on")
        jobs = await jobs_of(scene, run)
        sessions = sessions_of(scene, jobs)
        await scene.app.home.close()
    assert document["outcome"] == "waiting" and warned and first.usage.usd == pytest.approx(0.6)
    assert after["outcome"] == "declined", after["reason"]
    # It goes on where it was: with its first question in its memory, what it wrote in its files, and nothing again.
    assert len(jobs) == 2 and sessions[0] == sessions[1] and jobs[0].private == jobs[1].private
    assert [(one.turns, one.turn_steps) for one in heard] == [(1, 0), (2, 0), (2, 1)]
    assert heard[0].prompt in heard[1].user_text and "seen" in heard[2].last_input
    assert [job.usage.usd for job in jobs] == pytest.approx([0.6, 0.16])


@real_agents
@BOTH
async def test_after_another_key_the_agent_knows_what_it_was_asked(tmp_path: Path, agent: str) -> None:
    asked = []

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        asked.append(conversation.user_text)
        return {"structured": NOTHING_TO_DO, **({"fail": {"status": 401, "times": 9}} if len(asked) == 1 else {})}

    with ScriptedModel(by_step({"analyze": play})) as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        document = await scene.resolve()
        after = await answered(scene, document["run"], "retry")
        jobs = await jobs_of(scene, document["run"])
        await scene.app.home.close()
    assert document["outcome"] == "waiting" and after["outcome"] == "declined", after["reason"]
    assert len(jobs) == 2 and sample_issue()[0] in asked[0] and sample_issue()[0] in asked[-1]


@real_agents
@BOTH
async def test_an_answer_that_was_left_before_the_interruption_is_no_answer_after_it(
    tmp_path: Path, agent: str
) -> None:
    gate = Gate()
    stale = json.dumps(NOTHING_TO_DO | {"reason": "not thought through"})

    def play(conversation: Conversation, step: int) -> dict[str, Any]:
        if conversation.turns == 1:
            said = gate.play(conversation, step)
            return {"bash": f"echo '{stale}' > $RESOLVENT_ANSWER"} if step == 0 else said
        if "could not be read" in conversation.prompt:
            return {"structured": NOTHING_TO_DO}
        return {"text": "I went on, and here is what I think."}

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
    assert NOTHING_TO_DO["reason"] in document["reason"] and "thought through" not in document["reason"]
    assert [(job.state, job.turn) for job in jobs] == [("lost", 1), ("ended", 1), ("ended", 2)]


@pytest.mark.spec("A15")
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
@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (("claude", "codex"), "codex reviews what codex (instead of claude) writes, and both are of the family openai"),
        (
            ("codex", "claude"),
            "codex (instead of claude) reviews what codex writes, and both are of the family openai",
        ),
    ],
)
async def test_who_takes_a_place_is_held_to_the_same_policy(tmp_path: Path, roles: tuple[str, str], said: str) -> None:
    fallback = 'agents.claude.fallback = "codex"'
    with ScriptedModel([]) as model:
        warned = await staged(tmp_path / "warned", model, fallback, roles=roles)
        refused = await staged(tmp_path / "refused", model, fallback, 'policy.same_family = "refuse"', roles=roles)
        _, told = await warned.app.submit(await warned.submission())
        with pytest.raises(ConfigError) as caught:
            await refused.submit()
        assert not await (await refused.app.home.journal()).runs()
        for scene in (warned, refused):
            await scene.app.home.close()
    assert caught.value.message == said and told == (f"{said}: it may overlook the same things",)


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
