"""What has to be on the disk before something else may rely on it."""

import ctypes
import os
import secrets
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def flush(directory: Path) -> None:
    """Wait until all that was written on the file system of a directory is on its disk: one wait for any number."""
    fd = os.open(directory, _DIRECTORY)
    try:
        flush_around(fd)
    finally:
        os.close(fd)


def flush_around(fd: int) -> None:
    """As `flush`, for an open directory."""
    if ctypes.CDLL(None, use_errno=True).syncfs(fd):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def flush_names(directory: Path) -> None:
    """Wait until the names in a directory are on its disk; what they name may not be."""
    fd = os.open(directory, _DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: Path, content: str) -> None:
    """Write a file that holds either what it did or this, whenever the machine goes down."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
