"""The sandbox on its own, the use cases of `resolvent branch`: branches made, used, looked at and removed by people."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.bundles import COMMAND, NAME, take_bundle
from resolvent.adapters.workspace.elsewhere import COPIES, elsewhere
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.adapters.workspace.scratch import Scratch
from resolvent.branch_commands import PREFIX, Command, Commands
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, JobExit, Kept, Limits
from resolvent.errors import ExportRefused, NotFound, ResolventError, UsageError
from resolvent.wiring import PLAIN_PATH, Home

if TYPE_CHECKING:
    from resolvent.adapters.workspace.explorations import Explorations
    from resolvent.adapters.workspace.housekeeping import Tidied
    from resolvent.ports import Workspace

MAX_NAME = 100


@dataclass(frozen=True)
class Branching:
    """Branches of one repository, by the names people give them."""

    home: Home
    unsafe: bool = False

    async def new(self, of: str = "", *, name: str | None = None) -> Branch:
        """A branch of a commit, the default branch's when none is named, or a fork of another branch."""
        id = f"b{secrets.token_hex(3)}" if name is None else fit(name)
        workspace = await self.home.workspace()
        kept = await workspace.kept()
        if any(one.branch.id == id for one in kept):
            raise UsageError(f"there is a branch {id!a} already", hint=f"resolvent branch new NAME --of {quote(id)}")
        parent = next((one for one in kept if one.branch.id == of), None)
        if parent is None:
            try:
                return await workspace.root(await self._change(of), id=id)
            except NotFound:
                # The beginning of a name comes last: `main` is not `main-broken`.
                parent = _named(kept, of) if of else None
                if parent is None:
                    raise
        return await workspace.fork(parent.branch, id=id)

    async def _change(self, of: str) -> Change:
        """The commit that a revision names in our repository, or else in the forge."""
        forge, repository = await self.home.forge(), await self.home.git_repository()
        if of:
            try:
                return await repository.change(of)
            except NotFound:
                pass
        await forge.sync(self.home.repository)
        wanted = of or await forge.default_branch()
        try:
            if await forge.head_of(wanted) is None and self.home.settings.forge.kind == "local":
                place = (await self.home.local_forge()).path
                wanted = (await TrustedRepository(place).change(wanted)).commit
            return await repository.change(await forge.fetch(repository.upstream, wanted))
        except NotFound as error:
            refs = f"git --git-dir={quote(str(repository.path))} for-each-ref"
            hint = refs if of.startswith("refs/") else "resolvent branch ls   # or: git log --oneline"
            raise NotFound(f"no branch, ref or commit is called {of!a}", hint=hint) from error

    async def find(self, name: str, *, whole: bool = False) -> Kept:
        """By its id; or, unless it must be `whole`, by the beginning of it if that is enough. NotFound otherwise."""
        kept = await (await self.home.workspace()).kept()
        found = next((one for one in kept if one.branch.id == name), None) if whole else _named(kept, name)
        if found is None:
            raise await self._missing(name)
        return found

    async def _missing(self, name: str) -> NotFound:
        rung = await self.home.rung()
        for other, ids in (await self.elsewhere()).items():
            if name in ids:
                said = f"there is no branch {name!a} on rung {rung.name}; one of that name lies on rung {other}"
                if self.unsafe:
                    return NotFound(said, hint="the same without --unsafe, or: resolvent branch new NAME --unsafe")
                setting = f'sandbox.rung = "{other}" in resolvent.local.toml'
                return NotFound(said, hint="the same with --unsafe" if other == COPIES else f"set {setting}")
        return NotFound(f"there is no branch {name!a}", hint="resolvent branch ls")

    async def elsewhere(self) -> dict[str, tuple[str, ...]]:
        """The branches that another rung has, by its name: each kind of rung keeps its own."""
        return await asyncio.to_thread(elsewhere, self.home.state, rung=await self.home.rung())

    async def job(self, branch: Branch, argv: tuple[str, ...], *, wall_s: float, stdin: str | bytes = "") -> Job:
        """A command as it will run in the branch; BranchBusy while another does."""
        await self.home.require_walls(unsafe=self.unsafe)
        workspace = await self.home.workspace()
        id = self._commands.free_id(await self.find(branch.id, whole=True))
        private = self.home.private_directory(id)
        inside = workspace.inside(private)
        environment = {"PATH": self.home.environ.get("PATH", PLAIN_PATH), "LANG": "C.UTF-8"}
        environment |= {"HOME": f"{inside}/home", "TMPDIR": f"{inside}/tmp"}
        job = Job(id=id, argv=argv, environment=environment, stdin=stdin, limits=Limits(wall_s=wall_s))
        return await workspace.enter(branch, job, private=private, unsafe=self.unsafe)

    async def run(self, branch: Branch, job: Job) -> JobExit:
        """The command to its end; what it left is sealed."""
        exit = await self.home.jobs().ensure(job)
        await (await self.home.workspace()).snapshot(branch)
        return exit

    async def stop(self, kept: Kept) -> bool:
        """End the command that runs in the branch with all that it started; False when none does."""
        if not kept.busy:
            return False
        if not kept.job.startswith(PREFIX):
            raise await self._foreign(kept)
        await self.home.jobs().cancel(kept.job)
        return True

    async def _foreign(self, kept: Kept) -> UsageError:
        """Whose job it is that no command of ours started."""
        said = f"job {kept.job} in branch {kept.branch.id!a} is part of"
        async with self._explorations() as explorations:
            if kept.branch.id in await explorations.progress():
                return UsageError(f"{said} an exploration", hint="delete_branch  # a tool of: resolvent mcp")
        return UsageError(f"{said} a run", hint="resolvent cancel RUN")

    def commands(self, kept: Kept) -> list[Command]:
        """Every command that was run in it, the first one first."""
        return self._commands.of(kept)

    @property
    def _commands(self) -> Commands:
        return Commands(self.home.state)

    async def remove(self, kept: Kept, *, discard: bool = False) -> str | None:
        """Remove a branch and what its commands printed; the ref that keeps its work, unless it is to be discarded."""
        id, workspace = kept.branch.id, await self.home.workspace()
        ref = None
        try:
            if discard:
                await workspace.drop(id)
            else:
                ref = await workspace.delete(id)
        except ExportRefused as error:
            error.hint = error.hint or f"resolvent branch rm --discard {quote(id)}"
            raise
        await self._commands.forget(kept)
        return ref

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
        left = self._commands.names()
        done = await self._tidied()
        here = [one.branch.id for one in await (await self.home.workspace()).kept()]
        there = [id for ids in (await self.elsewhere()).values() for id in ids]
        await self._commands.sweep(left, branches=(*here, *there))
        # Imported here: who runs one command does not pay for it.
        from resolvent.exploring_ground import Traces, sweep

        async with self._explorations() as explorations:
            repository = await self.home.git_repository()
            await sweep(explorations, await self.home.workspace(), repository, Traces(self.home.state))
        return done

    async def _tidied(self) -> dict[str, Any]:
        from resolvent.adapters.workspace.housekeeping import Housekeeping, Tidied
        from resolvent.adapters.workspace.overlay import OverlayWorkspace

        workspace, sandbox = await self.home.workspace(), self.home.settings.sandbox
        if isinstance(workspace, OverlayWorkspace):
            done = await Housekeeping(workspace).tidy(keep=sandbox.keep, quota=sandbox.quota, pins=await self._pins())
            return asdict(done)
        # Copies go by their age alone: what one takes of the disk nobody knows without looking at every file.
        done, limit = Tidied(), self.home.clock.now() - sandbox.keep
        pins = await self._pins()
        for one in await workspace.kept():
            if not one.busy and one.updated_at < limit and one.branch.id not in pins:
                await self._tidy_copy(workspace, one.branch.id, done)
        return asdict(done)

    async def _tidy_copy(self, workspace: "Workspace", id: str, done: "Tidied") -> None:
        try:
            ref = await workspace.delete(id)
        except ResolventError as error:
            # One that cannot be kept is not thrown away, and keeps no other from being so.
            done.refused[id] = error.message
            return
        done.removed.append(id)
        if ref:
            done.rescued[id] = ref

    async def _pins(self) -> frozenset[str]:
        """The branches of runs and explorations that are not over: they find what they left."""
        journal = await self.home.journal()
        unfinished = await journal.runs(states=("queued", "running", "waiting"), limit=10_000)
        played = [branch.id for run in unfinished for branch in await journal.branches(run.id)]
        async with self._explorations() as explorations:
            return frozenset((*played, *await explorations.pinned()))

    @asynccontextmanager
    async def _explorations(self) -> "AsyncIterator[Explorations]":
        from resolvent.adapters.workspace.explorations import Explorations

        explorations = await Explorations.open(Path((await self.home.rung()).sandbox), now=self.home.clock.now)
        try:
            yield explorations
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


def fit(name: str) -> str:
    """The name, if a branch may be called so; UsageError says why not."""
    wrong = ""
    if not name or name != name.strip():
        wrong = "is empty" if not name.strip() else "begins or ends with a space"
    elif name.startswith("-"):
        wrong = "begins with a dash, as options do"
    elif not name.isprintable():
        wrong = "holds a character that cannot be seen"
    elif len(name) > MAX_NAME:
        wrong = f"has more than {MAX_NAME} characters"
    if wrong:
        raise UsageError(f"the name {name[:MAX_NAME]!a} {wrong}", hint="resolvent branch new NAME")
    return name


def _named(kept: tuple[Kept, ...], name: str) -> Kept | None:
    exact = [one for one in kept if one.branch.id == name]
    begun = [one for one in kept if name and one.branch.id.startswith(name)]
    if not exact and len(begun) > 1:
        names = ", ".join(ascii(one.branch.id) for one in begun[:5])
        raise UsageError(f"{name!a} may be any of {names}", hint="resolvent branch ls")
    return next(iter(exact or begun), None)
