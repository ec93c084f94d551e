"""Trees of files as hostile data: nothing here follows a link, waits on a pipe, or needs a friendly mode."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from resolvent.errors import ExportRefused, StepFailed, StoreBusy

MAX_DEPTH = 200
# So many names in one directory fit into memory; nobody makes more but to fill it.
MAX_NAMES = 1_000_000

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that took a file's place would hold us for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHALLOW = 16


@contextmanager
def translated() -> Iterator[None]:
    """Say of a failing disk who must act."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EROFS):
            raise StoreBusy(f"the state directory cannot be written: {error.strerror}", hint="df -h") from error
        raise StepFailed(f"{error.strerror}: {error.filename!a}") from error


@contextmanager
def opened(name: str | bytes | Path, *, at: int | None = None) -> Iterator[int]:
    """A real directory, listable and writable by us whatever its mode was; NotADirectoryError for a link."""
    fd = open_directory(name, at=at, rights=0o700)
    try:
        yield fd
    finally:
        os.close(fd)


def open_directory(name: str | bytes | Path, *, at: int | None = None, rights: int = 0o500) -> int:
    """A real directory in which its owner has these rights, whatever its mode was; NotADirectoryError for a link."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=at)
    except PermissionError:
        _grant(name, at, rights)
        fd = os.open(name, _DIRECTORY, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from error
        raise
    mode = os.fstat(fd).st_mode
    # No more than is needed: root has all of them, and what is sealed stays as it is where that is possible.
    if mode & rights != rights and not os.access(".", rights >> 6, dir_fd=fd, effective_ids=True):
        try:
            os.fchmod(fd, stat.S_IMODE(mode) | rights)
        except BaseException:
            os.close(fd)
            raise
    return fd


def listed(directory: int) -> list["os.DirEntry[str]"]:
    """What an open directory holds; ExportRefused when that is more than anybody can look through."""
    with os.scandir(directory) as entries:
        found = list(islice(entries, MAX_NAMES + 1))
    if len(found) > MAX_NAMES:
        raise ExportRefused(f"a directory holds more than {MAX_NAMES} names, of which {found[0].name!a} is one")
    return found


def open_file(name: str, *, at: int) -> int | None:
    """A regular file to read from, whatever its mode was; None when something else took its place."""
    try:
        fd = os.open(name, _FILE, dir_fd=at)
    except PermissionError:
        _grant(name, at)
        fd = os.open(name, _FILE, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOENT):
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _grant(name: str | bytes | Path, at: int | None, rights: int = 0o700) -> None:
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            # By way of the open file: chmod by name would follow a link put there meanwhile.
            more = stat.S_IMODE(mode) | rights if stat.S_ISDIR(mode) else mode & 0o777 | 0o600
            os.chmod(f"/proc/self/fd/{fd}", more)
    finally:
        os.close(fd)


def remove_tree(top: Path) -> None:
    """Remove a directory of any depth and any modes, with whatever is in it. Not there: nothing to do."""
    with suppress(FileNotFoundError):
        with opened(top) as here:
            _clear(here, depth=_SHALLOW)
        os.rmdir(top)


def _clear(here: int, *, depth: int) -> None:
    below = _emptied(here)
    while below:
        name = below.pop()
        with opened(name, at=here) as there:
            if depth:
                _clear(there, depth=depth - 1)
            else:
                # What lies deeper is lifted up here first: no depth is too deep, and few descriptors are enough.
                for child in _emptied(there):
                    below.append(secrets.token_hex(16))
                    lift(child, there, below[-1], here)
        os.rmdir(name, dir_fd=here)


def lift(name: str, there: int, lifted: str, here: int) -> None:
    """Move a directory, whatever its mode was, from one open directory into another."""
    try:
        os.rename(name, lifted, src_dir_fd=there, dst_dir_fd=here)
    except PermissionError:
        _grant(name, there)
        os.rename(name, lifted, src_dir_fd=there, dst_dir_fd=here)


def _emptied(directory: int) -> list[str]:
    """Unlink all that is no directory; the names of those that are."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in found if is_directory]


def write_new(top: int, name: str, content: bytes) -> None:
    """Write a new file into an open directory, in place of a regular one; ExportRefused when it is none."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            raise ExportRefused(f"{name!a} is in the way and no regular file")
        # A new file, never the old one's bytes: it may have a second name elsewhere.
        os.unlink(name, dir_fd=top)
    with os.fdopen(os.open(name, NEW, 0o600, dir_fd=top), "wb") as file:
        file.write(content)
        # A reproducer that starts with an interpreter line is meant to be called by its name.
        os.fchmod(file.fileno(), 0o755 if content.startswith(b"#!") else 0o644)
