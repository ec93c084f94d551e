"""Patience: agents may take hours, a world that is down is asked again, and one that stays down is a question."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from resolvent.adapters.agents.command import CommandAgent
from resolvent.domain.job import JobExit, Task
from resolvent.domain.record import AgentChoice
from resolvent.engine.world import Backoff, World
from resolvent.errors import AgentBusy, AgentFailed, AgentTimedOut
from resolvent.settings_sections import Settings
from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .looking import files_of, lineage, pulls
from .scenes import ANALYZE, CLEAN, IMPLEMENT, LONG_STORY, STORY

TASK = Task(run="r1", step="fix", attempt=1, turn=1, prompt="", json_schema="{}", directory="/gone", inside="/gone")


def impatient(world: World) -> World:
    """The pauses of a second or more are somebody else's test."""
    quick = Backoff(first_s=0.001, tries=3)
    return replace(world, backoff=quick, patience=quick)


@pytest.mark.conforms("S0.47")
async def test_an_agent_may_work_for_two_hours_in_silence(stage: Stage) -> None:
    played = await stage.play(LONG_STORY)
    jobs = await (await stage.app.home.journal()).jobs(played.document["run"])
    limits = {
        job.name: json.loads((stage.app.home.state / "jobs" / job.id / "job.json").read_text())["limits"]
        for job in jobs
        if job.agent
    }
    assert set(limits) == {"analyze", "implement", "review", "verify", "fix"}
    assert all(one["wall_s"] >= 7200 and one["idle_s"] is None for one in limits.values())


@pytest.mark.conforms("S0.7", "S0.13", "S0.17")
def test_by_default_claude_writes_and_codex_reads() -> None:
    assert (Settings().agents.writer, Settings().agents.reader) == ("claude", "codex")


@pytest.mark.conforms("S1.30")
@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("exit", "said"),
    [
        (75, "come back later"),
        (75, ""),
        (1, "Error: read ECONNRESET"),
        (1, "curl: (7) Failed to connect: Connection refused"),
        (1, "request timed out after 60 s"),
        (1, "API Error: 529 {'type': 'overloaded_error'}"),
        (1, "stream error: HTTP 429"),
        (2, "HTTP/1.1 503 Service Unavailable"),
        (2, "status_code=502"),
        (1, "Rate limit reached for requests\nTry again in 20 s"),
        (1, "fork: Resource temporarily unavailable"),
        (137, "Out of memory: killed"),
        (1, "write: No space left on device"),
    ],
)
def test_a_passing_failure_is_told_from_its_last_lines(tmp_path: Path, exit: int, said: str) -> None:
    with pytest.raises(AgentBusy) as raised:
        failed(tmp_path, exit=exit, said=said)
    assert said in raised.value.message


@pytest.mark.conforms("S1.30")
@pytest.mark.parametrize(
    ("exit", "said"),
    [
        (1, "Traceback (most recent call last):\nKeyError: 'x'"),
        (1, "error: unrecognized arguments: --timeout 5"),
        (1, "502 passed, 503 failed"),
        (1, "connection reset by peer\nretried\nthen\nthe model refused"),
        (76, ""),
    ],
)
def test_every_other_failure_is_a_lasting_one(tmp_path: Path, exit: int, said: str) -> None:
    with pytest.raises(AgentFailed, match=f"exit {exit}"):
        failed(tmp_path, exit=exit, said=said)


@pytest.mark.conforms("S1.30")
def test_an_agent_that_was_stopped_by_a_limit_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(AgentTimedOut):
        failed(tmp_path, exit=75, said="connection reset", ending="wall")


def failed(place: Path, *, exit: int, said: str, ending: str = "exited") -> None:
    """What the adapter makes of a process that ended so."""
    (place / "output").write_text("working\n")
    (place / "errors").write_text(said)
    agent = CommandAgent("a", AgentChoice(name="a", use="command", command=("true",)), environment={})
    ended = JobExit.model_validate({"ending": ending, "exit": exit, "started_at": 1, "ended_at": 2, "seconds": 1})
    agent.reply(TASK, ended, place / "output")


@pytest.mark.conforms("S1.30", "S0.15")
@pytest.mark.spec("A7")
@pytest.mark.parametrize("how", [{"exit": 75}, {"exit": 1, "say": "Error: connection reset by peer\n"}])
async def test_a_passing_failure_is_tried_again_from_the_same_parent(stage: Stage, how: dict[str, object]) -> None:
    down = scene("implement", "", **{"try": 1}, write={"value.txt": "half\n", "half.txt": "x"}) | how
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[ANALYZE, down, IMPLEMENT, CLEAN], adjust=impatient)
    assert played.outcome == "proven"
    assert [start.split()[0] for start in played.starts] == ["analyze", "implement", "implement", "review"]
    parents = {"analyze": "base", "implement": "analyze", "implement 2": "analyze", "review": "implement 2"}
    assert await lineage(stage, run) == parents
    left = await files_of(stage, played.document["change"])
    assert (left["value.txt"], "half.txt" in left) == ("good", False)
    assert len(await pulls(stage)) == 1


@pytest.mark.conforms("S1.30")
@pytest.mark.parametrize("choice", ["retry", "stop"])
async def test_an_agent_that_stays_busy_is_a_persons_question(stage: Stage, choice: str) -> None:
    busy = scene("implement", "rate limit reached", exit=1)
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[ANALYZE, busy, CLEAN], adjust=impatient)
    assert played.outcome == "waiting"
    assert "rate limit reached" in played.document["decision"]["text"]
    assert [start.split()[0] for start in played.starts].count("implement") == 3
    await stage.app.decide(run, choice, by="maintainer")
    ended = await stage.go_on(run, scenes=STORY, adjust=impatient)
    assert ended.outcome == ("proven" if choice == "retry" else "escalated")
    assert [start.split()[0] for start in ended.starts].count("implement") == (4 if choice == "retry" else 3)


async def test_a_check_that_does_not_count_is_not_waited_for(set_stage: SetStage) -> None:
    stage = await set_stage("checks.ci_required=false", "checks.ci_wait=3600")
    await (await stage.hub()).require_check("ci")
    played = await stage.play(STORY)
    assert (played.outcome, played.document["gate"]["open"]) == ("proven", True)


@pytest.mark.spec("X5")
def test_the_pauses_before_a_forge_is_asked_again_grow() -> None:
    delays = Backoff().delays()
    assert len(delays) >= 3 and all(earlier < later for earlier, later in pairwise(delays))
