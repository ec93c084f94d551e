"""The layers of this disk: each is written by one branch until it is sealed, and by nobody after that.

A layer is `layers/<name>` with `up`, what it holds, and `wk`, without which no overlay can write to it. Sealing takes
`wk` away, so that a job which was sent for but comes late cannot be started on what others already build upon.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from resolvent.adapters.workspace.files import MAX_DEPTH, open_directory
from resolvent.adapters.workspace.lasting import flush_around
from resolvent.adapters.workspace.scratch import Scratch, clear_away

UP, WORK, SEALED = "up", "wk", "sealed"

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LayerStore:
    """The directory of layers below a sandbox; all of it blocks for the disk."""

    def __init__(self, sandbox: Path, *, owner: int | None = None) -> None:
        """`owner` is whom the layers belong to, user and group alike, when that is not the caller."""
        self.sandbox = sandbox = sandbox.absolute()
        self.path = sandbox / "layers"
        self._owner = owner
        self._trash = sandbox / "trash"
        sandbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A setuid file in a layer is out of everybody's reach as long as this holds.
        sandbox.chmod(0o700)
        self.path.mkdir(mode=0o755, exist_ok=True)
        self._trash.mkdir(mode=0o700, exist_ok=True)
        self._fd = os.open(self.path, _DIRECTORY)
        self._give(".")

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def up(self, name: str) -> Path:
        """Where the files of a layer are."""
        return self.path / name / UP

    def make(self) -> str:
        """A new empty layer that can be written; its name."""
        name = secrets.token_hex(6)
        os.mkdir(name, 0o755, dir_fd=self._fd)
        self._furnish(name)
        return name

    def adopt(self, made: Path) -> str:
        """Take over a directory that holds an `up`, as a sealed layer; its name."""
        name = secrets.token_hex(6)
        os.rename(made, name, dst_dir_fd=self._fd)
        self._give(name)
        # A row that names it may be on the disk the next moment.
        os.fsync(self._fd)
        return name

    def seal(self, name: str) -> None:
        """No overlay can be told to write to it any more."""
        with suppress(FileNotFoundError):
            os.rename(f"{name}/{WORK}", f"{name}/{SEALED}", src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def reopen(self, name: str) -> None:
        """Make one writable that a crash left half sealed, or that a power loss took away with what was in it."""
        if self._holds(f"{name}/{WORK}"):
            return
        try:
            os.rename(f"{name}/{SEALED}", f"{name}/{WORK}", src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=self._fd)
            self._furnish(name)

    def holds(self, name: str) -> bool:
        """The layer is there."""
        return self._holds(f"{name}/{UP}")

    def held(self, name: str) -> bool:
        """Somebody writes to it right now: the supervisor of a job has it locked for as long as the job runs."""
        try:
            layer = os.open(name, _DIRECTORY, dir_fd=self._fd)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(layer, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(layer)
        return False

    def names(self) -> tuple[str, ...]:
        """All there are, in no order."""
        return tuple(os.listdir(self._fd))

    def sync(self) -> None:
        """Wait until everything on the file system of the layers is on its disk: one wait, however many files."""
        flush_around(self._fd)

    def bury(self, name: str) -> Path | None:
        """Take a layer that nobody names out of the way, for `clear_away`; None when it is not there."""
        # A name may come back, when a power loss took its layer along.
        grave = self._trash / f"{name}-{secrets.token_hex(4)}"
        try:
            os.rename(name, grave, src_dir_fd=self._fd)
        except FileNotFoundError:
            return None
        return grave

    def discard(self, *names: str) -> None:
        """Remove layers that nobody names. Not there: nothing to do."""
        for grave in [grave for name in names if (grave := self.bury(name))]:
            clear_away(grave)

    def sweep(self) -> None:
        """Remove what processes that are dead by now had begun to make or to remove."""
        for directory in (self._trash, self.sandbox / "scratch"):
            with Scratch(directory)():
                pass

    def _furnish(self, name: str) -> None:
        for path, mode in ((f"{name}/{UP}", 0o755), (f"{name}/{WORK}", 0o700)):
            with suppress(FileExistsError):
                os.mkdir(path, mode, dir_fd=self._fd)
            self._give(path)
        self._give(name)

    def _give(self, path: str) -> None:
        if self._owner is not None:
            os.chown(path, self._owner, self._owner, dir_fd=self._fd, follow_symlinks=False)

    def _holds(self, path: str) -> bool:
        try:
            os.stat(path, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True


def measure(top: Path) -> int:
    """The bytes that a directory takes on its disk; 0 when it is gone. What is too deep for a commit is not counted."""
    try:
        return _measured(open_directory(top), seen=set(), depth=0)
    except FileNotFoundError:
        return 0


def _measured(directory: int, *, seen: set[int], depth: int) -> int:
    """Closes the directory; a file with several names counts once."""
    try:
        total = os.fstat(directory).st_blocks * 512
        with os.scandir(directory) as entries:
            for entry in entries:
                # A job may be at work in it: what it removes or replaces meanwhile counts nothing.
                with suppress(FileNotFoundError, NotADirectoryError):
                    if entry.is_dir(follow_symlinks=False) and depth <= MAX_DEPTH:
                        below = open_directory(os.fsencode(entry.name), at=directory)
                        total += _measured(below, seen=seen, depth=depth + 1)
                    elif entry.inode() not in seen:
                        seen.add(entry.inode())
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        return total
    finally:
        os.close(directory)
