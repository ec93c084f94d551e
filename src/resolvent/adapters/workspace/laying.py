"""Files that a reproducer adds to a branch: where they may lie, and how they get into a stack of layers as data."""

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from unicodedata import normalize

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.files import MAX_DEPTH, opened, write_new
from resolvent.adapters.workspace.names import unsafe
from resolvent.adapters.workspace.trees import Trees, is_tree
from resolvent.adapters.workspace.view import OPAQUE, View
from resolvent.domain.change import File
from resolvent.errors import ExportRefused


def digest(files: Sequence[File]) -> str:
    """What tells these files from others."""
    return sha256(json.dumps([(file.path, file.text) for file in files]).encode()).hexdigest()[:16]


def refuse_tracked(git: Git, commit: str, files: Sequence[File]) -> None:
    """ExportRefused when the commit holds something at one of the paths, or a file above it, in whatever case."""
    with Trees(git) as trees:
        top = trees.top(commit)
        refused = [file.path for file in files if _unfit(file.path) or _tracked(trees, top, file.path)]
    if refused:
        raise ExportRefused(f"a reproducer may only add files: {refused[:20]!a}", paths=refused[:100])


def _unfit(path: str) -> bool:
    return path.count("/") >= MAX_DEPTH or unsafe(path.encode("utf-8", "replace"))


def _tracked(trees: Trees, top: str, path: str) -> bool:
    directories = [top]
    for part in path.split("/"):
        rows = [row for tree in directories for row in trees.rows(tree).items()]
        found = [entry for name, entry in rows if _folded(os.fsdecode(name)) == _folded(part)]
        if any(not is_tree(entry) for entry in found):
            return True
        directories = [entry.oid for entry in found]
    return bool(directories)


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


def lay_over(layers: Sequence[Path], files: Sequence[File], *, owner: int | None) -> None:
    """Write the files into the first of these layers, so that the stack shows them; all of them, or ExportRefused.

    Only a regular file makes room for one of them, and no way leads through a link.
    """
    view = View(layers)
    for file in files:
        _refuse_obstacle(view, file.path)
    with opened(layers[0]) as top:
        for file in files:
            _write(top, file.path, file.text.encode("utf-8", "replace"), owner=owner)


def _refuse_obstacle(view: View, path: str) -> None:
    parts = os.fsencode(path).split(b"/")
    for count in range(1, len(parts) + 1):
        node = view.find(b"/".join(parts[:count]))
        if node is None:
            return
        if node.kind != ("file" if count == len(parts) else "directory"):
            raise ExportRefused(f"{path!a} leads to or through something that is in the way", paths=[path])


def _write(here: int, path: str, content: bytes, *, owner: int | None) -> None:
    name, _, rest = path.partition("/")
    hidden = _uncovered(here, name)
    if rest:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
            _give(here, name, owner)
        with opened(name, at=here) as below:
            if hidden:
                # What the whiteout hid in the layers further down stays hidden.
                os.setxattr(below, OPAQUE, b"y")
            _write(below, rest, content, owner=owner)
    else:
        write_new(here, name, content)
        _give(here, name, owner)


def _uncovered(here: int, name: str) -> bool:
    """Take away the mark that says a name is gone; whether there was one."""
    with suppress(FileNotFoundError):
        about = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:
            os.unlink(name, dir_fd=here)
            return True
    return False


def _give(here: int, name: str, owner: int | None) -> None:
    if owner is not None:
        os.chown(name, owner, owner, dir_fd=here, follow_symlinks=False)
