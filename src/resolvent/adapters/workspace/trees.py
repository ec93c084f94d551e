"""Trees of commits, read object by object: what a few changes need of a repository of any size."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.conversation import Conversation, Unanswered
from resolvent.adapters.workspace.objects import Entry
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
