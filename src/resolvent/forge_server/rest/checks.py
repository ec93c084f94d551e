"""What CI says of commits: check runs, suites and statuses, read and reported."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.door_pages import paged
from resolvent.forge_server.holdings import CheckRun
from resolvent.forge_server.rest.asking import Answer, Asking, found, in_repo
from resolvent.forge_server.rest.commits import commit_of
from resolvent.forge_server.rest.fields import Fields, invalid
from resolvent.forge_server.shapes.checks import (
    check_run,
    check_suite,
    combined_status,
    newest,
    runs_of,
    status,
    statuses_of,
)
from resolvent.forge_server.shapes.git import simple_commit

_REF = "/commits/{ref:path}"
_RUN = "/check-runs/{id:int}"
_SUITE = "/check-suites/{id:int}"
_CONCLUSIONS = ("success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required")


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", f"{_REF}/check-runs", of_ref),
        in_repo("GET", f"{_REF}/check-suites", suites),
        in_repo("GET", f"{_REF}/status", combined),
        in_repo("GET", f"{_REF}/statuses", statuses),
        in_repo("POST", "/statuses/{commit}", report_status),
        in_repo("POST", "/check-runs", create),
        in_repo("GET", _RUN, show),
        in_repo("PATCH", _RUN, change),
        in_repo("POST", f"{_RUN}/rerequest", rerequest),
        in_repo("GET", f"{_RUN}/annotations", annotations),
        in_repo("GET", _SUITE, suite),
        in_repo("GET", f"{_SUITE}/check-runs", of_suite),
    ]


def _filtered(asking: Asking, runs: tuple[CheckRun, ...]) -> list[CheckRun]:
    """By name, status and `filter`: the latest of each name, unless all are asked for; newest first."""
    chosen = runs if asking.query("filter") == "all" else newest(runs)
    for name, field in (("check_name", "name"), ("status", "status")):
        if wanted := asking.query(name):
            chosen = tuple(run for run in chosen if getattr(run, field) == wanted)
    return sorted(chosen, key=lambda run: run.id, reverse=True)


async def of_ref(asking: Asking) -> Response:
    made = await commit_of(asking, asking.place("ref"))
    runs = _filtered(asking, runs_of(asking.sight, made.id))
    return asking.counted("check_runs", runs, lambda run: check_run(asking.sight, run))


async def suites(asking: Asking) -> Response:
    made = await commit_of(asking, asking.place("ref"))
    groups: dict[int, list[CheckRun]] = {}
    for run in runs_of(asking.sight, made.id):
        groups.setdefault(run.run, []).append(run)
    shaped = list(groups.values())
    return asking.counted("check_suites", shaped, lambda runs: check_suite(asking.sight, runs, simple_commit(made)))


async def combined(asking: Asking) -> Response:
    made = await commit_of(asking, asking.place("ref"))
    shape = combined_status(asking.sight, made.id)
    shape["statuses"], headers = paged(asking.request, shape["statuses"])
    return Answer(shape, headers=headers)


async def statuses(asking: Asking) -> Response:
    made = await commit_of(asking, asking.place("ref"))
    runs = sorted(statuses_of(asking.sight, made.id), key=lambda run: run.id, reverse=True)
    return asking.listed(runs, lambda run: status(asking.sight, run))


async def report_status(asking: Asking) -> Response:
    fields = await asking.fields("Status")
    fields.filled("state")
    state = fields.choice("state", ("error", "failure", "pending", "success")) or ""
    context = fields.text("context", longest=255) or "default"
    description = fields.text("description", longest=140) or ""
    asking.needs("write")
    made = await asking.hub.commit(asking.place("commit"))
    if made is None:
        raise Refusal(422, f"No commit found for SHA: {asking.place('commit')[:80]}")
    outcome = {"status": "in_progress"} if state == "pending" else {"status": "completed", "conclusion": state}
    if state == "error":
        outcome["conclusion"] = "failure"
    run = await asking.hub.set_status(made.id, context, log=description, **outcome)
    return Answer(status(await asking.again(), run), 201)


def _outcome(fields: Fields) -> tuple[str, str]:
    """The status and conclusion that a report speaks of; a conclusion completes it."""
    said = fields.choice("status", ("queued", "in_progress", "completed", "waiting", "requested", "pending"))
    conclusion = fields.choice("conclusion", _CONCLUSIONS) or ""
    if said == "completed" and not conclusion:
        raise invalid("CheckRun", "conclusion", code="missing_field")
    if conclusion:
        return "completed", conclusion
    return "in_progress" if said == "in_progress" else "queued", ""


def _log(fields: Fields) -> str:
    """What the report says in words; its text is the log."""
    output = fields.inner("output")
    return output.text("text") or output.text("summary") or ""


async def create(asking: Asking) -> Response:
    fields = await asking.fields("CheckRun")
    name, commit = fields.filled("name", longest=255), fields.filled("head_sha")
    state, conclusion = _outcome(fields)
    log = _log(fields)
    asking.needs("write")
    made = await asking.hub.commit(commit)
    if made is None:
        raise Refusal(422, f"No commit found for SHA: {commit[:80]}")
    run = await asking.hub.report(made.id, name, status=state, conclusion=conclusion, log=log)
    return Answer(check_run(await asking.again(), run), 201)


def any_run(asking: Asking) -> CheckRun:
    """The check run that the path names."""
    wanted = asking.number("id")
    every = (run for runs in asking.sight.holdings.checks.values() for run in runs if run.run)
    return found(next((run for run in every if run.id == wanted), None))


async def show(asking: Asking) -> Response:
    return Answer(check_run(asking.sight, any_run(asking)))


async def change(asking: Asking) -> Response:
    run = any_run(asking)
    fields = await asking.fields("CheckRun")
    state, conclusion = _outcome(fields)
    log = _log(fields) or run.log
    asking.needs("write")
    made = await asking.hub.report(run.commit, run.name, status=state, conclusion=conclusion, log=log)
    return Answer(check_run(await asking.again(), made))


async def rerequest(asking: Asking) -> Response:
    run = any_run(asking)
    asking.needs("write")
    await asking.hub.rerun(run.id)
    return Answer({}, 201)


async def annotations(asking: Asking) -> Response:
    any_run(asking)
    return asking.listed([], lambda one: one)


def _suite(asking: Asking) -> tuple[CheckRun, ...]:
    wanted = asking.number("id")
    every = tuple(run for runs in asking.sight.holdings.checks.values() for run in runs if run.run == wanted)
    return found(every or None) if wanted else found(None)


async def suite(asking: Asking) -> Response:
    runs = _suite(asking)
    made = found(await asking.hub.commit(runs[0].commit))
    return Answer(check_suite(asking.sight, runs, simple_commit(made)))


async def of_suite(asking: Asking) -> Response:
    runs = _filtered(asking, _suite(asking))
    return asking.counted("check_runs", runs, lambda run: check_run(asking.sight, run))
