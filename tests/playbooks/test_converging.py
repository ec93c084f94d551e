"""Loops that come to an end: who made what is found, what comes back, what may wait, and when a person is asked."""

from itertools import pairwise
from typing import Any

import pytest

from resolvent.errors import UsageError
from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .looking import asked, pulls, shut_gates, upstream
from .scenes import ANALYZE, CLEAN, IMPLEMENT, claim, findings, placed, triage

# Every fix mends one file and breaks the next: the reviewer sees each of them, and can show it.
NAMES = ("one", "two", "three", "four", "five")


def breaks(name: str, after: str) -> dict[str, Any]:
    return scene(
        "fix", "FIX_SUCCESS", write={f"{after}.txt": "fine\n", f"{name}.txt": "broken\n"}, when=[f"| {after} "]
    )


def sees(name: str) -> dict[str, Any]:
    shows = f"! grep -q broken {name}.txt 2>/dev/null || {{ echo {name} is broken; exit 1; }}"
    said = findings(claim(f"{name} is broken", shows).replace("value.txt:1", f"{name}.txt:1"))
    return scene("review", said, holds={f"{name}.txt": "broken"})


FIRST = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "one.txt": "broken\n"})
HERE = [scene("verify", triage(here=(placed(f"F{n}", "FIX_IN_THIS_PR"),)), when=[f"## F{n} "]) for n in range(1, 6)]
SPINNING = [
    ANALYZE,
    FIRST,
    *(breaks(name, after) for after, name in pairwise(NAMES)),
    *map(sees, NAMES),
    *HERE,
]


@pytest.mark.spec("T9", "T11")
async def test_a_loop_whose_every_fix_makes_a_new_bug_stops_within_three_rounds_with_the_numbers(stage: Stage) -> None:
    played = await stage.play(SPINNING)
    run = played.document["run"]
    assert played.outcome == "waiting" and len(await asked(stage, run, "fix")) == 2
    question = played.document["decision"]
    assert question["key"] == "converge:2" and question["choices"] == ["continue", "stop"]
    assert "2 fix rounds; 2 findings since the first fix, 2 of them (100%) made by a fix" in question["text"]
    assert [one["created_in_round"] for one in played.document["findings"]] == [0, 1, 2]
    await stage.app.decide(run, "stop", by="maintainer")
    played = await stage.go_on(run)
    assert played.outcome == "escalated" and "does not converge: 2 fix rounds" in played.document["reason"]


async def test_a_person_may_let_it_go_on(stage: Stage) -> None:
    played = await stage.play(SPINNING)
    await stage.app.decide(played.document["run"], "continue", by="maintainer")
    played = await stage.go_on(played.document["run"])
    assert played.document["decision"]["key"] == "converge:3"


async def test_findings_that_keep_coming_back_are_a_persons_question(stage: Stage) -> None:
    carping = scene("review", findings(claim("it could be nicer", None)))
    nicer = [
        scene("fix", "FIX_SUCCESS", write={"other.txt": f"nicer {n}\n"}, when=[f"(round {n})"]) for n in range(1, 6)
    ]
    played = await stage.play([ANALYZE, IMPLEMENT, carping, *HERE, *nicer])
    assert played.outcome == "waiting" and "2 back again" in played.document["decision"]["text"]


@pytest.mark.spec("T11")
async def test_first_what_is_only_argued_is_put_off(stage: Stage) -> None:
    def doubts(n: int) -> dict[str, Any]:
        return scene("review", findings(claim(f"doubt {n}", None).replace("value.txt:1", "other.txt:1")), when=[])

    reviews = [doubts(n) | {"holds": {"other.txt": f"doubtful {n}"}} for n in range(1, 4)]
    first = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "other.txt": "doubtful 1\n"})
    fixes = [
        scene("fix", "FIX_SUCCESS", write={"other.txt": f"doubtful {n + 1}\n"}, when=[f"(round {n})"]) for n in (1, 2)
    ]
    played = await stage.play([ANALYZE, first, *reviews, *HERE, *fixes])
    assert (played.outcome, played.document["rounds"]) == ("proven", 2)
    last = played.document["findings"][-1]
    assert last["triage"] == "DEFER_CREATE_ISSUE" and last["issue"] and last["created_in_round"] == 2
    assert [one["triage"] for one in played.document["findings"][:2]] == ["FIX_IN_THIS_PR"] * 2


@pytest.mark.spec("T10")
async def test_a_later_review_sees_what_changed_and_what_was_open(stage: Stage) -> None:
    played = await stage.play(
        [*SPINNING[:2], breaks("two", "one") | {"write": {"one.txt": "fine\n"}}, sees("one"), *HERE, CLEAN]
    )
    run = played.document["run"]
    first, second = await asked(stage, run, "review")
    head = (await pulls(stage))[0].head_commit
    assert played.outcome == "proven"
    assert "was reviewed before" not in first
    assert "was reviewed before" in second and "| one is broken" in second and "git diff" in second and head in second


# Checks that say less than before

TESTS = {
    "tests/test_value.py": (
        "def test_value():\n    assert open('value.txt').read() == 'good\\n'\n\n\n"
        "def test_other():\n    assert open('other.txt').read()\n"
    )
}
WEAKER = "def test_other():\n    assert open('other.txt').read()\n"


@pytest.fixture
async def tested(set_stage: SetStage) -> Stage:
    stage = await set_stage()
    await upstream(stage, TESTS)
    return stage


DELETES = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "tests/test_value.py": WEAKER})
RESTORES = scene("fix", "FIX_SUCCESS", write=TESTS)
INSISTS = scene("fix", "FIX_SUCCESS", write={"other.txt": "something\n"})


@pytest.mark.spec("E12")
async def test_a_change_that_removes_a_test_is_sent_back_before_anybody_reviews_it(tested: Stage) -> None:
    played = await tested.play([ANALYZE, DELETES, CLEAN, RESTORES])
    run = played.document["run"]
    assert (played.outcome, len(await asked(tested, run, "review"))) == ("proven", 1)
    (found,) = played.document["findings"]
    assert (found["rule"], found["basis"], found["triage"]) == ("removed-test", "executed", "FIX_IN_THIS_PR")
    assert "rule removed-test" in played.prompts["fix"] and "only a person can allow it" in played.prompts["fix"]


@pytest.mark.spec("E12")
async def test_no_agent_can_dismiss_it_and_a_person_only_with_a_reason_that_is_posted(tested: Stage) -> None:
    played = await tested.play([ANALYZE, DELETES, CLEAN, INSISTS])
    run = played.document["run"]
    assert played.outcome == "waiting" and played.document["decision"]["choices"] == ["dismiss", "fix", "stop"]
    with pytest.raises(UsageError, match="needs a reason"):
        await tested.app.decide(run, "dismiss", by="maintainer")
    await tested.app.decide(run, "dismiss", by="maintainer", reason="the value is free now, @everybody")
    played = await tested.go_on(run)
    assert played.outcome == "proven"
    number = played.document["pull_request"]["number"]
    (posted,) = [one.body for one in await tested.comments(f"pr-{number}") if "dismissed by a person" in one.body]
    assert "`maintainer`" in posted and "the value is free now" in posted and "removed-test" in posted


async def test_a_person_may_also_stop_there(tested: Stage) -> None:
    played = await tested.play([ANALYZE, DELETES, CLEAN, INSISTS])
    await tested.app.decide(played.document["run"], "stop", by="maintainer")
    played = await tested.go_on(played.document["run"])
    assert played.outcome == "escalated" and played.document["reason"] == "test integrity: removed-test"
    assert await shut_gates(tested, played.document["run"]) == []
