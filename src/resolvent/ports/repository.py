"""Our own git repository."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from resolvent.domain.change import Change
from resolvent.domain.patch import Hunk


class Repository(Protocol):
    """Our own bare git repository: the only place where git runs. Nothing of an agent's configuration reaches it."""

    path: Path
    # Where what the forge has is fetched to; `path` borrows from it.
    upstream: Path

    async def change(self, revision: str) -> Change:
        """The commit a revision names; NotFound if there is none."""

    async def diff(self, old: Change, new: Change) -> str:
        """The patch between two commits, without any external driver; one of many MiB is cut, as its last line says."""

    async def changed_paths(self, old: Change, new: Change) -> tuple[str, ...]:
        """The paths that differ, sorted."""

    async def merge_base(self, one: Change, other: Change) -> Change:
        """The newest commit both come from."""

    async def conflicts(self, change: Change, onto: Change) -> tuple[str, ...]:
        """The paths that do not merge cleanly; empty when all do."""

    async def merged(self, change: Change, *, onto: Change) -> str:
        """The tree that merging the change onto another commit gives; empty when it does not merge cleanly."""

    async def hunks(self, old: Change, new: Change) -> tuple[Hunk, ...]:
        """The parts of the difference between two commits, by path and line; nothing committed has a say in it."""

    async def composed(self, old: Change, new: Change, keep: Sequence[Hunk], *, onto: Change | None = None) -> Change:
        """A commit whose tree is `old` with only these parts of `new`, on `onto` or else on `old`.

        The same parts give the same commit. Where a file and a directory would have one name, what is kept wins.
        """

    async def contents(self, change: Change, paths: Sequence[str]) -> dict[str, bytes | None]:
        """What a commit holds at each path; None for nothing, for no regular file, and for one larger than 1 MiB."""

    async def blamed(self, change: Change, path: str, line: int) -> str | None:
        """The commit that wrote that line of `change`; None when `contents` has no such line."""

    async def ancestors(self, change: Change, *, limit: int) -> tuple[Change, ...]:
        """Its first parent, that one's first parent and so on, at most so many."""
