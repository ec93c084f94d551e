"""What a commit holds, written to a disk from its objects alone: no index, no filter, no work tree of git's."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from resolvent.adapters.git import Git, GitError, upstream_of
from resolvent.adapters.workspace.names import shown, unsafe
from resolvent.adapters.workspace.objects import GITLINK, LINK, Listing
from resolvent.errors import ExportRefused, NotFound

NAME, EMAIL = "Resolvent", "resolvent@localhost"

_CHUNK = 1 << 20
_LONGEST_LINK = 4095
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
    """One file or link to be written, by its path in the tree."""

    mode: str
    path: bytes
    oid: str


@contextmanager
def known(commit: str) -> Iterator[None]:
    """Say NotFound when git does not know the commit that is spoken of."""
    try:
        yield
    except GitError as error:
        raise NotFound(f"our repository does not hold {commit}", stderr=error.stderr) from error


def refuse_unsafe(paths: Iterable[bytes]) -> None:
    """ExportRefused for paths that lead out of the tree, or into a `.git`: nobody vouches for a commit."""
    refused = sorted(shown(path) for path in paths if unsafe(path))
    if refused:
        named = refused[:100]
        raise ExportRefused(f"the commit holds paths that cannot be laid out: {named[:20]!a}", paths=named)


def parts(listing: Listing) -> tuple[list[bytes], list[Blob]]:
    """The directories of a tree in the order they can be made, and what is written into them."""
    refuse_unsafe((*listing.entries, *listing.directories))
    submodules = (path for path, entry in listing.entries.items() if entry.mode == GITLINK)
    blobs = [Blob(entry.mode, path, entry.oid) for path, entry in listing.entries.items() if entry.mode != GITLINK]
    return sorted((*listing.directories, *submodules)), blobs


def lay_out(git: Git, top: Path, *, directories: Iterable[bytes], blobs: Sequence[Blob]) -> None:
    """Write directories, then files and links, into a directory of ours that holds nothing else."""
    root = os.fsencode(top) + b"/"
    # All of them before any file or link: nothing that comes later can take the place of one and lead us astray.
    for path in directories:
        os.mkdir(root + path)
    wanted = b"".join(b"%s\n" % blob.oid.encode() for blob in blobs)
    if wanted:
        git.stream("cat-file", "--batch", input=wanted, read=partial(_write_all, root, blobs))


def _write_all(root: bytes, blobs: Sequence[Blob], stream: IO[bytes]) -> None:
    for blob in blobs:
        said = stream.readline().split()
        if len(said) != 3 or said[1] != b"blob":
            raise NotFound(f"our repository does not hold the object {blob.oid}")
        if blob.mode == LINK:
            if int(said[2]) > _LONGEST_LINK:
                raise ExportRefused(f"the commit holds a link that no disk can: {blob.path!a}")
            target = stream.read(int(said[2]))
            if b"\0" in target or not target:
                raise ExportRefused(f"the commit holds a link that leads nowhere: {blob.path!a}")
            os.symlink(target, root + blob.path)
        else:
            _write_file(root, blob, stream, size=int(said[2]))
        stream.read(1)


def _write_file(root: bytes, blob: Blob, stream: IO[bytes], *, size: int) -> None:
    fd = os.open(root + blob.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb", buffering=0) as file:
        while size:
            chunk = stream.read(min(size, _CHUNK))
            if not chunk:
                raise NotFound(f"our repository ended in the middle of the object {blob.oid}")
            size -= len(chunk)
            while chunk:
                chunk = chunk[file.write(chunk) :]
        os.fchmod(fd, 0o755 if int(blob.mode, 8) & 0o100 else 0o644)


def give_repository(work: Path, *, commit: str, index: bytes, objects: str) -> None:
    """Give a work tree of ours a fresh `.git` at that commit, which borrows nothing but the objects named."""
    top = work / ".git"
    # The least git accepts: it makes the rest when it needs it, and every file costs a fork its time.
    for directory in (".", "objects", "objects/info", "refs"):
        (top / directory).mkdir()
    (top / "HEAD").write_text("ref: refs/heads/work\n")
    (top / "config").write_text(_CONFIG + (_SHA256 if len(commit) == 64 else ""))
    (top / "packed-refs").write_text(f"{commit} refs/heads/work\n")
    (top / "objects/info/alternates").write_bytes(os.fsencode(objects) + b"\n")
    (top / "index").write_bytes(index)


def give_ancestors(work: Path, *, commit: str, git: Git) -> None:
    """Put what of a commit's history is not upstream into its `.git`: its own ancestors, and nobody else's work."""
    upstream = Git(upstream_of(git.git_dir))
    tips = b""
    if upstream.git_dir.is_dir():
        said = upstream.stream("cat-file", "--batch-check", input=f"{commit}\n".encode(), read=lambda said: said.read())
        if said.split()[1:2] == [b"commit"]:
            return
        tips = upstream.stream("for-each-ref", "--format=%(objectname)", read=lambda said: said.read())
    packs = work / ".git/objects/pack"
    packs.mkdir()
    pack = packs / f"pack-{commit}.pack"
    with pack.open("wb") as file:
        # Local objects only: what is borrowed from upstream is lent to the box as well. Written by us, for git would
        # first put it beside its own objects, which may be another disk.
        command = ("pack-objects", "--revs", "--local", "--quiet", "--stdout")
        revisions = f"{commit}\n--not\n".encode() + tips
        git.stream(*command, input=revisions, read=lambda said: shutil.copyfileobj(said, file))
    git.stream("index-pack", str(pack), read=lambda said: said.read())
