"""The files between us and the tracers of a check: laid once before it, and read after it as hostile."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice

TOP, NEW = "reach", "reach.new"
MOST_DOCUMENTS, MOST_BYTES = 400, 64 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def lay(private: str, files: Mapping[str, bytes | None]) -> None:
    """Write files, and directories for what has no content, below the private directory; once, and over no link.

    What is there already may be in use by a job that goes on, and is the job's to change.
    """
    with _opened(private) as top:
        if _is_there(TOP, top):
            return
        for name, content in files.items():
            _put(top, f"{NEW}/{name}", content)
        os.rename(NEW, TOP, src_dir_fd=top, dst_dir_fd=top)


def _put(top: int, path: str, content: bytes | None) -> None:
    above, _, last = path.rpartition("/")
    here = os.dup(top)
    try:
        for name in (path if content is None else above).split("/"):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=here)
            deeper = os.open(name, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
        if content is not None:
            with suppress(FileNotFoundError):
                os.unlink(last, dir_fd=here)
            with os.fdopen(os.open(last, _FRESH, 0o600, dir_fd=here), "wb") as file:
                file.write(content)
    finally:
        os.close(here)


def marks(private: str, names: Iterable[str]) -> frozenset[str]:
    """Those of the marks that were left; what is in them is nobody's business."""
    try:
        with _opened(private, TOP, "seen") as folder:
            return frozenset(name for name in names if _is_there(name, folder))
    except OSError:
        # Taken away or replaced by the check: then nobody knows.
        return frozenset()


def documents(private: str, folder: str) -> Iterator[bytes | None]:
    """The files that were left in a directory, within bounds; None for what cannot be read or is beyond them."""
    left = MOST_BYTES
    try:
        with _opened(private, TOP, folder) as here:
            with os.scandir(here) as entries:
                names = [entry.name for entry in islice(entries, MOST_DOCUMENTS + 1)]
            for name in sorted(names):
                content = _read(name, here, most=left)
                left -= len(content or b"")
                yield content
    except OSError:
        names = []
        yield None
    if len(names) > MOST_DOCUMENTS:
        yield None


def _read(name: str, folder: int, *, most: int) -> bytes | None:
    try:
        # Not blocking: what lies there may be a pipe that nobody writes to.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(file, "rb") as opened:
            content = opened.read(most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None
    except OSError:
        return None
    return content if content is not None and len(content) <= most else None


@contextmanager
def _opened(*names: str) -> Iterator[int]:
    """A directory, reached over no link."""
    folder = os.open(names[0], _DIRECTORY)
    try:
        for name in names[1:]:
            deeper = os.open(name, _DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
