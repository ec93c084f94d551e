"""Sealed trees: what a commit holds, laid out once from its objects, copied often, written never again."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from resolvent.adapters.git import Git, GitError
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.names import shown, unsafe
from resolvent.adapters.workspace.objects import GITLINK, LINK, Listing
from resolvent.adapters.workspace.scratch import Scratch, settle
from resolvent.errors import ExportRefused, NotFound

NAME, EMAIL = "Resolvent", "resolvent@localhost"

_CHUNK = 1 << 20
_CONFIG = f"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogAllRefUpdates = true
[user]
\tname = {NAME}
\temail = {EMAIL}
"""
_SHA256 = """\
[core]
\trepositoryformatversion = 1
[extensions]
\tobjectFormat = sha256
"""


class Blob(NamedTuple):
    """One file or link to be written."""

    mode: str
    path: bytes
    oid: str


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
        with translated(), _known(commit), self._scratch() as scratch:
            listed = self._git.stream("ls-tree", "-r", "-t", "-z", "--full-tree", commit, read=lambda said: said.read())
            made = scratch / "tree"
            blobs = _lay_out(Listing.parse(listed), made / "files")
            (made / "listing").write_bytes(listed)
            wanted = b"".join(b"%s\n" % blob.oid.encode() for blob in blobs)
            self._git.stream("cat-file", "--batch", input=wanted, read=partial(_write_all, blobs))
            settle(made, sealed)

    def _read_tree(self, commit: str, index: Path) -> None:
        with translated(), _known(commit), self._scratch() as scratch:
            made = scratch / "index"
            self._git.stream("read-tree", commit, env={"GIT_INDEX_FILE": str(made)}, read=lambda said: said.read())
            settle(made, index)

    def give_repository(self, work: Path, *, commit: str, index: Path) -> None:
        """Give a work tree of ours a fresh `.git` at that commit, which borrows nothing but our objects."""
        top = work / ".git"
        # The least git accepts: it makes the rest when it needs it, and every file costs a fork its time.
        for directory in (".", "objects", "objects/info", "refs"):
            (top / directory).mkdir()
        (top / "HEAD").write_text("ref: refs/heads/work\n")
        (top / "config").write_text(_CONFIG + (_SHA256 if len(commit) == 64 else ""))
        (top / "packed-refs").write_text(f"{commit} refs/heads/work\n")
        (top / "objects/info/alternates").write_bytes(os.fsencode(self._git.git_dir / "objects") + b"\n")
        (top / "index").write_bytes(index.read_bytes())


@contextmanager
def _known(commit: str) -> Iterator[None]:
    try:
        yield
    except GitError as error:
        raise NotFound(f"our repository does not hold {commit}", stderr=error.stderr) from error


def _lay_out(listing: Listing, top: Path) -> list[Blob]:
    """Make the directories of a tree nobody vouches for; what is to be written into them."""
    refused = sorted(shown(path) for path in (*listing.entries, *listing.directories) if unsafe(path))
    if refused:
        raise ExportRefused(f"the commit holds paths that cannot be laid out: {refused[:20]!a}", paths=refused)
    top.mkdir(parents=True)
    root = os.fsencode(top) + b"/"
    submodules = (path for path, entry in listing.entries.items() if entry.mode == GITLINK)
    # All of them before any file or link: nothing that comes later can take the place of one and lead us astray.
    for path in sorted((*listing.directories, *submodules)):
        os.mkdir(root + path)
    return [
        Blob(entry.mode, root + path, entry.oid) for path, entry in listing.entries.items() if entry.mode != GITLINK
    ]


def _write_all(blobs: list[Blob], stream: IO[bytes]) -> None:
    for blob in blobs:
        said = stream.readline().split()
        if len(said) != 3 or said[1] != b"blob":
            raise NotFound(f"our repository does not hold the object {blob.oid}")
        if blob.mode == LINK:
            target = stream.read(int(said[2]))
            if b"\0" in target or not target:
                raise ExportRefused(f"the commit holds a link that leads nowhere: {blob.path!a}")
            os.symlink(target, blob.path)
        else:
            _write_file(blob, stream, size=int(said[2]))
        stream.read(1)


def _write_file(blob: Blob, stream: IO[bytes], *, size: int) -> None:
    fd = os.open(blob.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        while size:
            chunk = stream.read(min(size, _CHUNK))
            if not chunk:
                raise NotFound(f"our repository ended in the middle of the object {blob.oid}")
            file.write(chunk)
            size -= len(chunk)
        os.fchmod(fd, 0o755 if int(blob.mode, 8) & 0o100 else 0o644)
