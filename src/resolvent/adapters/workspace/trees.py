"""Trees of commits, read object by object: what a few changes need of a repository of any size."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.conversation import Conversation, Unanswered
from resolvent.adapters.workspace.objects import Entry, Pack
from resolvent.errors import NotFound, StoreBusy

# Nothing but a disk that hangs makes it wait for an object.
_ANSWER_S = 120.0
_NOTHING: Mapping[bytes, Entry] = MappingProxyType({})


def is_tree(entry: Entry | None) -> bool:
    """A directory in a commit; some old trees write its mode with a leading zero."""
    return entry is not None and int(entry.mode, 8) == 0o40000


class Trees:
    """A conversation with `git cat-file` about objects by their ids: no path ever becomes a line of a protocol."""

    def __init__(self, git: Git) -> None:
        self._talk = Conversation(git, "cat-file", "--batch", answer_s=_ANSWER_S)
        self._rows: dict[str, Mapping[bytes, Entry]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._talk.__exit__(*failure)

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

    def find(self, tree: str, path: bytes) -> Entry | None:
        """What a tree holds at a path; None for nothing."""
        *above, name = path.split(b"/")
        here: str | None = tree
        for part in above:
            here = self.below(here, part)
        return self.rows(here).get(name)

    def blob(self, oid: str) -> bytes:
        """The content of a file; whole, so for small ones only."""
        return self._read(oid, "blob")

    def _read(self, oid: str, kind: str) -> bytes:
        try:
            self._talk.ask(oid.encode("ascii") + b"\n")
            match self._talk.until(b"\n").split():
                case [_, answered, size] if answered.isalpha() and size.isdigit():
                    content = self._talk.take(int(size) + 1)[:-1]
                    if answered == kind.encode():
                        return content
        except Unanswered as error:
            raise StoreBusy(f"git does not come to the end of the {kind} {oid}", hint="df -h") from error
        raise NotFound(f"our repository does not hold the {kind} {oid}")


def _parsed(content: bytes, *, width: int) -> dict[bytes, Entry]:
    rows = {}
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + width
        rows[name] = Entry(mode.decode("ascii"), content[end + 1 : at].hex())
    return rows


def written(rows: Mapping[bytes, Entry]) -> bytes:
    """A directory as git writes it, sorted as if the names of directories ended in a slash."""
    ordered = sorted(rows.items(), key=lambda row: row[0] + b"/" if is_tree(row[1]) else row[0])
    return b"".join(b"%s %s\0%s" % (entry.mode.encode(), name, bytes.fromhex(entry.oid)) for name, entry in ordered)


def edited(trees: Trees, top: str, edits: Mapping[bytes, Entry | None], *, pack: Pack) -> str:
    """The tree `top` with other entries at some paths, None for no entry; its new trees go into the pack.

    Where a file and a directory would have the same name, what is put there wins over what was there.
    """
    held: dict[bytes, dict[bytes, Entry]] = {b"": dict(trees.rows(top))}
    for path, entry in edits.items():
        directory, _, name = path.rpartition(b"/")
        rows = _opened(trees, held, directory)
        if entry is None:
            rows.pop(name, None)
        else:
            rows[name] = entry
    for directory in sorted(held, key=lambda path: path.count(b"/"), reverse=True):
        above, _, name = directory.rpartition(b"/")
        if not directory or edits.get(directory) is not None:
            continue
        if held[directory]:
            held[above][name] = Entry("40000", _kept(trees, held[directory], held[above].get(name), pack=pack))
        else:
            held[above].pop(name, None)
    return _kept(trees, held[b""], Entry("40000", top), pack=pack)


def _opened(trees: Trees, held: dict[bytes, dict[bytes, Entry]], directory: bytes) -> dict[bytes, Entry]:
    """The rows of one directory, with all that lead to it; none where there is no such directory."""
    begin = 0
    while directory and begin <= len(directory):
        end = directory.find(b"/", begin)
        end = end if end >= 0 else len(directory)
        path = directory[:end]
        if path not in held:
            entry = held[directory[: max(begin - 1, 0)]].get(directory[begin:end])
            held[path] = dict(trees.rows(entry.oid)) if entry is not None and is_tree(entry) else {}
        begin = end + 1
    return held[directory]


def _kept(trees: Trees, rows: Mapping[bytes, Entry], was: Entry | None, *, pack: Pack) -> str:
    """The id of a directory with these rows, which is the old one's when they are the same."""
    if was is not None and is_tree(was) and trees.rows(was.oid) == rows:
        return was.oid
    return pack.add("tree", written(rows))
