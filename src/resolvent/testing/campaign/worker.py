"""The victim of the campaign: a process that makes, uses and removes branches, and notes what was acknowledged."""

import hashlib
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace import overlay
from resolvent.adapters.workspace.confine import Walls
from resolvent.adapters.workspace.housekeeping import Housekeeping
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, JobExit

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
    gone: str = ""
    # A word, so many times: an announcement is short, or a kill could cut it in two.
    word: str = ""
    times: int = 1

    @property
    def text(self) -> str:
        return self.word * self.times

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

    async def opened(self) -> "Hands":
        """The store, opened anew."""
        overlay.DEEP = DEEP
        jobs, sandbox = SupervisedJobs(self.state / "jobs"), self.state / "sandbox"
        workspace = await OverlayWorkspace.open(self.state, sandbox=sandbox, walls=self.walls, running=jobs.running)
        return Hands(self, workspace, jobs)


@dataclass(frozen=True)
class Hands:
    """Somebody who has the store open, and does what a step says."""

    place: Place
    workspace: OverlayWorkspace
    jobs: SupervisedJobs

    async def do(self, step: Step, ledger: Ledger) -> dict[str, str]:
        """What the store answers."""
        if step.verb == "root":
            change = Change(commit=step.commit, tree=ledger.trees[step.commit])
            await self.workspace.root(change, id=step.branch)
        elif step.verb == "fork":
            await self.workspace.fork(ledger.branches[step.parent].branch, id=step.branch)
        elif step.verb == "drop":
            await self.workspace.drop(step.branch)
        elif step.verb == "delete":
            return {"ref": await self.workspace.delete(step.branch) or ""}
        elif step.verb == "collect":
            await Housekeeping(self.workspace).collect()
        else:
            return await self._inside(step, ledger.branches[step.branch].branch)
        return {}

    async def _inside(self, step: Step, branch: Branch) -> dict[str, str]:
        if step.verb == "snapshot":
            await self.workspace.snapshot(branch)
        elif step.verb == "export":
            change = await self.workspace.export(branch, message=f"step {step.number}", at=AT)
            return {"commit": change.commit, "tree": change.tree} if change else {"commit": "", "tree": ""}
        else:
            ended = await self.run(branch, self.job(step.job, WRITE, step.path, step.gone, text=step.text))
            assert (ended.ending, ended.exit) == ("exited", 0), (step, ended, self.jobs.output(step.job).read_bytes())
        return {}

    def job(self, id: str, program: str, *arguments: str, text: str = "") -> Job:
        """A shell program that gets these arguments, and the text to read."""
        home = {"PATH": PATH, "HOME": "/run/resolvent/home", "TMPDIR": "/run/resolvent/tmp"}
        # The state directory among its words is how a process of ours is known from outside.
        argv = ("/bin/sh", "-euc", program, str(self.place.state), *arguments)
        return Job(id=id, argv=argv, environment=home, stdin=text)

    async def run(self, branch: Branch, job: Job) -> JobExit:
        """How the job ended in that branch."""
        private = self.place.state / "private" / job.id
        for inner in ("home", "tmp"):
            (private / inner).mkdir(parents=True)
        return await self.jobs.ensure(await self.workspace.enter(branch, job, private=str(private)))


class Worker:
    """Does one thing after the other until somebody kills it; announces each before, and acknowledges it after."""

    def __init__(self, place: Place, ledger: Ledger, *, number: int, seed: str) -> None:
        self._place = place
        self._ledger = ledger
        self._number = number
        self._chance = random.Random(seed)

    async def work(self, announced: int, acknowledged: int) -> None:
        """Never returns; what it is about to do goes to one descriptor, what was done to the other."""
        hands = await self._place.opened()
        while True:
            step = self._chosen()
            os.write(announced, json.dumps(step).encode() + b"\n")
            answer = await hands.do(step, self._ledger)
            os.write(acknowledged, json.dumps((step, answer)).encode() + b"\n")
            if step.verb == "snapshot":
                # What is promised to outlive a power loss is noted so that it does as well.
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
        return self._writing(branch, number) if verb == "run" else Step(number, verb, branch)

    def _writing(self, branch: str, number: int) -> Step:
        """A job that writes a file and removes another, or a directory."""
        chance, files = self._chance, list(self._ledger.branches[branch].files)
        gone = chance.choice(files) if files and chance.random() < 0.6 else ""
        gone = gone.partition("/")[0] if chance.random() < 0.3 else gone
        path = f"{chance.choice(('src', 'docs', 'new'))}/file-{number}"
        # What it writes it does not remove.
        gone = "" if path.startswith(f"{gone}/") else gone
        word, times = f"{number} {chance.random()} ", chance.choice((1, 1, 10, 3_000))
        return Step(number, "run", branch, path=path, gone=gone, word=word, times=times)


def blob(content: bytes) -> str:
    """The name git gives to a file."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()
