"""Pull requests by real `gh`, old and new; what it did is looked up on the hub and in its repository."""

from collections.abc import AsyncIterator

import pytest
from tests.forge_server.gh_stage import PROGRAMS, PUBLIC, Gh, number_in
from tests.forge_server.gh_unknown import known_here
from tests.forge_server.serving import OWNER, Served

from resolvent.forge_server.graphql import pruned


@pytest.fixture(params=PROGRAMS)
async def gh(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Gh]:
    ready = await Gh.ready(served, request.param)
    yield ready
    assert set(pruned(served.hub)) <= known_here(ready)


async def opened(gh: Gh, branch: str = "feat", *more: str, login: str = OWNER) -> int:
    """A pull request of a new branch."""
    await gh.branch(branch)
    words = ("--title", f"Do {branch}", "--body", "the body", *more)
    return number_in(await gh("pr", "create", *words, login=login))


@pytest.mark.spec("F10")
async def test_a_pull_request_is_made_once_and_found_again(gh: Gh) -> None:
    hub = gh.served.hub
    await hub.make_label((await hub.holdings()).accounts[OWNER], "bug")
    head = await gh.branch("feat/one")
    issue = number_in(await gh("issue", "create", "--title", "It panics", "--body", "b"))
    words = ("--title", "Fix it", "--body", f"Fixes #{issue}", "--label", "bug", "--assignee", "@me")
    number = number_in(await gh("pr", "create", *words, "--reviewer", "wanda"))
    item = await gh.item(number)
    assert (item.title, item.body, item.head, item.base) == ("Fix it", f"Fixes #{issue}", "feat/one", "main")
    assert (item.head_commit, item.draft, item.author) == (head, False, OWNER)
    assert (item.labels, item.assignees, item.reviewers) == (("bug",), (OWNER,), ("wanda",))

    again = await gh("pr", "create", "--title", "Twice", "--body", "b", code=1)
    assert "already exists" in again and f"{PUBLIC}/pull/{number}" in again
    assert f"{PUBLIC}/pull/{number}" in await gh("pr", "view")
    (found,) = await gh.read("pr", "list", "--head", "feat/one", "--state", "all", fields="number,headRefName,state")
    assert found == {"number": number, "headRefName": "feat/one", "state": "OPEN"}


async def test_what_cannot_be_proposed_is_refused_in_githubs_words(gh: Gh) -> None:
    nothing = ("pr", "create", "--title", "T", "--body", "b", "--head", "nosuch")
    assert "Head sha can't be blank" in await gh(*nothing, code=1)
    await gh.git("push", "--quiet", "origin", "main:same")
    same = ("pr", "create", "--title", "T", "--body", "b", "--head", "same")
    assert "No commits between main and same" in await gh(*same, code=1)
    assert (await gh.served.hub.holdings()).items == {}


async def test_a_draft_becomes_ready_and_a_draft_again(gh: Gh) -> None:
    number = await opened(gh, "feat", "--draft")
    assert (await gh.item(number)).draft
    assert "draft" in (await gh("pr", "merge", str(number), "--squash", code=1)).lower()
    await gh("pr", "ready", str(number))
    assert not (await gh.item(number)).draft
    if gh.new:
        await gh("pr", "ready", str(number), "--undo")
        assert (await gh.item(number)).draft


async def test_a_view_tells_every_field_there_is(gh: Gh) -> None:
    hub = gh.served.hub
    issue = await hub.open_issue((await hub.holdings()).accounts["wanda"], title="Broken")
    head = await gh.branch("feat", text="one\ntwo\n")
    number = number_in(await gh("pr", "create", "--title", "Fix", "--body", f"Closes #{issue.number}"))
    await gh("pr", "comment", str(number), "--body", "look")
    await gh("pr", "review", str(number), "--approve", "--body", "good", login="wanda")
    await hub.report(head, "build", conclusion="success")
    told = await gh.read("pr", "view", str(number))
    assert (told["number"], told["url"], told["state"]) == (number, f"{PUBLIC}/pull/{number}", "OPEN")
    assert (told["headRefName"], told["headRefOid"], told["baseRefName"]) == ("feat", head, "main")
    assert (told["mergeable"], told["mergeStateStatus"], told["isDraft"]) == ("MERGEABLE", "CLEAN", False)
    assert (told["additions"], told["deletions"], told["changedFiles"]) == (2, 0, 1)
    assert [one["path"] for one in told["files"]] == ["feat.txt"]
    assert [one["oid"] for one in told["commits"]] == [head]
    assert [(one["author"]["login"], one["body"]) for one in told["comments"]] == [(OWNER, "look")]
    assert [(one["author"]["login"], one["state"], one["body"]) for one in told["reviews"]] == [
        ("wanda", "APPROVED", "good")
    ]
    assert told["reviewDecision"] == "APPROVED"
    assert [(one["name"], one["status"], one["conclusion"]) for one in told["statusCheckRollup"]] == [
        ("build", "COMPLETED", "SUCCESS")
    ]
    assert (told["headRepositoryOwner"]["login"], told["isCrossRepository"]) == (OWNER, False)
    if gh.new:
        assert [one["number"] for one in told["closingIssuesReferences"]] == [issue.number]
        (closed_by,) = (await gh.read("issue", "view", str(issue.number)))["closedByPullRequestsReferences"]
        assert closed_by["number"] == number
    (listed,) = await gh.read("pr", "list")
    assert listed["headRefOid"] == told["headRefOid"] and listed["statusCheckRollup"] == told["statusCheckRollup"]
    for absent, words in (("77", "77"), ("nosuch", 'no pull requests found for branch "nosuch"')):
        assert words in await gh("pr", "view", absent, code=1)


async def test_lists_are_filtered_and_searched(gh: Gh) -> None:
    one = await opened(gh, "one")
    two = await opened(gh, "two", "--draft", login="wanda")
    await gh("pr", "close", str(one))

    async def listed(*args: str) -> list[int]:
        return [found["number"] for found in await gh.read("pr", "list", *args, fields="number")]

    assert await listed() == [two]
    assert await listed("--state", "all") == [two, one]
    assert await listed("--state", "closed") == [one]
    assert await listed("--author", "wanda") == [two]
    assert await listed("--draft") == [two]
    assert await listed("--base", "main", "--head", "two") == [two]
    assert await listed("--search", "one in:title", "--state", "all") == [one]
    assert await listed("--search", "head:two") == [two]
    assert await listed("--label", "bug") == []


async def test_status_tells_what_is_mine_and_what_is_asked_of_me(gh: Gh) -> None:
    theirs = await opened(gh, "theirs", "--reviewer", OWNER, login="wanda")
    mine = await opened(gh, "mine")
    told = await gh.read("pr", "status", fields="number")
    assert told["currentBranch"]["number"] == mine
    assert [one["number"] for one in told["createdBy"]] == [mine]
    assert [one["number"] for one in told["needsReview"]] == [theirs]
    assert "Do mine" in await gh("pr", "status")


async def test_a_diff_is_what_git_says(gh: Gh) -> None:
    number = await opened(gh)
    told = await gh("pr", "diff", str(number))
    assert "+++ b/feat.txt" in told and "\n+more\n" in told
    assert (await gh("pr", "diff", str(number), "--name-only")).split() == ["feat.txt"]
    assert "Subject: [PATCH] change feat.txt" in await gh("pr", "diff", str(number), "--patch")


async def test_reviews_say_what_was_thought_and_of_which_commit(gh: Gh) -> None:
    number = await opened(gh)
    await gh("pr", "review", str(number), "--request-changes", "--body", "no\n\nreally", login="wanda")
    await gh("pr", "review", str(number), "--comment", "--body", "hm", login="rita")
    item = await gh.item(number)
    assert [(one.author, one.opinion, one.body) for one in item.reviews] == [
        ("wanda", "request_changes", "no\n\nreally"),
        ("rita", "comment", "hm"),
    ]
    assert {one.commit for one in item.reviews} == {item.head_commit}
    decided = await gh.read("pr", "view", str(number), fields="reviewDecision,latestReviews")
    assert decided["reviewDecision"] == "CHANGES_REQUESTED"
    await gh("pr", "review", str(number), "--approve", login="wanda")
    decided = await gh.read("pr", "view", str(number), fields="reviewDecision,latestReviews")
    assert decided["reviewDecision"] == "APPROVED"
    assert {one["author"]["login"]: one["state"] for one in decided["latestReviews"]} == {
        "wanda": "APPROVED",
        "rita": "COMMENTED",
    }
    own = await gh("pr", "review", str(number), "--approve", code=1)
    assert "Can not approve your own pull request" in own


async def test_an_edit_changes_title_body_base_labels_and_reviewers(gh: Gh) -> None:
    hub = gh.served.hub
    await hub.make_label((await hub.holdings()).accounts[OWNER], "urgent")
    await gh.git("push", "--quiet", "origin", "main:release")
    number = await opened(gh)
    await gh("pr", "edit", str(number), "--title", "New 🦀", "--body", "", "--base", "release")
    await gh("pr", "edit", str(number), "--add-label", "urgent", "--add-reviewer", "wanda", "--add-assignee", "wanda")
    item = await gh.item(number)
    assert (item.title, item.body, item.base, item.labels) == ("New 🦀", "", "release", ("urgent",))
    assert (item.reviewers, item.assignees) == (("wanda",), ("wanda",))
    await gh("pr", "edit", str(number), "--remove-label", "urgent", "--remove-reviewer", "wanda")
    item = await gh.item(number)
    assert (item.labels, item.reviewers) == ((), ())


async def test_comments_are_written_and_edited_in_place(gh: Gh) -> None:
    number = await opened(gh)
    url = (await gh("pr", "comment", str(number), "--body", "first")).strip()
    await gh("pr", "comment", str(number), "--edit-last", "--body", "<!-- marker -->\nsaid better")
    (only,) = (await gh.item(number)).remarks
    assert url == f"{PUBLIC}/pull/{number}#issuecomment-{only.id}"
    assert only.body == "<!-- marker -->\nsaid better"
    assert "said better" in await gh("pr", "view", str(number), "--comments")


async def test_a_squash_lands_the_tree_deletes_the_branch_and_closes_the_issue(gh: Gh) -> None:
    hub = gh.served.hub
    issue = await hub.open_issue((await hub.holdings()).accounts["wanda"], title="Broken")
    head = await gh.branch("feat")
    number = number_in(await gh("pr", "create", "--title", "Fix", "--body", f"Fixes #{issue.number}"))
    wrong = ("pr", "merge", str(number), "--squash", "--match-head-commit", "0" * 40)
    assert "Head branch was modified" in await gh(*wrong, code=1)
    assert (await gh.item(number)).state == "open"
    await gh("pr", "merge", str(number), "--squash", "--delete-branch", "--match-head-commit", head)
    item = await gh.item(number)
    assert (item.state, item.merged_by) == ("merged", OWNER)
    assert (await gh.item(issue.number)).state == "closed"
    held = await hub.holdings()
    assert "refs/heads/feat" not in held.refs and held.refs["refs/heads/main"] == item.merge_commit
    # gh leaves the clone on the default branch, with what was merged.
    assert (await gh.git("log", "--format=%s|%P", "-1", "main")).startswith("Fix (#")
    assert (await gh.git("show", "main:feat.txt")) == "more\n"
    told = await gh.read("pr", "view", str(number), fields="state,mergeCommit,mergedBy,mergedAt")
    assert (told["state"], told["mergeCommit"]["oid"], told["mergedBy"]["login"]) == (
        "MERGED",
        item.merge_commit,
        OWNER,
    )


async def test_every_method_merges_with_the_message_that_was_given(gh: Gh) -> None:
    await gh.branch("joined")
    await gh("pr", "create", "--fill")
    await gh("pr", "merge", "joined", "--merge", "--subject", "Joined", "--body", "because")
    told = (await gh.served.hub.commit((await gh.served.hub.holdings()).refs["refs/heads/main"])).message
    assert told == "Joined\n\nbecause\n"
    await gh.git("checkout", "--quiet", "main")
    await gh.git("pull", "--quiet", "origin", "main")
    tip = await gh.branch("replayed")
    await gh("pr", "create", "--fill")
    await gh("pr", "merge", "--rebase")
    held = await gh.served.hub.holdings()
    landed = await gh.served.hub.commit(held.refs["refs/heads/main"])
    assert landed and landed.message.strip() == "change replayed.txt" and len(landed.parents) == 1
    assert tip in (landed.id, *(item.head_commit for item in held.items.values()))


async def test_a_conflict_and_a_missing_check_keep_it_from_being_merged(gh: Gh) -> None:
    await gh.branch("feat")
    number = number_in(await gh("pr", "create", "--title", "T", "--body", "b"))
    await gh.served.hub.require(("build",))
    # gh itself refuses what the state says is blocked; it is told how to insist.
    assert "not mergeable" in await gh("pr", "merge", str(number), "--squash", login="wanda", code=1)
    await gh.git("checkout", "--quiet", "main")
    await gh.commit("feat.txt", "other\n")
    await gh.git("push", "--quiet", "origin", "main")
    told = await gh.read("pr", "view", str(number), fields="mergeable,mergeStateStatus")
    assert told == {"mergeable": "CONFLICTING", "mergeStateStatus": "DIRTY"}
    assert "not mergeable" in await gh("pr", "merge", str(number), "--squash", code=1)
    assert (await gh.item(number)).state == "open"


async def test_nothing_waits_here_to_be_merged_by_itself(gh: Gh) -> None:
    number = await opened(gh)
    await gh.served.hub.require(("build",))
    told = await gh("pr", "merge", str(number), "--auto", "--squash", code=1)
    assert "Auto merge is not allowed for this repository" in told
    assert (await gh.item(number)).state == "open"


async def test_one_that_is_closed_is_opened_again_unless_its_branch_is_gone(gh: Gh) -> None:
    number = await opened(gh)
    await gh("pr", "close", str(number), "--comment", "not now")
    item = await gh.item(number)
    assert (item.state, [one.body for one in item.remarks]) == ("closed", ["not now"])
    await gh("pr", "reopen", str(number))
    assert (await gh.item(number)).state == "open"
    await gh("pr", "close", str(number), "--delete-branch")
    assert "refs/heads/feat" not in (await gh.served.hub.holdings()).refs
    await gh("pr", "reopen", str(number), code=1)
    assert (await gh.item(number)).state == "closed"


async def test_a_checkout_brings_the_branch(gh: Gh) -> None:
    number = await opened(gh)
    await gh.git("checkout", "--quiet", "main")
    await gh.git("branch", "--delete", "--force", "feat")
    await gh("pr", "checkout", str(number))
    assert (await gh.git("rev-parse", "--abbrev-ref", "HEAD")).strip() == "feat"
    assert (await gh.git("rev-parse", "HEAD")).strip() == (await gh.item(number)).head_commit


async def test_a_branch_is_brought_up_to_date_with_its_base(gh: Gh) -> None:
    if not gh.new:
        await gh("pr", "update-branch", "1", code=1)
        return
    number = await opened(gh)
    before = (await gh.item(number)).head_commit
    assert "already up-to-date" in await gh("pr", "update-branch", str(number))
    await gh.git("checkout", "--quiet", "main")
    await gh.commit("b.txt", "b\n")
    await gh.git("push", "--quiet", "origin", "main")
    await gh("pr", "update-branch", str(number))
    merged = await gh.served.hub.commit((await gh.item(number)).head_commit)
    assert merged and merged.parents == (before, (await gh.git("rev-parse", "main")).strip())
    await gh.commit("c.txt", "c\n")
    await gh.git("push", "--quiet", "origin", "main")
    await gh.git("push", "--quiet", "--force", "origin", f"{before}:feat")
    await gh("pr", "update-branch", str(number), "--rebase")
    rebased = await gh.served.hub.commit((await gh.item(number)).head_commit)
    assert rebased and rebased.parents == ((await gh.git("rev-parse", "main")).strip(),)


async def test_somebody_who_may_only_read_merges_nothing(gh: Gh) -> None:
    number = await opened(gh)
    told = await gh("pr", "merge", str(number), "--squash", login="rita", code=1)
    assert "rita does not have the correct permissions to execute `MergePullRequest`" in told
    assert (await gh.item(number)).state == "open"
