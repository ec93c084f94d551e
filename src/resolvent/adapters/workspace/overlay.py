"""The workspace on layers: a branch is a row over sealed layers, and what its jobs write is one more layer on top."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from resolvent.adapters.git import Git, upstream_of
from resolvent.adapters.workspace.basket import Refused, read_whole
from resolvent.adapters.workspace.branch_rows import Standing
from resolvent.adapters.workspace.branches import BranchStore
from resolvent.adapters.workspace.confine import PRIVATE, Walls
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.grounds import Grounds, is_base, is_repository, shows
from resolvent.adapters.workspace.harvest import Exported, Stack, export
from resolvent.adapters.workspace.laying import digest, lay_over, refuse_tracked
from resolvent.adapters.workspace.leftovers import Leftovers
from resolvent.adapters.workspace.rescue import Published, Rescue
from resolvent.adapters.workspace.scratch import Scratch
from resolvent.adapters.workspace.squash import squash
from resolvent.adapters.workspace.view import View
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch, Files, Job, Kept
from resolvent.errors import BranchBusy, ExportRefused, NoSandbox, NotFound, ResolventError

T = TypeVar("T")

# The kernel takes 500; long before that, every look for a name that is not there takes too long.
DEEP = 64


class OverlayWorkspace:
    """Branches below a sandbox directory, over the trusted `repo.git` of a state directory."""

    def __init__(
        self, state: Path, store: BranchStore, *, walls: Walls | None, published: Published | None = None
    ) -> None:
        self.store = store
        self._git = Git(state / "repo.git")
        self.bases = Grounds(self._git, store.layers.sandbox, owner=walls.user if walls else None)
        self.scratch = Scratch(store.layers.sandbox / "scratch")
        self.leftovers = Leftovers(store.layers.sandbox / "skipped", scratch=self.scratch)
        self._rescue = Rescue(self._git, published=published)
        self._walls = walls

    @classmethod
    async def open(
        cls,
        state: Path,
        *,
        sandbox: Path,
        walls: Walls | None,
        running: Callable[[str], bool],
        published: Published | None = None,
    ) -> "OverlayWorkspace":
        """The workspace of that state directory; `running` tells whether a job runs right now."""
        store = await BranchStore.open(sandbox, running=running, owner=walls.user if walls else None)
        return cls(state, store, walls=walls, published=published)

    async def close(self) -> None:
        """Let go of the store."""
        await self.store.close()

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""
        return await self._rooted(Branch(id=id, parent=None, commit=change.commit))

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone.

        While a job runs in the parent, a child has what was sealed before it.
        """
        branch = Branch(id=id, parent=parent.id, commit=parent.commit)

        def at_hand(lowers: tuple[str, ...]) -> tuple[str, ...] | None:
            repository = self.bases.repository_at_hand(branch.commit, over=lowers)
            return _over(lowers, repository) if repository and len(lowers) < DEEP else None

        # Nearly always all of it is there: then one trip to the record is enough.
        made = await self.store.fork(branch, below=at_hand)
        return made.branch if made else await self._fork_slowly(branch)

    async def _fork_slowly(self, branch: Branch) -> Branch:
        above = await self.store.get(branch.parent) if branch.parent is not None else None
        if above is None:
            return await self._rooted(branch)
        if len(above.shown) >= DEEP:
            await self._flatten(above)
        repository = await self.bases.repository(branch.commit, over=above.shown)
        made = await self.store.fork(branch, below=lambda lowers: _over(lowers, repository))
        return made.branch if made else await self._rooted(branch)

    async def _rooted(self, branch: Branch) -> Branch:
        there = await self.store.get(branch.id)
        lowers = there.lowers if there else await self.bases.of(branch.commit)
        return (await self.store.create(branch, lowers=lowers)).branch

    async def enter(self, branch: Branch, job: Job, *, private: str, unsafe: bool = False) -> Job:
        """The job as it runs inside the branch, which it occupies until it ended; BranchBusy while another job does.

        A branch on layers is there inside of walls only, so that `unsafe` changes nothing.
        """
        if self._walls is None:
            raise NoSandbox("a branch on layers can be entered inside of walls only", hint="resolvent doctor")
        here = await self.store.require(branch.id)
        if not here.upper and len(here.lowers) >= DEEP:
            await self._flatten(here)
        here = await self.store.take(branch.id, job=job.id)
        files = Files(layers=str(self.store.layers.path), upper=here.upper, lowers=here.lowers)
        objects = str(upstream_of(self._git.git_dir) / "objects")
        with translated():
            return await asyncio.to_thread(self._walls.around, job, files=files, private=private, objects=objects)

    @property
    def boxed(self) -> bool:
        """Its jobs run in boxes that have gateways."""
        return self._walls is not None

    def inside(self, private: str) -> str:
        """Where a job in a branch finds its private directory."""
        return self._walls.inside(private) if self._walls else PRIVATE

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""
        await asyncio.to_thread(refuse_tracked, self._git, base.commit, files)
        owner = self._walls.user if self._walls else None
        await self.store.lay(
            branch.id, digest(files), write=lambda here: lay_over(self._ups(here.shown), files, owner=owner)
        )

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""
        if here := await self.store.get(branch.id):
            self.store.whole(here)
        exported = await self._harvest(branch, message=message, at=at)
        with translated():
            await asyncio.to_thread(self.leftovers.note, branch.id, exported.skipped)
        if exported.change is not None:
            await self.store.became(branch.id, exported.change.commit)
        return exported.change

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out, at most a thousand: ignored paths, submodules' files, pipes and devices."""
        return self.leftovers.of(branch.id)

    async def snapshot(self, branch: Branch) -> None:
        """Seal what the branch holds now: no later job changes it under its children, no power loss takes it."""
        await self.store.snapshot(branch.id)

    async def read(self, branch: Branch, path: str) -> bytes:
        """A file of the branch as data; NotFound when there is none, or when it is no regular file."""

        def work(here: Standing) -> bytes:
            fd = View(self._ups(here.shown)).open(path.encode("utf-8", "surrogateescape"))
            if fd is None:
                raise NotFound(f"branch {branch.id!a} holds no file {path!a}")
            return read_whole(fd)[1]

        await self.store.require(branch.id)
        try:
            return await self._reading(branch.id, work)
        except UnicodeEncodeError as error:
            raise NotFound(f"branch {branch.id!a} holds no file {path!a}") from error
        except Refused as reason:
            raise ExportRefused(f"{path!a} {reason}", paths=[path]) from reason

    async def kept(self) -> tuple[Kept, ...]:
        """All there are, oldest first."""
        every = await self.store.all()
        return await asyncio.to_thread(lambda: tuple(self._kept(here) for here in every))

    def _kept(self, here: Standing) -> Kept:
        busy, times = self.store.occupied(here), {"created_at": here.created_at, "updated_at": here.updated_at}
        return Kept(branch=here.branch, job=here.job, busy=busy, depth=len(here.shown), **times)

    async def drop(self, branch: str) -> None:
        """Remove a branch that nobody needs, with whatever is in it; BranchBusy while a job runs there."""
        await self.store.delete(branch)
        self.leftovers.forget(branch)

    async def delete(self, branch: str, *, seen: Standing | None = None) -> str | None:
        """Remove a branch; work in it that nobody published is kept first under the ref that is returned.

        BranchBusy when somebody was let in since it was `seen`.
        """
        here = await self.store.get(branch)
        if here is None:
            return None
        if seen is not None and not here.holds_as(seen):
            raise self.store.busy(here)
        if here.upper:
            # Sealed: a job that was let in and comes late must not add to what has been looked at.
            # Torn or not: whatever is left of it is kept for who looks at it.
            here = await self.store.seal(branch, torn=True)
        parent = await self.store.get(here.branch.parent) if here.branch.parent is not None else None
        # Only who stands on the very same layers shows the same: what lies below others may be overwritten there.
        others = parent.shown if parent else ()
        ref = None if parent and _files(others) == _files(here.lowers) else await self._rescued(here)
        await self.store.delete(branch, seen=here)
        await self.store.unused.remove([name for name in here.lowers if not is_base(name) and name not in others])
        self.leftovers.forget(branch)
        return ref

    async def _rescued(self, here: Standing) -> str | None:
        branch, ground = here.branch, shows(here.lowers)
        # A root of a commit is made of what somebody else has to keep; a fork may be the last to hold its commit.
        given = ground if branch.parent is None else None
        if branch.commit == given and all(map(is_base, here.lowers)):
            return None
        message = f"Work in branch {branch.id}, kept when it was removed"
        exported = await self._harvest(branch, message=message, at=here.updated_at)
        commit = await self._rescue.commit_of(branch, exported.change, became=here.became)
        return None if commit == given else await self._rescue.keep(branch, commit)

    async def _harvest(self, branch: Branch, *, message: str, at: float) -> Exported:
        def work(here: Standing) -> Exported:
            with self.scratch() as scratch:
                nothing = scratch / "nothing"
                nothing.mkdir()
                layers = self._ups([name for name in here.shown if not is_base(name)]) or (nothing,)
                stack = Stack(layers, base=shows(here.lowers) or branch.commit, commit=branch.commit)
                return export(self._git, stack, message=message, at=at, scratch=scratch)

        return await self._reading(branch.id, work)

    async def _reading(self, id: str, work: Callable[[Standing], T]) -> T:
        """Let `work` read the layers of a branch in a thread, and again if the branch was moved to others meanwhile."""
        here = await self.store.get(id)
        while here is not None:
            failure: ResolventError | None = None
            try:
                with translated():
                    result = await asyncio.to_thread(work, here)
            except ResolventError as error:
                failure = error
            again = await self.store.get(id)
            # Nobody removes a layer that a branch names: what it names at both ends was whole in between.
            if again is not None and set(here.shown) <= set(again.shown):
                if failure is not None:
                    raise failure
                return result
            here = again
        raise ExportRefused(f"the files of branch {id!a} are gone", hint="resolvent branch ls")

    async def _flatten(self, here: Standing) -> None:
        """Put many layers together into one. Where a job runs, or what is there cannot be, they stay as they are."""

        def work(made: Path, layers: Sequence[str]) -> None:
            made.mkdir(parents=True)
            squash(self._ups(layers), made)
            # What was promised to outlive a power loss lies in what takes its place from now on.
            self.store.layers.sync()

        with translated(), suppress(BranchBusy, ExportRefused):
            sealed = await self.store.seal(here.branch.id)
            ground = tuple(name for name in sealed.lowers if is_base(name) and not is_repository(name))
            with self.scratch() as scratch:
                made = scratch / "squashed"
                await asyncio.to_thread(work, made / "up", [name for name in sealed.lowers if name not in ground])
                await self.store.flatten(sealed, made=made, below=ground)

    def _ups(self, names: Sequence[str]) -> tuple[Path, ...]:
        return tuple(self.store.layers.up(name) for name in names)


def _over(lowers: Sequence[str], repository: str) -> tuple[str, ...]:
    """The layers with a repository of their own: what the parent's agent planted in its `.git` is not handed on."""
    return (repository, *_files(lowers))


def _files(lowers: Sequence[str]) -> list[str]:
    """The layers that files are in."""
    return [name for name in lowers if not is_repository(name)]
