"""What git knows of the hub's repository: commits, differences, merges that would work, files."""

import re
from collections.abc import Iterator

from resolvent.adapters.git import Git
from resolvent.errors import GitError
from resolvent.forge_server.holdings import ChangedFile, Commit, Item

_ID = re.compile(r"[0-9a-f]{40,64}")
_COMMIT = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ct%x00%B"
_FIELDS = 7
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")
_STATUS = {"A": "added", "D": "removed", "R": "renamed", "C": "added"}
_KEPT = 1000


class HubGit:
    """Reads from a bare repository; what is not there is None or empty."""

    def __init__(self, git: Git) -> None:
        self.git = git
        # Of two commits: objects never change, so neither does the answer.
        self._mergeable: dict[tuple[str, str], bool] = {}

    async def commit(self, id: str) -> Commit | None:
        """The commit with that id."""
        if not _ID.fullmatch(id):
            return None
        out = await self._said("log", "-1", "-z", _COMMIT, id)
        return next(_commits(out), None) if out else None

    async def commits(self, item: Item) -> tuple[Commit, ...]:
        """The commits of a pull request, oldest first."""
        return await self.between(item.base_commit, item.head_commit)

    async def between(self, old: str, new: str) -> tuple[Commit, ...]:
        """The commits that `new` has and `old` has not, oldest first."""
        if not _ID.fullmatch(old) or not _ID.fullmatch(new):
            return ()
        out = await self._said("log", "-z", "--reverse", "--topo-order", _COMMIT, new, f"^{old}")
        return tuple(_commits(out or b""))

    async def merge_base(self, item: Item) -> str:
        """The newest commit that the base and the head of a pull request share; the base itself when there is none."""
        return await self.shared(item.base_commit, item.head_commit) or item.base_commit

    async def shared(self, one: str, other: str) -> str:
        """The newest commit that both have, or nothing."""
        if not _ID.fullmatch(one) or not _ID.fullmatch(other):
            return ""
        out = await self._said("merge-base", one, other)
        return out.decode().strip() if out else ""

    async def mergeable(self, item: Item) -> bool:
        """The head of an open pull request merges cleanly onto its base as they are now."""
        pair = (item.base_commit, item.head_commit)
        if item.state != "open" or not all(map(_ID.fullmatch, pair)):
            return False
        if pair not in self._mergeable:
            if len(self._mergeable) >= _KEPT:
                self._mergeable.clear()
            self._mergeable[pair] = await self._said("merge-tree", "--write-tree", *pair) is not None
        return self._mergeable[pair]

    async def files(self, old: str, new: str) -> tuple[ChangedFile, ...]:
        """What differs between two commits, in the order of the paths."""
        if not _ID.fullmatch(old) or not _ID.fullmatch(new):
            return ()
        out = await self._said("diff", "--raw", "--numstat", "--no-abbrev", "-z", *_DIFF, old, new)
        return tuple(_files((out or b"").decode("utf-8", "replace")))

    async def patch(self, old: str, new: str) -> str:
        """The difference between two commits as text."""
        if not _ID.fullmatch(old) or not _ID.fullmatch(new):
            return ""
        return (await self._said("diff", "--full-index", *_DIFF, old, new) or b"").decode("utf-8", "replace")

    async def mails(self, item: Item) -> str:
        """The commits of a pull request as `git am` takes them."""
        if not _ID.fullmatch(item.base_commit) or not _ID.fullmatch(item.head_commit):
            return ""
        span = (item.head_commit, f"^{item.base_commit}")
        out = await self._said("format-patch", "--stdout", "--no-signature", "--full-index", *_DIFF, *span)
        return (out or b"").decode("utf-8", "replace")

    async def contents(self, commit: str, path: str) -> bytes | None:
        """A file of a commit; None when there is none, or it is no file."""
        if not _ID.fullmatch(commit) or not path or "\0" in path or "\n" in path:
            return None
        return await self._said("cat-file", "blob", f"{commit}:{path}")

    async def _said(self, *args: str) -> bytes | None:
        try:
            return await self.git(*args)
        except GitError:
            return None


def _commits(out: bytes) -> Iterator[Commit]:
    fields = out.decode("utf-8", "replace").split("\0")
    for at in range(0, len(fields) - _FIELDS + 1, _FIELDS):
        id, tree, parents, author, email, when, message = fields[at : at + _FIELDS]
        yield Commit(id, tree, tuple(parents.split()), author, email, float(when), message)


def _files(told: str) -> Iterator[ChangedFile]:
    """`--raw -z` names every file with its kind first; `--numstat -z` counts the lines of each after that."""
    words = iter(told.split("\0"))
    kinds: dict[str, tuple[str, str, str]] = {}
    for word in words:
        if word.startswith(":"):
            *_, before, after, letter = word.split(" ")
            previous = next(words) if letter[0] in "RC" else ""
            blob = before if letter == "D" else after
            kinds[next(words)] = (_STATUS.get(letter[0], "modified"), previous, blob)
        elif word:
            added, removed, path = word.split("\t", 2)
            if not path:
                next(words)
                path = next(words)
            status, previous, blob = kinds[path]
            counts = {"added": int(added) if added != "-" else 0, "removed": int(removed) if removed != "-" else 0}
            yield ChangedFile(path, status, previous=previous, blob=blob, **counts)
