"""The plain workspace: every branch is a copy, by reflink where the disk can."""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shlex import quote

from resolvent.adapters.git import Git, upstream_of
from resolvent.adapters.workspace.boots import BootNote, lost, this_boot
from resolvent.adapters.workspace.checkout import flush, give_ancestors, give_repository
from resolvent.adapters.workspace.confine import OBJECTS, Walls
from resolvent.adapters.workspace.export import Harvest, Refused, read_whole, take_in
from resolvent.adapters.workspace.files import copy_tree, opened, translated
from resolvent.adapters.workspace.harvest import MAX_SKIPPED, Exported
from resolvent.adapters.workspace.laying import lay_over, refuse_tracked
from resolvent.adapters.workspace.names import directory_name, shown
from resolvent.adapters.workspace.objects import Listing, Pack
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
        self._state = state.absolute()
        self._walls = walls
        self._running = running
        self._boot = this_boot()
        self._git = Git(self._state / "repo.git")
        self._rescue = Rescue(self._git, published=published)
        self._scratch = Scratch(self._state / "scratch")
        self._sealed = SealedTrees(self._git, state=self._state, scratch=self._scratch)

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""
        return await self._made(Branch(id=id, parent=None, commit=change.commit))

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone.

        BranchBusy while a job runs in the parent: nothing keeps what was there before it.
        """
        left = self.path(parent)
        branch = Branch(id=id, parent=parent.id, commit=parent.commit)
        return await self._made(branch, source=left if left.exists() else None)

    def path(self, branch: Branch) -> Path:
        """Where its files are."""
        return self._place(branch.id) / "work"

    def _place(self, id: str) -> Path:
        return self._state / "branches" / directory_name(id)

    async def _made(self, branch: Branch, *, source: Path | None = None) -> Branch:
        if not self._place(branch.id).exists():
            if source is not None and branch.parent is not None:
                self._refuse_busy(branch.parent)
                self._refuse_torn(branch.parent)
            files = source or await self._sealed.files(branch.commit)
            index = await self._sealed.index(branch.commit)
            await asyncio.to_thread(self._make, branch, source=files, index=index)
        there = self._there(branch.id)
        if there != branch:
            raise ReplayDiverged(f"branch {branch.id} was made of {there.commit[:10]}, not of {branch.commit[:10]}")
        return there

    def _there(self, id: str) -> Branch:
        with translated():
            try:
                return Branch.model_validate_json((self._place(id) / "branch.json").read_bytes())
            except FileNotFoundError as error:
                raise NotFound(f"there is no branch {id!a}", hint="resolvent branch ls") from error

    def _make(self, branch: Branch, *, source: Path, index: Path) -> None:
        with translated(), self._scratch() as scratch:
            made = scratch / "branch"
            work = made / "work"
            work.mkdir(parents=True)
            with opened(source) as there, opened(work) as here:
                copy_tree(there, here)
            inside = self._walls is not None and self._walls.kind == "namespaces"
            objects = OBJECTS if inside else str(upstream_of(self._git.git_dir) / "objects")
            give_repository(work, commit=branch.commit, index=index.read_bytes(), objects=objects)
            give_ancestors(work, commit=branch.commit, git=self._git)
            if self._walls is not None and self._walls.user is not None:
                _give(work, self._walls.user)
                # A job that sees the paths of the host has to reach its own; what lies beside it stays closed to it.
                self._place(branch.id).parent.mkdir(exist_ok=True)
                for way in (self._place(branch.id).parent, made):
                    way.chmod(0o711)
            (made / "branch.json").write_text(branch.model_dump_json())
            settle(made, self._place(branch.id))

    async def enter(self, branch: Branch, job: Job, *, private: str, unsafe: bool = False) -> Job:
        """The job as it runs inside the branch, which it occupies until it ended; BranchBusy while another job does.

        Asking again for the same job is fine. NoSandbox where there are no walls, unless `unsafe` says so.
        """
        if self._walls is None and not unsafe:
            raise NoSandbox(f"nothing would confine job {job.id} to its branch", hint="resolvent doctor")
        await asyncio.to_thread(self._take, branch.id, job.id)
        tree = str(self.path(branch))
        if self._walls is None:
            return job.model_copy(update={"cwd": job.cwd or tree})
        objects = str(upstream_of(self._git.git_dir) / "objects")
        files = Files(tree=tree)
        return await asyncio.to_thread(self._walls.around, job, files=files, private=private, objects=objects)

    def inside(self, private: str) -> str:
        """Where a job in a branch finds its private directory."""
        return private if self._walls is None else self._walls.inside(private)

    def _take(self, id: str, job: str) -> None:
        with self._locked(id):
            self._refuse_torn(id)
            if self._noted(id, "job") != job:
                self._refuse_busy(id)
                (self._place(id) / "job").write_text(job)
            self._note(id).leave()

    def _note(self, id: str) -> BootNote:
        return BootNote(self._place(id) / "boot", boot=self._boot)

    def _refuse_torn(self, id: str) -> None:
        if self._note(id).torn:
            raise lost(id)

    def _noted(self, id: str, what: str) -> str:
        try:
            return (self._place(id) / what).read_text()
        except FileNotFoundError:
            return ""

    def _refuse_busy(self, id: str) -> None:
        job = self._noted(id, "job")
        if job and self._running(job):
            raise BranchBusy(f"job {job} runs in branch {id!a}", hint=f"resolvent branch stop {quote(id)}")

    @contextmanager
    def _locked(self, id: str) -> Iterator[None]:
        try:
            lock = os.open(self._place(id) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise NotFound(f"there is no branch {id!a}", hint="resolvent branch ls") from error
        try:
            with translated():
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        finally:
            os.close(lock)

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""
        await asyncio.to_thread(refuse_tracked, self._git, base.commit, files)
        await asyncio.to_thread(self._lay, branch, files)

    def _lay(self, branch: Branch, files: Sequence[File]) -> None:
        digest = sha256(json.dumps([(file.path, file.text) for file in files]).encode()).hexdigest()
        laid = self._place(branch.id) / f"laid-{digest[:16]}"
        owner = self._walls.user if self._walls else None
        with self._locked(branch.id):
            # Once: asked again, the command that needs the files may be running.
            if not laid.exists():
                self._refuse_busy(branch.id)
                self._refuse_torn(branch.id)
                self._note(branch.id).leave()
                lay_over([self.path(branch)], files, owner=owner)
                laid.touch()

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""
        self._refuse_torn(branch.id)
        exported = await self._exported(branch, message=message, at=at)
        with translated():
            (self._place(branch.id) / "skipped.json").write_text(json.dumps(exported.skipped))
            if exported.change is not None:
                (self._place(branch.id) / "became").write_text(exported.change.commit)
        return exported.change

    async def _exported(self, branch: Branch, *, message: str, at: float) -> Exported:
        listing = await self._sealed.listing(branch.commit)
        return await asyncio.to_thread(self._export, branch, listing, message=message, at=at)

    def _export(self, branch: Branch, listing: Listing, *, message: str, at: float) -> Exported:
        with (
            translated(),
            self._scratch() as scratch,
            (scratch / "pack").open("w+b") as file,
            Trees(self._git) as trees,
        ):
            pack = Pack(file, like=branch.commit)
            rules = Rules(self._git, trees=trees, commit=branch.commit, work_tree=scratch / "rules")
            harvest = Harvest(listing, rules, pack)
            try:
                with rules, opened(self.path(branch)) as work:
                    harvest.walk(work)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ExportRefused(f"the files of branch {branch.id} are gone") from error
            change = harvest.commit(parent=branch.commit, message=message, at=at)
            if change is not None:
                take_in(self._git, pack)
            return Exported(change, tuple(shown(path) for path in harvest.skipped[:MAX_SKIPPED]))

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out, at most a thousand: ignored paths, submodules' files, pipes and devices."""
        return tuple(json.loads(self._noted(branch.id, "skipped.json") or "[]"))

    async def snapshot(self, branch: Branch) -> None:
        """Wait until a power loss would not take what the branch holds; its children are copies of their own anyway."""
        self._there(branch.id)
        await asyncio.to_thread(self._snapshot, branch.id)

    def _snapshot(self, id: str) -> None:
        with self._locked(id):
            self._refuse_busy(id)
            self._refuse_torn(id)
            flush(self._place(id))
            self._note(id).remove()

    async def read(self, branch: Branch, path: str) -> bytes:
        """A file of the branch as data; NotFound when there is none, or when it is no regular file."""
        self._there(branch.id)
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
            found = await asyncio.to_thread(lambda: [*self._kept()])
        return tuple(sorted(found, key=lambda kept: (kept.created_at, kept.branch.id)))

    def _kept(self) -> Iterator[Kept]:
        for place in (self._state / "branches").glob("*"):
            # One that goes while we look was never there.
            with suppress(FileNotFoundError, NotADirectoryError):
                branch = Branch.model_validate_json((place / "branch.json").read_bytes())
                job = self._noted(branch.id, "job")
                busy = bool(job) and self._running(job)
                at = (place / "branch.json").stat().st_mtime
                changed = max(entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(place))
                yield Kept(branch=branch, job=job, busy=busy, created_at=at, updated_at=max(at, changed))

    async def close(self) -> None:
        """Nothing is open."""

    async def drop(self, branch: str) -> None:
        """Remove a branch that nobody needs, with all that is in it; BranchBusy if a job runs there."""
        self._refuse_busy(branch)
        with translated():
            await asyncio.to_thread(self._scratch.discard, self._place(branch))

    async def delete(self, branch: str) -> str | None:
        """Remove a branch; work in it that nobody published is kept first under the ref that is returned."""
        if not self._place(branch).exists():
            return None
        self._refuse_busy(branch)
        ref = await self._rescued(self._there(branch))
        await self.drop(branch)
        return ref

    async def _rescued(self, branch: Branch) -> str | None:
        message = f"Work in branch {branch.id}, kept when it was removed"
        at = (self._place(branch.id) / "branch.json").stat().st_mtime
        made = (await self._exported(branch, message=message, at=at)).change
        if made is None and branch.parent is None:
            return None
        if branch.parent is not None and self._place(branch.parent).exists():
            parent = self._there(branch.parent).model_copy(update={"commit": branch.commit})
            if (await self._exported(parent, message=message, at=at)).change == made:
                return None
        became = self._noted(branch.id, "became")
        return await self._rescue.keep(branch, await self._rescue.commit_of(branch, made, became=became))


def _give(work: Path, user: int) -> None:
    """Let a user own a tree of ours; no path of it is too long, for none is named."""
    os.chown(work, user, user)
    for _, directories, files, here in os.fwalk(work):
        for name in (*directories, *files):
            os.chown(name, user, user, dir_fd=here, follow_symlinks=False)
