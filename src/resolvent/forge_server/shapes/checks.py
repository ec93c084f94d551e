"""What CI says of a commit: check runs, their suites, and commit statuses."""

from collections.abc import Sequence

from resolvent.forge_server.holdings import CheckRun
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.repository import minimal_repository
from resolvent.forge_server.shapes.sight import PULL_IDS, Json, Sight, instant, maybe_instant

# The one that every check run says it is from, as GitHub's own Actions do.
ACTIONS_ID = 15368
_STATES = {"success": "success", "neutral": "success", "skipped": "success"}
_GOOD = ("success", "neutral", "skipped")


def runs_of(sight: Sight, commit: str) -> tuple[CheckRun, ...]:
    """Every check run of a commit, oldest first; commit statuses are none."""
    return tuple(run for run in sight.holdings.checks.get(commit, ()) if run.run)


def statuses_of(sight: Sight, commit: str) -> tuple[CheckRun, ...]:
    """Every commit status, oldest first."""
    return tuple(run for run in sight.holdings.checks.get(commit, ()) if not run.run)


def latest(sight: Sight, commit: str) -> tuple[CheckRun, ...]:
    """The newest run of every check and status of a commit."""
    return newest(sight.holdings.checks.get(commit, ()))


def newest(runs: Sequence[CheckRun]) -> tuple[CheckRun, ...]:
    """The last one under each name."""
    return tuple({run.name: run for run in runs}.values())


def app(sight: Sight) -> Json:
    """The App that runs checks."""
    then = instant(sight.holdings.created_at)
    return {
        "id": ACTIONS_ID,
        "slug": "github-actions",
        "client_id": "Iv1.rehearsal",
        "node_id": node_id("Bot", "github-actions"),
        "owner": simple_user(sight, sight.holdings.owner),
        "name": "GitHub Actions",
        "description": "Runs the checks",
        "external_url": sight.base,
        "html_url": f"{sight.base}/apps/github-actions",
        "created_at": then,
        "updated_at": then,
        "permissions": {"actions": "write", "checks": "write", "contents": "read", "metadata": "read"},
        "events": [],
    }


def pulls_at(sight: Sight, commit: str) -> list[Json]:
    """The open pull requests whose head this commit is."""
    repo = {"id": sight.repo_id, "url": sight.repo, "name": sight.holdings.name}
    return [
        {
            "id": PULL_IDS + item.number,
            "number": item.number,
            "url": f"{sight.repo}/pulls/{item.number}",
            "head": {"ref": item.head, "sha": item.head_commit, "repo": repo},
            "base": {"ref": item.base, "sha": item.base_commit, "repo": repo},
        }
        for item in sight.holdings.items.values()
        if item.kind == "pull" and item.state == "open" and item.head_commit == commit
    ]


def job_page(sight: Sight, run: CheckRun) -> str:
    return f"{sight.page}/actions/runs/{run.run}/job/{run.id}"


def check_run(sight: Sight, run: CheckRun) -> Json:
    """One run of a check."""
    url = f"{sight.repo}/check-runs/{run.id}"
    return {
        "id": run.id,
        "name": run.name,
        "node_id": node_id("CheckRun", run.id),
        "head_sha": run.commit,
        "external_id": str(run.id),
        "url": url,
        "html_url": job_page(sight, run),
        "details_url": job_page(sight, run),
        "status": run.status,
        "conclusion": run.conclusion or None,
        "started_at": instant(run.started_at),
        "completed_at": maybe_instant(run.completed_at),
        "output": {
            "title": None,
            "summary": None,
            "text": None,
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.run},
        "app": app(sight),
        "pull_requests": pulls_at(sight, run.commit),
    }


def overall(runs: Sequence[CheckRun]) -> tuple[str, str | None]:
    """The status and conclusion of several runs taken together."""
    if not all(run.status == "completed" for run in runs):
        started = any(run.status != "queued" for run in runs)
        return ("in_progress" if started else "queued"), None
    bad = next((run.conclusion for run in runs if run.conclusion not in _GOOD), None)
    return "completed", bad or ("skipped" if all(run.conclusion == "skipped" for run in runs) else "success")


def check_suite(sight: Sight, runs: Sequence[CheckRun], commit: Json) -> Json:
    """The check runs of one workflow run taken together; `commit` is the shape of theirs."""
    first = runs[0]
    status, conclusion = overall(newest(runs))
    url = f"{sight.repo}/check-suites/{first.run}"
    branches = sight.branches_at(first.commit)
    return {
        "id": first.run,
        "node_id": node_id("CheckSuite", first.run),
        "head_branch": branches[0] if branches else None,
        "head_sha": first.commit,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": None,
        "after": first.commit,
        "pull_requests": pulls_at(sight, first.commit),
        "app": app(sight),
        "repository": minimal_repository(sight),
        "created_at": instant(first.started_at),
        "updated_at": instant(runs[-1].completed_at or runs[-1].started_at),
        "head_commit": commit,
        "latest_check_runs_count": len(newest(runs)),
        "check_runs_url": f"{url}/check-runs",
    }


def state_of(run: CheckRun) -> str:
    """A commit status in its own words: pending, success, failure."""
    return _STATES.get(run.conclusion, "failure") if run.status == "completed" else "pending"


def simple_status(sight: Sight, run: CheckRun) -> Json:
    """A commit status, as the combined one lists it."""
    return {
        "id": run.id,
        "node_id": node_id("StatusContext", f"{run.commit}:{run.name}"),
        "url": f"{sight.repo}/statuses/{run.commit}",
        "state": state_of(run),
        "context": run.name,
        "description": run.log[:140] or None,
        "target_url": None,
        "avatar_url": None,
        "created_at": instant(run.started_at),
        "updated_at": instant(run.completed_at or run.started_at),
    }


def status(sight: Sight, run: CheckRun) -> Json:
    """A commit status itself."""
    return simple_status(sight, run) | {"creator": simple_user(sight, sight.holdings.owner)}


def combined_status(sight: Sight, commit: str) -> Json:
    """All statuses of a commit taken together; none at all is pending, as on GitHub."""
    runs = newest(statuses_of(sight, commit))
    states = {state_of(run) for run in runs}
    together = "failure" if "failure" in states else "success" if states == {"success"} else "pending"
    return {
        "state": together,
        "statuses": [simple_status(sight, run) for run in runs],
        "sha": commit,
        "total_count": len(runs),
        "repository": minimal_repository(sight),
        "commit_url": f"{sight.repo}/commits/{commit}",
        "url": f"{sight.repo}/commits/{commit}/status",
    }
