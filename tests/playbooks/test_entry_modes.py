"""Where a run starts: one issue or one pull request, a repository, and its base."""

import os
from pathlib import Path

import pytest

from resolvent.app import App
from resolvent.domain.entry import Entry, entry_point
from resolvent.domain.subject import PullRequest
from resolvent.errors import UsageError
from resolvent.submissions import Submission
from resolvent.testing.stage import Stage, scene

from .looking import agents, asked, entry_of, files_of, lineage, proposed, pulls, upstream
from .scenes import CLEAN, DESIGN, design, valid

LINK = "https://github.com/acme/widgets"


@pytest.mark.conforms("S0.1", "S1.1", "S1.2")
@pytest.mark.parametrize(
    ("task", "kind", "mode"),
    [
        ("42", "issue", "new_issue"),
        ("#42", "issue", "new_issue"),
        (f"Please resolve {LINK}/issues/42 (it is urgent).", "issue", "new_issue"),
        ("have a look at #42, as #42 says", "issue", "new_issue"),
        (f"improve {LINK}/pull/42", "pull", "existing_pr"),
        ("go on with pull request 42", "pull", "existing_pr"),
        ("go on with PR #42", "pull", "existing_pr"),
    ],
)
def test_what_a_person_typed_names_one_entry_point(task: str, kind: str, mode: str) -> None:
    found = entry_point(task)
    assert (found.kind, found.reference, found.mode) == (kind, "42", mode)


@pytest.mark.conforms("S0.1", "S1.1")
@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("task", "pull", "file"),
    [
        (None, None, None),
        ("", None, None),
        ("make it better", None, None),
        ("42", "17", None),
        ("42", None, "bug.md"),
        (None, "17", "bug.md"),
        (f"{LINK}/issues/42 and {LINK}/pull/17", None, None),
        ("#42 and #43", None, None),
    ],
)
def test_none_or_more_than_one_entry_point_is_refused(task: str | None, pull: str | None, file: str | None) -> None:
    with pytest.raises(UsageError) as refused:
        entry_point(task, pull=pull, file=file)
    assert "resolvent resolve" in refused.value.hint


@pytest.mark.conforms("S0.4", "S1.4")
@pytest.mark.parametrize(
    ("title", "body", "closes"),
    [
        ("Better", "It\n\nFixes #12.", "#12"),
        ("Better", f"closes: {LINK}/issues/12", f"{LINK}/issues/12"),
        ("Resolve #12", "no words", "#12"),
        ("Resolves #12", "Fixes #13", "#13"),
        ("Better", "see #12, which prefixes #13", None),
        ("Better", "<!-- Fixes #12 -->", None),
    ],
)
def test_the_issue_is_found_in_closing_words_of_body_or_title(title: str, body: str, closes: str | None) -> None:
    pull = PullRequest(number=3, url="u", title=title, body=body, head="h", head_commit="0" * 40, base="main")
    assert pull.closes == closes


@pytest.mark.conforms("S0.2")
async def test_a_run_does_not_start_without_a_repository(tmp_path: Path) -> None:
    for place in ("missing", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "RESOLVENT_HOME": str(tmp_path / f"of-{place}")}
        app = App.at(tmp_path / place, environ=environ)
        try:
            with pytest.raises(UsageError, match=str(tmp_path / place)):
                await app.submit(Submission(entry=Entry(kind="issue", reference="1"), unsafe=True))
            assert await app.runs() == ()
        finally:
            await app.home.close()


@pytest.mark.conforms("S0.3", "S0.7", "S1.5", "S1.6")
async def test_a_run_starts_once_from_the_default_branch_as_it_is_now(stage: Stage) -> None:
    newest = await upstream(stage, {"newer.txt": "pushed since\n"})
    run = await stage.submit()
    fresh = await stage.app.document(run)
    assert (fresh["base"], fresh["outcome"]) == (newest, "queued")
    assert (fresh["change"], fresh["pull_request"], fresh["rounds"], fresh["steps"]) == (None, None, 0, [])
    seen = scene("analyze", "VERDICT=INVALID", holds={"newer.txt": "pushed since"})
    assert (await stage.go_on(run, scenes=[seen])).outcome == "declined"
    assert await agents(stage, run) == [("analyze", "author")]
    assert await lineage(stage, run) == {"analyze": "base"}


@pytest.mark.conforms("S0.4", "S0.5", "S0.16", "S1.2", "S1.3", "S1.4", "S1.5")
async def test_an_existing_pull_request_that_is_valid_is_reviewed_first_and_reused(stage: Stage) -> None:
    issue = await stage.issue("It is bad, really")
    pull = await proposed(stage, {"value.txt": "good\n"}, body=f"Better.\n\nFixes #{issue.number}")
    run = await stage.submit(entry_of(pull))
    named = {"number": pull.number, "url": pull.url, "head": "feature"}
    assert (await stage.app.document(run))["pull_request"] == named
    played = await stage.go_on(run, scenes=[scene("analyze_pull", valid("it only needs a look")), CLEAN])
    assert played.outcome == "proven"
    assert await agents(stage, run) == [("analyze_pull", "author"), ("review", "reviewer")]
    assert await lineage(stage, run) == {"analyze_pull": "head", "review": "analyze_pull"}
    assert played.document["pull_request"] == named
    assert (played.document["change"], played.document["rounds"]) == (pull.head_commit, 0)
    assert [(one.number, one.head_commit) for one in await pulls(stage)] == [(pull.number, pull.head_commit)]
    prompt = played.prompts["analyze_pull"]
    assert f"#{pull.number} ({pull.url})" in prompt
    assert "| It is bad, really" in prompt
    assert issue.url in played.prompts["review"]


@pytest.mark.spec("F4")
async def test_a_pull_request_from_a_fork_is_refused_before_anything_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = await proposed(stage, {"value.txt": "good\n"})

    async def theirs(_: str) -> PullRequest:
        return pull.model_copy(update={"from_fork": True})

    monkeypatch.setattr(await stage.app.home.forge(), "pull_request", theirs)
    with pytest.raises(UsageError, match="a fork we cannot push to") as refused:
        await stage.submit(entry_of(pull))
    assert refused.value.hint == "push its branch to this repository"
    assert await stage.app.runs() == ()


@pytest.mark.conforms("S1.11", "S0.5", "S1.4", "S1.25")
async def test_an_existing_pull_request_that_needs_work_is_improved_first(stage: Stage) -> None:
    pull = await proposed(stage, {"value.txt": "better\n"})
    improve = scene("improve", "FIX_SUCCESS", write={"value.txt": "good\n"})
    played = await stage.play([scene("analyze_pull", design()), improve, CLEAN], entry=entry_of(pull))
    run = played.document["run"]
    assert played.outcome == "proven"
    assert [step for step, _ in await agents(stage, run)] == ["analyze_pull", "improve", "review"]
    assert await lineage(stage, run) == {"analyze_pull": "head", "improve": "analyze_pull", "review": "improve"}
    prompt = played.prompts["improve"]
    assert all(f"| {text}" in prompt for text in DESIGN.values())
    assert f"Improve pull request #{pull.number}" in prompt and "feature" in prompt
    assert "Do not open another pull request" in prompt
    assert played.document["rounds"] == 1
    (after,) = await pulls(stage)
    assert (after.number, after.head_commit) == (pull.number, played.document["change"])
    assert (await files_of(stage, after.head_commit))["value.txt"] == "good"


@pytest.mark.conforms("S0.4", "S1.4", "S1.6", "S1.7")
@pytest.mark.spec("R3")
@pytest.mark.parametrize("named", ["<!-- Fixes #1 -->", "Fixes #99"], ids=["hidden", "not there"])
async def test_a_pull_request_that_names_no_issue_stands_for_it(stage: Stage, named: str) -> None:
    pull = await proposed(stage, {"value.txt": "good\n"}, body=f"{named}\nIt is better so.")
    played = await stage.play(
        [scene("analyze_pull", "VERDICT=NO_ACTION_NEEDED\nREASON=it is fine as it is")], entry=entry_of(pull)
    )
    assert (played.outcome, played.document["reason"]) == ("declined", "it is fine as it is")
    issue = (await stage.app.run(played.document["run"])).inputs.issue
    assert (issue.title, issue.body, issue.url) == (pull.title, pull.body, pull.url)
    (prompt,) = await asked(stage, played.document["run"], "analyze_pull")
    assert [prompt.count(f"\n{number}. ") for number in range(1, 7)] == [1, 1, 1, 1, 1, 0]
    assert "| It is better so." in prompt
    assert (await pulls(stage))[0].head_commit == pull.head_commit
