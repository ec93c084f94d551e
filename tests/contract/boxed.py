"""Act inside a branch of layers as its jobs do: as their user, in namespaces of our own, on the mounted overlay."""

import os
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn, TypeVar

from resolvent.adapters.jobs.launch import BIND, NEWNS, NEWUSER, REC, SLAVE, drop, mount_overlay
from resolvent.adapters.jobs.native import native
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.domain.job import Files

T = TypeVar("T")

# Over this one a tmpfs is laid, and everything is bound below it.
RUN = Path("/run")
WORK, OBJECTS, HOME = RUN / "work", RUN / "objects", RUN / "home"
# Where many trees are made and removed without waiting for a disk; None: no such place.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@cache
def trouble() -> str:
    """Why no overlay can be mounted here; empty when one can."""
    with emptied_later() as directory:
        user = jobs_user(directory)
        for place in ("", "objects", "lower", "lower/up", "upper", "upper/up", "upper/wk"):
            (directory / place).mkdir(exist_ok=True)
            if user is not None:
                os.chown(directory / place, user, user)
        files = Files(layers=str(directory), upper="upper", lowers=("lower",))
        try:
            boxed(files, lambda work: (work / "x").touch(), user=user, objects=directory, outside=directory)
        except OSError as error:
            return f"no overlay can be mounted here: {error}"
    return ""


def boxed(files: Files, function: Callable[[Path], T], *, user: int | None, objects: Path, outside: Path) -> T:
    """What a function returns or raises that is called, in a child of ours, with the place the branch is mounted at.

    `outside` is a directory of the host that is there as well, at its own place.
    """
    return _called(lambda: _inside(files, function, user=user, objects=objects, outside=outside))


@contextmanager
def emptied_later(place: str | None = None) -> Iterator[Path]:
    """A directory of its own that goes with all that is in it, also what an overlay left, which nobody may list."""
    directory = Path(tempfile.mkdtemp(dir=place))
    try:
        yield directory
    finally:
        remove_tree(directory)


def as_somebody(function: Callable[[Path], T]) -> T:
    """What a function returns or raises that is called, as an ordinary user, with an empty directory of his."""
    with emptied_later() as directory:
        user = jobs_user(directory)
        if user is not None:
            os.chown(directory, user, user)

        def work() -> T:
            if user is not None:
                drop(user)
            os.environ["HOME"] = str(directory)
            return function(directory)

        return _called(work)


def _called(work: Callable[[], T]) -> T:
    """What a function returns or raises that is called in a child of ours."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(writing, work)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as answer:
            said = answer.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        status = os.waitpid(child, 0)[1]
    if not said:
        raise RuntimeError(f"the child died: {status}")
    worked, result = pickle.loads(said)
    if not worked:
        raise result
    value: T = result
    return value


def _answer(writing: int, work: Callable[[], object]) -> NoReturn:
    try:
        said = pickle.dumps((True, work()))
    except BaseException as error:  # noqa: BLE001, it goes on in the parent
        error.add_note("".join(traceback.format_exception(error)))
        try:
            said = pickle.dumps((False, error))
        except (TypeError, AttributeError, pickle.PicklingError):
            said = pickle.dumps((False, RuntimeError(f"{error!r}\n{error.__notes__}")))
    while said:
        said = said[os.write(writing, said) :]
    # Nothing of the parent's may run again here: no fixture, no exit handler, no buffered output.
    os._exit(0)


def _inside(files: Files, function: Callable[[Path], T], *, user: int | None, objects: Path, outside: Path) -> T:
    os.umask(0o022)
    if user is None:
        _unshare()
        _furnish(Path(files.layers), objects)
    else:
        native("unshare", NEWNS)
        _furnish(Path(files.layers), objects)
        _uncover(outside)
        os.chown(HOME, user, user)
        drop(user)
        _unshare()
    mount_overlay(files.model_dump(), str(RUN / "layers"), str(WORK))
    os.environ["HOME"] = str(HOME)
    os.chdir(WORK)
    return function(WORK)


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    native("unshare", NEWUSER | NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _furnish(layers: Path, objects: Path) -> None:
    native("mount", b"none", b"/", None, REC | SLAVE, None)
    sources = [(os.open(source, os.O_PATH), name) for source, name in ((layers, "layers"), (objects, "objects"))]
    native("mount", b"tmpfs", os.fsencode(RUN), b"tmpfs", 0, b"mode=755")
    for directory in (WORK, HOME):
        directory.mkdir()
    for fd, name in sources:
        (RUN / name).mkdir()
        _bind(fd, RUN / name)


def _uncover(outside: Path) -> None:
    """Make a directory reachable for everyone who is in here, though one above it is root's own."""
    fd = os.open(outside, os.O_PATH)
    closed = [place for place in reversed(outside.parents) if not place.stat().st_mode & 0o001]
    if closed:
        native("mount", b"tmpfs", os.fsencode(closed[0]), b"tmpfs", 0, b"mode=755")
        outside.mkdir(parents=True)
        _bind(fd, outside)


def _bind(fd: int, place: Path) -> None:
    native("mount", f"/proc/self/fd/{fd}".encode(), os.fsencode(place), None, BIND | REC, None)
    os.close(fd)
