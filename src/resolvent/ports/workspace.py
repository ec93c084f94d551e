"""Branches: copy-on-write forks of files."""

from collections.abc import Sequence
from typing import Protocol

from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch, Job, Kept


class Workspace(Protocol):
    """Branches: copy-on-write forks of files that agents and checks may change, one job at a time."""

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone."""

    async def enter(self, branch: Branch, job: Job, *, private: str, unsafe: bool = False) -> Job:
        """The job as it runs inside the branch, which it occupies until it ended; BranchBusy while another job does.

        Asking again for the same job is fine. NoSandbox where there are no walls, unless `unsafe` says so.
        """

    @property
    def boxed(self) -> bool:
        """Its jobs run in boxes that have gateways; where not, an agent is given its key itself."""

    def inside(self, private: str) -> str:
        """Where a job in a branch finds its private directory."""

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out because the commit's own rules ignore it."""

    async def snapshot(self, branch: Branch) -> None:
        """Seal what the branch holds now: no later job changes it under its children, no power loss takes it."""

    async def read(self, branch: Branch, path: str) -> bytes:
        """A file of the branch as data; NotFound when there is none, or when it is no regular file."""

    async def kept(self) -> tuple[Kept, ...]:
        """All branches there are, oldest first."""

    async def drop(self, branch: str) -> None:
        """Remove a branch that nobody needs, with whatever is in it. Unknown: nothing to do."""

    async def delete(self, branch: str) -> str | None:
        """Remove a branch; work in it that nobody published is kept first under the ref that is returned."""

    async def close(self) -> None:
        """Let go of whatever is open."""
