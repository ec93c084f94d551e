"""The trusted repository: the only place where git runs, on objects alone."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from resolvent.adapters.git import Git, upstream_of
from resolvent.adapters.workspace import patching
from resolvent.adapters.workspace.lasting import write_whole
from resolvent.adapters.workspace.names import meant, shown
from resolvent.adapters.workspace.trees import Trees
from resolvent.domain.change import Change
from resolvent.domain.patch import Hunk
from resolvent.errors import GitError, NotFound, UsageError

# Nobody's driver decides what a reviewer sees.
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color")
# Nobody reads more, and whoever holds it in memory holds it several times.
MAX_PATCH = 16 << 20
MOST_KNOWN = 1000


class TrustedRepository:
    """A bare repository of ours. Nothing of an agent's configuration reaches it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.upstream = upstream_of(path)
        self._git = Git(path)
        # What a commit holds does not change, and every step asks for the same few.
        self._known: dict[str, Change] = {}

    @classmethod
    async def open(cls, path: Path) -> "TrustedRepository":
        """The repository at `path`, made if it is not there; it borrows from the one beside it for the forge's objects.

        Two of them: a box may see what the forge has, and must not see what agents left in other branches.
        """
        await Git.init_bare(upstream_of(path))
        await Git.init_bare(path)
        await asyncio.to_thread(_lend, path, f"../../{upstream_of(path).name}/objects\n")
        return cls(path)

    async def change(self, revision: str) -> Change:
        """The commit a revision names; NotFound if there is none."""
        if revision in self._known:
            return self._known[revision]
        if "\n" in revision or "\0" in revision:
            raise NotFound(f"no revision is called {revision[:200]!a}")
        # By standard input: no revision can pose as an option there.
        asked = f"{revision}^{{commit}}\n{revision}^{{tree}}\n".encode("utf-8", "replace")
        # It may give up on a strange one (`@{7}`); then the answer is too short, and that is an answer.
        said = await self._git("cat-file", "--batch-check=%(objecttype) %(objectname)", input=asked, check=False)
        match [line.split() for line in said.decode("utf-8", "replace").splitlines()]:
            case [["commit", commit], ["tree", tree]]:
                return self._remember(Change(commit=commit, tree=tree))
        raise NotFound(f"our repository holds no commit {revision[:200]!a}")

    def _remember(self, change: Change) -> Change:
        while len(self._known) >= MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[change.commit] = change
        return change

    async def diff(self, old: Change, new: Change) -> str:
        """The patch between two commits, without any external driver; one of many MiB is cut, as its last line says."""

        def read(said: IO[bytes]) -> bytes:
            patch = said.read(MAX_PATCH + 1)
            if len(patch) > MAX_PATCH:
                raise _Enough(patch)
            return patch

        command = ("diff-tree", "-p", "-M", *_PLAIN, old.commit, new.commit)
        try:
            patch = await asyncio.to_thread(self._git.stream, *command, read=read)
        except _Enough as enough:
            whole_lines = enough.args[0][:MAX_PATCH].rpartition(b"\n")[0]
            patch = whole_lines + f"\n... cut: the patch is longer than {MAX_PATCH >> 20} MiB\n".encode()
        return patch.decode("utf-8", "replace")

    async def changed_paths(self, old: Change, new: Change) -> tuple[str, ...]:
        """The paths that differ, sorted."""
        said = await self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", old.commit, new.commit)
        return tuple(sorted(shown(path) for path in said.split(b"\0")[:-1]))

    async def merge_base(self, one: Change, other: Change) -> Change:
        """The newest commit both come from."""
        try:
            said = await self._git("merge-base", one.commit, other.commit)
        except GitError as error:
            raise NotFound(f"{one} and {other} have no commit in common", stderr=error.stderr) from error
        return await self.change(said.decode().strip())

    async def conflicts(self, change: Change, onto: Change) -> tuple[str, ...]:
        """The paths that do not merge cleanly; empty when all do."""
        return (await self._tried(change, onto))[1]

    async def merged(self, change: Change, *, onto: Change) -> str:
        """The tree that merging the change onto another commit gives; empty when it does not merge cleanly."""
        tree, conflicts = await self._tried(change, onto)
        return "" if conflicts else tree

    async def _tried(self, change: Change, onto: Change) -> tuple[str, tuple[str, ...]]:
        """The tree a merge gives, and the paths that are in conflict in it."""
        command = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
        try:
            said = await self._git(*command, onto.commit, change.commit)
        except GitError as error:
            if error.exit == 129:
                raise UsageError("git 2.38 or newer is needed to try a merge", hint="git --version") from error
            if error.exit != 1:
                raise
            said = error.stdout
        tree, *paths = said.split(b"\0")
        return tree.decode().strip(), tuple(sorted(shown(path) for path in paths if path.strip()))

    async def hunks(self, old: Change, new: Change) -> tuple[Hunk, ...]:
        """The parts of the difference between two commits, by path and line; nothing committed has a say in it."""
        return await asyncio.to_thread(patching.hunks, self._git, old, new)

    async def composed(self, old: Change, new: Change, keep: Sequence[Hunk], *, onto: Change | None = None) -> Change:
        """A commit whose tree is `old` with only these parts of `new`, on `onto` or else on `old`.

        The same parts give the same commit. Where a file and a directory would have one name, what is kept wins.
        """
        return await asyncio.to_thread(patching.composed, self._git, old, new, keep, onto=onto or old)

    async def contents(self, change: Change, paths: Sequence[str]) -> dict[str, bytes | None]:
        """What a commit holds at each path; None for nothing, for no regular file, and for one larger than 1 MiB."""

        def read() -> dict[str, bytes | None]:
            with Trees(self._git) as trees:
                entries = {path: trees.find(change.tree, meant(path)) for path in paths}
                texts = patching.Texts(self._git, trees, filter(None, entries.values()))
                return {path: texts.content(entry) if entry else None for path, entry in entries.items()}

        return await asyncio.to_thread(read)

    async def blamed(self, change: Change, path: str, line: int) -> str | None:
        """The commit that wrote that line of `change`; None when `contents` has no such line."""
        content = (await self.contents(change, [path]))[path]
        if content is None or not 1 <= line <= len(patching.lines(content)):
            return None
        options = ("--porcelain", "-s", "--no-textconv", "--ignore-revs-file=", f"-L{line},{line}")
        said = await self._git("blame", *options, change.commit, "--", os.fsdecode(meant(path)))
        return said.split(b" ", 1)[0].decode("ascii")

    async def ancestors(self, change: Change, *, limit: int) -> tuple[Change, ...]:
        """Its first parent, that one's first parent and so on, at most so many."""
        options = ("--first-parent", f"--max-count={max(limit, 0)}", "--skip=1", "--no-commit-header", "--format=%H %T")
        said = await self._git("rev-list", *options, change.commit)
        rows = (row.split(" ") for row in said.decode("ascii").splitlines())
        return tuple(Change(commit=commit, tree=tree) for commit, tree in rows)


class _Enough(Exception):
    """Ends a git that says more than is wanted; what it said comes with it."""


def _lend(path: Path, objects: str) -> None:
    """Let a repository borrow objects; the line is there wholly or not at all, for without it the forge's are not."""
    borrowed = path / "objects/info/alternates"
    if borrowed.is_file() and objects in borrowed.read_text().splitlines(keepends=True):
        return
    borrowed.parent.mkdir(exist_ok=True)
    write_whole(borrowed, objects)
