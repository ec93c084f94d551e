"""Sealed trees: what a commit holds, laid out once from its objects, copied often, written never again."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.checkout import known, lay_out, parts
from resolvent.adapters.workspace.lasting import flush
from resolvent.adapters.workspace.objects import Listing
from resolvent.adapters.workspace.scratch import Scratch, is_at, locked, settle

# How long a tree stays that no branch is at.
UNUSED_S = 86400.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SealedTrees:
    """The trees and indexes of commits, made on demand below the state directory; all of it blocks for the disk."""

    def __init__(self, git: Git, *, state: Path, scratch: Scratch) -> None:
        self._git = git
        self._trees = state / "trees"
        self._indexes = state / "indexes"
        self._scratch = scratch

    @contextmanager
    def files(self, commit: str) -> Iterator[Path]:
        """The directory that holds exactly the commit's tree; nobody removes it meanwhile."""
        sealed = self._trees / commit
        hold = self._held(commit, sealed)
        try:
            yield sealed / "files"
        finally:
            os.close(hold)

    def _held(self, commit: str, sealed: Path) -> int:
        while True:
            if not sealed.is_dir():
                self._seal(commit, sealed)
            # Gone again before it was ours: once more.
            with suppress(FileNotFoundError):
                hold = os.open(sealed, _DIRECTORY)
                if locked(hold, shared=True) is not False and is_at(sealed, hold):
                    os.utime(hold)
                    return hold
                os.close(hold)

    def listing(self, commit: str) -> Listing:
        """What the commit holds, by path."""
        with known(commit):
            return Listing.parse(self._listed(commit))

    def index(self, commit: str) -> bytes:
        """A git index that says: nothing differs from this commit."""
        index = self._indexes / commit
        while True:
            with suppress(FileNotFoundError):
                os.utime(index)
                return index.read_bytes()
            self._read_tree(commit, index)

    def sweep(self, used: Callable[[], Collection[str]]) -> None:
        """Remove what nobody asked for lately, but not of the commits that are used."""
        before = time.time() - UNUSED_S
        old = [entry for place in (self._trees, self._indexes) for entry in _within(place) if _touched(entry) < before]
        kept = used() if old else ()
        for entry in old:
            if entry.name not in kept:
                self._remove(Path(entry))

    def _remove(self, unused: Path) -> None:
        if unused.parent == self._indexes:
            unused.unlink(missing_ok=True)
            return
        with suppress(FileNotFoundError):
            hold = os.open(unused, _DIRECTORY)
            try:
                if locked(hold):
                    self._scratch.discard(unused)
            finally:
                os.close(hold)

    def _listed(self, commit: str) -> bytes:
        return self._git.stream("ls-tree", "-r", "-t", "-z", "--full-tree", commit, read=lambda said: said.read())

    def _seal(self, commit: str, sealed: Path) -> None:
        with known(commit), self._scratch() as scratch:
            made = scratch / "tree"
            directories, blobs = parts(Listing.parse(self._listed(commit)))
            (made / "files").mkdir(parents=True)
            lay_out(self._git, made / "files", directories=directories, blobs=blobs)
            # A tree that a power loss left half empty would pass for the commit's own ever after.
            flush(made)
            settle(made, sealed)

    def _read_tree(self, commit: str, index: Path) -> None:
        with known(commit), self._scratch() as scratch:
            made = scratch / "index"
            self._git.stream("read-tree", commit, env={"GIT_INDEX_FILE": str(made)}, read=lambda said: said.read())
            # As a tree: an empty one would say ever after that all files are gone.
            flush(scratch)
            settle(made, index)


def _within(place: Path) -> list["os.DirEntry[str]"]:
    return list(os.scandir(place)) if place.is_dir() else []


def _touched(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()
