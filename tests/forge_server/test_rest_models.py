"""githubkit's strict models accept the answer of every route."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from githubkit.auth import AppAuthStrategy, AppInstallationAuthStrategy
from starlette.routing import Route
from tests.forge_server.rest_scene import Scene, route_of, set_up
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.forge_server.rest import routes
from resolvent.forge_server.rest.apps import register

AT = (OWNER, NAME)
# githubkit has no method for these, or none that reads an answer; test_rest_*.py ask for them plainly.
PLAIN: set[str] = {
    "GET /orgs/{login}/repos",
    "GET /users/{login}/repos",
    "GET /repositories/{id:int}",
    "GET /repos/{owner}/{repo}/contents",
}


async def parsed(asked: Any) -> Any:
    """The answer as its model has it."""
    return (await asked).parsed_data


@pytest.mark.spec("F10")
async def test_githubkit_reads_the_answer_of_every_route(served: Served) -> None:
    scene = await set_up(served)
    for story in (
        doors,
        issues,
        labels,
        comments,
        pulls,
        reviews,
        checks,
        actions,
        commits,
        git_objects,
        hooks,
        apps,
        transfers,
        closing,
    ):
        await story(scene)
    asked = {route_of(seen.method, seen.path) for seen in served.requests if seen.status < 400}
    there = {str(route.name) for route in routes() if isinstance(route, Route)}
    assert there - asked - PLAIN == set()


async def doors(scene: Scene) -> None:
    rest = scene.rest
    await parsed(rest.meta.async_root())
    await parsed(rest.meta.async_get())
    assert (await parsed(rest.meta.async_get_all_versions()))[-1].isoformat() == "2026-03-10"
    assert (await parsed(rest.rate_limit.async_get())).resources.core.limit == 5000
    assert (await parsed(rest.users.async_get_authenticated())).login == OWNER
    assert (await parsed(rest.users.async_get_by_username("Wanda"))).login == "wanda"
    assert [one.full_name for one in await parsed(rest.repos.async_list_for_authenticated_user())] == [
        f"{OWNER}/{NAME}"
    ]
    assert (await parsed(rest.repos.async_get(*AT))).permissions.admin is True
    assert (await parsed(rest.repos.async_update(*AT, has_wiki=False))).default_branch == "main"
    assert {one.login for one in await parsed(rest.repos.async_list_collaborators(*AT))} == {OWNER, "wanda", "rita"}
    await rest.repos.async_check_collaborator(*AT, "wanda")
    level = await parsed(rest.repos.async_get_collaborator_permission_level(*AT, "wanda"))
    assert (level.permission, level.role_name, level.user.login) == ("write", "write", "wanda")
    assert "rita" in {one.login for one in await parsed(rest.issues.async_list_assignees(*AT))}
    await rest.issues.async_check_user_can_be_assigned(*AT, "wanda")


async def issues(scene: Scene) -> None:
    rest = scene.rest
    made = await parsed(rest.issues.async_create(*AT, title="It panics", body="At night", labels=["bug"]))
    assert (made.number, made.state, made.user.login) == (1, "open", OWNER)
    assert [one.name for one in made.labels] == ["bug"]
    changed = await parsed(rest.issues.async_update(*AT, 1, title="It panics at night", assignees=["wanda"]))
    assert changed.title == "It panics at night"
    assert [one.login for one in (await parsed(rest.issues.async_get(*AT, 1))).assignees] == ["wanda"]
    assert [one.number for one in await parsed(rest.issues.async_list_for_repo(*AT))] == [1]
    assert {one.event for one in await parsed(rest.issues.async_list_events(*AT, 1))} == {"labeled", "assigned"}
    await rest.issues.async_lock(*AT, 1)
    assert (await parsed(rest.issues.async_get(*AT, 1))).locked is True
    await rest.issues.async_unlock(*AT, 1)
    found = await parsed(rest.search.async_issues_and_pull_requests(q=f"repo:{OWNER}/{NAME} is:issue panics"))
    assert (found.total_count, found.items[0].number) == (1, 1)
    assert (await parsed(rest.search.async_repos(q="widget"))).total_count == 1


async def labels(scene: Scene) -> None:
    rest = scene.rest.issues
    made = await parsed(rest.async_create_label(*AT, name="area/core", color="FF00aa", description="The core"))
    assert (made.name, made.color, made.description) == ("area/core", "ff00aa", "The core")
    assert (await parsed(rest.async_get_label(*AT, "area/core"))).id == made.id
    assert (await parsed(rest.async_update_label(*AT, "area/core", color="00ff00"))).color == "00ff00"
    assert [one.name for one in await parsed(rest.async_list_labels_for_repo(*AT))] == ["area/core", "bug"]
    await parsed(rest.async_add_labels(*AT, 1, labels=["area/core", "new"]))
    assert [one.name for one in await parsed(rest.async_list_labels_on_issue(*AT, 1))] == ["area/core", "bug", "new"]
    left = await parsed(rest.async_remove_label(*AT, 1, "area/core"))
    assert [one.name for one in left] == ["bug", "new"]
    assert [one.name for one in await parsed(rest.async_set_labels(*AT, 1, labels=["only"]))] == ["only"]
    await rest.async_remove_all_labels(*AT, 1)
    await rest.async_delete_label(*AT, "new")
    added = await parsed(rest.async_add_assignees(*AT, 1, assignees=["rita"]))
    assert [one.login for one in added.assignees] == ["rita", "wanda"]
    assert [one.login for one in (await parsed(rest.async_remove_assignees(*AT, 1, assignees=["rita"]))).assignees] == [
        "wanda"
    ]


async def comments(scene: Scene) -> None:
    rest, reactions = scene.rest.issues, scene.rest.reactions
    made = await parsed(rest.async_create_comment(*AT, 1, body="I saw it too"))
    assert made.html_url.endswith(f"/{OWNER}/{NAME}/issues/1#issuecomment-{made.id}")
    changed = await parsed(rest.async_update_comment(*AT, made.id, body="So did I"))
    assert (await parsed(rest.async_get_comment(*AT, made.id))).body == changed.body == "So did I"
    assert [one.id for one in await parsed(rest.async_list_comments(*AT, 1))] == [made.id]
    assert [one.id for one in await parsed(rest.async_list_comments_for_repo(*AT))] == [made.id]
    given = await parsed(reactions.async_create_for_issue_comment(*AT, made.id, content="eyes"))
    assert [one.id for one in await parsed(reactions.async_list_for_issue_comment(*AT, made.id))] == [given.id]
    await reactions.async_delete_for_issue_comment(*AT, made.id, given.id)
    mine = await parsed(reactions.async_create_for_issue(*AT, 1, content="+1"))
    assert [one.content for one in await parsed(reactions.async_list_for_issue(*AT, 1))] == ["+1"]
    assert (await parsed(rest.async_get(*AT, 1))).reactions.plus_one == 1
    await reactions.async_delete_for_issue(*AT, 1, mine.id)
    assert {one.event for one in await parsed(rest.async_list_events_for_timeline(*AT, 1))} == {"assigned", "commented"}
    await rest.async_delete_comment(*AT, made.id)
    assert await parsed(rest.async_list_comments(*AT, 1)) == []


async def pulls(scene: Scene) -> None:
    rest = scene.rest.pulls
    made = await parsed(rest.async_create(*AT, head="topic", base="main", title="Add two", body="Fixes #1", draft=True))
    assert (made.number, made.draft, made.head.sha, made.base.sha) == (2, True, scene.topic, scene.main)
    shown = await parsed(rest.async_get(*AT, 2))
    assert (shown.commits, shown.additions, shown.deletions, shown.changed_files) == (1, 1, 0, 1)
    assert (shown.mergeable, shown.mergeable_state, shown.merged) == (True, "draft", False)
    assert (await parsed(rest.async_update(*AT, 2, title="Add two files"))).title == "Add two files"
    assert [one.number for one in await parsed(rest.async_list(*AT, head=f"{OWNER}:topic"))] == [2]
    assert [one.filename for one in await parsed(rest.async_list_files(*AT, 2))] == ["src/two.txt"]
    assert [one.sha for one in await parsed(rest.async_list_commits(*AT, 2))] == [scene.topic]
    of_commit = await parsed(scene.rest.repos.async_list_pull_requests_associated_with_commit(*AT, scene.topic))
    assert [one.number for one in of_commit] == [2]
    assert (await parsed(scene.rest.issues.async_get(*AT, 2))).pull_request.url.endswith("/pulls/2")


async def reviews(scene: Scene) -> None:
    kit = scene.kit_of("wanda")
    rest, wanda = scene.rest.pulls, kit.rest.pulls
    asked = await parsed(rest.async_request_reviewers(*AT, 2, reviewers=["wanda", "rita"]))
    assert {one.login for one in asked.requested_reviewers} == {"wanda", "rita"}
    await parsed(rest.async_remove_requested_reviewers(*AT, 2, reviewers=["rita"]))
    assert [one.login for one in (await parsed(rest.async_list_requested_reviewers(*AT, 2))).users] == ["wanda"]
    line: Any = {"path": "src/two.txt", "line": 1, "body": "Why two?"}
    said = await parsed(wanda.async_create_review(*AT, 2, event="REQUEST_CHANGES", body="Not so", comments=[line]))
    assert (said.state, said.commit_id, said.user.login) == ("CHANGES_REQUESTED", scene.topic, "wanda")
    assert (await parsed(rest.async_get_review(*AT, 2, said.id))).body == "Not so"
    assert [one.id for one in await parsed(rest.async_list_reviews(*AT, 2))] == [said.id]
    assert [one.body for one in await parsed(rest.async_list_comments_for_review(*AT, 2, said.id))] == ["Why two?"]
    more = {"body": "And here?", "path": "src/two.txt", "line": 1, "commit_id": scene.topic}
    second = await parsed(wanda.async_create_review_comment(*AT, 2, **more))
    assert (await parsed(rest.async_get_review_comment(*AT, second.id))).body == "And here?"
    assert len(await parsed(rest.async_list_review_comments(*AT, 2))) == 2
    assert len(await parsed(rest.async_list_review_comments_for_repo(*AT))) == 2
    assert (await parsed(rest.async_dismiss_review(*AT, 2, said.id, message="Settled"))).state == "DISMISSED"


async def checks(scene: Scene) -> None:
    rest, repos = scene.rest.checks, scene.rest.repos
    made = await parsed(rest.async_create(*AT, name="test", head_sha=scene.topic, status="in_progress"))
    assert (made.status, made.conclusion) == ("in_progress", None)
    output = {"title": "Tests", "summary": "1 failed", "text": "E   assert 1 == 2\n"}
    ended = await parsed(rest.async_update(*AT, made.id, status="completed", conclusion="failure", output=output))
    assert (ended.id, ended.conclusion) == (made.id, "failure")
    assert (await parsed(rest.async_get(*AT, made.id))).head_sha == scene.topic
    assert await parsed(rest.async_list_annotations(*AT, made.id)) == []
    listed = await parsed(rest.async_list_for_ref(*AT, "topic"))
    assert [(one.name, one.conclusion) for one in listed.check_runs] == [("test", "failure")]
    suite = (await parsed(rest.async_list_suites_for_ref(*AT, scene.topic))).check_suites[0]
    assert (suite.conclusion, suite.head_branch) == ("failure", "topic")
    assert (await parsed(rest.async_get_suite(*AT, suite.id))).id == suite.id
    assert (await parsed(rest.async_list_for_suite(*AT, suite.id))).total_count == 1
    status = await parsed(repos.async_create_commit_status(*AT, scene.topic, state="success", context="lint"))
    assert (status.state, status.context) == ("success", "lint")
    combined = await parsed(repos.async_get_combined_status_for_ref(*AT, scene.topic))
    assert (combined.state, combined.total_count) == ("success", 1)
    assert [one.context for one in await parsed(repos.async_list_commit_statuses_for_ref(*AT, "topic"))] == ["lint"]


async def actions(scene: Scene) -> None:
    rest = scene.rest.actions
    run = (await parsed(rest.async_list_workflow_runs_for_repo(*AT, head_sha=scene.topic))).workflow_runs[0]
    assert (run.status, run.conclusion, run.run_attempt, run.head_branch) == ("completed", "failure", 1, "topic")
    assert (await parsed(rest.async_get_workflow_run(*AT, run.id))).event == "pull_request"
    job = (await parsed(rest.async_list_jobs_for_workflow_run(*AT, run.id))).jobs[0]
    assert (await parsed(rest.async_get_job_for_workflow_run(*AT, job.id))).name == "test"
    assert "assert 1 == 2" in (await rest.async_download_job_logs_for_workflow_run(*AT, job.id)).text
    assert (await rest.async_download_workflow_run_logs(*AT, run.id)).content.startswith(b"PK")
    assert (await parsed(rest.async_list_workflow_run_artifacts(*AT, run.id))).total_count == 0
    workflow = (await parsed(rest.async_list_repo_workflows(*AT))).workflows[0]
    assert (await parsed(rest.async_get_workflow(*AT, workflow.id))).name == "CI"
    assert (await parsed(rest.async_list_workflow_runs(*AT, workflow.id))).total_count == 1
    await rest.async_re_run_workflow_failed_jobs(*AT, run.id)
    again = await parsed(rest.async_get_workflow_run(*AT, run.id))
    assert (again.status, again.conclusion, again.run_attempt) == ("queued", None, 2)
    first = await parsed(rest.async_get_workflow_run_attempt(*AT, run.id, 1))
    assert (first.conclusion, first.run_attempt) == ("failure", 1)
    earlier = await parsed(rest.async_list_jobs_for_workflow_run_attempt(*AT, run.id, 1))
    assert [one.id for one in earlier.jobs] == [job.id]
    await rest.async_download_workflow_run_attempt_logs(*AT, run.id, 1)
    await scene.served.hub.report(scene.topic, "test", conclusion="success")
    await rest.async_re_run_workflow(*AT, run.id)
    await scene.served.hub.report(scene.topic, "test", conclusion="success")
    newest = (await parsed(rest.async_list_jobs_for_workflow_run(*AT, run.id))).jobs[0]
    await rest.async_re_run_job_for_workflow_run(*AT, newest.id)
    await scene.served.hub.report(scene.topic, "test", conclusion="success")
    await scene.rest.checks.async_rerequest_run(*AT, newest.id)
    await scene.served.hub.report(scene.topic, "test", conclusion="success")
    assert (await parsed(rest.async_get_workflow_run(*AT, run.id))).run_attempt == 5


async def commits(scene: Scene) -> None:
    rest = scene.rest.repos
    assert [one.sha for one in await parsed(rest.async_list_commits(*AT, sha="topic"))] == [scene.topic, scene.main]
    shown = await parsed(rest.async_get_commit(*AT, "topic"))
    assert (shown.sha, [one.filename for one in shown.files]) == (scene.topic, ["src/two.txt"])
    compared = await parsed(rest.async_compare_commits(*AT, "main...topic"))
    assert (compared.status, compared.ahead_by, compared.behind_by) == ("ahead", 1, 0)
    top = await parsed(rest.async_get_content(*AT, ""))
    assert [(one.name, one.type) for one in top] == [("README.md", "file"), ("src", "dir")]
    assert (await parsed(rest.async_get_content(*AT, "src/two.txt", ref="topic"))).size == 4
    assert (await parsed(rest.async_get_readme(*AT))).name == "README.md"
    assert [one.name for one in await parsed(rest.async_list_branches(*AT))] == ["main", "topic"]
    assert (await parsed(rest.async_get_branch(*AT, "topic"))).commit.sha == scene.topic


async def git_objects(scene: Scene) -> None:
    rest = scene.rest.git
    assert (await parsed(rest.async_get_ref(*AT, "heads/topic"))).object_.sha == scene.topic
    assert [one.ref for one in await parsed(rest.async_list_matching_refs(*AT, "heads/t"))] == ["refs/heads/topic"]
    made = await parsed(rest.async_get_commit(*AT, scene.topic))
    assert made.message == "Add two\n\nAs asked.\n"
    tree = await parsed(rest.async_get_tree(*AT, made.tree.sha, recursive="1"))
    assert [one.path for one in tree.tree] == ["README.md", "src", "src/one.txt", "src/two.txt"]
    blob = await parsed(rest.async_create_blob(*AT, content="aGkK", encoding="base64"))
    assert (await parsed(rest.async_get_blob(*AT, blob.sha))).size == 3
    await parsed(rest.async_create_ref(*AT, ref="refs/heads/spare", sha=scene.main))
    assert (await parsed(rest.async_update_ref(*AT, "heads/spare", sha=scene.topic))).object_.sha == scene.topic
    await rest.async_delete_ref(*AT, "heads/spare")


async def hooks(scene: Scene) -> None:
    rest, hooks = scene.rest.repos, scene.served.serving.hooks
    config: Any = {"url": "http://127.0.0.1:9/", "content_type": "json", "secret": "s3cret"}
    made = await parsed(rest.async_create_webhook(*AT, config=config, events=["issues"]))
    assert (made.events, made.config.secret) == (["issues"], "********")
    assert [one.id for one in await parsed(rest.async_list_webhooks(*AT))] == [made.id]
    changed = await parsed(rest.async_update_webhook(*AT, made.id, add_events=["push"]))
    assert changed.events == ["issues", "push"]
    assert (await parsed(rest.async_get_webhook_config_for_repo(*AT, made.id))).url == config["url"]
    form = await parsed(rest.async_update_webhook_config_for_repo(*AT, made.id, content_type="form"))
    assert form.content_type == "form"
    await rest.async_ping_webhook(*AT, made.id)
    await hooks.idle()
    assert (await parsed(rest.async_get_webhook(*AT, made.id))).last_response.code is None
    delivered = (await parsed(rest.async_list_webhook_deliveries(*AT, made.id)))[0]
    whole = await parsed(rest.async_get_webhook_delivery(*AT, made.id, delivered.id))
    assert (whole.event, whole.status_code) == ("ping", 0)
    await parsed(rest.async_redeliver_webhook_delivery(*AT, made.id, delivered.id))
    await hooks.idle()
    assert (await parsed(rest.async_list_webhook_deliveries(*AT, made.id)))[0].redelivery is True
    await rest.async_delete_webhook(*AT, made.id)


async def apps(scene: Scene) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    app = await register(scene.served.hub, "helpful", public_key=public)
    alone = scene.kit_as(AppAuthStrategy(str(app.id), private))
    assert (await parsed(alone.rest.apps.async_get_authenticated())).slug == "helpful"
    assert [one.id for one in await parsed(alone.rest.apps.async_list_installations())] == [app.installation]
    assert (await parsed(alone.rest.apps.async_get_installation(app.installation))).app_slug == "helpful"
    lent = await parsed(alone.rest.apps.async_create_installation_access_token(app.installation))
    assert lent.token.startswith("ghs_")
    installed = scene.kit_as(AppInstallationAuthStrategy(str(app.id), private, app.installation))
    reached = await parsed(installed.rest.apps.async_list_repos_accessible_to_installation())
    assert [one.name for one in reached.repositories] == [NAME]
    assert (await parsed(scene.rest.apps.async_get_by_slug("helpful"))).id == app.id
    said = await parsed(installed.rest.issues.async_create_comment(*AT, 1, body="I am a robot"))
    assert (said.user.login, said.user.type) == ("helpful[bot]", "Bot")


async def transfers(scene: Scene) -> None:
    rest, gone = scene.rest.issues, scene.served.serving.backstage.transferred
    said = await parsed(rest.async_create_comment(*AT, 1, body="Before it left"))
    gone[1] = "acme/elsewhere#12"
    there = await parsed(rest.async_get(*AT, 1))
    assert (there.number, there.repository_url) == (12, f"{scene.served.api}/repos/acme/elsewhere")
    assert said.id in [one.id for one in await parsed(rest.async_list_comments(*AT, 1))]
    assert (await parsed(rest.async_get_comment(*AT, said.id))).html_url.startswith(
        f"{scene.served.url}/acme/elsewhere/issues/12#"
    )
    gone.clear()


async def closing(scene: Scene) -> None:
    rest, repos = scene.rest.pulls, scene.rest.repos
    await scene.served.hub.require(["test"])
    policy = await parsed(repos.async_get_status_checks_protection(*AT, "main"))
    assert policy.contexts == ["test"]
    assert await parsed(repos.async_get_all_status_check_contexts(*AT, "main")) == ["test"]
    assert (await parsed(repos.async_get_branch_protection(*AT, "main"))).enforce_admins.enabled is False
    (rule,) = await parsed(repos.async_get_branch_rules(*AT, "main"))
    assert [one.context for one in rule.parameters.required_status_checks] == ["test"]
    (ruleset,) = await parsed(repos.async_get_repo_rulesets(*AT))
    assert (await parsed(repos.async_get_repo_ruleset(*AT, ruleset.id))).enforcement == "active"
    moved = await scene.commit({"src/three.txt": "three\n"}, parent=scene.main)
    await scene.rest.git.async_update_ref(*AT, "heads/main", sha=moved)
    assert "Updating" in (await parsed(rest.async_update_branch(*AT, 2))).message
    await scene.served.hub.set_draft((await scene.served.hub.holdings()).accounts[OWNER], 2, False)
    merged = await parsed(rest.async_merge(*AT, 2, merge_method="squash"))
    assert merged.merged is True
    await rest.async_check_if_merged(*AT, 2)
    assert (await parsed(rest.async_get(*AT, 2))).merged_by.login == OWNER
    assert (await parsed(scene.rest.issues.async_get(*AT, 1))).state == "closed"
