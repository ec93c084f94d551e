"""Workflow runs and their jobs: the check runs of a commit as GitHub Actions shows them, and their logs."""

import io
import re
import zipfile
from collections.abc import Sequence

from resolvent.forge_server.holdings import CheckRun, Item
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.checks import job_page, newest, overall, pulls_at
from resolvent.forge_server.shapes.repository import minimal_repository
from resolvent.forge_server.shapes.sight import Json, Sight, instant, maybe_instant

WORKFLOW_ID, WORKFLOW_NAME, WORKFLOW_PATH = 1, "CI", ".github/workflows/ci.yml"
STEP = "Run"


def workflow(sight: Sight) -> Json:
    """The one workflow there is."""
    then = instant(sight.holdings.created_at)
    return {
        "id": WORKFLOW_ID,
        "node_id": node_id("Workflow", WORKFLOW_NAME),
        "name": WORKFLOW_NAME,
        "path": WORKFLOW_PATH,
        "state": "active",
        "created_at": then,
        "updated_at": then,
        "url": f"{sight.repo}/actions/workflows/{WORKFLOW_ID}",
        "html_url": f"{sight.page}/blob/{sight.holdings.default_branch}/{WORKFLOW_PATH}",
        "badge_url": f"{sight.page}/actions/workflows/ci.yml/badge.svg",
    }


def workflow_runs(sight: Sight) -> dict[int, tuple[CheckRun, ...]]:
    """The check runs of every workflow run, the newest workflow run first."""
    runs: dict[int, list[CheckRun]] = {}
    for checks in sight.holdings.checks.values():
        for check in checks:
            if check.run:
                runs.setdefault(check.run, []).append(check)
    return {id: tuple(sorted(runs[id], key=lambda one: (one.attempt, one.id))) for id in sorted(runs, reverse=True)}


def attempts(runs: Sequence[CheckRun]) -> int:
    """How often a workflow run was run."""
    return max(run.attempt for run in runs)


def jobs_of(runs: Sequence[CheckRun], attempt: int | None = None) -> tuple[CheckRun, ...]:
    """The jobs of a workflow run as they were in that attempt, or are now."""
    return newest([run for run in runs if attempt is None or run.attempt <= attempt])


def _pull_of(sight: Sight, commit: str) -> Item | None:
    pulls = (item for item in sight.holdings.items.values() if item.kind == "pull" and item.head_commit == commit)
    return next(pulls, None)


def branch_of(sight: Sight, commit: str) -> str | None:
    """The branch a commit was checked for: its pull request's, or one that ends in it."""
    pull = _pull_of(sight, commit)
    branches = sight.branches_at(commit)
    return pull.head if pull else branches[0] if branches else None


def event_of(sight: Sight, commit: str) -> str:
    """What made CI run."""
    return "pull_request" if _pull_of(sight, commit) else "push"


def _links(sight: Sight, url: str, id: int) -> Json:
    below = {f"{name}_url": f"{url}/{name}" for name in ("jobs", "logs", "artifacts", "cancel", "rerun")}
    return below | {
        "url": url,
        "check_suite_url": f"{sight.repo}/check-suites/{id}",
        "workflow_url": f"{sight.repo}/actions/workflows/{WORKFLOW_ID}",
    }


def workflow_run(sight: Sight, runs: Sequence[CheckRun], commit: Json | None, attempt: int | None = None) -> Json:
    """A workflow run in that attempt, or as it is now; `commit` is the shape of its commit."""
    jobs = jobs_of(runs, attempt)
    first, last = jobs[0], jobs[-1]
    status, conclusion = overall(jobs)
    url = f"{sight.repo}/actions/runs/{first.run}"
    pull = _pull_of(sight, first.commit)
    actor = simple_user(sight, pull.author if pull else sight.holdings.owner)
    title = pull.title if pull else (commit["message"].splitlines() or [""])[0] if commit else WORKFLOW_NAME
    return _links(sight, url, first.run) | {
        "id": first.run,
        "name": WORKFLOW_NAME,
        "node_id": node_id("WorkflowRun", first.run),
        "check_suite_id": first.run,
        "check_suite_node_id": node_id("CheckSuite", first.run),
        "head_branch": branch_of(sight, first.commit),
        "head_sha": first.commit,
        "path": WORKFLOW_PATH,
        "run_number": first.run,
        "run_attempt": (count := attempt or attempts(runs)),
        "previous_attempt_url": f"{url}/attempts/{count - 1}" if count > 1 else None,
        "event": event_of(sight, first.commit),
        "display_title": title,
        "status": status,
        "conclusion": conclusion,
        "workflow_id": WORKFLOW_ID,
        "html_url": f"{sight.page}/actions/runs/{first.run}",
        "pull_requests": pulls_at(sight, first.commit),
        "created_at": instant(runs[0].started_at),
        "run_started_at": instant(first.started_at),
        "updated_at": instant(last.completed_at or last.started_at),
        "actor": actor,
        "triggering_actor": actor,
        "head_commit": commit,
        "repository": minimal_repository(sight),
        "head_repository": minimal_repository(sight),
    }


def job(sight: Sight, run: CheckRun) -> Json:
    """A check run as the job it is, with the one step it has."""
    times = {"started_at": instant(run.started_at), "completed_at": maybe_instant(run.completed_at)}
    outcome = {"status": run.status, "conclusion": run.conclusion or None}
    runner = dict.fromkeys(("runner_id", "runner_name", "runner_group_id", "runner_group_name"))
    return (
        runner
        | outcome
        | times
        | {
            "id": run.id,
            "run_id": run.run,
            "run_url": f"{sight.repo}/actions/runs/{run.run}",
            "run_attempt": run.attempt,
            "node_id": node_id("CheckRun", run.id),
            "head_sha": run.commit,
            "head_branch": branch_of(sight, run.commit),
            "url": f"{sight.repo}/actions/jobs/{run.id}",
            "html_url": job_page(sight, run),
            "created_at": instant(run.started_at),
            "name": run.name,
            "workflow_name": WORKFLOW_NAME,
            "steps": [{"name": STEP, "number": 1} | outcome | times],
            "check_run_url": f"{sight.repo}/check-runs/{run.id}",
            "labels": ["ubuntu-latest"],
        }
    )


def job_log(run: CheckRun) -> str:
    """The log of a job as Actions keeps it: a mark of the encoding first, and the time before every line."""
    stamp = instant(run.completed_at or run.started_at).replace("Z", ".0000000Z")
    return "\ufeff" + "".join(f"{stamp} {line}" for line in re.findall(r"[^\n]*\n|[^\n]+", run.log))


def logs_archive(jobs: Sequence[CheckRun]) -> bytes:
    """The logs of a workflow run in one archive: whole jobs, and each job's step in a directory of its name."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for nth, run in enumerate(jobs):
            # What a file cannot be called on every system is left out of its name, as GitHub does.
            name = re.sub(r'[/\\:*?"<>|\0]', "", run.name) or "job"
            for path in (f"{nth}_{name}.txt", f"{name}/1_{STEP}.txt"):
                archive.writestr(zipfile.ZipInfo(path), job_log(run))
    return packed.getvalue()
