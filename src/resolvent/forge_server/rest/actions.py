"""Workflow runs and jobs: reading them, their logs, and running them again."""

from collections.abc import Sequence

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.door_pages import paged
from resolvent.forge_server.holdings import CheckRun
from resolvent.forge_server.rest.asking import Answer, Asking, found, in_repo
from resolvent.forge_server.rest.checks import any_run
from resolvent.forge_server.shapes.actions import (
    WORKFLOW_ID,
    attempts,
    branch_of,
    event_of,
    job,
    job_log,
    jobs_of,
    logs_archive,
    workflow,
    workflow_run,
    workflow_runs,
)
from resolvent.forge_server.shapes.checks import overall
from resolvent.forge_server.shapes.git import simple_commit
from resolvent.forge_server.shapes.sight import Json

_RUN = "/actions/runs/{id:int}"
_ATTEMPT = f"{_RUN}/attempts/{{attempt:int}}"
_JOB = "/actions/jobs/{id:int}"
_GOOD = ("success", "neutral", "skipped")


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/actions/runs", listed),
        in_repo("GET", _RUN, show),
        in_repo("GET", f"{_RUN}/jobs", jobs),
        in_repo("GET", f"{_RUN}/logs", logs),
        in_repo("GET", f"{_RUN}/artifacts", artifacts),
        in_repo("POST", f"{_RUN}/rerun", rerun),
        in_repo("POST", f"{_RUN}/rerun-failed-jobs", rerun_failed),
        in_repo("GET", _ATTEMPT, show),
        in_repo("GET", f"{_ATTEMPT}/jobs", jobs),
        in_repo("GET", f"{_ATTEMPT}/logs", logs),
        in_repo("GET", _JOB, show_job),
        in_repo("GET", f"{_JOB}/logs", job_logs),
        in_repo("POST", f"{_JOB}/rerun", rerun_job),
        in_repo("GET", "/actions/workflows", workflows),
        in_repo("GET", "/actions/workflows/{workflow}", one_workflow),
        in_repo("GET", "/actions/workflows/{workflow}/runs", listed),
    ]


def _matches(asking: Asking, runs: Sequence[CheckRun]) -> bool:
    """The workflow run is one of those that the query asks for."""
    commit = runs[0].commit
    status, conclusion = overall(jobs_of(runs))
    told = {
        "branch": (branch_of(asking.sight, commit),),
        "head_sha": (commit,),
        "event": (event_of(asking.sight, commit),),
        "status": (status, conclusion),
        "check_suite_id": (str(runs[0].run),),
    }
    return all(asking.query(name) in values for name, values in told.items() if asking.query(name))


async def _shape(asking: Asking, runs: Sequence[CheckRun], attempt: int | None = None) -> Json:
    made = await asking.hub.commit(runs[0].commit)
    return workflow_run(asking.sight, runs, simple_commit(made) if made else None, attempt)


async def listed(asking: Asking) -> Response:
    if "workflow" in asking.request.path_params:
        _workflow(asking)
    chosen = [runs for runs in workflow_runs(asking.sight).values() if _matches(asking, runs)]
    page, headers = paged(asking.request, chosen)
    told = {"total_count": len(chosen), "workflow_runs": [await _shape(asking, runs) for runs in page]}
    return Answer(told, headers=headers)


def _runs(asking: Asking) -> tuple[CheckRun, ...]:
    return found(workflow_runs(asking.sight).get(asking.number("id")))


def _attempt(asking: Asking, runs: Sequence[CheckRun]) -> int | None:
    """The attempt that the path names, if it names one."""
    if "attempt" not in asking.request.path_params:
        return None
    attempt = asking.number("attempt")
    if not 1 <= attempt <= attempts(runs):
        raise not_found()
    return attempt


async def show(asking: Asking) -> Response:
    runs = _runs(asking)
    return Answer(await _shape(asking, runs, _attempt(asking, runs)))


async def jobs(asking: Asking) -> Response:
    runs = _runs(asking)
    chosen = runs if asking.query("filter") == "all" else jobs_of(runs, _attempt(asking, runs))
    return asking.counted("jobs", chosen, lambda run: job(asking.sight, run))


def _elsewhere(asking: Asking) -> Response | None:
    """Logs are kept elsewhere, and GitHub leads there; here that is the same place, asked for what is stored."""
    if asking.query("stored"):
        return None
    return RedirectResponse(str(asking.request.url.include_query_params(stored="1")), 302)


async def logs(asking: Asking) -> Response:
    runs = _runs(asking)
    chosen = jobs_of(runs, _attempt(asking, runs))
    return _elsewhere(asking) or Response(logs_archive(chosen), media_type="application/zip")


async def job_logs(asking: Asking) -> Response:
    run = any_run(asking)
    if run.status != "completed":
        raise not_found()
    return _elsewhere(asking) or PlainTextResponse(job_log(run))


async def artifacts(asking: Asking) -> Response:
    _runs(asking)
    return asking.counted("artifacts", [], lambda one: one)


async def _again(asking: Asking, chosen: Sequence[CheckRun]) -> Response:
    asking.needs("write", "Must have admin rights to Repository.")
    if not all(run.status == "completed" for run in chosen):
        raise Refusal(403, "This workflow is already running")
    for run in chosen:
        await asking.hub.rerun(run.id)
    return Answer({}, 201)


async def rerun(asking: Asking) -> Response:
    return await _again(asking, jobs_of(_runs(asking)))


async def rerun_failed(asking: Asking) -> Response:
    chosen = jobs_of(_runs(asking))
    bad = [run for run in chosen if run.conclusion not in _GOOD]
    if not bad:
        raise Refusal(403, "The workflow run containing this job cannot be rerun: it has no failed jobs")
    return await _again(asking, bad)


async def show_job(asking: Asking) -> Response:
    return Answer(job(asking.sight, any_run(asking)))


async def rerun_job(asking: Asking) -> Response:
    return await _again(asking, [any_run(asking)])


async def workflows(asking: Asking) -> Response:
    return asking.counted("workflows", [asking.sight], workflow)


def _workflow(asking: Asking) -> None:
    if asking.place("workflow") not in (str(WORKFLOW_ID), "ci.yml"):
        raise not_found()


async def one_workflow(asking: Asking) -> Response:
    _workflow(asking)
    return Answer(workflow(asking.sight))
