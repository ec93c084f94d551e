"""The first change: what the writer is told, how it can end, and the one pull request that comes of it."""

from dataclasses import replace

import pytest

from resolvent.domain.entry import Entry
from resolvent.domain.outcome import EXIT_CODES
from resolvent.engine.world import World
from resolvent.playbooks import texts
from resolvent.testing.demo_story import Scene
from resolvent.testing.faulty_forge import FaultyForge
from resolvent.testing.stage import Stage, scene

from .conftest import SetStage
from .looking import agents, change_of, files_of, lineage, proposed, pulls
from .scenes import ANALYZE, CLEAN, DESIGN, IMPLEMENT, STORY

EXPIRED = scene(
    "implement",
    "GH_AUTH_EXPIRED\nLOCAL_COMMIT=0123456789abcdef0123456789abcdef01234567\nRETRY_PUSH_BRANCH=my-own-branch",
    write={"value.txt": "good\n", "kept/notes.txt": "as it was\n"},
)


def reporting(number: int, head: str) -> Scene:
    """An agent that says it opened a pull request itself."""
    said = f"IMPLEMENTATION_SUCCESS\nPR_URL=local:pulls/{number}\nPR_NUMBER={number}\nPR_HEAD_BRANCH={head}"
    return IMPLEMENT | {"say": f"{said}\n"}


@pytest.mark.conforms("S0.7", "S0.13", "S0.14", "S0.15", "S1.8", "S1.9", "S1.10", "S1.12", "S1.13")
@pytest.mark.spec("F3")
async def test_a_new_issue_becomes_one_pull_request_made_from_the_whole_design(stage: Stage) -> None:
    issue = await stage.issue()
    played = await stage.play(STORY, entry=Entry(kind="issue", reference=str(issue.number)))
    run = played.document["run"]
    assert played.outcome == "proven"
    assert await agents(stage, run) == [("analyze", "author"), ("implement", "author"), ("review", "reviewer")]
    assert await lineage(stage, run) == {"analyze": "base", "implement": "analyze", "review": "implement"}
    prompt = played.prompts["implement"]
    assert all(f"| {text}" in prompt for text in DESIGN.values()) and "Root cause (P1)" in prompt
    told = ["simplest change", "Read your own diff", "smallest relevant build and tests", "understand the code"]
    assert all(words in prompt for words in [*told, "pull request", "stop and think again"])
    (pull,) = await pulls(stage)
    assert (pull.title, pull.head) == (f"The value is bad (#{issue.number})", f"resolvent/issue-{issue.number}")
    assert pull.body.startswith(f"Fixes #{issue.number}\n") and issue.url in prompt
    assert pull.head_commit == played.document["change"]
    assert (await files_of(stage, pull.head_commit))["value.txt"] == "good"


@pytest.mark.conforms("S1.15", "S1.32")
@pytest.mark.spec("W7")
async def test_a_blocked_implementation_stops_and_tells_the_caller_why(set_stage: SetStage) -> None:
    stage = await set_stage("policy.status_comments=true")
    blocked = scene(
        "implement", "IMPLEMENTATION_BLOCKED\nREASON=the file is made by a machine", write={"value.txt": "x"}
    )
    played = await stage.play([ANALYZE, blocked, CLEAN])
    assert (played.outcome, played.document["reason"]) == ("escalated", "blocked: the file is made by a machine")
    assert EXIT_CODES[played.outcome] == 3
    assert await pulls(stage) == ()
    assert [step for step, _ in await agents(stage, played.document["run"])] == ["analyze", "implement"]
    said = (await stage.comments("issue-1"))[-1].body
    assert "step-implement:cycle-0" in said and "Outcome: IMPLEMENTATION_BLOCKED" in said and "Next: stop" in said


@pytest.mark.conforms("S1.14", "S1.16", "S1.17")
@pytest.mark.spec("W7")
async def test_a_lost_login_is_recovered_by_exactly_one_push_of_the_very_same_files(stage: Stage) -> None:
    played = await stage.play([ANALYZE, EXPIRED, CLEAN])
    run = played.document["run"]
    assert played.outcome == "proven"
    assert [start.split()[0] for start in played.starts] == ["analyze", "implement", "review"]
    assert [effect["kind"] for effect in played.document["effects"]].count("publish") == 1
    assert (await lineage(stage, run))["review"] == "implement"
    (pull,) = await pulls(stage)
    steps = {step.name: step.result for step in await (await stage.app.home.journal()).steps(run)}
    imported = (steps["implement"] or {})["ok"]["change"]
    assert (pull.head, pull.head_commit) == ("resolvent/issue-1", imported["commit"])
    assert (await change_of(stage, pull.head_commit)).tree == imported["tree"]
    assert (await files_of(stage, pull.head_commit))["kept/notes.txt"] == "as it was"


@pytest.mark.conforms("S1.17")
@pytest.mark.spec("X5")
async def test_when_our_own_token_is_refused_too_the_run_asks_a_person(stage: Stage) -> None:
    def refused(world: World) -> World:
        return replace(world, forge=FaultyForge(world.forge, fail={("push", 1): "auth"}))

    run = await stage.submit()
    played = await stage.go_on(run, scenes=[ANALYZE, EXPIRED, CLEAN], adjust=refused)
    assert played.outcome == "waiting"
    assert "refused our token" in played.document["decision"]["text"]
    assert played.document["decision"]["choices"] == ["retry", "stop"]
    assert await pulls(stage) == ()
    await stage.app.decide(run, "retry", by="maintainer")
    assert (await stage.go_on(run)).outcome == "proven"
    assert [start.split()[0] for start in (await stage.played(run)).starts] == ["analyze", "implement", "review"]
    assert len(await pulls(stage)) == 1


@pytest.mark.conforms("S0.14", "S1.13", "S0.46")
@pytest.mark.spec("W6")
async def test_a_pull_request_the_agent_made_is_verified_and_adopted(stage: Stage) -> None:
    made = await proposed(stage, {"value.txt": "good\n"}, head="agent/fix")
    played = await stage.play([ANALYZE, reporting(made.number, "agent/fix"), CLEAN])
    assert played.outcome == "proven"
    assert played.document["pull_request"] == {"number": made.number, "url": made.url, "head": "agent/fix"}
    (pull,) = await pulls(stage)
    assert (pull.number, pull.head_commit) == (made.number, played.document["change"])


@pytest.mark.conforms("S0.14", "S1.13")
@pytest.mark.spec("W6")
@pytest.mark.parametrize("what", ["missing", "other files", "other head", "closed"])
async def test_a_reported_pull_request_that_is_not_so_is_left_alone(stage: Stage, what: str) -> None:
    text = "good" if what in ("other head", "closed") else "evil"
    made = await proposed(stage, {"value.txt": f"{text}\n"}, head="agent/fix")
    state = "closed" if what == "closed" else "open"
    await (await stage.hub()).set_state(made.key, state)
    number, head = (99 if what == "missing" else made.number), ("agent/x" if what == "other head" else "agent/fix")
    played = await stage.play([ANALYZE, reporting(number, head), CLEAN])
    assert played.outcome == "proven"
    ours, theirs = await pulls(stage)
    assert (theirs.number, theirs.head_commit, theirs.state) == (made.number, made.head_commit, state)
    assert (ours.head, ours.head_commit) == (played.document["pull_request"]["head"], played.document["change"])
    assert ours.head.startswith("resolvent/issue-")


@pytest.mark.spec("G9")
async def test_an_implementation_that_changed_nothing_escalates(stage: Stage) -> None:
    played = await stage.play([ANALYZE, IMPLEMENT | {"write": {"ignored/x": "y"}}, CLEAN])
    assert played.outcome == "escalated"
    assert played.document["reason"].startswith("no_change")
    assert await pulls(stage) == ()


@pytest.mark.conforms("S0.14")
@pytest.mark.spec("W4")
async def test_a_repair_turn_may_say_it_better_but_its_edits_are_thrown_away(stage: Stage) -> None:
    unclear = IMPLEMENT | {"say": "It is done!\n", "turn": 1}
    clear = scene("implement", "IMPLEMENTATION_SUCCESS", turn=2, write={"value.txt": "worse\n"})
    played = await stage.play([ANALYZE, unclear, clear, CLEAN])
    assert played.outcome == "proven"
    assert (await files_of(stage, played.document["change"]))["value.txt"] == "good"


@pytest.mark.conforms("S0.15", "S0.48", "S1.30")
async def test_a_failed_step_stops_with_branch_and_output_and_the_anchor_stays(stage: Stage) -> None:
    crash = scene("implement", "Segmentation fault, core dumped", exit=139, write={"value.txt": "half"})
    played = await stage.play([ANALYZE, crash, CLEAN])
    run = played.document["run"]
    assert played.outcome == "escalated"
    assert played.document["reason"].startswith(f"AgentFailed (branch {run}/edit:implement@")
    assert "exit 139\nSegmentation fault, core dumped" in played.document["reason"]
    assert await pulls(stage) == ()
    await stage.app.retry(run)
    assert (await stage.go_on(run, scenes=STORY)).outcome == "proven"
    parents = {"analyze": "base", "implement": "analyze", "implement 2": "analyze", "review": "implement 2"}
    assert await lineage(stage, run) == parents


@pytest.mark.spec("X6")
@pytest.mark.parametrize("choice", ["push", "stop"])
async def test_what_runs_on_other_machines_is_not_pushed_before_a_person_agrees(stage: Stage, choice: str) -> None:
    surface = {"value.txt": "good\n", ".github/workflows/ci.yml": "on: push\n"}
    run = await stage.submit()
    played = await stage.go_on(run, scenes=[ANALYZE, IMPLEMENT | {"write": surface}, CLEAN])
    assert played.outcome == "waiting"
    assert ".github/workflows/ci.yml" in played.document["decision"]["text"]
    forge = await stage.hub()
    assert (await pulls(stage), await forge.head_of("resolvent/issue-1")) == ((), None)
    await stage.app.decide(run, choice, by="maintainer")
    ended = await stage.go_on(run)
    assert ended.outcome == ("proven" if choice == "push" else "escalated")
    assert len(await pulls(stage)) == (choice == "push")


@pytest.mark.spec("X6")
async def test_where_policy_allows_it_what_runs_on_other_machines_is_pushed_unasked(set_stage: SetStage) -> None:
    stage = await set_stage("policy.exec_surface=allow")
    surface = {"value.txt": "good\n", ".github/workflows/ci.yml": "on: push\n"}
    played = await stage.play([ANALYZE, IMPLEMENT | {"write": surface}, CLEAN])
    assert (played.outcome, len(await pulls(stage))) == ("proven", 1)


@pytest.mark.spec("X6")
@pytest.mark.parametrize(
    "path",
    [".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml", "hooks/pre-push",
     ".githooks/pre-push", ".husky/pre-commit", ".gitmodules", "sub/.gitattributes", ".envrc", ".vscode/tasks.json",
     "sub/.envrc", "sub/.vscode/tasks.json", "sub/.devcontainer/devcontainer.json", "ci/Jenkinsfile", "lefthook.yml",
     ".devcontainer/devcontainer.json"],
)  # fmt: skip
def test_what_runs_on_other_machines_is_known_by_its_path(path: str) -> None:
    assert texts.runs_elsewhere(path)
    assert not texts.runs_elsewhere(f"docs/about-{path.replace('/', '-')}.md")


@pytest.mark.spec("F3")
async def test_what_a_file_asks_for_is_proposed_on_a_head_of_its_name(stage: Stage) -> None:
    file = stage.directory / "Bad value.md"
    file.write_text("# The value is bad\n\nIt should be good.\n", encoding="utf-8")
    played = await stage.play(STORY, entry=Entry(kind="file", reference=str(file)))
    assert (played.outcome, [pull.head for pull in await pulls(stage)]) == ("proven", ["resolvent/file-bad-value"])


@pytest.mark.conforms("S0.46")
@pytest.mark.spec("F3")
async def test_a_second_run_on_the_issue_continues_the_pull_request_of_the_first(stage: Stage) -> None:
    first = await stage.play([ANALYZE, IMPLEMENT, scene("review", "no verdict")])
    assert (first.outcome, first.document["pull_request"]["number"]) == ("escalated", 2)
    issue = (await stage.app.run(first.document["run"])).inputs.issue
    other = IMPLEMENT | {"write": {"value.txt": "very good\n"}}
    second = await stage.play([ANALYZE, other, CLEAN], entry=Entry(kind="issue", reference=str(issue.number)))
    assert second.outcome == "proven"
    (pull,) = await pulls(stage)
    assert (pull.number, pull.head_commit) == (2, second.document["change"])
    assert second.document["change"] != first.document["change"]
