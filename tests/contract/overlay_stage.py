"""The kernel to compare with: a child without privileges mounts stacks of layers, changes them, tells what it sees."""

import ast
import contextlib
import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SOMEBODY = 64321

Op = tuple[Any, ...]
# By path: kind, mode, owner, time of the last change, content or target, attributes.
Seen = dict[bytes, tuple[str, int, int, int, bytes, dict[str, bytes]]]


class Kernel:
    """Overlays over directories below `top`; every layer `n` is `top/n/up`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        if os.geteuid() == 0:
            os.chown(top, SOMEBODY, SOMEBODY)
        self._child = subprocess.Popen(
            [sys.executable, "-I", __file__, str(top)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def up(self, *names: str) -> tuple[Path, ...]:
        return tuple(self.top / name / "up" for name in names)

    def make(self, *names: str) -> None:
        """New empty layers."""
        self._ask("make", names)

    def plain(self, name: str, ops: Sequence[Op]) -> None:
        """Change a layer as it lies there, without a mount."""
        self._ask("plain", name, list(ops))

    def change(self, upper: str, lowers: Sequence[str], ops: Sequence[Op]) -> None:
        """Mount, do what can be done of these, unmount: the upper layer holds it now."""
        self._ask("change", upper, tuple(lowers), list(ops))

    def see(self, *layers: str) -> Seen:
        """What the layers show, topmost first."""
        seen: Seen = self._ask("see", layers)
        return seen

    def copy(self, *layers: str) -> Path:
        """A plain copy of what they show."""
        self._ask("copy", layers)
        return self.top / "copy"

    def close(self) -> None:
        assert self._child.stdin and self._child.stdout
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()

    def _ask(self, *command: Any) -> Any:
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(repr(command) + "\n")
        self._child.stdin.flush()
        said = self._child.stdout.readline()
        assert said, "the child died"
        return ast.literal_eval(said)


# From here on: the child.
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWUSER, _NEWNS, _PRIVATE = 0x10000000, 0x20000, 1 << 18 | 16384
_SETDUMPABLE = 4


def _checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _confine() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
        _checked(_LIBC.prctl(_SETDUMPABLE, 1, 0, 0, 0))
    user, group = os.getuid(), os.getgid()
    _checked(_LIBC.unshare(_NEWUSER | _NEWNS))
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(line)
    _checked(_LIBC.mount(b"none", b"/", None, _PRIVATE, None))


@contextlib.contextmanager
def _mounted(lowers: Sequence[str], upper: str = "") -> Iterator[None]:
    options = "userxattr,lowerdir=" + ":".join(f"{name}/up" for name in lowers)
    if upper:
        options += f",upperdir={upper}/up,workdir={upper}/wk"
    _checked(_LIBC.mount(b"overlay", b"mnt", b"overlay", 0, options.encode()))
    os.chdir("mnt")
    try:
        yield
    finally:
        os.chdir("..")
        _checked(_LIBC.umount2(b"mnt", 0))


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _do(what: str, path: bytes, *more: Any) -> None:
    if what in ("write", "directory", "link", "fifo", "rename", "hard") and b"/" in path:
        os.makedirs(path.rpartition(b"/")[0], exist_ok=True)
    if what in ("write", "append"):
        # Not waiting: the name may be that of a pipe.
        how = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | (os.O_TRUNC if what == "write" else os.O_APPEND)
        with os.fdopen(os.open(path, how, 0o644), "wb") as file:
            file.write(more[0])
        if what == "write":
            os.chmod(path, more[1])
    elif what == "instead":
        _remove(path)
        _do(*more[0][:1], path, *more[0][1:])
    elif what == "rename":
        os.rename(more[0], path)
    elif what == "attribute":
        os.setxattr(path, more[0], more[1], follow_symlinks=False)
    else:
        _SIMPLE[what](path, *more)


_SIMPLE: dict[str, Callable[..., None]] = {
    "delete": _remove,
    "directory": os.mkdir,
    "fifo": os.mkfifo,
    "node": os.mknod,
    "chmod": os.chmod,
    "hard": lambda new, old: os.link(old, new),
    "link": lambda new, old: os.symlink(old, new),
    "time": lambda path, at: os.utime(path, ns=(at, at)),
}


def _do_all(ops: Sequence[Op]) -> None:
    for what, *more in ops:
        # What is not possible is not done: the names of random operations need not be there.
        with contextlib.suppress(OSError, shutil.Error):
            _do(what, *map(_named, more))


def _named(argument: Any) -> Any:
    """`("nth", 7)` is the name of something that is there, if anything is."""
    if not isinstance(argument, tuple) or argument[0] != "nth":
        return argument
    there = [os.path.join(top, name)[2:] for top, below, files in os.walk(b".") for name in (*below, *files)]
    return sorted(there)[argument[1] % len(there)] if there else b"a"


def _look(top: bytes = b".") -> Seen:
    seen: Seen = {}
    for entry in os.scandir(top):
        path = os.fsencode(entry.path).removeprefix(b"./")
        try:
            about = os.lstat(path)
        except FileNotFoundError:
            seen[path] = ("listed but absent", 0, 0, 0, b"", {})
            continue
        content, kind = b"", "other"
        if stat.S_ISLNK(about.st_mode):
            kind, content = "link", os.readlink(path)
        elif stat.S_ISREG(about.st_mode):
            kind, content = "file", Path(os.fsdecode(path)).read_bytes()
        elif stat.S_ISDIR(about.st_mode):
            kind = "directory"
            seen |= _look(os.path.join(top, os.fsencode(entry.name)))
        names = os.listxattr(path, follow_symlinks=False)
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
        seen[path] = kind, stat.S_IMODE(about.st_mode), about.st_uid, about.st_mtime_ns, content, attributes
    return seen


def _copy(top: str) -> None:
    shutil.rmtree(top, ignore_errors=True)
    os.mkdir(top)
    for path, (kind, mode, _, _, content, _) in sorted(_look().items()):
        place = os.path.join(os.fsencode(top), path)
        if kind == "directory":
            os.mkdir(place)
        elif kind == "link":
            os.symlink(content, place)
        elif kind == "other":
            os.mkfifo(place)
        else:
            with open(place, "wb") as file:
                file.write(content)
            os.chmod(place, mode)


def _answer(what: str, *more: Any) -> Any:
    if what == "make":
        for name in more[0]:
            os.makedirs(f"{name}/up")
            os.makedirs(f"{name}/wk")
    elif what == "plain":
        os.chdir(f"{more[0]}/up")
        _do_all(more[1])
        os.chdir("../..")
    elif what == "change":
        with _mounted(more[1], more[0]):
            _do_all(more[2])
    elif what == "see":
        # One layer alone is no stack: the kernel wants two, and an empty one changes nothing.
        with _mounted((*more[0], "nothing")):
            return _look()
    elif what == "copy":
        with _mounted((*more[0], "nothing")):
            _copy("../copy")
    return None


def _main(top: str) -> None:
    # Before privileges go: nobody else may look for a way to the directories of a test.
    os.chdir(top)
    _confine()
    os.makedirs("mnt", exist_ok=True)
    os.makedirs("nothing/up", exist_ok=True)
    for line in sys.stdin:
        print(repr(_answer(*ast.literal_eval(line))), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
