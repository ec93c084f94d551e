"""The difference between two commits as a layer: what is new or changed, and whiteouts for what is gone."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.checkout import Blob, refuse_unsafe
from resolvent.adapters.workspace.names import shown
from resolvent.adapters.workspace.objects import GITLINK, TREE
from resolvent.adapters.workspace.view import OPAQUE
from resolvent.errors import ExportRefused

_NOTHING = "000000"


@dataclass
class Difference:
    """What a layer holds so that, over one commit's tree, it shows another's."""

    # Every path that differs: submodules and directories too.
    size: int = 0
    directories: list[bytes] = field(default_factory=list)
    # Those of them through which nothing below may be seen.
    opaque: list[bytes] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    gone: list[bytes] = field(default_factory=list)

    @classmethod
    def between(cls, git: Git, old: str, new: str) -> "Difference":
        """Blocking: compare two commits; ExportRefused when the new one holds what cannot be laid out."""
        command = ("diff-tree", "-r", "-t", "-z", "--no-renames", old, new)
        return cls._of(git.stream(*command, read=lambda said: said.read()))

    @classmethod
    def _of(cls, said: bytes) -> "Difference":
        before: dict[bytes, str] = {}
        after: dict[bytes, tuple[str, str]] = {}
        for path, was, mode, oid in _rows(said):
            if was != _NOTHING:
                before[path] = was
            if mode != _NOTHING and after.setdefault(path, (mode, oid)) != (mode, oid):
                raise ExportRefused(f"the commit holds two things at {shown(path)!a}", paths=[shown(path)])
        refuse_unsafe(after)
        made = cls(size=len(before.keys() | after.keys()))
        for path in sorted(after):
            made._add(path, *after[path], was=before.get(path, _NOTHING))
        # Of a directory that is gone one whiteout is enough; where something else took its place none is needed.
        for path in sorted(before.keys() - after.keys()):
            above = path.rpartition(b"/")[0]
            if not above or after.get(above, (_NOTHING, ""))[0] == TREE:
                made.gone.append(path)
        return made

    def _add(self, path: bytes, mode: str, oid: str, *, was: str) -> None:
        if mode not in (TREE, GITLINK):
            self.blobs.append(Blob(mode, path, oid))
        elif mode != GITLINK or was != GITLINK:
            # Another commit of a submodule is the same empty directory.
            self.directories.append(path)
            if was != mode:
                self.opaque.append(path)

    def hide(self, top: Path) -> None:
        """Blocking: hide in a layer that is laid out what shines through from below."""
        root = os.fsencode(top) + b"/"
        for path in self.opaque:
            os.setxattr(root + path, OPAQUE, b"y")
        for path in self.gone:
            os.mknod(root + path, stat.S_IFCHR | 0o600, os.makedev(0, 0))


def _rows(said: bytes) -> Iterator[tuple[bytes, str, str, str]]:
    """Path, old mode, new mode and new object of every row of `diff-tree -z`."""
    fields = said.split(b"\0")[:-1]
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        was, mode, _, oid, _ = about.decode("ascii").removeprefix(":").split(" ")
        yield path, was, mode, oid
