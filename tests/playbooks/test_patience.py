"""Agents that are away in the middle of a conversation: who is waited for, how often, and who is asked anew."""

import json
import sys
from pathlib import Path

import pytest

from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .scenes import ANALYZE, CLEAN, IMPLEMENT
from .test_waiting import impatient


async def test_an_agent_that_is_busy_when_it_is_to_say_it_again_is_waited_for(stage: Stage) -> None:
    garbled = scene("analyze", "I have seen it.", turn=1)
    busy = scene("analyze", "rate limit reached", turn=2, exit=1)
    run = await stage.submit()
    again = ANALYZE | {"turn": 3}
    played = await stage.go_on(run, scenes=[garbled, busy, again, IMPLEMENT, CLEAN], adjust=impatient)
    assert played.outcome == "proven", played.document
    assert [start.split()[:2] for start in played.starts][:3] == [["analyze", turn] for turn in "123"]


async def test_one_that_stays_away_is_waited_for_once_in_a_run_where_another_takes_its_place(
    set_stage: SetStage, tmp_path: Path
) -> None:
    stage = await set_stage(
        'agents.author.fallback="spare"',
        'agents.spare.use="scripted"',
        f'agents.spare.command=["{tmp_path / "story.json"}"]',
    )
    away = [scene(step, "rate limit reached", exit=1) for step in ("analyze", "implement")]
    instead = [one | {"try": "spare-1"} for one in (ANALYZE, IMPLEMENT)]
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[*instead, *away, CLEAN], adjust=impatient)
    assert played.outcome == "proven", played.document
    jobs = [job for job in await (await stage.app.home.journal()).jobs(run) if job.agent]
    asked = [(job.name, job.agent) for job in jobs]
    assert asked == [
        *[("analyze", "author")] * 3,
        ("analyze", "spare"),
        ("implement", "author"),
        ("implement", "spare"),
        ("review", "reviewer"),
    ]


async def test_what_is_to_be_said_again_is_asked_anew_where_the_session_is_gone(set_stage: SetStage) -> None:
    program = json.dumps([sys.executable, str(Path(__file__).parents[1] / "contract/acp_agent.py"), "loses"])
    stage = await set_stage('agents.writer="tiny"', 'agents.tiny.use="acp"', f"agents.tiny.command={program}")
    run = await stage.submit()
    played = await stage.go_on(run)
    jobs = [job for job in await (await stage.app.home.journal()).jobs(run) if job.agent]
    assert (played.outcome, [job.turn for job in jobs]) == ("declined", [1, 2, 3]), played.document


@pytest.mark.spec("A14")
@pytest.mark.parametrize(("usd", "warned"), [(0.79, []), (0.8, [("run", 0.8, 1.0)])])
async def test_four_fifths_of_what_a_run_may_cost_are_warned_of(
    set_stage: SetStage, usd: float, warned: list[tuple[str, float, float]]
) -> None:
    stage = await set_stage("limits.cost_usd=1.0")
    played = await stage.play([scene("analyze", "VERDICT=INVALID", usage={"usd": usd})])
    told = [one.event for one in await (await stage.app.home.journal()).events(played.document["run"])]
    assert [(one.scope, one.spent_usd, one.limit_usd) for one in told if one.event == "budget_warned"] == warned
    assert played.outcome == "declined"
