"""Checks and workflow runs by real `gh`, old and new: exit codes, what is required, logs of what failed, reruns."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.forge_server.gh_stage import PROGRAMS, PUBLIC, Gh, number_in
from tests.forge_server.gh_unknown import known_here
from tests.forge_server.serving import Served

from resolvent.forge_server.graphql import pruned

POLL_S = 0.01


@pytest.fixture(params=PROGRAMS)
async def gh(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Gh]:
    ready = await Gh.ready(served, request.param)
    yield ready
    assert set(pruned(served.hub)) <= known_here(ready)


async def proposed(gh: Gh) -> tuple[str, str]:
    """A pull request's number and its head."""
    head = await gh.branch("feat")
    return str(number_in(await gh("pr", "create", "--title", "T", "--body", "b"))), head


async def test_the_exit_code_says_whether_checks_passed_failed_or_are_pending(gh: Gh) -> None:
    hub = gh.served.hub
    number, head = await proposed(gh)
    assert "no checks reported on the 'feat' branch" in await gh("pr", "checks", number, code=1)
    await hub.report(head, "build", status="in_progress")
    assert "pending" in await gh("pr", "checks", number, code=8 if gh.new else 1)
    await hub.report(head, "build", conclusion="success")
    await hub.set_status(head, "ci/lint", conclusion="success", log="all fine")
    told = await gh("pr", "checks", number)
    assert "build\tpass" in told and "ci/lint\tpass" in told and f"{PUBLIC}/actions/runs/" in told
    await hub.report(head, "test", conclusion="failure", log="1 failed")
    assert "test\tfail" in await gh("pr", "checks", number, code=1)


async def test_only_required_checks_count_when_only_they_are_asked_for(gh: Gh) -> None:
    hub = gh.served.hub
    number, head = await proposed(gh)
    await hub.require(("build",))
    await hub.report(head, "flaky", conclusion="failure")
    assert "no required checks reported" in await gh("pr", "checks", number, "--required", code=1)
    await hub.report(head, "build", conclusion="success")
    told = await gh("pr", "checks", number, "--required")
    assert "build\tpass" in told and "flaky" not in told
    if gh.new:
        words = ("--required", "--json", "name,state,bucket,link,workflow,event")
        (only,) = await gh.read("pr", "checks", number, "--required", fields=words[-1])
        assert (only["name"], only["state"], only["bucket"]) == ("build", "SUCCESS", "pass")
        assert (only["workflow"], only["event"]) == ("CI", "pull_request")


async def test_a_watch_ends_when_the_last_check_does(gh: Gh) -> None:
    hub, requests = gh.served.hub, gh.served.requests
    number, head = await proposed(gh)
    await hub.report(head, "build", status="queued")
    before = len(requests)
    watching = asyncio.ensure_future(gh("pr", "checks", number, "--watch", "--interval", "1"))
    while len(requests) < before + 2 and not watching.done():
        await asyncio.sleep(POLL_S)
    await hub.report(head, "build", conclusion="success")
    assert "build\tpass" in await watching


async def test_the_log_of_what_failed_is_shown_and_it_runs_again(gh: Gh) -> None:
    hub = gh.served.hub
    _, head = await proposed(gh)
    await hub.report(head, "build", conclusion="success", log="compiled")
    failed = await hub.report(head, "test", conclusion="failure", log="assert 1 == 2\n1 failed")
    runs = await gh.read("run", "list", "--branch", "feat", fields="databaseId,conclusion,headSha,status,workflowName")
    (mine,) = [run for run in runs if run["databaseId"] == failed.run]
    assert (mine["headSha"], mine["conclusion"], mine["status"]) == (head, "failure", "completed")
    assert mine["workflowName"] == "CI"
    run = str(failed.run)
    told = await gh("run", "view", run, "--log-failed")
    assert "assert 1 == 2" in told and "1 failed" in told and "compiled" not in told
    assert "test" in await gh("run", "view", run)
    jobs = (await gh.read("run", "view", run, fields="jobs,conclusion"))["jobs"]
    assert ("test", "failure") in [(job["name"], job["conclusion"]) for job in jobs]
    await gh("run", "rerun", run, "--failed")
    again = (await hub.holdings()).checks[head]
    assert [(one.attempt, one.status) for one in again if one.name == "test"] == [(1, "completed"), (2, "queued")]
    assert [one.attempt for one in again if one.name == "build"] == [1]


async def test_every_field_of_runs_and_checks_is_told(gh: Gh) -> None:
    hub = gh.served.hub
    number, head = await proposed(gh)
    check = await hub.report(head, "build", conclusion="success", log="fine")
    (run,) = await gh.read("run", "list")
    assert (run["databaseId"], run["headBranch"], run["event"]) == (check.run, "feat", "pull_request")
    one = await gh.read("run", "view", str(check.run))
    assert [job["databaseId"] for job in one["jobs"]] == [check.id]
    assert "fine" in await gh("run", "view", str(check.run), "--log")
    assert "build" in await gh("run", "view", "--job", str(check.id))
    if gh.new:
        (told,) = await gh.read("pr", "checks", number)
        assert (told["name"], told["bucket"], told["link"]) == (
            "build",
            "pass",
            f"{PUBLIC}/actions/runs/{check.run}/job/{check.id}",
        )
    await gh("run", "view", "999", code=1)
