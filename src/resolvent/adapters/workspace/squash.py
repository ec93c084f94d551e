"""Squash: many sealed layers become one that shows the same, without copying what is in their files."""

import errno
import os
import stat
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from resolvent.adapters.workspace.copying import copy_file
from resolvent.adapters.workspace.files import open_directory
from resolvent.adapters.workspace.names import shown
from resolvent.adapters.workspace.view import OPAQUE, Node, View
from resolvent.errors import ExportRefused

# "Copied up, who knows from where": the kernel then looks for whiteouts in a directory it merges with no other.
_ORIGIN = "user.overlay.origin"
_KERNELS, _ESCAPED = "user.overlay.", "user.overlay.overlay."
_KEPT = ("user.", "system.posix_acl_")
_NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP)


def squash(layers: Sequence[Path], into: Path) -> None:
    """Fill an empty directory with what the layers show together, so that it can stand for them in any stack."""
    view = View(layers)
    here = open_directory(into)
    try:
        _fill(view, view.top, here)
    finally:
        os.close(here)


def _fill(view: View, directory: Node, target: int, *, hidden: bool = False) -> None:
    nodes = view.entries(directory)
    plain = sorted((node for node in nodes if node.kind != "directory"), key=attrgetter("layers"))
    for (layer,), held in groupby(plain, key=attrgetter("layers")):
        with view.directory(directory.path, layer) as source:
            for node in held:
                _take(node, source, target)
    for node in nodes:
        if node.kind == "directory":
            os.mkdir(node.name, 0o700, dir_fd=target)
            below = open_directory(node.name, at=target)
            try:
                _fill(view, node, below, hidden=directory.opaque)
            finally:
                os.close(below)
    with view.directory(directory.path, directory.layers[0]) as source:
        _copy_attributes(source, target)
    if directory.opaque and not hidden:
        os.setxattr(target, OPAQUE, b"y")
    elif any(node.kind == "whiteout" for node in nodes):
        os.setxattr(target, _ORIGIN, b"")
    _dress(directory.status, target)


def _take(node: Node, source: int, target: int) -> None:
    if node.kind == "whiteout" and stat.S_ISREG(node.status.st_mode):
        # The newer form needs a mark on its directory as well; the older one is understood everywhere.
        _make_whiteout(node, target)
        return
    try:
        os.link(node.name, node.name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(node, source, target)


def _copy(node: Node, source: int, target: int) -> None:
    mode = node.status.st_mode
    if node.kind == "whiteout":
        _make_whiteout(node, target)
        return
    if node.kind == "file":
        copy_file(os.fsdecode(node.name), source=source, target=target)
    elif node.kind == "link":
        os.symlink(os.readlink(node.name, dir_fd=source), node.name, dir_fd=target)
    elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.mknod(node.name, mode, dir_fd=target)
    else:
        raise ExportRefused(f"{shown(node.path)!a} is a device", paths=[shown(node.path)])
    os.chown(node.name, node.status.st_uid, node.status.st_gid, dir_fd=target, follow_symlinks=False)
    times = (node.status.st_atime_ns, node.status.st_mtime_ns)
    os.utime(node.name, ns=times, dir_fd=target, follow_symlinks=False)


def _make_whiteout(node: Node, target: int) -> None:
    os.mknod(node.name, stat.S_IFCHR, 0, dir_fd=target)
    os.chown(node.name, node.status.st_uid, node.status.st_gid, dir_fd=target, follow_symlinks=False)


def _copy_attributes(source: int, target: int) -> None:
    for name in os.listxattr(source):
        if name.startswith(_KEPT) and (name.startswith(_ESCAPED) or not name.startswith(_KERNELS)):
            os.setxattr(target, name, os.getxattr(source, name))


def _dress(status: os.stat_result, target: int) -> None:
    """Owner, mode and times last: filling a directory changes some of them, and some forbid it."""
    made = os.fstat(target)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(target, status.st_uid, status.st_gid)
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
