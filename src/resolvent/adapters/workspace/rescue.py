"""The last thing before a branch is removed: work in it that is nowhere else gets a name in the trusted repository.

What a branch would take with it is the commit that its files make, or its own commit when they make none. That commit
is kept under `refs/rescue/`, unless

- the branch is a root and holds nothing but the tree that it was made of, or
- the parent is still there and holds the very same files: as a copy the same tree, on layers the same layers, or
- the commit is upstream, or reachable from a ref that no rescue made, or somebody says that it was published.

Files that the commit's own rules ignore are no work. Files that cannot become a commit raise ExportRefused: such a
branch can be dropped, which is to say that nobody needs it, but not deleted.
"""

from collections.abc import Awaitable, Callable

from resolvent.adapters.git import Git, upstream_of
from resolvent.adapters.workspace.names import directory_name
from resolvent.domain.change import Change
from resolvent.domain.job import Branch
from resolvent.errors import GitError

RESCUE = "refs/rescue"

Published = Callable[[str], Awaitable[bool]]


class Rescue:
    """Keeps commits under names of their own."""

    def __init__(self, git: Git, *, published: Published | None = None) -> None:
        self._git = git
        self._published = published

    async def commit_of(self, branch: Branch, made: Change | None, *, became: str) -> str:
        """The commit that the branch would take with it; the one it became before, if that holds the same files."""
        if made is None:
            return branch.commit
        if became:
            said = await self._git("cat-file", "--batch-check=%(objectname)", input=f"{became}^{{tree}}\n".encode())
            if said.decode().strip() == made.tree:
                return became
        return made.commit

    async def keep(self, branch: Branch, commit: str) -> str | None:
        """Name the commit after the branch; None when it has been published."""
        if await self._known(commit):
            return None
        number = 1
        while True:
            ref = f"{RESCUE}/{directory_name(branch.id)}" + (f".{number}" if number > 1 else "")
            there = (await self._git("rev-parse", "--verify", "--quiet", ref, check=False)).decode().strip()
            # An earlier branch of that id may have left work too, which keeps its name.
            if there == commit or (not there and await self._named(ref, commit)):
                return ref
            number += 1

    async def _named(self, ref: str, commit: str) -> bool:
        try:
            # The empty word: only if nobody else names something so meanwhile.
            await self._git("update-ref", ref, commit, "")
        except GitError as error:
            # A git that was killed leaves its lock behind, for ever: that name is lost, the next one is as good.
            locked = "File exists" in error.stderr
            if locked or await self._git("rev-parse", "--verify", "--quiet", ref, check=False):
                return False
            raise
        return True

    async def _known(self, commit: str) -> bool:
        if self._published is not None and await self._published(commit):
            return True
        upstream = upstream_of(self._git.git_dir)
        if upstream.is_dir():
            said = await Git(upstream)("cat-file", "--batch-check", input=f"{commit}\n".encode())
            if said.split()[1:2] == [b"commit"]:
                return True
        others = ("--not", f"--exclude={RESCUE}/*", "--all")
        return not await self._git("rev-list", "--max-count=1", commit, *others)
