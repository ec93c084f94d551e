"""One bug, some authors: a project of its own, the real engine, forge and boxes, and what came of each run."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote

from resolvent.app import App
from resolvent.domain.entry import Entry
from resolvent.domain.events import Recorded
from resolvent.domain.subject import PullRequest
from resolvent.submissions import Submission
from resolvent.testing.demo_story import hooks_of, write_story
from resolvent.testing.gates.adversaries import ADVERSARIES, HONEST, Adversary
from resolvent.testing.gates.bugs import Bug, corpus
from resolvent.testing.gates.rules import Seen, rule_of
from resolvent.testing.gates.trying import commanded, executed
from resolvent.testing.stage import make_project
from resolvent.working import Session

ACCEPTED = ("proven", "argued", "merged")
ENDLESS = "non-terminating"
# What an author may take who never ends; everybody else is done in a tenth of that.
WALL = "4s"
# Nothing here is about comments and about spare parts of a change, and three runs keep two processors busy.
SETTINGS = (
    "policy.status_comments=false",
    'policy.minimise="off"',
    "limits.runs=3",
    "limits.agents=2",
    "limits.checks=2",
    'agents.writer="author"',
    'agents.reader="reviewer"',
    'agents.author.use="scripted"',
    'agents.reviewer.use="scripted"',
)


@dataclass(frozen=True)
class Case:
    """What became of one author's change for one bug."""

    adversary: str
    bug: str
    outcome: str
    # Which rule of the engine spoke against it, and what it said; empty for what was accepted.
    rule: str
    said: str
    # Whether the published commit really is right; None where nothing was accepted.
    true: bool | None = None
    pull_requests: int = 0
    seconds: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.outcome in ACCEPTED

    @property
    def false_accept(self) -> bool:
        """Nobody but the honest author may be accepted, and its change is right and is one pull request."""
        honest = self.adversary == HONEST and self.true is True
        return (self.accepted and not honest) or self.pull_requests > 1

    @property
    def false_reject(self) -> bool:
        return self.adversary == HONEST and self.outcome != "proven"


class Lane:
    """A repository with one bug and its forge; every author gets an issue and a run of its own."""

    def __init__(self, directory: Path, bug: Bug, number: int) -> None:
        self.directory, self.bug, self.number = directory, bug, number
        self.project = directory / "project"
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "RESOLVENT_HOME": str(directory / "state"),
        }

    async def play(self, adversaries: Sequence[Adversary]) -> list[Case]:
        """Submit a run for every author, work until all have ended or wait, and judge what was accepted."""
        await make_project(self.project, self.bug.project)
        apps = {adversary.name: self._app(adversary) for adversary in adversaries}
        runs = {adversary.name: await self._submitted(apps[adversary.name], adversary) for adversary in adversaries}
        first = next(iter(apps.values()))
        await Session(first.home).serve_until_idle()
        cases = [await self._judged(first, adversary.name, runs[adversary.name]) for adversary in adversaries]
        for app in apps.values():
            await app.home.close()
        return cases

    def _app(self, adversary: Adversary) -> App:
        """The application as this author's run sees it: the same store and forge, agents of its own."""
        story = self.directory / f"{adversary.name}.json"
        write_story(story, self._scenes(adversary, story))
        overrides = [*SETTINGS, *(f'agents.{name}.command=["{story}"]' for name in ("author", "reviewer"))]
        if adversary.name == ENDLESS:
            overrides.append(f'agents.author.wall="{WALL}"')
        return App.at(self.project, environ=self._environ, overrides=overrides)

    def _scenes(self, adversary: Adversary, story: Path) -> list[dict[str, object]]:
        scenes = adversary.story(self.bug, self.number)
        for scene in scenes:
            if "wait_for" in scene:
                fifo = hooks_of(story) / "never"
                os.mkfifo(fifo)
                fifo.chmod(0o666)
                scene["wait_for"] = str(fifo)
        return scenes

    async def _submitted(self, app: App, adversary: Adversary) -> str:
        issue = await (await app.home.local_forge()).create_issue(
            self.bug.title, self.bug.issue + adversary.orders, author="customer"
        )
        row, _ = await app.submit(Submission(entry=Entry(kind="issue", reference=str(issue.number))))
        return row.id

    async def _judged(self, app: App, adversary: str, run: str) -> Case:
        document, journal = await app.document(run), await app.home.journal()
        events, findings = [item.event for item in await _all_events(app, run)], await journal.findings(run)
        rule, said = rule_of(Seen(document, tuple(events), findings))
        outcome, key = document["outcome"], document["subject"]
        pulls = [
            pull
            for pull in await (await app.home.local_forge()).pulls("all")
            if key == f"issue-{(pull.closes or '').lstrip('#')}"
        ]
        accepted = outcome in ACCEPTED
        true = all([await self._true(app, pull) for pull in pulls]) if accepted and pulls else None
        return Case(
            adversary,
            self.bug.name,
            outcome,
            "" if accepted else rule,
            "" if accepted else said,
            true=true,
            pull_requests=len(pulls),
            seconds=round(sum(step["seconds"] for step in document["steps"]), 2),
        )

    async def _true(self, app: App, pull: PullRequest) -> bool:
        """Is what was published right? It is taken from the forge, and nothing of the engine runs it."""
        upstream = (await app.home.git_repository()).upstream
        commit = await (await app.home.local_forge()).fetch(upstream, pull.head_commit)
        with tempfile.TemporaryDirectory(dir=self.directory) as place:
            await commanded(Path(place), f"git --git-dir={quote(str(upstream))} archive {commit} | tar -x")
            return (await executed(Path(place), self.bug.truth))[0] == "PASSED"


async def _all_events(app: App, run: str) -> list[Recorded]:
    found: list[Recorded] = []
    journal, after = await app.home.journal(), 0
    while page := await journal.events(run, after=after):
        found += page
        after = page[-1].seq
    return found


def main() -> None:
    """`python -m resolvent.testing.gates.lane DIRECTORY BUG ADVERSARY…`: a JSON object per case on standard output."""
    directory, name, *wanted = sys.argv[1:]
    number, bug = next((number, bug) for number, bug in enumerate(corpus()) if bug.name == name)
    adversaries = [one for one in ADVERSARIES if one.name in wanted]
    for case in asyncio.run(Lane(Path(directory), bug, number).play(adversaries)):
        sys.stdout.write(json.dumps(asdict(case)) + "\n")
    sys.stdout.flush()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.close()
    # Nothing is left to tidy: the directory goes as a whole.
    os._exit(0)


if __name__ == "__main__":
    main()
