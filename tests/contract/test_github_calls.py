"""What each verb costs: how often GitHub is asked the first time, and again when nothing changed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.contract.forge_stage import head_change, proposed
from tests.contract.github_stage import OWNER, GitHubStage

from resolvent.domain.subject import Comment, Issue, PullRequest

# verb → API calls when asked first, when asked again, and how many of the latter are 304. Of the first ones of
# `required_checks` four are logs, which are elsewhere on github.com.
COST = {
    "login": (1, 0, 0),
    "permission": (1, 1, 1),
    "default_branch": (1, 1, 1),
    "head_of": (1, 1, 1),
    "fetch": (1, 1, 1),
    "issue": (1, 1, 1),
    "issues": (1, 1, 1),
    "search_issues": (1, 1, 1),
    "pull_request": (1, 1, 1),
    "pull_requests": (1, 1, 1),
    "merged pull_request": (2, 1, 1),
    "comments": (2, 1, 1),
    "comments_since": (1, 1, 1),
    "comment_at": (1, 1, 1),
    "required_checks, none": (3, 3, 3),
    "required_checks": (11, 7, 7),
    "open_issue": (1, 1, 0),
    "comment": (1, 1, 0),
    "edit_comment": (1, 1, 0),
    "react": (1, 1, 0),
    "label": (2, 1, 0),
    "set_state": (2, 1, 0),
    "set_draft": (3, 1, 1),
    "ask_for_review": (1, 1, 0),
    "claim": (6, 1, 0),
    "push": (0, 0, 0),
    "delete_branch": (1, 1, 0),
    "merge": (4, 1, 1),
}


@pytest.fixture
async def stage(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GitHubStage]:
    async with GitHubStage.set(tmp_path, certified=tmp_path_factory.getbasetemp() / "certified") as stage:
        yield stage


async def costs(stage: GitHubStage, verb: Callable[[], Awaitable[object]]) -> tuple[int, int, int]:
    """The API calls of two times the same; git over https is not counted by GitHub either."""
    counted = []
    for _ in range(2):
        before = len(stage.requests())
        await verb()
        counted.append([seen.status for seen in stage.requests(before) if "/api/" in seen.path])
    return len(counted[0]), len(counted[1]), counted[1].count(304)


def verbs(
    stage: GitHubStage, issue: Issue, pull: PullRequest, said: Comment
) -> dict[str, Callable[[], Awaitable[object]]]:
    forge, other, commit = stage.another(cache=None), stage.another(cache=None), stage.base.commit
    head = head_change(pull)
    return {
        "login": forge.login,
        "permission": lambda: forge.permission(OWNER),
        "default_branch": forge.default_branch,
        "head_of": lambda: forge.head_of("main"),
        "fetch": lambda: forge.fetch(stage.source, pull.head),
        "issue": lambda: forge.issue(str(issue.number)),
        "issues": forge.issues,
        "search_issues": lambda: forge.search_issues("anything"),
        "pull_request": lambda: forge.pull_request(str(pull.number)),
        "pull_requests": lambda: forge.pull_requests(head=pull.head),
        "comments": lambda: other.comments(said.target),
        "comments_since": lambda: forge.comments_since(1.0),
        "comment_at": lambda: forge.comment_at(said.url),
        "required_checks, none": lambda: forge.required_checks(commit),
        "open_issue": lambda: forge.open_issue(title="T", body=""),
        "comment": lambda: forge.comment(issue.key, "text"),
        "edit_comment": lambda: forge.edit_comment(said, "other"),
        "react": lambda: forge.react(said, "eyes"),
        "label": lambda: forge.label(issue.key, add=("x",)),
        "set_state": lambda: forge.set_state(issue.key, "closed"),
        "set_draft": lambda: forge.set_draft(pull, True),
        "ask_for_review": lambda: forge.ask_for_review(pull, [OWNER]),
        "claim": lambda: forge.claim("issue-1", "host"),
        "push": lambda: forge.push(head, source=stage.source, head="other", expect=None),
        "delete_branch": lambda: forge.delete_branch("other", expect=head.commit),
    }


async def test_every_verb_costs_what_it_is_said_to_cost(stage: GitHubStage) -> None:
    issue, pull = await stage.forge.open_issue(title="T", body=""), await proposed(stage)
    said = await stage.forge.comment(issue.key, "text")
    measured = {name: await costs(stage, verb) for name, verb in verbs(stage, issue, pull, said).items()}
    forge = stage.another(cache=None)
    await forge.set_draft(pull, False)
    await stage.requires("build", "lint")
    for name in ("build", "lint"):
        await stage.reports(pull.head_commit, name, "failed", log="why")
    measured["required_checks"] = await costs(stage, lambda: stage.forge.required_checks(pull.head_commit))
    await stage.requires()
    measured["merge"] = await costs(stage, lambda: forge.merge(pull, expect=head_change(pull)))
    merged = stage.another(cache=None)
    measured["merged pull_request"] = await costs(stage, lambda: merged.pull_request(str(pull.number)))
    print("\n" + "\n".join(f"{name:24}{first:4}{again:4}{same:4}" for name, (first, again, same) in measured.items()))
    assert measured == COST
