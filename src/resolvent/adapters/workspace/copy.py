"""The plain workspace: every branch is a copy, by reflink where the disk can."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from resolvent.adapters.git import Git, upstream_of
from resolvent.adapters.workspace.basket import Basket, Refused, read_whole
from resolvent.adapters.workspace.checkout import give_ancestors, give_repository
from resolvent.adapters.workspace.confine import OBJECTS, Walls
from resolvent.adapters.workspace.copies import Copies
from resolvent.adapters.workspace.copying import copy_tree
from resolvent.adapters.workspace.export import Harvest, take_in
from resolvent.adapters.workspace.files import opened, translated
from resolvent.adapters.workspace.harvest import Exported
from resolvent.adapters.workspace.lasting import flush
from resolvent.adapters.workspace.laying import digest, lay_over, refuse_tracked
from resolvent.adapters.workspace.objects import Pack
from resolvent.adapters.workspace.rescue import Published, Rescue
from resolvent.adapters.workspace.rules import Rules
from resolvent.adapters.workspace.scratch import Scratch, settle
from resolvent.adapters.workspace.sealed import SealedTrees
from resolvent.adapters.workspace.trees import Trees
from resolvent.adapters.workspace.view import View
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch, Files, Job, Kept
from resolvent.errors import BranchBusy, ExportRefused, NoSandbox, NotFound, ReplayDiverged


class CopyWorkspace:
    """Branches as directories below the state directory, beside the trusted `repo.git`."""

    def __init__(
        self,
        state: Path,
        *,
        walls: Walls | None = None,
        running: Callable[[str], bool] = lambda job: False,
        published: Published | None = None,
    ) -> None:
        """`running` tells whether a job runs right now; without walls a job has to be allowed to run unconfined."""
        state = state.absolute()
        self._walls = walls
        self._git = Git(state / "repo.git")
        self._rescue = Rescue(self._git, published=published)
        self._scratch = Scratch(state / "scratch")
        self._sealed = SealedTrees(self._git, state=state, scratch=self._scratch)
        self._copies = Copies(state / "branches", running=running)

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""
        return await asyncio.to_thread(self._made, Branch(id=id, parent=None, commit=change.commit))

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone.

        BranchBusy while a job runs in the parent: nothing keeps what was there before it.
        """
        return await asyncio.to_thread(self._made, Branch(id=id, parent=parent.id, commit=parent.commit))

    def path(self, branch: Branch) -> Path:
        """Where its files are."""
        return self._copies.work(branch.id)

    def _made(self, branch: Branch) -> Branch:
        with translated():
            place = self._copies.place(branch.id)
            if self._copies.ruined(branch.id):
                self._scratch.discard(place)
            if not place.exists():
                self._make(branch)
        there = self._copies.there(branch.id)
        if there != branch:
            raise ReplayDiverged(f"branch {branch.id} was made of {there.commit[:10]}, not of {branch.commit[:10]}")
        return there

    @contextmanager
    def _files_for(self, branch: Branch) -> Iterator[int]:
        """The open directory that a new branch is a copy of; nobody changes or removes it meanwhile."""
        if branch.parent is not None and self._copies.place(branch.parent).exists():
            with self._copies.still(branch.parent):
                self._copies.refuse_torn(branch.parent)
                with opened(self._copies.work(branch.parent)) as files:
                    yield files
        else:
            with self._sealed.files(branch.commit) as sealed, opened(sealed) as files:
                yield files

    def _make(self, branch: Branch) -> None:
        place = self._copies.place(branch.id)
        with self._scratch() as scratch:
            made = scratch / "branch"
            work = made / "work"
            work.mkdir(parents=True)
            with self._files_for(branch) as there, opened(work) as here:
                copy_tree(there, here)
            inside = self._walls is not None and self._walls.kind == "namespaces"
            objects = OBJECTS if inside else str(upstream_of(self._git.git_dir) / "objects")
            give_repository(work, commit=branch.commit, index=self._sealed.index(branch.commit), objects=objects)
            give_ancestors(work, commit=branch.commit, git=self._git)
            if self._walls is not None and self._walls.user is not None:
                _give(work, self._walls.user)
                # A job that sees the paths of the host has to reach its own; what lies beside it stays closed to it.
                place.parent.mkdir(exist_ok=True)
                for way in (place.parent, made):
                    way.chmod(0o711)
            (made / "branch.json").write_text(branch.model_dump_json())
            # Half a copy under its name would pass for what the parent left.
            flush(made)
            settle(made, place)

    async def enter(self, branch: Branch, job: Job, *, private: str, unsafe: bool = False) -> Job:
        """The job as it runs inside the branch, which it occupies until it ended; BranchBusy while another job does.

        Asking again for the same job is fine. NoSandbox where there are no walls, unless `unsafe` says so.
        """
        if self._walls is None and not unsafe:
            raise NoSandbox(f"nothing would confine job {job.id} to its branch", hint="resolvent doctor")
        await asyncio.to_thread(self._copies.take, branch.id, job=job.id)
        tree = str(self.path(branch))
        if self._walls is None:
            return job.model_copy(update={"cwd": job.cwd or tree})
        objects = str(upstream_of(self._git.git_dir) / "objects")
        files = Files(tree=tree)
        return await asyncio.to_thread(self._walls.around, job, files=files, private=private, objects=objects)

    @property
    def boxed(self) -> bool:
        """Its jobs run in boxes that have gateways."""
        return self._walls is not None and self._walls.kind == "namespaces"

    def inside(self, private: str) -> str:
        """Where a job in a branch finds its private directory."""
        return private if self._walls is None else self._walls.inside(private)

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""
        await asyncio.to_thread(refuse_tracked, self._git, base.commit, files)
        owner = self._walls.user if self._walls else None

        def write(work: Path) -> None:
            lay_over([work], files, owner=owner)

        await asyncio.to_thread(self._copies.lay, branch.id, digest(files), write=write)

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""
        self._copies.refuse_torn(branch.id)
        exported = await asyncio.to_thread(self._export, branch, message=message, at=at)
        await asyncio.to_thread(self._copies.note, branch.id, "skipped.json", json.dumps(exported.skipped))
        if exported.change is not None:
            await asyncio.to_thread(self._copies.note, branch.id, "became", exported.change.commit)
        return exported.change

    def _export(self, branch: Branch, *, message: str, at: float) -> Exported:
        with (
            translated(),
            self._scratch() as scratch,
            (scratch / "pack").open("w+b") as file,
            Trees(self._git) as trees,
        ):
            basket = Basket(Pack(file, like=branch.commit))
            rules = Rules(self._git, trees=trees, commit=branch.commit, work_tree=scratch / "rules")
            harvest = Harvest(self._sealed.listing(branch.commit), rules, basket)
            try:
                with rules, opened(self.path(branch)) as work:
                    harvest.walk(work)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ExportRefused(f"the files of branch {branch.id} are gone") from error
            change = harvest.commit(parent=branch.commit, message=message, at=at)
            if change is not None:
                take_in(self._git, basket.pack)
            return Exported(change, basket.skipped)

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out, at most a thousand: ignored paths, submodules' files, pipes and devices."""
        return tuple(json.loads(self._copies.noted(branch.id, "skipped.json") or "[]"))

    async def snapshot(self, branch: Branch) -> None:
        """Wait until a power loss would not take what the branch holds; its children are copies of their own anyway."""

        def work() -> None:
            self._copies.there(branch.id)
            with translated(), self._copies.still(branch.id):
                self._copies.refuse_torn(branch.id)
                flush(self._copies.place(branch.id))
                self._copies.safe(branch.id)

        await asyncio.to_thread(work)

    async def read(self, branch: Branch, path: str) -> bytes:
        """A file of the branch as data; NotFound when there is none, or when it is no regular file."""
        self._copies.there(branch.id)
        try:
            fd = await asyncio.to_thread(View([self.path(branch)]).open, path.encode("utf-8", "surrogateescape"))
            if fd is None:
                raise NotFound(f"branch {branch.id!a} holds no file {path!a}")
            return (await asyncio.to_thread(read_whole, fd))[1]
        except UnicodeEncodeError as error:
            raise NotFound(f"branch {branch.id!a} holds no file {path!a}") from error
        except Refused as reason:
            raise ExportRefused(f"{path!a} {reason}", paths=[path]) from reason

    async def kept(self) -> tuple[Kept, ...]:
        """All branches there are, oldest first."""
        with translated():
            found = await asyncio.to_thread(lambda: [*self._copies.kept()])
        return tuple(sorted(found, key=lambda kept: (kept.created_at, kept.branch.id)))

    async def close(self) -> None:
        """Nothing is open."""

    async def drop(self, branch: str) -> None:
        """Remove a branch that nobody needs, with all that is in it; BranchBusy if a job runs there."""

        def work() -> None:
            # Gone already is as good; so is gone while we waited.
            with suppress(NotFound), self._copies.alone(branch):
                self._discard(branch)

        await asyncio.to_thread(work)

    async def delete(self, branch: str) -> str | None:
        """Remove a branch; work in it that nobody published is kept first under the ref that is returned."""
        if not self._copies.place(branch).exists():
            return None
        # Alone from the first look to the end: a job that was let in and comes late must not add to what was kept.
        with self._copies.alone(branch):
            ref = await self._rescued(self._copies.there(branch))
            await asyncio.to_thread(self._discard, branch)
        return ref

    def _discard(self, id: str) -> None:
        with translated():
            self._scratch.discard(self._copies.place(id))
            self._sealed.sweep(lambda: {kept.branch.commit for kept in self._copies.kept()})

    async def _rescued(self, branch: Branch) -> str | None:
        message = f"Work in branch {branch.id}, kept when it was removed"
        at = (self._copies.place(branch.id) / "branch.json").stat().st_mtime
        made = (await asyncio.to_thread(self._export, branch, message=message, at=at)).change
        if made is None and branch.parent is None:
            return None
        # A parent that cannot be looked at holds nothing for sure.
        with suppress(NotFound, BranchBusy, ExportRefused):
            if branch.parent is not None:
                with self._copies.still(branch.parent):
                    parent = branch.model_copy(update={"id": branch.parent})
                    if (await asyncio.to_thread(self._export, parent, message=message, at=at)).change == made:
                        return None
        became = self._copies.noted(branch.id, "became")
        return await self._rescue.keep(branch, await self._rescue.commit_of(branch, made, became=became))


def _give(work: Path, user: int) -> None:
    """Let a user own a tree of ours; no path of it is too long, for none is named."""
    os.chown(work, user, user)
    for _, directories, files, here in os.fwalk(work):
        for name in (*directories, *files):
            os.chown(name, user, user, dir_fd=here, follow_symlinks=False)
