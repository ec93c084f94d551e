"""What explorations are made of, and what their jobs leave beside the branches."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.explorations import Explorations
from resolvent.adapters.workspace.files import remove_tree, translated
from resolvent.adapters.workspace.names import directory_name
from resolvent.adapters.workspace.rescue import RESCUE
from resolvent.domain.exploration import ENDED, Exploration
from resolvent.domain.job import Branch
from resolvent.domain.record import AgentChoice
from resolvent.engine.world import Backoff
from resolvent.errors import NotFound
from resolvent.ports import Agent, Clock, Jobs, Repository, Workspace

PATIENCE = Backoff(first_s=1.0, factor=3.0, most_s=60.0, tries=6)


def nothing(point: str, job: str) -> None:
    """The boundary of ordinary life: nobody is killed here."""


@dataclass(frozen=True)
class Traces:
    """What the jobs of explorations leave in a state directory: a record with its output each, and a private place."""

    state: Path

    def begun(self, job: str) -> bool:
        """It was started once, and may have ended: whoever asks for it starts nothing."""
        return any((self.state / "jobs" / job / name).exists() for name in ("started", "exit.json"))

    def forget(self, job: str) -> None:
        """Remove all of it."""
        for kind in ("jobs", "private"):
            remove_tree(self.state / kind / job)

    def forget_private(self, job: str) -> None:
        """Remove its HOME and TMPDIR; what it printed stays."""
        remove_tree(self.state / "private" / job)

    def jobs(self) -> tuple[str, ...]:
        """The jobs that left something, of whatever kind they are."""
        places = [place for place in (self.state / "jobs", self.state / "private") if place.is_dir()]
        return tuple({name for place in places for name in os.listdir(place)})


@dataclass(frozen=True)
class Ground:
    """What explorations are made of."""

    table: Explorations
    repository: Repository
    workspace: Workspace
    jobs: Jobs
    clock: Clock
    agent: Callable[[AgentChoice], Agent]
    private_directory: Callable[[str], str]
    traces: Traces
    unsafe: bool = False
    boundary: Callable[[str, str], None] = nothing
    patience: Backoff = field(default=PATIENCE)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


def branch_of(row: Exploration) -> Branch:
    """The branch of the workspace that an exploration happens in."""
    return Branch(id=row.id, parent=row.parent, commit=row.commit)


async def require_files(workspace: Workspace, row: Exploration) -> None:
    """NotFound when somebody else removed its branch: a child would silently start from the bare commit."""
    if all(kept.branch.id != row.id for kept in await workspace.kept()):
        raise NotFound(
            f"the files of branch {row.id} were removed; what was not published lies under refs/rescue",
            hint=f"git --git-dir STATE/repo.git for-each-ref 'refs/rescue/{row.id}*'",
        )


async def rescued(repository: Repository, id: str) -> str:
    """The ref that keeps the work of a branch which is gone; empty when there is none."""
    # The branch's id is nobody else's, so that whatever bears its name is its work; the last one if there are several.
    pattern = f"{RESCUE}/{directory_name(id)}*"
    said = await Git(repository.path)(
        "for-each-ref", "--count=1", "--sort=-version:refname", "--format=%(refname)", pattern
    )
    return said.decode().strip()


async def sweep(table: Explorations, workspace: Workspace, repository: Repository, traces: Traces) -> None:
    """Forget ended explorations whose branch is gone, and what jobs left that nobody will come back to."""
    jobs = await asyncio.to_thread(traces.jobs)
    known, pinned = await table.progress(), frozenset(await table.pinned())
    # Looked for last: the branch of an ended exploration does not come back.
    kept = frozenset(one.branch.id for one in await workspace.kept())
    gone = {id for id, row in known.items() if row.status == "deleted"}
    for id, row in known.items():
        if row.status in ENDED and row.made and id not in kept and id not in pinned:
            await table.set_gone(id, rescue=await rescued(repository, id))
            gone.add(id)
    for job in jobs:
        id, _, number = job.rpartition(".")
        if id in gone:
            with translated():
                await asyncio.to_thread(traces.forget, job)
        elif id in known and number.isdecimal() and int(number) <= known[id].position:
            with translated():
                await asyncio.to_thread(traces.forget_private, job)


async def error_of(work: Coroutine[Any, Any, None]) -> BaseException | None:
    """What a piece of work failed with, if it did; it is cancelled with whoever waits for it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,))
        raise
    return None if task.cancelled() else task.exception()
