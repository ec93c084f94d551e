"""Where things are made before they are there, and taken apart after they are gone."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resolvent.adapters.workspace.files import lift, opened, remove_tree

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What a file system says that has no locks on directories.
_LOCKLESS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)


class Scratch:
    """A directory of unfinished things, each locked by who makes it: what nobody holds was left, and is removed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._swept = False

    @contextmanager
    def __call__(self) -> Iterator[Path]:
        """A fresh directory; what is still in it at the end is removed."""
        if not self._swept:
            self._sweep()
        fresh, lock = self._made()
        try:
            yield fresh
        finally:
            try:
                remove_tree(fresh)
            finally:
                os.close(lock)

    def discard(self, path: Path) -> None:
        """Remove a directory so that it is there wholly or not at all. Not there: nothing to do."""
        with self() as fresh, suppress(FileNotFoundError), opened(path.parent) as there, opened(fresh) as here:
            lift(path.name, there, "discarded", here)

    def _made(self) -> tuple[Path, int]:
        """A directory and its lock; not by process ids, for others may look from where they mean somebody else."""
        while True:
            fresh = self._directory / secrets.token_hex(8)
            fresh.mkdir(parents=True, mode=0o700)
            # Before it was locked it was nobody's, and may be gone or about to go.
            with suppress(FileNotFoundError):
                lock = os.open(fresh, _DIRECTORY)
                if locked(lock) is not False and is_at(fresh, lock):
                    return fresh, lock
                os.close(lock)

    def _sweep(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in list(self._directory.iterdir()):
            # What belongs to another user stays: it is in nobody's way.
            with suppress(PermissionError):
                clear_away(left)
        self._swept = True


def locked(directory: int, *, shared: bool = False) -> bool | None:
    """Lock an open directory until it is closed; False when somebody else has it, None where there are no locks."""
    try:
        fcntl.flock(directory, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _LOCKLESS:
            return None
        raise
    return True


def clear_away(left: Path) -> None:
    """Remove a directory that nobody holds. Held, for then its holder removes it, or not there: nothing to do."""
    with suppress(FileNotFoundError), opened(left) as here:
        if locked(here):
            remove_tree(left)


def settle(made: Path, place: Path) -> None:
    """Put what was made where it belongs; what someone else put there in the meantime stays."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise


def is_at(path: Path, opened: int) -> bool:
    """What is open is what the path leads to now."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(opened))
    except FileNotFoundError:
        return False
