"""What has to hold after a kill, looked at by a process that had no part in what came before."""

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.grounds import is_base
from resolvent.adapters.workspace.housekeeping import BASES_S, Housekeeping
from resolvent.adapters.workspace.names import directory_name
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.adapters.workspace.rescue import RESCUE
from resolvent.errors import GitError, JobLost, ResolventError
from resolvent.testing.campaign.worker import Files, Hands, Held, Ledger, Place, Step, blob

LIST = """
find . -path ./.git -prune -o -type f -print | sort > "$TMPDIR/names"
git rev-parse HEAD
cat "$TMPDIR/names"
git hash-object --no-filters --stdin-paths < "$TMPDIR/names"
"""


@dataclass(frozen=True)
class Interrupted:
    """What the worker was about when it was killed."""

    step: Step
    # The job's supervisor was killed too: it may have done any part of its work. Else all of it, or it never began.
    torn: bool = False
    begun: bool = False

    def fits(self, held: Held, seen: Files) -> bool:
        """These files can be what a kill in this step left of the branch."""
        step, before = self.step, held.files
        if step.branch != held.branch.id or step.verb != "run":
            return seen == before
        after = step.over(before)
        if not self.torn:
            return seen == (after if self.begun else before)
        part = f"{step.path}.part"
        return all(
            seen.get(path) in (before.get(path), after.get(path)) for path in {*before, *after, *seen} if path != part
        )


@dataclass
class Finding:
    """What was found after one kill."""

    # By kind, what is wrong.
    faults: list[tuple[str, str]] = field(default_factory=list)
    branches: dict[str, Held] = field(default_factory=dict)
    entered: int = 0
    # The interrupted step had its effect, as far as one can tell.
    done: bool = False

    def fault(self, kind: str, what: str) -> None:
        self.faults.append((kind, what))


class Check:
    """One look at a store after a kill."""

    def __init__(self, place: Place, ledger: Ledger, *, interrupted: Interrupted | None, number: int) -> None:
        self._place = place
        self._ledger = ledger
        self._interrupted = interrupted
        self._number = number
        self._git = Git(place.state / "repo.git")
        self.finding = Finding()

    async def look(self, *, thorough: bool) -> Finding:
        """Everything that was acknowledged is there, all of it can be used, and nothing else is left."""
        hands = await self._place.opened()
        expected = await self._present(hands.workspace)
        for held in expected:
            await self._read(hands.workspace, held)
        await self._collected(hands.workspace, aged=thorough)
        for held in expected:
            await self._enter(hands, held)
        await self._names()
        await self._not_again(hands)
        if thorough:
            await self._repository()
        self._judge()
        await hands.workspace.close()
        return self.finding

    async def _present(self, workspace: OverlayWorkspace) -> list[Held]:
        """The branches that are there, as they were when they were acknowledged."""
        kept = {kept.branch.id: kept for kept in await workspace.kept()}
        for id, one in kept.items():
            if one.busy:
                self.finding.fault("unusable", f"{id} is said to be in use, by {one.job}")
        expected = dict(self._ledger.branches)
        step = self._interrupted.step if self._interrupted else None
        if step and step.verb in ("root", "fork") and step.branch in kept:
            expected[step.branch] = self._ledger.made(step)
        for id, held in expected.items():
            if id in kept and kept[id].branch != held.branch:
                self.finding.fault("lost", f"{id} is {kept[id].branch} and not {held.branch}")
        if step and step.verb in ("delete", "drop") and step.branch not in kept:
            await self._rescued(expected.pop(step.branch), step)
        for id in expected.keys() - kept.keys():
            self.finding.fault("lost", f"{id} is gone")
        for id in kept.keys() - expected.keys():
            self.finding.fault("stray", f"{id} was removed, or nobody made it")
        return [held for id, held in expected.items() if id in kept]

    async def _read(self, workspace: OverlayWorkspace, held: Held) -> None:
        """Every file that must be there, through the workspace."""
        step = self._interrupted.step if self._interrupted else None
        for path, oid in held.files.items():
            if step and step.branch == held.branch.id and (step.takes(path) or path == step.path):
                continue
            try:
                found = blob(await workspace.read(held.branch, path))
            except ResolventError as error:
                self.finding.fault("lost", f"{path} of {held.branch.id}: {error.message}")
                continue
            if found != oid:
                self.finding.fault("lost", f"{path} of {held.branch.id} is {found}, not {oid}")

    async def _collected(self, workspace: OverlayWorkspace, *, aged: bool) -> None:
        """After a collection there is nothing that no branch stands on."""
        sandbox = workspace.store.layers.sandbox
        if aged:
            _age(sandbox)
        await Housekeeping(workspace).collect()
        named = {name for here in await workspace.store.all() for name in here.shown}
        there = set(workspace.store.layers.names())
        recorded = {name for record in (sandbox / "bases").glob("[0-9a-f]*") for name in record.read_text().split()}
        litter = {name for name in there - named if not is_base(name) or (aged and name not in recorded)}
        litter |= {f"{place}/{left}" for place in ("trash", "scratch") for left in os.listdir(sandbox / place)}
        for name in sorted(litter):
            self.finding.fault("litter", name)
        for name in sorted(named - there):
            self.finding.fault("lost", f"layer {name}")

    async def _enter(self, hands: Hands, held: Held) -> None:
        """A job in the branch starts, and sees exactly what is in it."""
        id = f"check-{self._number}-{self.finding.entered}"
        self.finding.entered += 1
        try:
            ended = await hands.run(held.branch, hands.job(id, LIST))
        except ResolventError as error:
            self.finding.fault("unusable", f"{held.branch.id}: {error.message}")
            return
        said = hands.jobs.output(id).read_text(errors="backslashreplace")
        head, *lines = said.splitlines() or [""]
        if ended.exit or head != held.branch.commit:
            self.finding.fault("unusable", f"{held.branch.id}: {ended} {said[-500:]}")
            return
        half = len(lines) // 2
        seen = {path.removeprefix("./"): oid for path, oid in zip(lines[:half], lines[half:], strict=True)}
        step = self._interrupted or Interrupted(Step(0, ""))
        if not step.fits(held, seen):
            differing = {path for path in held.files.keys() | seen if held.files.get(path) != seen.get(path)}
            self.finding.fault("lost", f"{held.branch.id} differs in {sorted(differing)}, after {step}")
        self.finding.branches[held.branch.id] = held._replace(files=seen)

    async def _names(self) -> None:
        """What was said to be kept as a commit holds what it should."""
        for name, files in self._ledger.kept.items():
            if await self._listed(name) != files:
                self.finding.fault("lost", f"{name} does not hold what was exported")

    async def _not_again(self, hands: Hands) -> None:
        """A job that died with its supervisor is known to be lost, and nobody starts it a second time."""
        if self._interrupted is None or not (self._interrupted.torn and self._interrupted.begun):
            return
        job = hands.job(self._interrupted.step.job, "exit 7")
        try:
            ended = await hands.jobs.ensure(job)
        except JobLost:
            return
        self.finding.fault("job", f"{job.id} was killed with its supervisor and came to {ended}")

    async def _rescued(self, held: Held, step: Step) -> None:
        """Work that nobody else has was kept before its branch went, though nobody heard of it."""
        parent = self._ledger.branches.get(held.branch.parent or "")
        same = parent is not None and parent.files == held.files
        if step.verb == "drop" or same or held.files == self._ledger.commits[held.branch.commit]:
            return
        pattern = f"{RESCUE}/{directory_name(held.branch.id)}*"
        refs = (await self._git("for-each-ref", "--format=%(refname)", pattern)).decode().split()
        if held.files not in [await self._listed(ref) for ref in refs]:
            self.finding.fault("lost", f"{held.branch.id} went without a rescue")

    async def _listed(self, name: str) -> Files:
        try:
            rows = (await self._git("ls-tree", "-r", "-z", "--full-tree", name)).decode().split("\0")[:-1]
        except GitError as error:
            return {"": error.message}
        return {path: about.split()[2] for about, _, path in (row.partition("\t") for row in rows)}

    async def _repository(self) -> None:
        try:
            said = await self._git("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
        except GitError as error:
            self.finding.fault("git", f"{error.message} {error.stderr[-500:]}")
            return
        if said.strip():
            self.finding.fault("git", said.decode(errors="replace")[-500:])

    def _judge(self) -> None:
        """Whether the interrupted step was found done."""
        if self._interrupted is None:
            return
        step, seen = self._interrupted.step, self.finding.branches
        if step.verb in ("root", "fork"):
            self.finding.done = step.branch in seen
        elif step.verb in ("delete", "drop"):
            self.finding.done = step.branch not in seen
        elif step.verb == "run" and step.branch in seen:
            self.finding.done = seen[step.branch].files == step.over(self._ledger.branches[step.branch].files)


def _age(sandbox: Path) -> None:
    """Let it be as if nobody had asked for a commit for long: then what none stands on may go."""
    past = time.time() - 2 * BASES_S
    for directory, pattern in (("bases", "[0-9a-f]+"), ("layers", "(tree|diff|git)-")):
        for name in os.listdir(sandbox / directory):
            if re.match(pattern, name):
                with suppress(FileNotFoundError):
                    os.utime(sandbox / directory / name, (past, past))
