"""What GitHub refuses is refused with GitHub's status and words."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.forge_server.rest_scene import REPO, Scene, set_up
from tests.forge_server.serving import OWNER, Served


async def said(answer: httpx.Response) -> tuple[int, str]:
    """The status and every word that explains it."""
    told = answer.json()
    errors = [
        one["message"] if isinstance(one, dict) and "message" in one else str(one) for one in told.get("errors", [])
    ]
    return answer.status_code, " ".join([told["message"], *errors])


@pytest.fixture
async def scene(served: Served) -> Scene:
    return await set_up(served)


async def test_a_second_pull_request_for_the_same_branches_is_refused(scene: Scene) -> None:
    await scene.pull()
    body = {"head": "topic", "base": "main", "title": "Once more"}
    status, words = await said(await scene.served.client().post(f"{REPO}/pulls", json=body))
    assert status == 422
    assert f"A pull request already exists for {OWNER}:topic." in words


async def test_of_two_who_propose_at_once_one_is_told_that_it_exists(scene: Scene) -> None:
    body = {"head": "topic", "base": "main", "title": "Mine"}
    client = scene.served.client()
    answers = await asyncio.gather(*(client.post(f"{REPO}/pulls", json=body) for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [201, 422, 422, 422]
    for one in answers:
        if one.status_code == 422:
            assert "A pull request already exists" in (await said(one))[1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"head": "main", "base": "main"}, "No commits between main and main"),
        ({"head": "topic~1", "base": "main"}, "Validation Failed"),
        ({"head": "stranger:topic", "base": "main"}, "Validation Failed"),
        ({"head": "topic", "base": "nowhere"}, "Validation Failed"),
        ({"base": "main"}, '"head" wasn\'t supplied'),
        ({"head": 7, "base": "main"}, "7 is not a string"),
    ],
)
async def test_a_pull_request_of_nothing_is_refused(scene: Scene, body: dict[str, Any], words: str) -> None:
    status, told = await said(await scene.served.client().post(f"{REPO}/pulls", json={"title": "x", **body}))
    assert status == 422
    assert words in told


async def test_another_head_than_expected_is_not_merged(scene: Scene) -> None:
    number = await scene.pull()
    client = scene.served.client()
    answer = await client.put(f"{REPO}/pulls/{number}/merge", json={"sha": scene.main})
    assert await said(answer) == (409, "Head branch was modified. Review and try the merge again.")
    assert (await client.put(f"{REPO}/pulls/{number}/merge", json={"sha": scene.topic})).status_code == 200
    assert await said(await client.put(f"{REPO}/pulls/{number}/merge")) == (405, "Pull Request is not mergeable")


async def test_a_draft_or_a_conflict_is_not_merged(scene: Scene) -> None:
    draft = await scene.pull(draft=True)
    client = scene.served.client()
    assert await said(await client.put(f"{REPO}/pulls/{draft}/merge")) == (405, "Pull Request is still a draft")
    for branch in ("left", "right"):
        commit = await scene.commit({"src/one.txt": f"{branch}\n"}, parent=scene.main)
        await scene.branch(branch, commit)
    await client.put(f"{REPO}/pulls/{await scene.pull(head='left')}/merge")
    late = await scene.pull(head="right")
    assert (await client.get(f"{REPO}/pulls/{late}")).json()["mergeable_state"] == "dirty"
    assert await said(await client.put(f"{REPO}/pulls/{late}/merge")) == (405, "Pull Request is not mergeable")


async def test_who_is_no_admin_waits_for_the_required_checks(scene: Scene) -> None:
    number = await scene.pull()
    hub, wanda = scene.served.hub, scene.served.client("wanda")
    await hub.require(["test"])
    merge = f"{REPO}/pulls/{number}/merge"
    assert await said(await wanda.put(merge)) == (405, 'Required status check "test" is expected.')
    await hub.report(scene.topic, "test", conclusion="failure")
    assert await said(await wanda.put(merge)) == (405, 'Required status check "test" is failing.')
    assert (await wanda.get(f"{REPO}/pulls/{number}")).json()["mergeable_state"] == "blocked"
    await hub.report(scene.topic, "test", conclusion="success")
    assert (await wanda.get(f"{REPO}/pulls/{number}")).json()["mergeable_state"] == "clean"
    assert (await wanda.put(merge)).status_code == 200


async def test_a_ref_is_made_once_and_moved_forwards_only(scene: Scene) -> None:
    client = scene.served.client()
    body = {"ref": "refs/resolvent/claims/issue-1", "sha": scene.main}
    assert (await client.post(f"{REPO}/git/refs", json=body)).status_code == 201
    assert await said(await client.post(f"{REPO}/git/refs", json=body)) == (422, "Reference already exists")
    back = await client.patch(f"{REPO}/git/refs/heads/topic", json={"sha": scene.main})
    assert await said(back) == (422, "Update is not a fast forward")
    forced = await client.patch(f"{REPO}/git/refs/heads/topic", json={"sha": scene.main, "force": True})
    assert forced.status_code == 200
    assert (await client.delete(f"{REPO}/git/refs/heads/topic")).status_code == 204
    assert await said(await client.delete(f"{REPO}/git/refs/heads/topic")) == (422, "Reference does not exist")
    assert (await client.get(f"{REPO}/git/ref/heads/topic")).status_code == 404


async def test_of_many_who_claim_at_once_exactly_one_does(scene: Scene) -> None:
    client = scene.served.client()
    body = {"ref": "refs/resolvent/claims/issue-9", "sha": scene.main}
    answers = await asyncio.gather(*(client.post(f"{REPO}/git/refs", json=body) for _ in range(5)))
    assert sorted(one.status_code for one in answers) == [201, 422, 422, 422, 422]
    assert {(await said(one))[1] for one in answers if one.status_code == 422} == {"Reference already exists"}


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("heads/x", "must start with 'refs/'"),
        ("refs/x", "at least two slashes"),
        ("refs/heads/a..b", "is not a valid ref name"),
        ("refs/heads/a b", "is not a valid ref name"),
        ("refs/heads/a\nb", "is not a valid ref name"),
    ],
)
async def test_a_ref_of_no_name_is_refused(scene: Scene, ref: str, words: str) -> None:
    answer = await scene.served.client().post(f"{REPO}/git/refs", json={"ref": ref, "sha": scene.main})
    status, told = await said(answer)
    assert status == 422
    assert words in told


async def test_bodies_of_64_kb_are_kept_and_longer_ones_refused(served: Served) -> None:
    client = served.client()
    long = "é" * 65536
    made = await client.post(f"{REPO}/issues", json={"title": "Long", "body": long})
    assert made.json()["body"] == long
    status, words = await said(await client.post(f"{REPO}/issues", json={"title": "Longer", "body": long + "!"}))
    assert (status, "body is too long (maximum is 65536 characters)" in words) == (422, True)
    comment = await client.post(f"{REPO}/issues/1/comments", json={"body": long + "!"})
    assert comment.status_code == 422


async def test_titles_are_one_line_of_at_most_256_characters_whatever_is_in_them(served: Served) -> None:
    client = served.client()
    odd = "<b>🎉 „Fine“ & `so` \\ \u202e on</b>"
    assert (await client.post(f"{REPO}/issues", json={"title": odd})).json()["title"] == odd
    for title in ("", "  ", "a\nb", "x" * 257, 7, None, ["x"], "\ud800", "a\0b"):
        answer = await client.post(f"{REPO}/issues", content=json.dumps({"title": title}))
        assert answer.status_code == 422, title


async def test_who_may_only_read_opens_issues_but_gives_no_labels(scene: Scene) -> None:
    rita = scene.served.client("rita")
    made = await rita.post(f"{REPO}/issues", json={"title": "Please", "labels": ["bug"], "assignees": ["wanda"]})
    assert made.status_code == 201
    assert (made.json()["labels"], made.json()["assignees"]) == ([], [])
    number = made.json()["number"]
    assert (await rita.patch(f"{REPO}/issues/{number}", json={"title": "Please!"})).status_code == 200
    pull = await scene.pull()
    for asked in (
        rita.post(f"{REPO}/issues/{number}/labels", json={"labels": ["bug"]}),
        rita.post(f"{REPO}/labels", json={"name": "mine"}),
        rita.put(f"{REPO}/pulls/{pull}/merge"),
        rita.patch(f"{REPO}/pulls/{pull}", json={"state": "closed"}),
        rita.post(f"{REPO}/git/refs", json={"ref": "refs/heads/mine", "sha": scene.main}),
        rita.delete(f"{REPO}/git/refs/heads/topic"),
        rita.post(f"{REPO}/statuses/{scene.main}", json={"state": "success"}),
        rita.get(f"{REPO}/collaborators"),
    ):
        assert (await asked).status_code == 403
    assert (await rita.get(f"{REPO}/hooks")).status_code == 404
    assert (await rita.get(f"{REPO}/branches/main/protection")).status_code == 404


async def test_labels_are_known_however_they_are_capitalised(served: Served) -> None:
    client = served.client()
    await client.post(f"{REPO}/labels", json={"name": "Bug"})
    again = await client.post(f"{REPO}/labels", json={"name": "bug"})
    assert (again.status_code, again.json()["errors"][0]["code"]) == (422, "already_exists")
    await client.post(f"{REPO}/issues", json={"title": "x"})
    given = await client.post(f"{REPO}/issues/1/labels", json=["bug"])
    assert [one["name"] for one in given.json()] == ["Bug"]
    assert await said(await client.delete(f"{REPO}/issues/1/labels/other")) == (404, "Label does not exist")
    assert (await client.delete(f"{REPO}/issues/1/labels/BUG")).json() == []


async def test_reviews_are_asked_of_collaborators_other_than_the_author(scene: Scene) -> None:
    number = await scene.pull()
    client = scene.served.client()
    path = f"{REPO}/pulls/{number}/requested_reviewers"
    own = await said(await client.post(path, json={"reviewers": [OWNER]}))
    assert own == (422, "Review cannot be requested from pull request author.")
    stranger = await said(await client.post(path, json={"reviewers": ["stranger"]}))
    assert "Reviews may only be requested from collaborators" in stranger[1]
    twice = [await client.post(path, json={"reviewers": ["wanda"]}) for _ in range(2)]
    assert [one["login"] for one in twice[1].json()["requested_reviewers"]] == ["wanda"]
    approve = await client.post(f"{REPO}/pulls/{number}/reviews", json={"event": "APPROVE"})
    assert await said(approve) == (422, "Unprocessable Entity Can not approve your own pull request")


async def test_what_a_deleted_branch_leaves_cannot_be_reopened(scene: Scene) -> None:
    number = await scene.pull()
    client = scene.served.client()
    await client.delete(f"{REPO}/git/refs/heads/topic")
    assert (await client.get(f"{REPO}/pulls/{number}")).json()["state"] == "closed"
    status, words = await said(await client.patch(f"{REPO}/pulls/{number}", json={"state": "open"}))
    assert (status, "The topic branch has been deleted" in words) == (422, True)


async def test_a_reaction_is_given_once(served: Served) -> None:
    client = served.client()
    await client.post(f"{REPO}/issues", json={"title": "x"})
    path = f"{REPO}/issues/1/reactions"
    first, second = [await client.post(path, json={"content": "eyes"}) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert (await client.post(path, json={"content": "shrug"})).status_code == 422


async def test_a_job_that_runs_is_not_run_again(scene: Scene) -> None:
    await scene.served.hub.report(scene.topic, "test", status="in_progress")
    client = scene.served.client()
    run = (await client.get(f"{REPO}/actions/runs")).json()["workflow_runs"][0]
    again = await client.post(f"{REPO}/actions/runs/{run['id']}/rerun")
    assert await said(again) == (403, "This workflow is already running")


async def test_fields_that_the_newest_api_took_away_are_told_to_older_clients_only(scene: Scene) -> None:
    number = await scene.pull()
    client = scene.served.client()
    older = (await client.get(f"{REPO}/pulls/{number}")).json()
    newer = (await client.get(f"{REPO}/pulls/{number}", headers={"x-github-api-version": "2026-03-10"})).json()
    assert set(older) - set(newer) == {"assignee", "merge_commit_sha"}


async def test_a_repository_that_is_not_there_is_not_found(served: Served) -> None:
    client = served.client()
    for path in (
        "/repos/acme/other",
        "/repos/other/widget/issues",
        f"{REPO}/nothing",
        f"{REPO}/issues/99",
        "/orgs/acme",
    ):
        assert (await client.get(path)).status_code == 404
    assert (await client.get("/repos/ACME/Widget")).status_code == 200


async def test_required_checks_are_read_by_everybody_through_the_rules(scene: Scene) -> None:
    await scene.served.hub.require(["lint", "test"])
    rita = scene.served.client("rita")
    (rule,) = (await rita.get(f"{REPO}/rules/branches/main")).json()
    assert [one["context"] for one in rule["parameters"]["required_status_checks"]] == ["lint", "test"]
    assert (await rita.get(f"{REPO}/rules/branches/topic")).json() == []
    admin = scene.served.client()
    assert await said(await admin.get(f"{REPO}/branches/topic/protection")) == (404, "Branch not protected")
    assert await said(await admin.get(f"{REPO}/branches/none/protection")) == (404, "Branch not found")


async def test_a_diff_and_a_patch_are_had_by_their_media_types(scene: Scene) -> None:
    number = await scene.pull()
    client = scene.served.client()
    path = f"{REPO}/pulls/{number}"
    diff = await client.get(path, headers={"accept": "application/vnd.github.v3.diff"})
    assert diff.text.startswith("diff --git a/src/two.txt")
    patch = await client.get(path, headers={"accept": "application/vnd.github.patch"})
    assert "Subject: [PATCH] Add two" in patch.text
