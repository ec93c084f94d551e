"""A model that is full, away or strict: nothing fails that will heal, and nothing waits that will not."""

import asyncio
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from resolvent.testing.model import DemoModel, ScriptedModel
from resolvent.testing.model.playbook import by_step
from resolvent.working import Session

from .scene import KEYS, NOTHING_TO_DO, real_agents, staged

LOOKING = {"analyze": [{"bash": "ls"}, {"structured": NOTHING_TO_DO}]}
RESET_S = 3.0


def pauses(model: ScriptedModel) -> list[float]:
    """Seconds between one request and the next."""
    times = [seen.at for seen in model.log]
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.spec("A12")
@real_agents
@pytest.mark.parametrize(("agent", "kind"), [("claude", "rate"), ("claude", "quota"), ("codex", "rate")])
async def test_nothing_is_asked_before_the_limit_resets_and_the_run_goes_on_by_itself(
    tmp_path: Path, agent: str, kind: str
) -> None:
    with ScriptedModel(by_step(LOOKING)) as model:
        model.disturb({"limit": {"seconds": RESET_S, "kind": kind}})
        scene = await staged(tmp_path, model, roles=(agent, agent))
        document = await scene.resolve()
        parked = await scene.events(document["run"], "agent_parked")
        finished = await scene.events(document["run"], "step_finished")
        await scene.app.home.close()
    assert document["outcome"] == "declined", document["reason"]
    assert len(parked) == 1 and all(one.event.state == "done" for one in finished)
    refused = [seen for seen in model.log if seen.fault == "limit"]
    after = [seen for seen in model.log if seen.at > refused[0].at]
    assert len(refused) == 1 and after[0].at - refused[0].at >= RESET_S - 0.1, pauses(model)


@real_agents
async def test_a_whole_run_is_proven_through_a_limit_of_three_seconds(tmp_path: Path) -> None:
    with DemoModel() as model:
        scene = await staged(tmp_path, model)
        run = await scene.submit()
        working = asyncio.create_task(scene.go_on(run))
        await model.requests(4)
        struck = time.time()
        model.disturb({"limit": {"seconds": RESET_S}})
        document = await working
        parked = await scene.events(run, "agent_parked")
        finished = await scene.events(run, "step_finished")
        await scene.app.home.close()
    assert document["outcome"] == "proven", document["reason"]
    assert parked and all(one.event.state == "done" for one in finished)
    first = next(seen for seen in model.log if seen.fault == "limit")
    quiet = [seen for seen in model.log if first.at + 0.5 < seen.at < first.at + RESET_S - 0.1]
    assert first.at >= struck and quiet == []


@pytest.mark.spec("A12", "A15")
@real_agents
@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_wrong_key_is_a_question_at_once_and_the_answer_goes_on(tmp_path: Path, agent: str) -> None:
    right = KEYS["ANTHROPIC_API_KEY" if agent == "claude" else "OPENAI_API_KEY"]
    with ScriptedModel(by_step(LOOKING), key="another-key-than-ours") as model:
        scene = await staged(tmp_path, model, roles=(agent, agent))
        begun = time.monotonic()
        document = await scene.resolve()
        took = time.monotonic() - begun
        asked = [one for one in await (await scene.app.home.journal()).decisions(document["run"]) if one.answer is None]
        refusals = len([seen for seen in model.log if not seen.key_came])
        await scene.app.home.close()
    assert document["outcome"] == "waiting" and took < 20
    # What to type stands apart from what is wrong.
    assert re.search(r"[^.] \(next: export \w+=.*\)$", asked[0].question.text), asked[0].question.text
    assert right not in asked[0].question.text
    assert asked[0].question.choices == ("retry", "stop") and refusals <= 2


@pytest.mark.spec("A12")
@real_agents
async def test_one_agent_that_must_wait_holds_back_all_of_its_account(tmp_path: Path) -> None:
    with ScriptedModel(by_step(LOOKING)) as model:
        model.disturb({"limit": {"seconds": RESET_S}})
        scene = await staged(tmp_path, model, "limits.agents=1", roles=("claude", "claude"))
        runs = [await scene.submit() for _ in range(3)]
        await Session(scene.app.home).serve_until_idle()
        documents = [await scene.app.document(run) for run in runs]
        await scene.app.home.close()
    assert [document["outcome"] for document in documents] == ["declined"] * 3
    # The second and the third were not even sent to be refused.
    assert len([seen for seen in model.log if seen.fault == "limit"]) == 1


@real_agents
async def test_a_run_that_waits_for_its_model_is_cancelled_at_once(tmp_path: Path) -> None:
    with ScriptedModel(by_step(LOOKING)) as model:
        model.disturb({"limit": {"seconds": 600}})
        scene = await staged(tmp_path, model, roles=("claude", "claude"))
        run = await scene.submit()
        working = asyncio.create_task(scene.go_on(run))
        journal = await scene.app.home.journal()
        seen = 0
        while not await scene.events(run, "agent_parked"):
            seen = await journal.changed(since=seen)
        begun = time.monotonic()
        await Session(scene.app.home).cancel(run)
        document = await working
        await scene.app.home.close()
    assert document["outcome"] == "cancelled" and time.monotonic() - begun < 10


@real_agents
@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_limit_that_nobody_says_the_end_of_is_waited_for_longer_each_time_and_then_a_question(
    tmp_path: Path, agent: str
) -> None:
    with ScriptedModel(by_step(LOOKING)) as model:
        model.disturb({"fail": {"status": 429, "times": "always"}})
        scene = await staged(tmp_path, model, "limits.patience = 5", roles=(agent, agent))
        document = await asyncio.wait_for(scene.resolve(), 60)
        parked = [one.event.until for one in await scene.events(document["run"], "agent_parked")]
        jobs = [job for job in await (await scene.app.home.journal()).jobs(document["run"]) if job.agent]
        await scene.app.home.close()
    assert document["outcome"] == "waiting"
    # One second, two, four: then patience is over.
    assert len(parked) == 3 and len(jobs) == 4
    waits = [later - earlier for earlier, later in pairwise(parked)]
    assert waits[0] >= 2 and waits[1] >= 4, waits
