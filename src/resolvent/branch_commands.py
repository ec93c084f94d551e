"""What the commands of a branch left beside it: a job and a private directory each, found by the branch's creation."""

import asyncio
import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from resolvent.adapters.workspace.files import remove_tree, translated
from resolvent.adapters.workspace.names import directory_name
from resolvent.domain.job import JobExit, Kept

PREFIX = "branch."


@dataclass(frozen=True)
class Command:
    """A command that was run in a branch; `exit` is None while it runs, and when its end was never written down.

    `argv` is empty when nobody lived to write it down.
    """

    job: str
    argv: tuple[str, ...]
    exit: JobExit | None
    output: Path


@dataclass(frozen=True)
class Commands:
    """The commands of all branches of one state directory."""

    state: Path

    def free_id(self, kept: Kept) -> str:
        """An id that is nobody else's: who shared one would be told what came of the other's command."""
        private = self.state / "private"
        private.mkdir(mode=0o700, exist_ok=True)
        number = 1 + len(self.of(kept))
        while True:
            id = f"{_key(kept)}.{number}"
            try:
                (private / id).mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            else:
                return id

    def of(self, kept: Kept) -> list[Command]:
        """Every command that was run in the branch, the first one first; none of an older branch of that name."""
        found = (self.state / "jobs").glob(f"{_key(kept)}.*/job.json")
        return [_read(path.parent) for path in sorted(found, key=lambda path: int(path.parent.suffix[1:]))]

    async def forget(self, kept: Kept) -> None:
        """The branch is gone: remove what its commands left."""
        await self._remove(lambda name: name.startswith(f"{_key(kept)}."))

    async def sweep(self, names: Collection[str], *, branches: Collection[str]) -> None:
        """Remove those of these directories that belong to none of the branches. Look for the branches last."""
        alive = {directory_name(branch) for branch in branches}
        doomed = {name for name in names if name.removeprefix(PREFIX).partition(".")[0] not in alive}
        await self._remove(doomed.__contains__)

    def names(self) -> tuple[str, ...]:
        """The directories that commands left, of whatever branch."""
        return tuple({name for place in self._places for name in os.listdir(place) if name.startswith(PREFIX)})

    @property
    def _places(self) -> list[Path]:
        return [place for place in (self.state / "jobs", self.state / "private") if place.is_dir()]

    async def _remove(self, doomed: Callable[[str], bool]) -> None:
        def work() -> None:
            for place in self._places:
                for name in os.listdir(place):
                    if doomed(name):
                        remove_tree(place / name)

        with translated():
            await asyncio.to_thread(work)


def _key(kept: Kept) -> str:
    # By its creation: a branch that gets the name of one that was removed has printed nothing yet.
    return f"{PREFIX}{directory_name(kept.branch.id)}.{round(kept.created_at * 1e6):x}"


def _read(place: Path) -> Command:
    try:
        argv = tuple(map(str, json.loads((place / "job.json").read_bytes())["argv"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A full disk, or a crash, leaves an empty or half a record: the branch is as good as before.
        argv = ()
    try:
        exit = JobExit.model_validate_json((place / "exit.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        exit = None
    return Command(place.name, argv, exit, place / "output")
