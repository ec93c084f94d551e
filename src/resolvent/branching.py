"""The sandbox on its own, the use cases of `resolvent branch`: branches made, used, looked at and removed by people."""

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.bundles import COMMAND, NAME, take_bundle
from resolvent.adapters.workspace.names import directory_name
from resolvent.adapters.workspace.scratch import Scratch
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, JobExit, Kept, Limits
from resolvent.errors import NotFound, UsageError
from resolvent.wiring import PLAIN_PATH, Home


@dataclass(frozen=True)
class Branching:
    """Branches of one repository, by the names people give them."""

    home: Home
    unsafe: bool = False

    async def new(self, of: str = "", *, name: str = "") -> Branch:
        """A branch of a commit, the default branch's when none is named, or a fork of another branch."""
        id = name or f"b{secrets.token_hex(3)}"
        workspace = await self.home.workspace()
        kept = await workspace.kept()
        if any(one.branch.id == id for one in kept):
            raise UsageError(f"there is a branch {id!a} already", hint=f"resolvent branch new NAME --of {id}")
        parent = _named(kept, of) if of else None
        if parent:
            return await workspace.fork(parent.branch, id=id)
        return await workspace.root(await self._change(of), id=id)

    async def _change(self, of: str) -> Change:
        forge, repository = await self.home.forge(), await self.home.git_repository()
        await forge.sync(self.home.repository)
        return await repository.change(await forge.fetch(repository.path, of or await forge.default_branch()))

    async def find(self, name: str) -> Branch:
        """By its id, or the beginning of it if that is enough; NotFound otherwise."""
        found = _named(await (await self.home.workspace()).kept(), name)
        if found is None:
            raise NotFound(f"there is no branch {name!a}", hint="resolvent branch ls")
        return found.branch

    async def job(self, branch: Branch, argv: tuple[str, ...], *, wall_s: float, stdin: str = "") -> Job:
        """A command as it will run in the branch; BranchBusy while another does."""
        workspace = await self.home.workspace()
        id = self._free_id(branch)
        private = self.home.private_directory(id)
        inside = workspace.inside(private)
        environment = {"PATH": self.home.environ.get("PATH", PLAIN_PATH), "LANG": "C.UTF-8"}
        environment |= {"HOME": f"{inside}/home", "TMPDIR": f"{inside}/tmp"}
        job = Job(id=id, argv=argv, environment=environment, stdin=stdin, limits=Limits(wall_s=wall_s))
        return await workspace.enter(branch, job, private=private, unsafe=self.unsafe)

    def _free_id(self, branch: Branch) -> str:
        """An id that is nobody else's: who shared one would be told what came of the other's command."""
        number = 1 + len(self.logs(branch))
        (self.home.state / "private").mkdir(mode=0o700, exist_ok=True)
        while True:
            id = f"{_jobs_of(branch.id)}.{number}"
            try:
                (self.home.state / "private" / id).mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            else:
                return id

    async def run(self, branch: Branch, job: Job) -> JobExit:
        """The command to its end; what it left is sealed."""
        exit = await self.home.jobs().ensure(job)
        await (await self.home.workspace()).snapshot(branch)
        return exit

    def logs(self, branch: Branch) -> list[Path]:
        """The output of every command that was run in it, the first one first."""
        place = self.home.state / "jobs"
        found = place.glob(f"{_jobs_of(branch.id)}.*/job.json")
        return [job.with_name("output") for job in sorted(found, key=lambda path: int(path.parent.suffix[1:]))]

    async def commit(self, branch: Branch, *, message: str) -> Change | None:
        """What the branch holds, as one commit on its own in our repository; None when nothing differs."""
        return await (await self.home.workspace()).export(branch, message=message, at=self.home.clock.now())

    async def diff(self, branch: Branch) -> str:
        """The patch from its commit to what it holds now."""
        repository = await self.home.git_repository()
        # At a fixed time: looking twice makes no second commit.
        change = await (await self.home.workspace()).export(branch, message="what the branch holds", at=0)
        return "" if change is None else await repository.diff(await repository.change(branch.commit), change)

    async def clean(self) -> dict[str, Any]:
        """Remove what nobody needs: branches that are too old or too many, if no run goes on in them, and layers."""
        from resolvent.adapters.workspace.housekeeping import Housekeeping
        from resolvent.adapters.workspace.overlay import OverlayWorkspace

        workspace, sandbox = await self.home.workspace(), self.home.settings.sandbox
        if isinstance(workspace, OverlayWorkspace):
            done = await Housekeeping(workspace).tidy(keep=sandbox.keep, quota=sandbox.quota, pins=await self._pins())
            return asdict(done)
        pins, limit = await self._pins(), self.home.clock.now() - sandbox.keep
        old = [one.branch.id for one in await workspace.kept() if not one.busy and one.updated_at < limit]
        removed = {id: await workspace.delete(id) for id in old if id not in pins}
        rescued = {id: ref for id, ref in removed.items() if ref}
        return {"removed": list(removed), "rescued": rescued, "refused": {}, "layers": [], "freed": 0, "over": 0}

    async def _pins(self) -> frozenset[str]:
        """The branches of runs and explorations that are not over: they find what they left."""
        from resolvent.adapters.workspace.explorations import Explorations

        journal = await self.home.journal()
        unfinished = await journal.runs(states=("queued", "running", "waiting"), limit=10_000)
        played = [branch.id for run in unfinished for branch in await journal.branches(run.id)]
        explorations = await Explorations.open(Path((await self.home.rung()).sandbox))
        try:
            return frozenset((*played, *await explorations.pinned()))
        finally:
            await explorations.close()

    async def take_commits(self, branch: Branch) -> str | None:
        """The agent's own commits as a ref in our repository; None when it made none."""
        # In the branch itself: a fork would get a repository of its own, without these commits.
        job = await self.job(branch, ("/bin/sh", "-c", COMMAND, branch.commit), wall_s=600)
        exit = await self.run(branch, job)
        if exit.exit:
            log = self.home.jobs().output(job.id)
            raise UsageError(f"its commits cannot be bundled, exit {exit.exit}", hint=f"cat {log}")
        private = Path(self.home.private_directory(job.id))
        with Scratch(self.home.state / "scratch")() as place:
            git = Git((await self.home.git_repository()).path)
            return await take_bundle(git, private / "tmp" / NAME, branch=branch.id, scratch=place)


def _jobs_of(id: str) -> str:
    return f"branch.{directory_name(id)}"


def _named(kept: tuple[Kept, ...], name: str) -> Kept | None:
    exact = [one for one in kept if one.branch.id == name]
    begun = [one for one in kept if one.branch.id.startswith(name)]
    if not exact and len(begun) > 1:
        names = ", ".join(ascii(one.branch.id) for one in begun[:5])
        raise UsageError(f"{name!a} may be any of {names}", hint="resolvent branch ls")
    return next(iter(exact or begun), None)
