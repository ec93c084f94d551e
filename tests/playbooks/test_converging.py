"""Loops that come to an end: who made what is found, what comes back, what may wait, and when a person is asked."""

from itertools import pairwise
from typing import Any

import pytest

from resolvent.errors import UsageError
from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .looking import asked, files_of, pulls, shut_gates, upstream
from .scenes import ANALYZE, CLEAN, IMPLEMENT, claim, findings, placed, triage

# What is executed and what follows from it knows nothing of forges.
ON_ANY_FORGE = True

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


# What is examined once more

ODD = claim("it is odd", None)


async def test_a_fix_that_brings_back_files_which_were_reviewed_before_brings_back_what_was_found_in_them(
    stage: Stage,
) -> None:
    first = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "other.txt": "odd\n"})
    reviews = [
        scene("review", findings(ODD), holds={"other.txt": "odd"}),
        scene("review", findings(claim("it is worse", None)), holds={"other.txt": "worse"}),
    ]
    fixes = [
        scene("fix", "FIX_SUCCESS", write={"other.txt": f"{word}\n"}, when=[f"(round {number})"])
        for number, word in enumerate(("worse", "odd", "fine"), start=1)
    ]
    played = await stage.play([ANALYZE, first, *reviews, CLEAN, *HERE, *fixes])
    run = played.document["run"]
    assert (played.outcome, played.document["rounds"]) == ("proven", 3)
    assert len(await asked(stage, run, "review")) == 3 and len(await asked(stage, run, "verify")) == 2
    found = [(one["id"], one["title"], one["triage"]) for one in played.document["findings"]]
    assert found[2] == ("F3", "it is odd", "FIX_IN_THIS_PR") and len(found) == 3
    (back,) = [one for one in await (await stage.app.home.journal()).findings(run) if one.repeats]
    assert (back.id, back.repeats, back.created_in_round) == ("F3", "F1", 2)


async def test_a_rule_speaks_once_of_one_commit_though_it_is_examined_again(set_stage: SetStage) -> None:
    stage = await set_stage("policy.minimise=remove")
    await upstream(stage, TESTS)
    grows = {"more.txt": "more\n" * 200, "tests/test_value.py": WEAKER}
    carping = scene("review", findings(ODD))
    played = await stage.play([ANALYZE, IMPLEMENT, carping, *HERE, scene("fix", "FIX_SUCCESS", write=grows)])
    assert played.document["decision"]["key"] == "converge:1"
    assert [one["id"] for one in played.document["findings"]] == ["F1", "F2"]


async def test_what_was_done_for_an_argument_is_not_taken_out_because_nothing_executed_needs_it(
    set_stage: SetStage,
) -> None:
    stage = await set_stage("policy.minimise=remove")
    first = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "other.txt": "odd\n"})
    later = CLEAN | {"when": ["was reviewed before"]}
    careful = scene("fix", "FIX_SUCCESS", write={"careful.txt": "careful\n"})
    played = await stage.play([ANALYZE, first, later, scene("review", findings(ODD)), *HERE, careful])
    assert (played.outcome, played.document["rounds"]) == ("proven", 1)
    assert "careful.txt" in await files_of(stage, played.document["change"])


@pytest.mark.spec("X7")
async def test_whoever_is_asked_about_a_loop_finds_the_receipt_on_the_pull_request(stage: Stage) -> None:
    played = await stage.play(SPINNING)
    number = played.document["pull_request"]["number"]
    (receipt,) = [one.body for one in await stage.comments(f"pr-{number}") if "## Evidence" in one.body]
    head = (await pulls(stage))[0].head_commit
    assert played.outcome == "waiting" and "⛔ **The gate is shut.**" in receipt and f"Commit `{head}`" in receipt
    assert "- ⛔ finding F3 (P1) must be fixed here: three is broken" in receipt
