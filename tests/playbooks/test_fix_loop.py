"""The loop: fixes follow each other from the anchor onto one pull request, until it is clean or a person stops it."""

from itertools import pairwise

import pytest

from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .looking import agents, asked, files_of, lineage, pulls, pushed
from .scenes import (
    ANALYZE,
    BREAKING,
    BREAKS,
    CLEAN,
    FIX,
    IMPLEMENT,
    LONG_STORY,
    claim,
    findings,
    placed,
    triage,
)

# A reviewer who is never content, and a writer who changes something every time.
CARPING = scene("review", findings(claim("it could be nicer", None)))
AGREED = [scene("verify", triage(here=(placed(f"F{n}", "FIX_IN_THIS_PR"),)), when=[f"## F{n} "]) for n in range(1, 6)]
NICER = [scene("fix", "FIX_SUCCESS", write={"other.txt": f"nicer {n}\n"}, when=[f"(round {n})"]) for n in range(1, 6)]
ENDLESS = [ANALYZE, IMPLEMENT, CARPING, *AGREED, *NICER]


@pytest.mark.conforms("S0.20", "S0.30", "S0.32", "S0.33", "S0.34", "S0.46", "S1.19", "S1.25", "S1.27")
async def test_later_fixes_move_the_anchor_one_at_a_time_and_nothing_else_does(stage: Stage) -> None:
    breaks_again = scene("fix", "FIX_SUCCESS", write={"other.txt": "broken again\n"}, when=["(round 1)"])
    again = scene("verify", triage(here=(placed("F4", "FIX_IN_THIS_PR"),)), when=["## F4 "])
    found_again = scene("review", findings(BREAKS), holds={"other.txt": "broken again"})
    played = await stage.play([breaks_again, again, found_again, *LONG_STORY])
    run = played.document["run"]
    assert (played.outcome, played.document["rounds"]) == ("proven", 2)
    assert await lineage(stage, run) == {
        "analyze": "base",
        "implement": "analyze",
        "review": "implement",
        "review 2": "implement",
        "verify": "implement",
        "fix": "implement",
        "review 3": "fix",
        "verify 2": "fix",
        "fix 2": "fix",
        "review 4": "fix 2",
    }
    edits = [step for step in await (await stage.app.home.journal()).steps(run) if step.verb == "edit"]
    assert [step.name for step in edits] == ["implement", "fix", "fix"]
    assert all(one.ended_at is not None and one.ended_at <= other.started_at for one, other in pairwise(edits))
    (pull,) = await pulls(stage)
    assert pull.head_commit == played.document["change"]


@pytest.mark.conforms("S0.32", "S1.24", "S0.29")
async def test_a_fix_is_told_what_is_in_scope_and_only_that(stage: Stage) -> None:
    played = await stage.play(LONG_STORY)
    prompt, pull = played.prompts["fix"], (await pulls(stage))[0]
    assert f"Fix what blocks pull request #{pull.number} (round 1)" in prompt and pull.head in prompt
    assert "## F1 (P1)\n| other.txt was changed" in prompt and "| value.txt:1 says so" in prompt
    assert "| grep -q same other.txt" in prompt and "| this change did it" in prompt
    assert "F2" not in prompt and "F3" not in prompt and "The gate is shut" not in prompt
    assert all(f"{number}. " in prompt for number in range(1, 11))
    told = ["Open no other pull request", "Introduce nothing new", "Read your own diff", "smallest relevant\nbuild"]
    assert all(words in prompt for words in told)
    assert len(await pulls(stage)) == 1


@pytest.mark.conforms("S0.34")
@pytest.mark.spec("G7")
@pytest.mark.parametrize("choice", ["continue", "stop"])
async def test_at_the_cap_a_person_is_asked(set_stage: SetStage, choice: str) -> None:
    stage = await set_stage("policy.max_fix_rounds=1", "policy.recurrences=9")
    run = await stage.submit()
    played = await stage.go_on(run, scenes=ENDLESS)
    assert played.outcome == "waiting"
    assert (played.document["decision"]["key"], len(await asked(stage, run, "fix"))) == ("fix_cap:1", 1)
    await stage.app.decide(run, choice, by="maintainer")
    ended = await stage.go_on(run)
    if choice == "stop":
        assert (ended.outcome, ended.document["reason"], ended.document["rounds"]) == ("escalated", "fix_cap", 1)
    else:
        assert (ended.outcome, ended.document["decision"]["key"]) == ("waiting", "fix_cap:2")
    assert ended.document["pull_request"]["number"] == (await pulls(stage))[0].number
    assert len(await asked(stage, run, "fix")) == (1 if choice == "stop" else 2)


@pytest.mark.conforms("S1.24", "S1.26")
@pytest.mark.spec("W7")
async def test_a_fix_that_lost_its_login_is_pushed_to_the_same_head_and_reviewed(stage: Stage) -> None:
    expired = "GH_AUTH_EXPIRED\nLOCAL_COMMIT=0123456789abcdef0123456789abcdef01234567\nRETRY_PUSH_BRANCH=elsewhere"
    played = await stage.play([FIX | {"say": f"{expired}\n"}, *LONG_STORY])
    assert (played.outcome, played.document["rounds"]) == ("proven", 1)
    (pull,) = await pulls(stage)
    assert (pull.head, pull.head_commit) == ("resolvent/issue-1", played.document["change"])
    assert (await files_of(stage, pull.head_commit))["other.txt"] == "same"
    assert [step for step, _ in await agents(stage, played.document["run"])][-2:] == ["fix", "review"]
    assert await (await stage.hub()).head_of("elsewhere") is None


@pytest.mark.spec("G9")
async def test_a_fix_that_changed_nothing_escalates_and_shows_how_far_it_came(stage: Stage) -> None:
    played = await stage.play([FIX | {"write": {}}, *LONG_STORY])
    assert played.outcome == "escalated"
    assert played.document["reason"].startswith("no_change")
    (pull,) = await pulls(stage)
    assert (played.document["pull_request"]["number"], played.document["change"]) == (pull.number, pull.head_commit)


@pytest.mark.conforms("S0.48")
async def test_a_fix_that_fails_leaves_the_pull_request_where_it_was(stage: Stage) -> None:
    played = await stage.play([scene("fix", "it burns", exit=3, write={"value.txt": "half"}), *LONG_STORY])
    run = played.document["run"]
    assert played.outcome == "escalated"
    assert f"(branch {run}/edit:fix@" in played.document["reason"] and "it burns" in played.document["reason"]
    (pull,) = await pulls(stage)
    assert played.document["pull_request"]["number"] == pull.number
    assert played.document["change"] == pull.head_commit
    assert (await files_of(stage, pull.head_commit))["value.txt"] == "good"


@pytest.mark.conforms("S0.46")
@pytest.mark.spec("X4")
async def test_what_somebody_pushed_meanwhile_is_never_overwritten(set_stage: SetStage) -> None:
    stage = await set_stage("policy.max_fix_rounds=0")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=LONG_STORY)).outcome == "waiting"
    theirs = await pushed(stage, {"mine.txt": "mine\n"}, head="resolvent/issue-1")
    await stage.app.decide(run, "continue", by="maintainer")
    ended = await stage.go_on(run)
    assert ended.outcome == "escalated"
    assert ended.document["reason"].startswith("HeadMoved")
    assert (await pulls(stage))[0].head_commit == theirs


async def test_a_fix_the_agent_pushed_itself_is_taken_when_it_holds_the_same_files(set_stage: SetStage) -> None:
    stage = await set_stage("policy.max_fix_rounds=0")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=[ANALYZE, BREAKING, *LONG_STORY[2:]])).outcome == "waiting"
    await pushed(stage, {"other.txt": "same\n"}, head="resolvent/issue-1")
    await stage.app.decide(run, "continue", by="maintainer")
    ended = await stage.go_on(run, scenes=[CLEAN | {"holds": {"other.txt": "same"}}, *LONG_STORY])
    assert (ended.outcome, ended.document["change"]) == ("proven", (await pulls(stage))[0].head_commit)
