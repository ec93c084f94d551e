"""Evidence that cannot be talked round: variants, the revert check, repeats, size, reach, the head, bisection."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from resolvent.testing.stage import Stage, git, scene

from .conftest import SetStage
from .looking import entry_of, files_of, proposed, pulls, pushed, shut_gates, upstream
from .scenes import ANALYZE, BREAKING, BREAKS, CLEAN, FIX, IMPLEMENT, STORY, design, findings, placed, triage

# What is executed and what follows from it knows nothing of forges.
ON_ANY_FORGE = True

TWIN = {"command": "test -e twin.txt || { echo there is no twin; exit 1; }"}
SETTLED = {"command": "true"}
ABSENT = {"command": "no-such-program"}
MENDED = scene("fix", "FIX_SUCCESS", write={"twin.txt": "good\n"})


def variants(*reproducers: dict[str, Any]) -> dict[str, Any]:
    items = "".join(f"- Variant: another\n  reproducer:\n```json\n{json.dumps(one)}\n```\n" for one in reproducers)
    return scene("variants", f"VARIANTS\nBEGIN_VARIANTS\n{items}END_VARIANTS" if reproducers else "NO_VARIANTS")


def checks(played: Any, name: str) -> list[str]:
    return [one["execution"] for one in played.document["evidence"] if one["check"] == name]


@pytest.mark.spec("E7")
async def test_a_fix_that_only_knows_the_reproducer_does_not_pass_what_a_blind_reader_wrote(
    set_stage: SetStage,
) -> None:
    stage = await set_stage("policy.variants=2")
    played = await stage.play([*STORY, variants(TWIN), MENDED])
    assert (played.outcome, played.document["rounds"]) == ("proven", 1)
    assert await shut_gates(stage, played.document["run"]) == [("variant 1 failed: exit 1, SHOWN",)]
    assert checks(played, "variant 1") == ["SHOWN", "SHOWN", "PASSED"]
    prompt = played.prompts["variants"]
    assert "| The value is bad" in prompt and "grep -q good value.txt" in prompt and "Write 2 other" in prompt
    implemented = (await pulls(stage))[0].head_commit
    assert implemented not in prompt and "git diff" not in prompt


@pytest.mark.spec("E7")
async def test_what_shows_nothing_on_the_base_is_no_variant_and_is_said(set_stage: SetStage) -> None:
    stage = await set_stage("policy.variants=3")
    played = await stage.play([*STORY, variants(SETTLED, ABSENT)])
    assert played.outcome == "proven"
    (note,) = [one for one in played.document["gate"]["notes"] if "variants" in one]
    assert "variant 1 PASSED" in note and "variant 2 BROKEN" in note


async def test_no_more_variants_count_than_were_asked_for(set_stage: SetStage) -> None:
    stage = await set_stage("policy.variants=1")
    played = await stage.play([*STORY, variants({"command": "grep -q good value.txt"}, TWIN)])
    assert played.outcome == "proven" and checks(played, "variant 2") == []


async def test_a_blind_reader_who_says_nothing_usable_is_noted_and_the_run_goes_on(set_stage: SetStage) -> None:
    stage = await set_stage("policy.variants=1")
    played = await stage.play([*STORY, scene("variants", "I could not think of any.")])
    assert played.outcome == "proven"
    assert any(one.startswith("no variants of the reproducer") for one in played.document["gate"]["notes"])


# A test that a change brings along

TESTING = 'checks.test="sh tests/all.sh"'
RUNNER = {"tests/all.sh": "set -e\nfor one in tests/test_*.sh; do sh $one; done\n"}
HONEST = {"tests/test_value.sh": "grep -q good value.txt\n", **RUNNER}
EMPTY = {"tests/test_value.sh": "test -e value.txt\n", **RUNNER}


@pytest.mark.spec("E8")
@pytest.mark.parametrize(("brought", "outcome"), [(HONEST, "proven"), (EMPTY, "escalated")])
async def test_a_new_test_must_fail_without_the_fix(set_stage: SetStage, brought: dict[str, str], outcome: str) -> None:
    stage = await set_stage(TESTING)
    write = {"value.txt": "good\n", **brought}
    stubborn = scene("fix", "FIX_SUCCESS")
    played = await stage.play([ANALYZE, scene("implement", "IMPLEMENTATION_SUCCESS", write=write), CLEAN, stubborn])
    assert played.outcome == outcome
    said = (
        []
        if outcome == "proven"
        else [("revert check: test says PASSED also without the fix, so it does not test it",)]
    )
    assert await shut_gates(stage, played.document["run"]) == said
    (without,) = {one["on"] for one in played.document["evidence"]} - {
        played.document["base"],
        played.document["change"],
    }
    repository = stage.app.home.state / "repo.git"
    assert await git(repository, "show", f"{without}:value.txt") == "bad"
    assert await git(repository, "show", f"{without}:tests/test_value.sh") == brought["tests/test_value.sh"].strip()


@pytest.mark.spec("E10")
async def test_a_change_must_pass_with_the_makefile_of_the_base(tmp_path: Path) -> None:
    overrides = ('checks.test="make -s test"', "policy.variants=0", "policy.minimise=off", "policy.max_fix_rounds=0")
    made = {"value.txt": "bad\n", "other.txt": "same\n", "Makefile": "test:\n\tgrep -q same other.txt\n"}
    stage = await Stage.set_up(tmp_path, files=made, overrides=overrides)
    write = {"value.txt": "good\n", "other.txt": "broken\n", "Makefile": "test:\n\ttest -e other.txt\n"}
    played = await stage.play([ANALYZE, scene("implement", "IMPLEMENTATION_SUCCESS", write=write), CLEAN])
    assert played.outcome == "waiting"
    reasons = [reason for reasons in await shut_gates(stage, played.document["run"]) for reason in reasons]
    assert (
        any(reason.startswith("relaxed checks: test says SHOWN once") for reason in reasons)
        or played.document["findings"]
    )
    await stage.close()


@pytest.mark.spec("E8")
@pytest.mark.parametrize(
    ("more", "outcome"), [("grep -q good value.txt\n", "proven"), ("grep -q same other.txt\n", "escalated")]
)
async def test_what_is_added_to_an_old_test_must_fail_without_the_fix_too(
    set_stage: SetStage, more: str, outcome: str
) -> None:
    stage = await set_stage(TESTING)
    await upstream(stage, EMPTY)
    write = {"value.txt": "good\n", "tests/test_value.sh": EMPTY["tests/test_value.sh"] + more}
    stubborn = scene("fix", "FIX_SUCCESS")
    played = await stage.play([ANALYZE, scene("implement", "IMPLEMENTATION_SUCCESS", write=write), CLEAN, stubborn])
    assert played.outcome == outcome
    assert len(await shut_gates(stage, played.document["run"])) == (outcome != "proven")


@pytest.mark.spec("E10")
@pytest.mark.parametrize(
    ("command", "there", "relaxed"),
    [
        ("sh ./ci.sh", {"ci.sh": "set -e\ngrep -q same other.txt\n"}, {"ci.sh": "set -e\ntest -e other.txt\n"}),
        (
            "make -s test",
            {"Makefile": "test:\n\tgrep -q same other.txt\n"},
            {"GNUmakefile": "test:\n\ttest -e other.txt\n"},
        ),
    ],
)
async def test_a_change_must_pass_with_the_script_of_the_base_that_its_check_runs(
    set_stage: SetStage, command: str, there: dict[str, str], relaxed: dict[str, str]
) -> None:
    stage = await set_stage(f'checks.test="{command}"', "policy.max_fix_rounds=0")
    await upstream(stage, there)
    write = {"value.txt": "good\n", "other.txt": "broken\n", **relaxed}
    played = await stage.play([ANALYZE, scene("implement", "IMPLEMENTATION_SUCCESS", write=write), CLEAN])
    assert played.outcome == "waiting" and played.document["findings"] == []
    ((reason,),) = await shut_gates(stage, played.document["run"])
    assert reason.startswith("relaxed checks: test says SHOWN once")


@pytest.mark.spec("E9")
async def test_a_reproducer_that_fails_only_sometimes_must_pass_every_time_and_proves_nothing(
    set_stage: SetStage,
) -> None:
    stage = await set_stage("policy.reproduce_runs=20", "policy.prove_runs=20")
    sometimes = "read -r word < /proc/sys/kernel/random/uuid; case $word in [0-7]*) exit 0;; esac; exit 1"
    shows = design({"command": f"grep -q good value.txt || {{ {sometimes}; }}"})
    claims = scene("implement", "IMPLEMENTATION_SUCCESS", write={"other.txt": "talk\n"})
    played = await stage.play([scene("analyze", shows), claims, CLEAN, scene("fix", "FIX_SUCCESS")])
    assert played.outcome == "escalated"
    played = await stage.play([scene("analyze", shows), IMPLEMENT, CLEAN])
    assert played.outcome == "argued"
    told = await stage.comments(f"pr-{played.document['pull_request']['number']}")
    assert any("its reproducer fails only sometimes" in one.body for one in told)


async def test_a_finding_that_was_shown_and_fixed_does_not_prove_that_the_issue_is_solved(stage: Stage) -> None:
    review = scene("review", findings(BREAKS), holds={"other.txt": "broken"})
    verify = scene("verify", triage(here=(placed("F1", "FIX_IN_THIS_PR"),)))
    played = await stage.play([scene("analyze", design(None)), BREAKING, review, CLEAN, verify, FIX])
    assert played.outcome == "argued"
    told = [one.body for one in await stage.comments(f"pr-{played.document['pull_request']['number']}")]
    (receipt,) = [body for body in told if "## Evidence" in body]
    assert "argued: nothing executed proves it" in receipt
    (complete,) = [body for body in told if "Resolution Complete" in body]
    assert "The gate is open: argued" in complete


@pytest.mark.spec("E9")
async def test_a_fix_that_holds_only_sometimes_is_flaky(set_stage: SetStage) -> None:
    stage = await set_stage("policy.prove_runs=40")
    shows = design({"command": "sh value.sh || { echo it failed; exit 1; }"})
    sometimes = "read -r word < /proc/sys/kernel/random/uuid; case $word in [0-7]*) exit 0;; esac; exit 1\n"
    lucky = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.sh": sometimes})
    played = await stage.play([scene("analyze", shows), lucky, CLEAN, scene("fix", "FIX_SUCCESS")])
    assert played.outcome == "escalated"
    ((reason,),) = await shut_gates(stage, played.document["run"])
    assert "reproducer failed" in reason


@pytest.mark.spec("G10")
async def test_a_change_that_is_too_large_does_not_pass(set_stage: SetStage) -> None:
    stage = await set_stage("policy.max_changed_lines=20")
    huge = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.txt": "good\n", "more.txt": "more\n" * 30})
    leaner = scene("fix", "FIX_SUCCESS", write={"more.txt": None})
    played = await stage.play([ANALYZE, huge, CLEAN, leaner])
    assert played.outcome == "proven"
    ((reason,),) = await shut_gates(stage, played.document["run"])
    assert reason == "too large: 32 changed lines, and policy.max_changed_lines is 20"


@pytest.mark.spec("E9")
async def test_a_reproducer_that_executes_nothing_of_the_change_proves_nothing(set_stage: SetStage) -> None:
    stage = await set_stage()
    reads = "import sys; sys.exit('good' not in open('value.py').read() and 'it is not good')"
    shows = design({"command": f'test -e value.py || exit 1; python3 -c "{reads}"'})
    talk = scene("implement", "IMPLEMENTATION_SUCCESS", write={"value.py": "VALUE = 'good'\n"})
    played = await stage.play([scene("analyze", shows), talk, CLEAN, scene("fix", "FIX_SUCCESS")])
    ((reason,),) = await shut_gates(stage, played.document["run"])
    assert reason == "unreached: reproducer passes without executing a line that the change wrote"


@pytest.mark.spec("G10")
async def test_a_head_that_somebody_moved_shuts_the_gate_and_a_person_looks(stage: Stage) -> None:
    held = stage.hooks / "held"
    os.mkfifo(held)
    held.chmod(0o666)
    run = await stage.submit()
    scenes = [ANALYZE, IMPLEMENT, CLEAN | {"wait_for": str(held)}]
    working = asyncio.create_task(stage.go_on(run, scenes=scenes))
    # It opens when the reviewer waits behind it.
    letting_go = await asyncio.to_thread(held.open, "wb")
    (pull,) = await pulls(stage)
    theirs = await pushed(stage, {"other.txt": "mine\n"}, head=pull.head)
    letting_go.close()
    played = await working
    assert played.outcome == "escalated" and played.document["reason"].startswith("head_moved")
    assert played.document["gate"]["reasons"][0].startswith(f"head moved: the pull request is at {theirs[:10]}")
    assert (await pulls(stage))[0].head_commit == theirs


@pytest.mark.spec("E11")
@pytest.mark.parametrize("history", [2, 5])
async def test_the_commit_that_brought_the_problem_is_found_and_told_to_the_issue(tmp_path: Path, history: int) -> None:
    stage = await Stage.set_up(
        tmp_path, files={"value.txt": "good\n"}, overrides=("policy.bisect=50", "policy.variants=0")
    )
    values = ["good\n" if number < history else "bad\n" for number in range(6)]
    commits = [
        await upstream(stage, {"value.txt": value, "count.txt": f"{number}\n"}) for number, value in enumerate(values)
    ]
    played = await stage.play(STORY)
    (comment,) = [one.body for one in await stage.comments("issue-1") if "introduced-by" in one.body]
    assert played.outcome == "proven"
    assert f"`{commits[history]}`" in comment and "grep -q good value.txt" in comment
    await stage.close()


@pytest.mark.spec("E11")
async def test_what_a_pull_request_brought_itself_is_blamed_on_no_commit_of_the_base(tmp_path: Path) -> None:
    overrides = ("policy.bisect=50", "policy.variants=0", "policy.minimise=off")
    stage = await Stage.set_up(tmp_path, files={"value.txt": "good\n", "other.txt": "same\n"}, overrides=overrides)
    for number in range(3):
        await upstream(stage, {"count.txt": f"{number}\n"})
    pull = await proposed(stage, {"value.txt": "bad\n"})
    improve = scene("improve", "FIX_SUCCESS", write={"value.txt": "good\n", "other.txt": "better\n"})
    played = await stage.play([scene("analyze_pull", design()), improve, CLEAN], entry=entry_of(pull))
    assert played.outcome == "proven"
    assert not any("introduced-by" in one.body for one in await stage.comments(pull.key))
    effects = [(one["kind"], one["marker"]) for one in played.document["effects"]]
    assert not any("introduced" in marker for _, marker in effects)
    await stage.close()


# What nothing needs

SPARE = {"value.txt": "good\n", "spare.txt": "nobody needs this\n"}


@pytest.mark.spec("G11")
@pytest.mark.parametrize("policy", ["report", "remove"])
async def test_parts_that_nothing_needs_are_told_or_taken_out(set_stage: SetStage, policy: str) -> None:
    stage = await set_stage(f"policy.minimise={policy}")
    played = await stage.play([ANALYZE, scene("implement", "IMPLEMENTATION_SUCCESS", write=SPARE), CLEAN])
    assert played.outcome == "proven"
    (pull,) = await pulls(stage)
    left = await files_of(stage, pull.head_commit)
    assert pull.head_commit == played.document["change"] and left["value.txt"] == "good"
    if policy == "remove":
        assert "spare.txt" not in left and played.document["rounds"] == 1
    else:
        assert "spare.txt" in left
        assert any("spare.txt:1: it could be left out" in note for note in played.document["gate"]["notes"])
