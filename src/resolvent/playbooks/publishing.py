"""Publishing: one pull request per subject, whoever opened it, and nothing pushed that a person should see first."""

from resolvent.domain.change import Change
from resolvent.domain.decision import Question
from resolvent.domain.outcome import Escalated
from resolvent.domain.subject import PullRequest, Reported
from resolvent.engine.run import Run
from resolvent.playbooks import texts


async def publish(
    run: Run, change: Change, *, onto: PullRequest | None = None, reported: Reported | None = None
) -> PullRequest | Escalated:
    """One pull request per subject: ours, the one given, or one an agent made that the forge confirms."""
    surface = [path for path in await run.changed_paths(change) if texts.runs_elsewhere(path)]
    if surface and run.policy.exec_surface == "ask":
        text = f"{change} changes what runs on other machines: {', '.join(surface)}. Push it?"
        question = Question(key=f"exec_surface:{change.commit}", text=text, choices=("push", "stop"))
        if await run.wait(question) == "stop":
            return Escalated(reason=f"not pushed: {', '.join(surface)}", change=change, pull_request=onto)
    onto = onto or await adopted(run, change, reported)
    if onto:
        seen = await run.observe("pushed", head=onto.head, known=onto.head_commit, tree=change.tree)
        where = {"head": onto.head, "expect": seen["expect"], "number": onto.number}
    else:
        seen = await run.observe("head", wanted=f"resolvent/{run.inputs.issue.key}")
        where = {name: seen[name] for name in ("head", "expect", "number")}
    issue = run.inputs.issue
    pull = await run.publish(change, **where, text=(texts.title(issue), texts.pull_body(issue, run.id)))
    if run.inputs.pull_request is None:
        await alone(run, pull)
    return pull


async def alone(run: Run, pull: PullRequest) -> None:
    """One issue, one pull request: another that was opened in our name meanwhile is closed, and says for which."""
    seen = await run.observe("strays", number=pull.number, run=run.id, change=pull.head_commit)
    for stray in map(PullRequest.model_validate, seen["pull_requests"]):
        marker = f"<!-- resolvent-second:{pull.number} -->"
        await run.comment(stray.key, name="second", body=f"{marker}\n{texts.second(pull)}", marker=marker)
        await run.declare(stray.key, "closed")


async def adopted(run: Run, change: Change, reported: Reported | None) -> PullRequest | None:
    """What an agent says it opened counts when it is there and holds the very files that were imported."""
    if reported is None:
        return None
    seen = await run.observe("reported_pull", number=reported.number, head=reported.head)
    if seen["pull_request"] is None or seen["tree"] != change.tree:
        return None
    return PullRequest.model_validate(seen["pull_request"])
