"""What CI says: check runs, statuses, and all of a commit rolled up."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from resolvent.forge_server.graphql.connections import Listing
from resolvent.forge_server.graphql.scene import Scene, Shape, nothing
from resolvent.forge_server.holdings import CheckRun
from resolvent.forge_server.node_ids import node_id, node_named
from resolvent.forge_server.shapes.actions import WORKFLOW_ID, WORKFLOW_NAME, event_of
from resolvent.forge_server.shapes.checks import job_page, latest, overall, state_of
from resolvent.forge_server.shapes.sight import instant, maybe_instant


def rollup(scene: Scene, commit: str) -> Shape | None:
    """All checks of a commit as one state; None when there are none."""
    runs = latest(scene.sight, commit)
    if not runs:
        return None
    contexts = [check_run(scene, one) if one.run else _status(scene, one) for one in runs]
    return {
        "__typename": "StatusCheckRollup",
        "id": node_id("StatusContext", f"{commit}:"),
        "state": rolled_up(runs),
        "contexts": Listing(contexts, _counts(runs)),
    }


def rolled_up(runs: Sequence[CheckRun]) -> str:
    """One word for all: a failure is worse than what is pending."""
    states = {state_of(one) for one in runs}
    return next(word for word in ("failure", "pending", "success") if word in states).upper()


def _counts(runs: Sequence[CheckRun]) -> Shape:
    checks = Counter((one.conclusion or one.status).upper() for one in runs if one.run)
    statuses = Counter(state_of(one).upper() for one in runs if not one.run)
    return {
        "checkRunCount": checks.total(),
        "checkRunCountsByState": [{"state": state, "count": count} for state, count in checks.items()],
        "statusContextCount": statuses.total(),
        "statusContextCountsByState": [{"state": state, "count": count} for state, count in statuses.items()],
    }


def check_run(scene: Scene, one: CheckRun) -> Shape:
    """A job of a workflow run."""
    page = job_page(scene.sight, one)
    return {
        "__typename": "CheckRun",
        "id": node_id("CheckRun", one.id),
        "databaseId": one.id,
        "name": one.name,
        "status": one.status.upper(),
        "conclusion": one.conclusion.upper() or None,
        "startedAt": instant(one.started_at),
        "completedAt": maybe_instant(one.completed_at),
        "detailsUrl": page,
        "url": page,
        "permalink": page,
        "title": None,
        "summary": None,
        "text": None,
        "isRequired": _required(scene, one.name),
        "checkSuite": lambda: _suite(scene, one),
        "annotations": nothing,
    }


def _suite(scene: Scene, one: CheckRun) -> Shape:
    status, conclusion = overall([job for job in latest(scene.sight, one.commit) if job.run == one.run])
    return {
        "__typename": "CheckSuite",
        "id": node_id("CheckSuite", one.run),
        "databaseId": one.run,
        "status": status.upper(),
        "conclusion": conclusion.upper() if conclusion else None,
        "workflowRun": {
            "__typename": "WorkflowRun",
            "id": node_id("WorkflowRun", one.run),
            "databaseId": one.run,
            "event": event_of(scene.sight, one.commit),
            "runNumber": one.run,
            "url": f"{scene.sight.page}/actions/runs/{one.run}",
            "workflow": {
                "__typename": "Workflow",
                "id": node_id("Workflow", WORKFLOW_NAME),
                "databaseId": WORKFLOW_ID,
                "name": WORKFLOW_NAME,
            },
        },
    }


def _status(scene: Scene, one: CheckRun) -> Shape:
    return {
        "__typename": "StatusContext",
        "id": node_id("StatusContext", f"{one.commit}:{one.name}"),
        "context": one.name,
        "state": state_of(one).upper(),
        "targetUrl": None,
        "description": one.log[:140] or None,
        "createdAt": instant(one.started_at),
        "isRequired": _required(scene, one.name),
    }


def _required(scene: Scene, name: str) -> Callable[..., bool]:
    def required(**asked: Any) -> bool:
        """Whether this check is wanted for that pull request: only the default branch is protected."""
        node = node_named(asked.get("pullRequestId") or "")
        number = asked.get("pullRequestNumber") or (int(node[1]) if node and node[1].isdecimal() else 0)
        item = scene.item(number, "pull")
        protected = item is None or item.base == scene.holdings.default_branch
        return protected and name in scene.holdings.required

    return required
