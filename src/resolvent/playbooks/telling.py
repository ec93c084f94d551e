"""What a run says on the forge while it goes on: a status after every step, and one receipt that is kept up to date."""

from typing import Any

from resolvent.domain.decision import Decision
from resolvent.domain.gate import Gate
from resolvent.domain.job import Usage
from resolvent.domain.subject import PullRequest
from resolvent.engine.run import Answer, Edited, Run
from resolvent.playbooks import texts
from resolvent.playbooks.receipt import MARKER, receipt
from resolvent.playbooks.work import Note, Work


async def status(run: Run, said: Answer[Any] | Edited[Any], note: Note, *, on: PullRequest | None = None) -> None:
    """After every step one comment says where the run is: on the issue until there is a pull request."""
    target = (on or run.inputs.pull_request or run.inputs.issue).key
    if not run.policy.status_comments or target.startswith("file-"):
        return
    marker = f"<!-- pantheon-resolve-status:step-{note.step}:cycle-{note.cycle} -->"
    body = texts.status(note, said.branch.id, said.agent)
    await run.comment(target, name=f"status-{note.step}", body=f"{marker}\n{body}")


async def show_receipt(run: Run, work: Work, gate: Gate) -> None:
    """The one evidence table of a pull request, edited in place."""
    seen = await run.observe("so_far", run=run.id, commit=work.change.commit)
    decisions = tuple(Decision.model_validate(one) for one in seen["decisions"])
    body = receipt(run.inputs, work, gate, decisions=decisions, cost=Usage.model_validate(seen["usage"]))
    await run.stick(work.pull.key, name="receipt", body=body, marker=MARKER)
