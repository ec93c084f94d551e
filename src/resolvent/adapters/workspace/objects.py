"""Git objects made from plain bytes: no work tree, no index, no filter stands between a file and its blob."""

import hashlib
import os
import zlib
from collections.abc import Mapping
from io import BufferedRandom
from typing import NamedTuple

_KINDS = {"commit": 1, "tree": 2, "blob": 3}

LINK, GITLINK, TREE = "120000", "160000", "040000"


class Entry(NamedTuple):
    """What a commit holds at one path."""

    mode: str
    oid: str


class Listing(NamedTuple):
    """Everything a commit holds: files, links and submodules by path, and which tree objects it is made of."""

    entries: dict[bytes, Entry]
    trees: frozenset[str]
    directories: frozenset[bytes]

    @classmethod
    def parse(cls, listed: bytes) -> "Listing":
        """Read what `ls-tree -r -t -z` printed."""
        entries: dict[bytes, Entry] = {}
        trees: dict[bytes, str] = {}
        for line in listed.split(b"\0")[:-1]:
            about, _, path = line.partition(b"\t")
            mode, _, oid = about.decode("ascii").split(" ")
            if mode == TREE:
                trees[path] = oid
            else:
                entries[path] = Entry(mode, oid)
        return cls(entries, frozenset(trees.values()), frozenset(trees))


class Pack:
    """New objects on their way into the repository, in git's own transport format."""

    def __init__(self, file: BufferedRandom, *, like: str) -> None:
        """`like` is any object id of the repository: its length tells the hash."""
        self._file = file
        self._hash = "sha256" if len(like) == 64 else "sha1"
        self._known: set[str] = set()
        self._file.write(bytes(12))

    def __len__(self) -> int:
        return len(self._known)

    def name(self, kind: str, content: bytes) -> str:
        """The id git gives to such an object."""
        digest = hashlib.new(self._hash, b"%s %d\0" % (kind.encode(), len(content)), usedforsecurity=False)
        digest.update(content)
        return digest.hexdigest()

    def add(self, kind: str, content: bytes) -> str:
        """Take an object in, once; its id."""
        oid = self.name(kind, content)
        if oid not in self._known:
            self._known.add(oid)
            self._file.write(_header(_KINDS[kind], len(content)) + zlib.compress(content, 1))
        return oid

    def add_trees(self, entries: Mapping[bytes, Entry], *, known: frozenset[str]) -> str:
        """Take in the trees that hold these entries, apart from the known ones; the id of the top."""
        rows: dict[bytes, list[tuple[bytes, bytes, str]]] = {b"": []}
        for path, entry in entries.items():
            directory, _, name = path.rpartition(b"/")
            rows.setdefault(directory, []).append((name, entry.mode.encode() + b" " + name, entry.oid))
            while directory:
                directory = directory.rpartition(b"/")[0]
                rows.setdefault(directory, [])
        top = ""
        for directory in sorted(rows, key=lambda path: (path != b"", path.count(b"/")), reverse=True):
            content = b"".join(row + b"\0" + bytes.fromhex(oid) for _, row, oid in sorted(rows[directory]))
            top = self.name("tree", content)
            if top not in known:
                self.add("tree", content)
            above, _, name = directory.rpartition(b"/")
            # Git sorts a directory as if its name ended in a slash.
            rows[above].append((name + b"/", b"40000 " + name, top))
        return top

    def finish(self) -> BufferedRandom:
        """Close the pack; the file stands at its beginning."""
        self._file.seek(0)
        self._file.write(b"PACK" + (2).to_bytes(4) + len(self).to_bytes(4))
        self._file.seek(0)
        trailer = hashlib.file_digest(self._file, lambda: hashlib.new(self._hash, usedforsecurity=False)).digest()
        self._file.seek(0, os.SEEK_END)
        self._file.write(trailer)
        self._file.seek(0)
        return self._file


def _header(kind: int, size: int) -> bytes:
    """Kind and size as a pack writes them: four bits beside the kind, then seven to a byte."""
    first, size = (kind << 4) | (size & 15), size >> 4
    out = []
    while size:
        out.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    return bytes([*out, first])
