"""Changes in parts: which there are between two commits, and the commit with only some of them.

What is text and which lines differ is read from the blobs: nothing that is committed has a say in it. Blocking, for
threads.
"""

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import IO, NamedTuple

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.export import committed, take_in
from resolvent.adapters.workspace.names import meant, shown
from resolvent.adapters.workspace.objects import Entry, Pack
from resolvent.adapters.workspace.trees import Trees, edited
from resolvent.domain.change import Change
from resolvent.domain.patch import Hunk
from resolvent.errors import Bug, NotFound

# Above these a file is taken whole or not at all: nobody reads such a file line by line.
LARGEST = 1 << 20
MOST_LINES = 20_000

# As git tells text from binary.
_LOOKED_AT = 8000
_ABSENT = "000000"
_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Paths and contents that one git is given at once.
_ARGUMENTS, _BYTES = 100_000, 64 << 20
_DIFFERING = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=none", "--no-relative")
# No attribute, driver or setting decides what a line is, and none which lines are shown as different.
_LINES = (
    *("-p", "-U0", "--inter-hunk-context=0", "--text", "--full-index", "--submodule=short", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--diff-algorithm=myers", "--indent-heuristic"),
)

# Where lines differ: as in `@@ -a,b +c,d @@`.
_Range = tuple[int, int, int, int]


class _Row(NamedTuple):
    """One path that differs."""

    path: bytes
    was: Entry
    now: Entry

    @property
    def is_edit(self) -> bool:
        """A regular file before and after."""
        return is_regular(self.was) and is_regular(self.now)


def is_regular(entry: Entry) -> bool:
    """A file, whether it can be executed or not; no link, submodule or directory."""
    return int(entry.mode, 8) & 0o170000 == 0o100000


class Texts:
    """The content of regular files, apart from those that are too large to look into."""

    def __init__(self, git: Git, trees: Trees, entries: Iterable[Entry]) -> None:
        self._trees = trees
        oids = sorted({entry.oid for entry in entries if is_regular(entry)})
        asked = "".join(f"{oid}\n" for oid in oids).encode()
        command = ("cat-file", "--batch-check=%(objecttype) %(objectsize)")
        said = git.stream(*command, input=asked, read=lambda said: said.read()).splitlines() if oids else []
        self._sizes: dict[str, int] = {}
        for oid, answer in zip(oids, said, strict=True):
            kind, _, size = answer.partition(b" ")
            if kind != b"blob":
                raise NotFound(f"our repository does not hold the object {oid}")
            self._sizes[oid] = int(size)

    def content(self, entry: Entry) -> bytes | None:
        """All bytes of a file; None when it is none or too large."""
        size = self._sizes.get(entry.oid)
        return None if size is None or size > LARGEST or not is_regular(entry) else self._trees.blob(entry.oid)

    def text(self, entry: Entry) -> bytes | None:
        """The same, but None for what is binary too."""
        content = self.content(entry)
        return None if content is None or b"\0" in content[:_LOOKED_AT] else content

    def pair(self, row: _Row) -> tuple[bytes, bytes] | None:
        """Both texts of a file whose lines can be told apart; None when it can only be taken whole."""
        if not row.is_edit or row.was.oid == row.now.oid:
            return None
        old, new = self.text(row.was), self.text(row.now)
        if old is None or new is None or max(old.count(b"\n"), new.count(b"\n")) >= MOST_LINES:
            return None
        return old, new


def hunks(git: Git, old: Change, new: Change) -> tuple[Hunk, ...]:
    """All parts of the difference between two commits, by path and line."""
    rows = _differing(git, old, new)
    with Trees(git) as trees:
        texts = Texts(git, trees, (entry for row in rows for entry in (row.was, row.now)))
        sizes = {row: sum(map(len, pair)) for row in rows if (pair := texts.pair(row)) is not None}
        whole = {row: _whole(row, texts) for row in rows if row not in sizes}
    ranges: dict[tuple[str, str], list[_Range]] = {}
    for paths in _batches((row.path, size) for row, size in sizes.items()):
        command = (*_DIFFERING, *_LINES, old.commit, new.commit, "--", *map(os.fsdecode, paths))
        ranges |= git.stream(*command, read=_ranges)
    found: list[Hunk] = []
    for row in sorted(rows, key=lambda row: shown(row.path)):
        if row in whole:
            found.append(whole[row])
            continue
        path = shown(row.path)
        if row.was.mode != row.now.mode:
            found.append(Hunk(path=path, whole=True))
        for begin, gone, at, come in ranges[row.was.oid, row.now.oid]:
            found.append(Hunk(path=path, old_start=begin, old_lines=gone, new_start=at, new_lines=come))
    return tuple(found)


def composed(git: Git, old: Change, new: Change, keep: Sequence[Hunk], *, onto: Change) -> Change:
    """A commit on `onto` whose tree is that of `old` with only these parts of `new`; Bug for a part of neither."""
    rows = {row.path: row for row in _differing(git, old, new)}
    chosen: dict[bytes, list[Hunk]] = defaultdict(list)
    for hunk in dict.fromkeys(keep):
        chosen[meant(hunk.path)].append(hunk)
    if stray := chosen.keys() - rows.keys():
        raise Bug(f"{shown(min(stray))[:200]!a} does not differ between {old} and {new}")
    with Trees(git) as trees, tempfile.TemporaryFile() as file:
        pack = Pack(file, like=new.commit)
        texts = Texts(git, trees, (entry for path in chosen for entry in (rows[path].was, rows[path].now)))
        edits = {path: _made(rows[path], parts, texts, pack) for path, parts in chosen.items()}
        # Trees of old repositories cannot all be written again as they are: nothing is made that is there already.
        if edits == {path: _present(row.now) for path, row in rows.items()}:
            tree = new.tree
        else:
            tree = edited(trees, old.tree, edits, pack=pack)
        at = int(git.stream("rev-list", "--max-count=1", "--timestamp", new.commit, read=_first_word))
        change = committed(pack, tree, parent=onto.commit, message=f"Parts of {new.commit}", at=at)
        take_in(git, pack)
    return change


def _differing(git: Git, old: Change, new: Change) -> list[_Row]:
    said = git.stream(*_DIFFERING, "--raw", "-z", old.commit, new.commit, read=lambda said: said.read())
    fields = said.split(b"\0")[:-1]
    rows = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old_oid, new_oid, _ = about.decode("ascii").removeprefix(":").split(" ")
        rows.append(_Row(path, Entry(old_mode, old_oid), Entry(new_mode, new_oid)))
    return rows


def _whole(row: _Row, texts: Texts) -> Hunk:
    """The one part a file has that is not taken line by line; its lines when it is a text that came or went."""
    path = shown(row.path)
    came, went = row.was.mode == _ABSENT, row.now.mode == _ABSENT
    count = len(lines(texts.text(row.now if came else row.was) or b"")) if came or went else 0
    start = 1 if count else 0
    if came:
        return Hunk(path=path, new_start=start, new_lines=count, whole=True)
    return Hunk(path=path, old_start=start, old_lines=count, whole=True)


def _batches(sizes: Iterable[tuple[bytes, int]]) -> Iterator[list[bytes]]:
    """Paths in lots that fit on a command line, and whose contents fit into memory."""
    lot: list[bytes] = []
    arguments = total = 0
    for path, size in sizes:
        if lot and (arguments + len(path) > _ARGUMENTS or total + size > _BYTES):
            yield lot
            lot, arguments, total = [], 0, 0
        lot.append(path)
        # Every argument costs its place in the list as well.
        arguments, total = arguments + len(path) + 9, total + size
    if lot:
        yield lot


def _ranges(said: IO[bytes]) -> dict[tuple[str, str], list[_Range]]:
    """Where lines differ by old and new blob; no name is looked at."""
    found: dict[tuple[str, str], list[_Range]] = {}
    here: list[_Range] = []
    # What a file says can pose as neither: there is a sign before each of its lines.
    for line in said:
        if line.startswith(b"index "):
            was, _, now = line.split()[1].decode("ascii").partition("..")
            here = found[was, now] = []
        elif header := _HEADER.match(line):
            begin, gone, at, come = (1 if number is None else int(number) for number in header.groups())
            here.append((begin, gone, at, come))
    return found


def _made(row: _Row, parts: Sequence[Hunk], texts: Texts, pack: Pack) -> Entry | None:
    """What the path holds with only these parts of its difference; None for nothing."""
    pair = texts.pair(row)
    by_line = [part for part in parts if not part.whole]
    wholes = len(parts) - len(by_line)
    if pair is None:
        if by_line or wholes != 1:
            raise Bug(f"{shown(row.path)[:200]!a} can only be taken whole")
        return _present(row.now)
    if wholes > (row.was.mode != row.now.mode):
        raise Bug(f"{shown(row.path)[:200]!a} is taken line by line")
    mode = row.now.mode if wholes else row.was.mode
    return Entry(mode, pack.add("blob", _spliced(*pair, parts=by_line)) if by_line else row.was.oid)


def _present(entry: Entry) -> Entry | None:
    return None if entry.mode == _ABSENT else entry


def _spliced(old: bytes, new: bytes, *, parts: Sequence[Hunk]) -> bytes:
    """The old text with some of its lines replaced by lines of the new one."""
    before, after = lines(old), lines(new)
    made: list[bytes] = []
    done = 0
    for part in sorted(parts, key=lambda part: (part.old_start, part.new_start)):
        # A range without lines names the line before it.
        begin = part.old_start - 1 if part.old_lines else part.old_start
        at = part.new_start - 1 if part.new_lines else part.new_start
        end, until = begin + part.old_lines, at + part.new_lines
        if not (done <= begin <= end <= len(before) and 0 <= at <= until <= len(after)):
            raise Bug(f"lines {part.old_start}+{part.old_lines} of {part.path[:200]!a} are no part of its difference")
        made += before[done:begin] + after[at:until]
        done = end
    return b"".join(made + before[done:])


def lines(content: bytes) -> list[bytes]:
    """Lines end where git ends them: after a line feed, and nowhere else."""
    return BytesIO(content).readlines()


def _first_word(said: IO[bytes]) -> bytes:
    return said.read().split()[0]
