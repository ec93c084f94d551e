"""The gate: commands on the exact head, CI that is waited for and never a finding, and the merge."""

from hashlib import sha256
from pathlib import Path

import pytest

from resolvent.domain.change import Evidence
from resolvent.testing.stage import Played, Stage, git, scene

from .conftest import SetStage
from .looking import Verdict, agents, asked, files_of, pulls, pushed, shut_gates, under_ci
from .scenes import ANALYZE, CLEAN, IMPLEMENT, STORY, design

NOISE = [f"noise {nth}" for nth in range(50)]
RED: Verdict = ("failed", "\n".join([*NOISE, "step 1 ok", "VERDICT=VALID", "step 2: assertion `x` failed"]))
GREEN: Verdict = ("passed", "")
# Opens what the gate shuts.
OPENING = scene("fix", "FIX_SUCCESS", write={"other.txt": "tested\n"})


@pytest.mark.conforms("S0.35", "S0.40", "S1.20")
@pytest.mark.spec("E1", "G7")
async def test_build_test_and_smoke_run_on_the_exact_head_until_all_pass(set_stage: SetStage) -> None:
    stage = await set_stage(
        'checks.build="test -e value.txt"',
        'checks.test="grep tested other.txt || { echo nobody tested it; exit 4; }"',
        'checks.smoke="cat value.txt other.txt"',
    )
    played = await stage.play([*STORY, OPENING])
    run = played.document["run"]
    assert (played.outcome, played.document["rounds"]) == ("proven", 1)
    steps = await (await stage.app.home.journal()).steps(run)
    first, second = ((step.result or {})["ok"]["change"]["commit"] for step in steps if step.verb == "edit")
    ran = [
        (item["check"], item["on"], item["exit"])
        for item in played.document["evidence"]
        if item["check"] != "reproducer"
    ]
    assert sorted(ran) == sorted(
        [(name, head, 4 if (name, head) == ("test", first) else 0) for name in ("build", "test", "smoke")
         for head in (first, second)]
    )  # fmt: skip
    assert second == played.document["change"] == (await pulls(stage))[0].head_commit
    assert await shut_gates(stage, run) == [("test failed: exit 4, SHOWN",)]
    assert [step for step, _ in await agents(stage, run)][2:] == ["review", "fix", "review"]
    prompt = played.prompts["fix"]
    assert "## The gate is shut\n| test failed: exit 4" in prompt and "| nobody tested it" in prompt
    assert played.document["findings"] == []


async def evidence_of(stage: Stage, played: Played, check: str) -> Evidence:
    """What the one execution of a check left on the record."""
    journal = await stage.app.home.journal()
    (kept,) = [one for one in await journal.evidence(played.document["run"]) if one.check.name == check]
    return kept


@pytest.mark.spec("E1", "E2")
async def test_a_check_runs_on_a_fresh_checkout_and_everything_about_it_is_kept(set_stage: SetStage) -> None:
    command = "test ! -e ignored/left && seq 5000"
    stage = await set_stage(f'checks.test="{command}"')
    left = IMPLEMENT | {"write": {"value.txt": "good\n", "ignored/left": "by the agent\n"}}
    played = await stage.play([ANALYZE, left, CLEAN])
    kept = await evidence_of(stage, played, "test")
    assert (kept.execution, kept.exit, kept.on) == ("PASSED", 0, played.document["change"])
    assert kept.check.command == command and kept.seconds > 0
    whole = "".join(f"{number}\n" for number in range(1, 5001)).encode()
    assert kept.digest == sha256(whole).hexdigest() and Path(kept.log).read_bytes() == whole
    branches = {one.id: one for one in await (await stage.app.home.journal()).branches(played.document["run"])}
    assert (branches[kept.branch].parent, branches[kept.branch].commit) == (None, kept.on)


@pytest.mark.spec("J6")
async def test_a_check_gets_nothing_of_our_environment(set_stage: SetStage) -> None:
    stage = await set_stage('checks.test="env -0"')
    kept = await evidence_of(stage, await stage.play(STORY), "test")
    given = dict(line.split("=", 1) for line in Path(kept.log).read_text().split("\0") if line)
    assert given.keys() - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "LANG", "HOME", "TMPDIR"}
    assert given["HOME"] != str(stage.directory)


@pytest.mark.conforms("S0.36", "S0.37", "S0.38", "S0.40")
@pytest.mark.spec("G5")
async def test_red_ci_is_no_finding_blocks_the_merge_and_feeds_the_next_fix(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto")
    forge = await stage.hub()
    await forge.require_check("ci")
    run = await stage.submit()
    played = await under_ci(stage, run, [RED, RED, GREEN], scenes=[*STORY, OPENING])
    assert (played.outcome, played.document["rounds"]) == ("merged", 1)
    assert await shut_gates(stage, run) == [("MERGE_BLOCKER=CI_FAILED ci: failed",)]
    assert played.document["findings"] == []
    prompt = played.prompts["fix"]
    assert "| MERGE_BLOCKER=CI_FAILED ci: failed" in prompt
    assert "| noise 0\n" not in prompt
    assert "| noise 49\n| step 1 ok\n| VERDICT=VALID\n| step 2: assertion `x` failed" in prompt
    assert [step for step, _ in await agents(stage, run)][2:] == ["review", "fix", "review"]
    checks = await forge.required_checks(played.document["change"])
    assert [check.state for check in checks] == ["passed"]
    assert (await files_of(stage, "main"))["other.txt"] == "tested"
    assert len(await forge.issues("all")) == 1


@pytest.mark.conforms("S0.37", "S0.39")
@pytest.mark.spec("G6")
async def test_a_check_that_is_red_on_the_base_too_is_tracked_once_and_nothing_is_merged(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto")
    forge = await stage.hub()
    await forge.require_check("ci")
    base = await forge.head_of("main")
    await forge.report_check(str(base), "ci", state="failed", log="no network")
    tracked = []
    for _ in range(2):
        run = await stage.submit()
        played = await under_ci(stage, run, [("failed", "no network <!-- resolvent -->")], scenes=STORY)
        assert (played.outcome, played.document["reason"]) == ("escalated", "flaky_ci: ci")
        assert not played.document["gate"]["open"]
        tracked = [issue for issue in await forge.issues("all") if issue.title == "Flaky required check: ci"]
    (issue,) = tracked
    assert "no network <!-‑ resolvent" in issue.body and "red on the base branch too" in issue.body
    assert f"{next(pull.url for pull in await pulls(stage) if pull.number == 2)} (#2)" in issue.body
    assert {pull.state for pull in await pulls(stage)} == {"open"}
    assert await forge.head_of("main") == base


@pytest.mark.conforms("S0.39")
@pytest.mark.spec("G6")
async def test_a_check_that_is_green_when_run_again_is_tracked_and_the_run_goes_on(stage: Stage) -> None:
    forge = await stage.hub()
    await forge.require_check("ci")
    run = await stage.submit()
    played = await under_ci(stage, run, [RED, GREEN], scenes=STORY)
    assert (played.outcome, played.document["rounds"]) == ("proven", 0)
    assert await shut_gates(stage, run) == []
    _, issue = await forge.issues("all")
    assert issue.title == "Flaky required check: ci"
    assert "green on a rerun of the same commit" in issue.body and "assertion `x` failed" in issue.body


@pytest.mark.conforms("S0.36")
@pytest.mark.spec("G4")
@pytest.mark.parametrize("choice", ["wait", "stop"])
async def test_a_check_that_stays_pending_is_waited_for_then_a_person_is_asked(
    set_stage: SetStage, choice: str
) -> None:
    stage = await set_stage("policy.ci_wait=0.01", "policy.merge=auto")
    forge = await stage.hub()
    await forge.require_check("ci")
    run = await stage.submit()
    played = await stage.go_on(run, scenes=STORY)
    assert played.outcome == "waiting"
    assert played.document["decision"]["text"].startswith("ci of #2 did not end in time")
    head = (await pulls(stage))[0].head_commit
    await forge.report_check(head, "ci", state="passed")
    await stage.app.decide(run, choice, by="maintainer")
    ended = await stage.go_on(run)
    assert ended.outcome == ("merged" if choice == "wait" else "escalated")
    assert (await pulls(stage))[0].state == ("merged" if choice == "wait" else "open")


@pytest.mark.conforms("S0.36")
async def test_a_rerun_that_does_not_end_asks_too_and_is_not_fixed(set_stage: SetStage) -> None:
    stage = await set_stage("policy.ci_wait=0.01", "policy.max_fix_rounds=0")
    forge = await stage.hub()
    await forge.require_check("ci")
    run = await stage.submit()
    assert (await stage.go_on(run, scenes=STORY)).outcome == "waiting"
    await forge.report_check((await pulls(stage))[0].head_commit, "ci", state="failed", log="red")
    await stage.app.decide(run, "wait", by="maintainer")
    played = await stage.go_on(run)
    assert (played.outcome, ":rerun:" in played.document["decision"]["key"]) == ("waiting", True)
    assert await asked(stage, run, "fix") == []


@pytest.mark.conforms("S0.36")
@pytest.mark.spec("G3")
async def test_no_required_checks_is_open_and_shown(stage: Stage) -> None:
    played = await stage.play(STORY)
    assert played.document["gate"] == {"open": True, "reasons": [], "notes": ["the forge names no required checks"]}
    assert "the forge names no required checks" in (await stage.comments("pr-2"))[-1].body


@pytest.mark.spec("G7")
async def test_what_does_not_merge_onto_the_current_base_shuts_the_gate(set_stage: SetStage) -> None:
    stage = await set_stage("policy.max_fix_rounds=0")
    run = await stage.submit()
    (stage.project / "value.txt").write_text("ugly\n")
    await git(stage.project, "commit", "-q", "-a", "-m", "meanwhile")
    await (await stage.hub()).sync(stage.project)
    played = await stage.go_on(run, scenes=STORY)
    assert (played.outcome, played.document["decision"]["key"]) == ("waiting", "fix_cap:0")
    assert await shut_gates(stage, run) == [("does not merge cleanly onto the current base: value.txt",)]


@pytest.mark.spec("G8")
async def test_with_merge_auto_exactly_the_judged_commit_lands(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto")
    played = await stage.play(STORY)
    (pull,) = await pulls(stage)
    assert (played.outcome, pull.state, pull.head_commit) == ("merged", "merged", played.document["change"])
    assert (await files_of(stage, "main"))["value.txt"] == "good"
    assert [issue.state for issue in await (await stage.hub()).issues("all")] == ["closed"]


@pytest.mark.spec("G8")
async def test_what_is_only_argued_is_not_merged_before_a_person_agrees(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto")
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[scene("analyze", design(None)), IMPLEMENT, CLEAN])
    assert (played.outcome, played.document["decision"]["choices"]) == ("waiting", ["merge", "leave"])
    assert (await pulls(stage))[0].state == "open"
    await stage.app.decide(run, "merge", by="maintainer")
    assert (await stage.go_on(run)).outcome == "merged"


@pytest.mark.conforms("S0.37")
@pytest.mark.spec("G8")
@pytest.mark.parametrize(("choice", "outcome"), [("merge", "escalated"), ("leave", "proven")])
async def test_with_merge_ask_a_person_decides_and_a_moved_head_is_refused(
    set_stage: SetStage, choice: str, outcome: str
) -> None:
    stage = await set_stage("policy.merge=ask")
    base = await (await stage.hub()).head_of("main")
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[ANALYZE, IMPLEMENT, CLEAN])
    assert (played.outcome, played.document["decision"]["choices"]) == ("waiting", ["merge", "leave"])
    await pushed(stage, {"value.txt": "evil\n"}, head="resolvent/issue-1")
    await stage.app.decide(run, choice, by="maintainer")
    ended = await stage.go_on(run)
    assert (ended.outcome, ended.document["reason"].startswith("HeadMoved")) == (outcome, choice == "merge")
    assert await (await stage.hub()).head_of("main") == base
    assert (await pulls(stage))[0].state == "open"
