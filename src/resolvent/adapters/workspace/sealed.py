"""Sealed trees: what a commit holds, laid out once from its objects, copied often, written never again."""

import asyncio
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.checkout import EMAIL, NAME, flush, known, lay_out, parts
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.objects import Listing
from resolvent.adapters.workspace.scratch import Scratch, settle

__all__ = ["EMAIL", "NAME", "SealedTrees"]


class SealedTrees:
    """The trees and indexes of commits, made on demand below the state directory."""

    def __init__(self, git: Git, *, state: Path, scratch: Scratch) -> None:
        self._git = git
        self._state = state
        self._scratch = scratch

    async def files(self, commit: str) -> Path:
        """The directory that holds exactly the commit's tree."""
        sealed = self._state / "trees" / commit
        if not sealed.is_dir():
            await asyncio.to_thread(self._seal, commit, sealed)
        return sealed / "files"

    async def listing(self, commit: str) -> Listing:
        """What the commit holds, by path."""
        files = await self.files(commit)
        return await asyncio.to_thread(lambda: Listing.parse(files.with_name("listing").read_bytes()))

    async def index(self, commit: str) -> Path:
        """A git index that says: nothing differs from this commit."""
        index = self._state / "indexes" / commit
        if not index.is_file():
            await asyncio.to_thread(self._read_tree, commit, index)
        return index

    def _seal(self, commit: str, sealed: Path) -> None:
        with translated(), known(commit), self._scratch() as scratch:
            listed = self._git.stream("ls-tree", "-r", "-t", "-z", "--full-tree", commit, read=lambda said: said.read())
            made = scratch / "tree"
            directories, blobs = parts(Listing.parse(listed))
            (made / "files").mkdir(parents=True)
            lay_out(self._git, made / "files", directories=directories, blobs=blobs)
            (made / "listing").write_bytes(listed)
            # A tree that a power loss left half empty would pass for the commit's own ever after.
            flush(made)
            settle(made, sealed)

    def _read_tree(self, commit: str, index: Path) -> None:
        with translated(), known(commit), self._scratch() as scratch:
            made = scratch / "index"
            self._git.stream("read-tree", commit, env={"GIT_INDEX_FILE": str(made)}, read=lambda said: said.read())
            settle(made, index)
