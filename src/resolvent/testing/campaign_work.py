"""The victim of the campaign: a process that makes, uses and removes branches, and tells what was acknowledged to it."""

import hashlib
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.confine import Walls
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, JobExit

if TYPE_CHECKING:
    from resolvent.adapters.workspace.overlay import OverlayWorkspace

# By path, the name that git gives to the bytes.
Files = dict[str, str]

MOST = 4
# Layers are put together early, so that a campaign meets that often.
DEEP = 12
AT = 1_767_603_600.0
PATH = "/usr/local/bin:/usr/bin:/bin"
WRITE = 'mkdir -p "${1%/*}"; cat > "$1.part"; mv "$1.part" "$1"; [ -z "$2" ] || rm -rf "./$2"'
VERBS = {"root": 2, "fork": 3, "run": 5, "snapshot": 6, "export": 2, "delete": 2, "drop": 2, "collect": 2}


class Step(NamedTuple):
    """What the worker is about to do."""

    number: int
    verb: str
    branch: str = ""
    # What it is made of: a branch, or a commit.
    parent: str = ""
    commit: str = ""
    # What a job writes, and the file or directory it removes.
    path: str = ""
    text: str = ""
    gone: str = ""

    @property
    def job(self) -> str:
        return f"job-{self.number}"

    def over(self, files: Files) -> Files:
        """The files of the branch once this is done."""
        if self.verb != "run":
            return files
        kept = {path: oid for path, oid in files.items() if not self.takes(path)}
        return kept | {self.path: blob(self.text.encode())}

    def takes(self, path: str) -> bool:
        """It removes that one."""
        return bool(self.gone) and (path == self.gone or path.startswith(f"{self.gone}/"))


class Held(NamedTuple):
    """A branch and everything in it."""

    branch: Branch
    files: Files


@dataclass
class Ledger:
    """What was acknowledged: it has to be there after any kill."""

    commits: dict[str, Files]
    trees: dict[str, str]
    branches: dict[str, Held] = field(default_factory=dict)
    # By name, what was said to be kept under it; until somebody has looked.
    kept: dict[str, Files] = field(default_factory=dict)
    snapshots: int = 0

    def made(self, step: Step) -> Held:
        """The branch that a step makes."""
        if step.verb == "root":
            return Held(Branch(id=step.branch, parent=None, commit=step.commit), self.commits[step.commit])
        parent = self.branches[step.parent]
        return Held(Branch(id=step.branch, parent=step.parent, commit=parent.branch.commit), parent.files)

    def note(self, step: Step, answer: dict[str, str]) -> None:
        """A step was acknowledged."""
        if step.verb in ("root", "fork"):
            self.branches[step.branch] = self.made(step)
        elif step.verb == "run":
            held = self.branches[step.branch]
            self.branches[step.branch] = held._replace(files=step.over(held.files))
        elif step.verb == "snapshot":
            self.snapshots += 1
        elif step.verb == "export" and answer["commit"]:
            self.commits[answer["commit"]] = self.kept[answer["commit"]] = self.branches[step.branch].files
            self.trees[answer["commit"]] = answer["tree"]
        elif step.verb in ("delete", "drop"):
            held = self.branches.pop(step.branch)
            if answer.get("ref"):
                self.kept[answer["ref"]] = held.files


@dataclass(frozen=True)
class Place:
    """Where a campaign takes place."""

    state: Path
    walls: Walls

    @property
    def jobs(self) -> SupervisedJobs:
        return SupervisedJobs(self.state / "jobs")

    def private(self, job: str) -> str:
        """A job's own directory."""
        place = self.state / "private" / job
        for inner in ("home", "tmp"):
            (place / inner).mkdir(parents=True)
        return str(place)

    async def workspace(self, jobs: SupervisedJobs) -> "OverlayWorkspace":
        from resolvent.adapters.workspace import overlay

        overlay.DEEP = DEEP
        return await overlay.OverlayWorkspace.open(
            self.state, sandbox=self.state / "sandbox", walls=self.walls, running=jobs.running
        )

    def job(self, id: str, program: str, *arguments: str, text: str = "") -> Job:
        """A shell program that gets these arguments, and the text to read."""
        home = {"PATH": PATH, "HOME": "/run/resolvent/home", "TMPDIR": "/run/resolvent/tmp"}
        # The state directory in its words is how a process of ours is known from outside.
        argv = ("/bin/sh", "-euc", program, str(self.state), *arguments)
        return Job(id=id, argv=argv, environment=home, stdin=text)


class Worker:
    """Does one thing after the other until somebody kills it; announces each before, and acknowledges it after."""

    def __init__(self, place: Place, ledger: Ledger, *, number: int, seed: str) -> None:
        self._place = place
        self._ledger = ledger
        self._number = number
        self._chance = random.Random(seed)
        self._jobs = place.jobs

    async def work(self, announced: int, acknowledged: int) -> None:
        """Never returns; what it is about to do goes to one descriptor, what was done to the other."""
        self._workspace = await self._place.workspace(self._jobs)
        while True:
            step = self._chosen()
            os.write(announced, json.dumps(step).encode() + b"\n")
            answer = await getattr(self, f"_{step.verb}")(step)
            os.write(acknowledged, json.dumps((step, answer)).encode() + b"\n")
            if step.verb == "snapshot":
                # What was promised to outlive a power loss is noted so that it does as well.
                os.fsync(acknowledged)
            self._ledger.note(step, answer)

    def _chosen(self) -> Step:
        self._number += 1
        number, chance, branches = self._number, self._chance, self._ledger.branches
        verb = chance.choices(list(VERBS), weights=list(VERBS.values()))[0]
        if not branches:
            verb = "root"
        elif len(branches) >= MOST and verb in ("root", "fork"):
            verb = chance.choice(("delete", "drop"))
        if verb == "collect":
            return Step(number, verb)
        if verb == "root":
            return Step(number, verb, f"root-{number}", commit=chance.choice(list(self._ledger.commits)))
        branch = chance.choice(list(branches))
        if verb == "fork":
            return Step(number, verb, f"fork-{number}", parent=branch)
        if verb != "run":
            return Step(number, verb, branch)
        files = list(branches[branch].files)
        gone = chance.choice(files) if files and chance.random() < 0.6 else ""
        gone = gone.partition("/")[0] if chance.random() < 0.3 else gone
        path = f"{chance.choice(('src', 'docs', 'new'))}/file-{number}"
        text = f"{number} {chance.random()} " * chance.choice((1, 1, 10, 3_000))
        # What a job writes it does not remove.
        return Step(number, verb, branch, path=path, text=text, gone="" if path.startswith(f"{gone}/") else gone)

    async def _root(self, step: Step) -> dict[str, str]:
        change = Change(commit=step.commit, tree=self._ledger.trees[step.commit])
        await self._workspace.root(change, id=step.branch)
        return {}

    async def _fork(self, step: Step) -> dict[str, str]:
        await self._workspace.fork(self._branch(step.parent), id=step.branch)
        return {}

    async def _run(self, step: Step) -> dict[str, str]:
        job = self._place.job(step.job, WRITE, step.path, step.gone, text=step.text)
        ended = await entered(self._place, self._workspace, self._branch(step.branch), job)
        assert (ended.ending, ended.exit) == ("exited", 0), (step, ended, self._jobs.output(step.job).read_bytes())
        return {}

    async def _snapshot(self, step: Step) -> dict[str, str]:
        await self._workspace.snapshot(self._branch(step.branch))
        return {}

    async def _export(self, step: Step) -> dict[str, str]:
        change = await self._workspace.export(self._branch(step.branch), message=f"step {step.number}", at=AT)
        return {"commit": change.commit, "tree": change.tree} if change else {"commit": "", "tree": ""}

    async def _delete(self, step: Step) -> dict[str, str]:
        return {"ref": await self._workspace.delete(step.branch) or ""}

    async def _drop(self, step: Step) -> dict[str, str]:
        await self._workspace.drop(step.branch)
        return {}

    async def _collect(self, step: Step) -> dict[str, str]:
        from resolvent.adapters.workspace.housekeeping import Housekeeping

        await Housekeeping(self._workspace).collect()
        return {}

    def _branch(self, id: str) -> Branch:
        return self._ledger.branches[id].branch


async def entered(place: Place, workspace: "OverlayWorkspace", branch: Branch, job: Job) -> JobExit:
    """How a job ended that was let into a branch."""
    return await place.jobs.ensure(await workspace.enter(branch, job, private=place.private(job.id)))


def blob(content: bytes) -> str:
    """The name git gives to a file."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()
