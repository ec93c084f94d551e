"""Trees of commits, read object by object: what a few changes need of a repository of any size."""

import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Self

from resolvent.adapters.git import Git, failed
from resolvent.adapters.workspace.objects import Entry
from resolvent.errors import NotFound

_ASK = ("cat-file", "--batch")
_NOTHING: Mapping[bytes, Entry] = MappingProxyType({})


def is_tree(entry: Entry | None) -> bool:
    """A directory in a commit; some old trees write its mode with a leading zero."""
    return entry is not None and int(entry.mode, 8) == 0o40000


class Trees:
    """A conversation with `git cat-file` about objects by their ids: no path ever becomes a line of a protocol."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in __exit__
        self._rows: dict[str, Mapping[bytes, Entry]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.communicate()
        self._said.close()

    def top(self, commit: str) -> str:
        """The id of a commit's tree."""
        return self._read(commit, "commit").partition(b"\n")[0].removeprefix(b"tree ").decode("ascii")

    def rows(self, tree: str | None) -> Mapping[bytes, Entry]:
        """What one directory holds by name, of a tree's id; nothing for None."""
        if tree is None:
            return _NOTHING
        if tree not in self._rows:
            self._rows[tree] = _parsed(self._read(tree, "tree"), width=len(tree) // 2)
        return self._rows[tree]

    def below(self, tree: str | None, name: bytes) -> str | None:
        """The id of the directory of that name in a tree."""
        entry = self.rows(tree).get(name)
        return entry.oid if entry is not None and is_tree(entry) else None

    def at(self, tree: str, path: bytes) -> Entry | None:
        """What a tree holds at a path, file or directory."""
        directory, _, name = path.rpartition(b"/")
        here: str | None = tree
        for part in directory.split(b"/") if directory else ():
            here = self.below(here, part)
        return self.rows(here).get(name)

    def blob(self, oid: str) -> bytes:
        """The content of a file; whole, so for small ones only."""
        return self._read(oid, "blob")

    def _read(self, oid: str, kind: str) -> bytes:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(oid.encode("ascii") + b"\n")
            process.stdin.flush()
        said = process.stdout.readline()
        if not said:
            self._said.seek(0)
            raise failed(_ASK, exit=process.wait(), stderr=self._said.read())
        match said.split():
            case [_, answered, size] if answered.isalpha() and size.isdigit():
                content = process.stdout.read(int(size) + 1)[:-1]
                if answered == kind.encode() and len(content) == int(size):
                    return content
        raise NotFound(f"our repository does not hold the {kind} {oid}")

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = self._git.popen(*_ASK, stderr=self._said)
        return self._process


def _parsed(content: bytes, *, width: int) -> dict[bytes, Entry]:
    rows = {}
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + width
        rows[name] = Entry(mode.decode("ascii"), content[end + 1 : at].hex())
    return rows
