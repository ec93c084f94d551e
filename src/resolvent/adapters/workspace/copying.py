"""Copies of trees that nobody trusts: blocks are shared where the disk can, and names of one file stay names of one."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator

from resolvent.adapters.workspace.files import MAX_DEPTH, NEW, listed, open_file, opened
from resolvent.errors import ExportRefused

_FICLONE = 0x40049409
_SMALL = 1 << 16
_CANNOT = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)


def copy_tree(source: int, target: int) -> None:
    """Copy files, directories and links from one open directory into another; a `.git` at the top stays behind."""
    # The first copy of every file with several names gets one in here: no path to it is ever too long.
    linked = f".{secrets.token_hex(16)}"
    os.mkdir(linked, 0o700, dir_fd=target)
    with opened(linked, at=target) as pool:
        _copy_directory(source, target, pool=pool, depth=0)
        for name in os.listdir(pool):
            os.unlink(name, dir_fd=pool)
    os.rmdir(linked, dir_fd=target)


def _copy_directory(source: int, target: int, *, pool: int, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ExportRefused(f"the workspace is more than {MAX_DEPTH} directories deep")
    for entry in listed(source):
        if depth == 0 and entry.name == ".git":
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(entry.name, 0o755, dir_fd=target)
            with opened(entry.name, at=source) as below, opened(entry.name, at=target) as beside:
                _copy_directory(below, beside, pool=pool, depth=depth + 1)
        elif entry.is_file(follow_symlinks=False):
            about = entry.stat(follow_symlinks=False)
            known = f"{about.st_dev:x}-{about.st_ino:x}" if about.st_nlink > 1 else ""
            if known and _linked(known, entry.name, pool=pool, target=target):
                continue
            if copy_file(entry.name, source=source, target=target) and known:
                os.link(entry.name, known, src_dir_fd=target, dst_dir_fd=pool, follow_symlinks=False)


def _linked(known: str, name: str, *, pool: int, target: int) -> bool:
    """Give a copy one more name; False when there is none, or none that takes more names."""
    try:
        os.link(known, name, src_dir_fd=pool, dst_dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        os.unlink(known, dir_fd=pool)
        return False
    return True


def copy_file(name: str, *, source: int, target: int) -> bool:
    """Copy a regular file of one open directory into another; False for what is none, and stays behind."""
    read = open_file(name, at=source)
    if read is None:
        return False
    try:
        about = os.fstat(read)
        write = os.open(name, NEW, 0o600, dir_fd=target)
        try:
            _copy_bytes(read, write, about)
            os.fchmod(write, about.st_mode & 0o777)
            os.utime(write, ns=(about.st_atime_ns, about.st_mtime_ns))
        finally:
            os.close(write)
    finally:
        os.close(read)
    return True


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
