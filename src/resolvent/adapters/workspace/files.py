"""Trees of files as hostile data: nothing here follows a link, waits on a pipe, or needs a friendly mode."""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resolvent.errors import ExportRefused, StepFailed, StoreBusy

MAX_DEPTH = 200

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that took a file's place would hold us for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE = 0x40049409
_SMALL = 1 << 16
_SHALLOW = 16
_CANNOT = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)


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
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=at)
    except PermissionError:
        _grant(name, at)
        fd = os.open(name, _DIRECTORY, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from error
        raise
    try:
        mode = os.fstat(fd).st_mode & 0o777
        if mode & 0o700 != 0o700:
            os.fchmod(fd, mode | 0o700)
        yield fd
    finally:
        os.close(fd)


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


def _grant(name: str | bytes | Path, at: int | None) -> None:
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            # By way of the open file: chmod by name would follow a link put there meanwhile.
            os.chmod(f"/proc/self/fd/{fd}", (mode & 0o777) | (0o700 if stat.S_ISDIR(mode) else 0o600))
    finally:
        os.close(fd)


def copy_tree(source: int, target: int, *, depth: int = 0) -> None:
    """Copy files, directories and links from one open directory into another; a `.git` at the top stays behind."""
    if depth > MAX_DEPTH:
        raise ExportRefused(f"the workspace is more than {MAX_DEPTH} directories deep")
    with os.scandir(source) as entries:
        found = list(entries)
    for entry in found:
        if depth == 0 and entry.name == ".git":
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(entry.name, 0o755, dir_fd=target)
            with opened(entry.name, at=source) as below, opened(entry.name, at=target) as beside:
                copy_tree(below, beside, depth=depth + 1)
        elif entry.is_file(follow_symlinks=False):
            copy_file(entry.name, source=source, target=target)


def copy_file(name: str, *, source: int, target: int) -> None:
    """Copy a regular file of one open directory into another; what is none stays behind."""
    read = open_file(name, at=source)
    if read is None:
        return
    try:
        about = os.fstat(read)
        write = os.open(name, _NEW, 0o600, dir_fd=target)
        try:
            _copy_bytes(read, write, about)
            os.fchmod(write, about.st_mode & 0o777)
            os.utime(write, ns=(about.st_atime_ns, about.st_mtime_ns))
        finally:
            os.close(write)
    finally:
        os.close(read)


def _copy_bytes(read: int, write: int, about: os.stat_result) -> None:
    if about.st_size <= _SMALL:
        # Sharing blocks does not pay for these: most files of most projects.
        content = os.read(read, _SMALL)
        while content:
            content = content[os.write(write, content) :]
        return
    try:
        fcntl.ioctl(write, _FICLONE, read)
        return
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    sparse = about.st_blocks * 512 < about.st_size
    for start, end in _extents(read, about.st_size) if sparse else [(0, about.st_size)]:
        _copy_extent(read, write, start=start, end=end)
    if sparse:
        os.ftruncate(write, about.st_size)


def _extents(read: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file with holes has bytes: a huge empty file must not fill our disk."""
    end = 0
    while end < size:
        try:
            start = os.lseek(read, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(read, start, os.SEEK_HOLE)
        yield start, end


def _copy_extent(read: int, write: int, *, start: int, end: int) -> None:
    at = start
    while at < end:
        try:
            copied = os.copy_file_range(read, write, end - at, offset_src=at, offset_dst=at)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            os.lseek(write, at, os.SEEK_SET)
            copied = os.sendfile(write, read, at, end - at)
        if copied == 0:
            return
        at += copied


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


def write_beneath(top: int, path: str, content: bytes) -> None:
    """Write a new file below an open directory, in place of a regular one; ExportRefused rather than through a link."""
    head, _, rest = path.partition("/")
    try:
        if rest:
            with suppress(FileExistsError):
                os.mkdir(head, 0o755, dir_fd=top)
            with opened(head, at=top) as below:
                write_beneath(below, rest, content)
            return
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(head, dir_fd=top, follow_symlinks=False).st_mode):
                raise ExportRefused(f"{path!a} is in the way and no regular file")
            # A new file, never the old one's bytes: it may have a second name elsewhere.
            os.unlink(head, dir_fd=top)
        fd = os.open(head, _NEW, 0o600, dir_fd=top)
    except (NotADirectoryError, FileExistsError) as error:
        raise ExportRefused(f"{path!a} leads through something that is no directory") from error
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        # A reproducer that starts with an interpreter line is meant to be called by its name.
        os.fchmod(file.fileno(), 0o755 if content.startswith(b"#!") else 0o644)
