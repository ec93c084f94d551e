"""What the tests of resolve look at and do besides playing: lineage, prompts, the work of others, a scripted CI."""

import asyncio
from collections.abc import Sequence

from resolvent.adapters.forges.local_checks import State
from resolvent.domain.change import Change
from resolvent.domain.entry import Entry
from resolvent.domain.subject import Comment, Issue, PullRequest
from resolvent.testing.demo_story import Scene
from resolvent.testing.stage import Played, Stage, git

Verdict = tuple[State, str]


async def lineage(stage: Stage, run: str) -> dict[str, str]:
    """Each agent's branch and the one it was forked from: `{"implement": "analyze", "review 2": "fix", …}`."""
    journal = await stage.app.home.journal()
    inputs = (await journal.run(run)).inputs
    names = {f"at-{inputs.base.commit}": "base"}
    if inputs.pull_change:
        names[f"at-{inputs.pull_change.commit}"] = "head"
    found: dict[str, str] = {}
    for branch in await journal.branches(run):
        verb, _, rest = branch.id.removeprefix(f"{run}/").partition(":")
        if verb not in ("ask", "edit"):
            continue
        step, nth = rest.partition("@")[0], 1
        while (label := step if nth == 1 else f"{step} {nth}") in found:
            nth += 1
        names[branch.id] = label
        found[label] = names.get(str(branch.parent), str(branch.parent))
    return found


async def asked(stage: Stage, run: str, step: str) -> list[str]:
    """Every prompt of a step, in the order they were asked."""
    jobs = await (await stage.app.home.journal()).jobs(run)
    place = stage.app.home.state / "jobs"
    return [(place / job.id / "stdin").read_text(encoding="utf-8") for job in jobs if job.agent and job.name == step]


async def agents(stage: Stage, run: str) -> list[tuple[str, str]]:
    """Who played which step, in order."""
    return [(job.name, job.agent) for job in await (await stage.app.home.journal()).jobs(run) if job.agent]


async def said_once(stage: Stage, target: str) -> list[Comment]:
    """The comments on an issue or pull request but the receipt, which is edited in place."""
    return [one for one in await stage.comments(target) if not one.body.startswith("<!-- resolvent-evidence -->")]


async def shut_gates(stage: Stage, run: str) -> list[tuple[str, ...]]:
    """The reasons of every gate that was shut."""
    events = [recorded.event for recorded in await (await stage.app.home.journal()).events(run)]
    return [event.reasons for event in events if event.event == "gate_judged" and not event.open]


async def pulls(stage: Stage) -> tuple[PullRequest, ...]:
    """Every pull request there ever was."""
    return await (await stage.app.home.forge()).pull_requests()


async def files_of(stage: Stage, commit: str) -> dict[str, str]:
    """What a commit on the forge holds."""
    place = (await stage.hub()).path
    names = (await git(place, "ls-tree", "-r", "--name-only", commit)).splitlines()
    return {name: await git(place, "show", f"{commit}:{name}") for name in names}


async def change_of(stage: Stage, commit: str) -> Change:
    """A commit of ours with its tree."""
    return await (await stage.app.home.git_repository()).change(commit)


async def pushed(stage: Stage, files: dict[str, str], *, head: str = "feature") -> str:
    """Somebody pushes one more commit to a branch; returns it."""
    forge = await stage.hub()
    there = await forge.head_of(head)
    if there:
        await git(stage.project, "fetch", "-q", str(forge.path), head)
    await git(stage.project, "checkout", "-q", "--detach", "FETCH_HEAD" if there else "main")
    for name, text in files.items():
        (stage.project / name).write_text(text, encoding="utf-8")
    await git(stage.project, "add", "-A")
    await git(stage.project, "commit", "-q", "-m", "by somebody")
    commit = await git(stage.project, "rev-parse", "HEAD")
    await git(stage.project, "push", "-q", str(forge.path), f"HEAD:refs/heads/{head}")
    await git(stage.project, "checkout", "-q", "main")
    return commit


async def upstream(stage: Stage, files: dict[str, str]) -> str:
    """One more commit on the default branch; returns it."""
    for name, text in files.items():
        (stage.project / name).parent.mkdir(parents=True, exist_ok=True)
        (stage.project / name).write_text(text, encoding="utf-8")
    await git(stage.project, "add", "-A")
    await git(stage.project, "commit", "-q", "-m", "by somebody")
    await (await stage.hub()).sync(stage.project)
    return await git(stage.project, "rev-parse", "HEAD")


async def proposed(stage: Stage, files: dict[str, str], *, head: str = "feature", body: str = "") -> PullRequest:
    """Somebody's pull request."""
    await pushed(stage, files, head=head)
    made = await (await stage.hub()).open_pull_request(head=head, base="main", title="A better value", body=body)
    return await (await stage.app.home.forge()).pull_request(str(made.number))


async def issues(stage: Stage) -> tuple[Issue, ...]:
    """Every issue there ever was, oldest first."""
    return await (await stage.app.home.forge()).issues(state="all")


def entry_of(pull: PullRequest) -> Entry:
    return Entry(kind="pull", reference=str(pull.number))


async def under_ci(stage: Stage, run: str, says: Sequence[Verdict], *, scenes: Sequence[Scene]) -> Played:
    """Go on while CI answers each look at the required check `ci` with the next of these words; the last one stays."""
    forge = await stage.hub()

    async def answer() -> None:
        words = list(says)
        async for recorded in stage.app.tail(run):
            if recorded.event.event == "step_started" and recorded.event.title == "look: required checks":
                state, log = words.pop(0) if len(words) > 1 else words[0]
                head = (await forge.pulls("open"))[0].head_commit
                await forge.report_check(head, "ci", state=state, log=log)

    ci = asyncio.create_task(answer())
    played = await stage.go_on(run, scenes=scenes)
    await ci
    return played
