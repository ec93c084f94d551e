"""Base layers: what a commit holds, laid out once from its objects for any number of branches to stand on.

A commit is shown by a layer with its repository over a stack of tree layers: a whole tree at the bottom and, where a
near commit was there already, only the differences over it. Nothing in them is ever written again.
"""

import asyncio
import fcntl
import os
import re
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.checkout import give_ancestors, give_repository, known, lay_out, parts
from resolvent.adapters.workspace.difference import Difference
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.index import entry_count, warmed
from resolvent.adapters.workspace.lasting import flush, flush_names
from resolvent.adapters.workspace.objects import Listing
from resolvent.adapters.workspace.scratch import Scratch, settle
from resolvent.adapters.workspace.view import OPAQUE
from resolvent.errors import GitError, NotFound

# As many differences lie on one whole tree; then they are drawn together into one.
MAX_CHAIN = 16
# A difference of more than one path in this many is laid out as a tree of its own.
SHARE = 2
_ANCESTORS = 2000
_NEAR = 3
OBJECTS = "/run/objects"
# Archives know no time before; and what git finds younger than its index it reads again.
_EARLIEST, _SETTLED_S = 315_619_200, 60


class Near(NamedTuple):
    """A commit that is there already, and what is different in the one that is asked for."""

    layers: tuple[str, ...]
    difference: Difference


def is_base(name: str) -> bool:
    """A layer made here, which only `forget` gives up."""
    return name.startswith(("tree-", "diff-", "git-"))


def is_repository(name: str) -> bool:
    """A layer that holds nothing but a `.git`, and hides any below it."""
    return name.startswith("git-")


def shows(lowers: Sequence[str]) -> str | None:
    """The commit whose tree the base layers among these show."""
    return next((name.split("-")[1] for name in lowers if name.startswith(("diff-", "tree-"))), None)


class Grounds:
    """The layers of commits in one store; any number of processes may ask for the same."""

    def __init__(self, git: Git, sandbox: Path, *, owner: int | None = None) -> None:
        """`owner` is the user, and the group, that jobs of a root caller run as."""
        self._git = git
        self._layers = sandbox / "layers"
        self._records = sandbox / "bases"
        self._scratch = Scratch(sandbox / "scratch")
        self._owner = (os.geteuid(), os.getegid()) if owner is None else (owner, owner)
        self._making = asyncio.Lock()

    async def of(self, commit: str) -> tuple[str, ...]:
        """The layers, topmost first, that together show the commit's tree and a repository at it."""
        _check(commit)
        if layers := self._asked(commit):
            return layers
        async with self._making:
            return await asyncio.to_thread(self._make, commit)

    async def repository(self, commit: str, *, over: Sequence[str] = ()) -> str:
        """The layer with a repository at the commit alone, whose index knows the files these layers share with it."""
        if layer := self.repository_at_hand(commit, over=over):
            return layer
        async with self._making:
            return await asyncio.to_thread(self._make_repository, commit, ground=_ground(over), over=tuple(over))

    def repository_at_hand(self, commit: str, *, over: Sequence[str]) -> str:
        """That layer if it has been made, or nothing."""
        _check(commit)
        return self._repository(commit, _ground(over))

    async def forget(self, used: Collection[str], *, before: float) -> tuple[str, ...]:
        """Forget commits nobody asked for since, and name the layers that can be removed: none of those in use."""
        async with self._making:
            return await asyncio.to_thread(self._forget, frozenset(used), before)

    def _asked(self, name: str) -> tuple[str, ...]:
        layers = self._recorded(name)
        try:
            # What was asked for is about to be used: it is not forgotten for a while.
            if layers:
                os.utime(self._records / name)
        except FileNotFoundError:
            # Forgotten this very moment, and its layers about to go.
            return ()
        return layers

    def _recorded(self, name: str) -> tuple[str, ...]:
        try:
            layers = tuple((self._records / name).read_text().split())
        except FileNotFoundError:
            return ()
        return layers if all((self._layers / layer / "up").is_dir() for layer in layers) else ()

    def _repository(self, commit: str, ground: str) -> str:
        layers = self._recorded(commit)
        if layers and (not ground or ground in layers):
            return next(iter(self._asked(commit)), "")
        return next(iter(self._asked(f"{commit}+{ground}")), "")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One maker in a store at a time: who comes second finds what the first one made, or something near it."""
        for directory in (self._records.parent, self._records, self._layers):
            directory.mkdir(exist_ok=True, mode=0o700)
        os.chown(self._layers, *self._owner)
        lock = os.open(self._records / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _make(self, commit: str) -> tuple[str, ...]:
        with translated(), self._alone(), self._scratch() as scratch:
            if layers := self._asked(commit):
                return layers
            date, ancestors = self._history(commit)
            near = self._near(commit, ancestors)
            kind = f"tree-{commit}" if near is None else f"diff-{commit}"
            found = self._lay(commit, near, scratch / kind / "up", date=date)
            index = self._index(commit, scratch, like=near.layers[0] if near else None)
            self._lay_repository(commit, scratch, index=warmed(index, found, hash=_hash(commit)))
            flush(scratch)
            below = near.layers[1:] if near else ()
            layers = (self._settled(scratch / f"git-{commit}"), self._settled(scratch / kind), *below)
            self._record(scratch, commit, layers)
            return layers

    def _make_repository(self, commit: str, *, ground: str, over: tuple[str, ...]) -> str:
        with translated(), known(commit), self._alone(), self._scratch() as scratch:
            if layer := self._repository(commit, ground):
                return layer
            like = next((name for name in over if is_repository(name)), None)
            self._lay_repository(commit, scratch, index=self._index(commit, scratch, like=like))
            flush(scratch)
            layer = self._settled(scratch / f"git-{commit}")
            self._record(scratch, f"{commit}+{ground}", (layer,))
            return layer

    def _history(self, commit: str) -> tuple[int, list[str]]:
        """When the commit was made, and its nearest ancestors, nearest first."""
        command = ("rev-list", "--timestamp", f"--max-count={_ANCESTORS}", commit)
        with known(commit):
            rows = self._git.stream(*command, read=lambda said: said.read()).decode("ascii").splitlines()
        date = int(rows[0].split()[0])
        return max(_EARLIEST, min(date, int(time.time()) - _SETTLED_S)), [row.split()[1] for row in rows[1:]]

    def _near(self, commit: str, ancestors: Sequence[str]) -> Near | None:
        """The commit to lay only a difference over; None when there is none that differs in little."""
        there = [entry for entry in os.scandir(self._records) if re.fullmatch("[0-9a-f]+", entry.name)]
        lately = [entry.name for entry in sorted(there, key=lambda entry: entry.stat().st_mtime, reverse=True)]
        nearest = [ancestor for ancestor in ancestors if ancestor in lately][:1]
        for candidate in dict.fromkeys(map(self._grounded, list(dict.fromkeys((*nearest, *lately)))[:_NEAR])):
            if layers := self._recorded(candidate):
                try:
                    difference = Difference.between(self._git, candidate, commit)
                except GitError:
                    # Our repository lost it, or was made anew: its layers show what they did, but nobody can compare.
                    continue
                with (self._layers / layers[0] / "up/.git/index").open("rb") as index:
                    entries = entry_count(index.read(12))
                if difference.size * SHARE <= entries:
                    self._asked(candidate)
                    return Near(layers, difference)
        return None

    def _grounded(self, commit: str) -> str:
        """The commit, or the one whose whole tree is below it when there are differences enough between them."""
        layers = self._recorded(commit)
        return layers[-1].split("-")[1] if len(layers) > MAX_CHAIN + 1 else commit

    def _lay(self, commit: str, near: Near | None, up: Path, *, date: int) -> dict[bytes, os.stat_result]:
        """Lay out the whole commit, or the difference; what the disk says of every file and link."""
        up.mkdir(parents=True)
        if near is None:
            listed = self._git.stream("ls-tree", "-r", "-t", "-z", "--full-tree", commit, read=lambda said: said.read())
            directories, blobs = parts(Listing.parse(listed))
            gone: list[bytes] = []
        else:
            directories, blobs, gone = near.difference.directories, near.difference.blobs, near.difference.gone
        lay_out(self._git, up, directories=directories, blobs=blobs)
        if near is not None:
            near.difference.hide(up)
        root = os.fsencode(up) + b"/"
        found = {blob.path: self._give(root + blob.path, date=date) for blob in blobs}
        for path in gone:
            self._give(root + path, date=date)
        for path in (*directories, b".", b".."):
            os.chmod(root + path, 0o755)
            self._give(root + path, date=date)
        return found

    def _give(self, place: bytes, *, date: int) -> os.stat_result:
        """Everything in a layer has one owner and one group, or it could not be copied up, and is old."""
        os.chown(place, *self._owner, follow_symlinks=False)
        os.utime(place, (date, date), follow_symlinks=False)
        return os.lstat(place)

    def _index(self, commit: str, scratch: Path, *, like: str | None) -> bytes:
        """The commit's index; what it has in common with a layer's index is as well known in it."""
        index = scratch / "index"
        if like is not None:
            index.write_bytes((self._layers / like / "up/.git/index").read_bytes())
        command = ("-c", "index.version=2", "read-tree", *(("-i", "-m") if like else ()), commit)
        self._git.stream(*command, env={"GIT_INDEX_FILE": str(index)}, read=lambda said: said.read())
        return index.read_bytes()

    def _lay_repository(self, commit: str, scratch: Path, *, index: bytes) -> None:
        layer = scratch / f"git-{commit}"
        (layer / "up").mkdir(parents=True)
        give_repository(layer / "up", commit=commit, index=index, objects=OBJECTS)
        give_ancestors(layer / "up", commit=commit, git=self._git)
        # Whatever a `.git` further down became, nothing of it shows.
        os.setxattr(layer / "up/.git", OPAQUE, b"y")
        for directory, _, names in os.walk(layer):
            for name in (".", *names):
                os.chown(os.path.join(directory, name), *self._owner)

    def _settled(self, made: Path) -> str:
        name = f"{made.name}-{secrets.token_hex(4)}"
        os.utime(made)
        settle(made, self._layers / name)
        return name

    def _record(self, scratch: Path, name: str, layers: Sequence[str]) -> None:
        # What stands on a record is on the disk, whatever a power loss takes: first the names of its layers.
        flush_names(self._layers)
        # The one commit point: layers without a record are nobody's.
        (scratch / "record").write_text("\n".join(layers) + "\n")
        os.replace(scratch / "record", self._records / name)

    def _forget(self, used: frozenset[str], before: float) -> tuple[str, ...]:
        with translated(), self._alone():
            records = [entry for entry in os.scandir(self._records) if entry.name != ".lock"]
            # The one asked for last is where the next one begins.
            last = max((entry for entry in records if "+" not in entry.name), key=_touched, default=None)
            kept = set(used)
            for entry in records:
                layers = tuple(Path(entry).read_text().split())
                # Its repository and its topmost tree are a commit's own.
                if entry is last or _touched(entry) >= before or used & set(layers[:2]):
                    kept.update(layers)
                else:
                    os.unlink(entry)
            there = [entry for entry in os.scandir(self._layers) if is_base(entry.name)]
            return tuple(entry.name for entry in there if entry.name not in kept and _touched(entry) < before)


def _ground(over: Sequence[str]) -> str:
    """The layer with the whole tree that these stand on, or nothing."""
    return next((name for name in over if name.startswith("tree-")), "")


def _touched(entry: "os.DirEntry[str]") -> float:
    return entry.stat().st_mtime


def _check(commit: str) -> None:
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
        raise NotFound(f"not a commit: {commit[:100]!a}")


def _hash(commit: str) -> str:
    return "sha256" if len(commit) == 64 else "sha1"
