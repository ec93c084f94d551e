"""What a stack of overlay layers shows, read on the host as hostile data: the kernel's merge without a mount."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from resolvent.adapters.workspace.files import MAX_DEPTH, listed, open_directory, open_file
from resolvent.adapters.workspace.names import shown
from resolvent.errors import ExportRefused

Kind = Literal["file", "link", "directory", "other", "whiteout"]

# The kernel writes these; what an agent sets under such a name becomes `user.overlay.overlay.…` and means nothing.
OPAQUE, WHITEOUT = "user.overlay.opaque", "user.overlay.whiteout"

_ABSENT = (errno.ENOENT, errno.ENAMETOOLONG)
_NO_ATTRIBUTE = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT)


class Node(NamedTuple):
    """One name as a stack of layers shows it; a whiteout shows nothing, and hides what lies below the stack."""

    path: bytes
    kind: Kind
    # Of the topmost layer that has it.
    status: os.stat_result
    # Which layers it is made of: several for a merged directory, the topmost first.
    layers: tuple[int, ...]
    # Of a directory: nothing below the stack shines through.
    opaque: bool = False

    @property
    def depth(self) -> int:
        """How far it is below the top."""
        return self.path.count(b"/") + 1 if self.path else 0

    @property
    def name(self) -> bytes:
        """The last part of its path."""
        return self.path.rpartition(b"/")[2]

    def within(self, name: bytes) -> bytes:
        """The path of a name in this directory."""
        return self.path + b"/" + name if self.path else name


class View:
    """The merge of some layers' `up` directories, topmost first. It keeps nothing open and follows no link.

    Nothing is written either, but for one bit: a directory that we own and may not list becomes one that we may.
    """

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = tuple(layers)

    @property
    def top(self) -> Node:
        """The directory all layers begin with."""
        return Node(b"", "directory", os.lstat(self._layers[0]), tuple(range(len(self._layers))))

    def entries(self, directory: Node) -> list[Node]:
        """What a directory shows, sorted by name, with the whiteouts that hide something below the stack."""
        if directory.depth > MAX_DEPTH + 1:
            raise ExportRefused(f"{shown(directory.path)[:200]!a} is more than {MAX_DEPTH} directories deep")
        found: dict[bytes, Node] = {}
        for layer in directory.layers:
            with self.directory(directory.path, layer) as fd:
                for entry in listed(fd):
                    name = os.fsencode(entry.name)
                    above = found.get(name)
                    if above is None or _goes_on(above):
                        status = entry.stat(follow_symlinks=False)
                        found[name] = _merged(above, _node(directory.within(name), status, layer=layer, at=fd))
        return list(_ended(directory, [found[name] for name in sorted(found)]))

    def find(self, path: bytes) -> Node | None:
        """What is shown at a path, the way never leading through a link; None when that is nothing."""
        parts = path.split(b"/")
        if len(parts) > MAX_DEPTH + 2 or b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
            return None
        node: Node | None = self.top
        for part in parts:
            node = self._look_up(node, part) if node is not None and node.kind == "directory" else None
        return node

    def open(self, path: bytes) -> int | None:
        """A descriptor of the regular file that is shown at a path; None when that is something else or nothing."""
        node = self.find(path)
        return None if node is None else self.opened(node)

    def opened(self, node: Node) -> int | None:
        """A descriptor of a regular file; None when it is something else, or no longer there."""
        if node.kind != "file":
            return None
        with self.directory(node.path.rpartition(b"/")[0], node.layers[0]) as fd:
            file = open_file(os.fsdecode(node.name), at=fd)
        if file is not None and not node.status.st_mode & 0o400:
            _lock_again(file, stat.S_IMODE(node.status.st_mode))
        return file

    def link(self, node: Node) -> bytes:
        """Where a link leads."""
        with self.directory(node.path.rpartition(b"/")[0], node.layers[0]) as fd:
            return os.readlink(node.name, dir_fd=fd)

    @contextmanager
    def directory(self, path: bytes, layer: int) -> Iterator[int]:
        """A directory of one layer, open."""
        # Part by part from the top, every time: a stack of many layers must not take as many descriptors as it has
        # directories, and no part of the way can be a link.
        here = open_directory(self._layers[layer])
        try:
            for name in path.split(b"/") if path else ():
                below = open_directory(name, at=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _look_up(self, directory: Node, name: bytes) -> Node | None:
        node: Node | None = None
        for layer in directory.layers:
            if node is not None and not _goes_on(node):
                break
            with self.directory(directory.path, layer) as fd:
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except OSError as error:
                    if error.errno in _ABSENT:
                        continue
                    raise
                node = _merged(node, _node(directory.within(name), status, layer=layer, at=fd))
        return next((found for found in _ended(directory, [node] if node else []) if found.kind != "whiteout"), None)


def _lock_again(file: int, mode: int) -> None:
    """Give a file back the mode that kept even its owner out, now that it is open."""
    if stat.S_IMODE(os.fstat(file).st_mode) == mode & 0o777 | 0o600:
        os.fchmod(file, mode)


def _node(path: bytes, status: os.stat_result, *, layer: int, at: int) -> Node:
    name, mode = path.rpartition(b"/")[2], status.st_mode
    if stat.S_ISDIR(mode):
        return Node(path, "directory", status, (layer,), _is_opaque(name, at))
    if stat.S_ISLNK(mode):
        return Node(path, "link", status, (layer,))
    if stat.S_ISREG(mode):
        hides = status.st_size == 0 and _is_whiteout(name, at)
        return Node(path, "whiteout" if hides else "file", status, (layer,))
    hides = stat.S_ISCHR(mode) and status.st_rdev == 0
    return Node(path, "whiteout" if hides else "other", status, (layer,))


def _is_opaque(name: bytes, at: int) -> bool:
    fd = open_directory(name, at=at)
    try:
        return os.getxattr(fd, OPAQUE) == b"y"
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return False
        raise
    finally:
        os.close(fd)


def _is_whiteout(name: bytes, at: int) -> bool:
    """The newer form: an empty file with an attribute. Kernels look for it everywhere, marked directory or not."""
    try:
        # Names alone: unlike their values, they can be had of a file that nobody may read.
        return WHITEOUT in os.listxattr(b"/proc/self/fd/%d/%s" % (at, name), follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return False
        raise


def _goes_on(node: Node) -> bool:
    """Layers further down have a say in it."""
    return node.kind == "directory" and not node.opaque


def _merged(above: Node | None, node: Node) -> Node:
    if above is None:
        return node
    if node.kind == "directory":
        return above._replace(layers=above.layers + node.layers, opaque=node.opaque)
    # A file or a whiteout ends the merge: whatever lies below it was hidden already.
    return above._replace(opaque=True)


def _ended(directory: Node, nodes: list[Node]) -> Iterator[Node]:
    """Nothing shines through into what is in an opaque directory, so that whiteouts have nothing to hide there."""
    for node in nodes:
        if not directory.opaque:
            yield node
        elif node.kind != "whiteout":
            yield node._replace(opaque=True) if node.kind == "directory" else node
