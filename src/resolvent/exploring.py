"""The use cases of the branch server: explore, look, read, wait, delete. Whoever holds the lock also works."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from resolvent.adapters.agents.command import PlainListener
from resolvent.adapters.agents.words import Printed, joined
from resolvent.adapters.journal.lock import DaemonLock
from resolvent.adapters.workspace.explorations import Explorations, new_names
from resolvent.domain.change import Change
from resolvent.domain.exploration import Exploration, Refusal
from resolvent.errors import NotFound, ResolventError, UsageError, classes
from resolvent.exploring_ground import Ground, Traces, branch_of, nothing, require_files, sweep
from resolvent.exploring_work import ExplorationWorker
from resolvent.ports import Listener
from resolvent.settings import agent_named
from resolvent.wiring import Home

if TYPE_CHECKING:
    from resolvent.domain.record import AgentChoice

MAX_BRANCHES = 64
MAX_PROMPTS = 100
# What an agent prints is bounded per prompt only, and an answer holds it several times over in memory.
MAX_CHARACTERS = 8 << 20
# What clients call an agent that we know under another name, unless it is defined under theirs.
ALIASES = {"claude_code": "claude"}
BASES = ("", "base", "HEAD")
# Where a box shows the workspace: agents tell such paths to whoever reads them.
INSIDE = "/workspace/"


@dataclass(frozen=True)
class Asked:
    """What a client wants explored."""

    prompts: tuple[str, ...]
    parent: str = ""
    count: int = 1
    agent: str = ""
    project: str = ""


@dataclass(frozen=True)
class Diff:
    """What a branch changed since the commit it comes from."""

    base: str
    commit: str
    patch: str
    paths: tuple[str, ...]
    ignored: tuple[str, ...]


class Explorer:
    """Everything the branch server can do for one repository."""

    def __init__(self, home: Home, ground: Ground) -> None:
        self._home = home
        self._ground = ground
        self._table = ground.table
        # Two calls at once fetch one after the other: git would refuse the second.
        self._fetching = asyncio.Lock()

    @classmethod
    async def open(
        cls, home: Home, *, unsafe: bool = False, boundary: Callable[[str, str], None] = nothing
    ) -> "Explorer":
        """The explorations of a repository; `unsafe` lets agents run without walls where there are none."""

        repository, workspace = await home.git_repository(), await home.workspace()
        ground = Ground(
            # Last: nobody closes it if something else cannot be opened.
            table=await Explorations.open(Path((await home.rung()).sandbox), now=home.clock.now),
            repository=repository,
            workspace=workspace,
            jobs=home.jobs(),
            clock=home.clock,
            agent=home.agent,
            private_directory=home.private_directory,
            traces=Traces(home.state),
            unsafe=unsafe,
            boundary=boundary,
        )
        return cls(home, ground)

    async def prepare(self) -> None:
        """Fetch what the repository holds now, so that no call has to wait for all of it."""
        # What is wrong with it is told to who explores.
        with suppress(ResolventError):
            await self._revision("")

    async def explore(self, asked: Asked) -> tuple[Exploration, ...]:
        """Record as many branches as were asked for, all or none, and return at once: a worker takes them up."""
        _require_sense(asked)
        await self._home.require_walls(unsafe=self._ground.unsafe)
        choice = self._choice(asked.agent)
        self._home.agent(choice).ready()
        parent, commit = await self._origin(asked.parent)
        now = self._home.clock.now()
        rows = tuple(
            Exploration(
                **new_names(),
                project=asked.project or self._home.repository.name,
                parent=parent,
                commit=commit,
                agent=asked.agent or choice.name,
                choice=choice,
                prompts=asked.prompts,
                created_at=now,
                updated_at=now,
            )
            for _ in range(asked.count)
        )
        await self._table.add(rows)
        return rows

    async def branch(self, named: str) -> Exploration:
        """By id, name or latest snapshot; NotFound otherwise."""
        return await self._table.find(named)

    async def branches(self, *, project: str = "", status: str = "", limit: int = 100) -> tuple[Exploration, ...]:
        """Newest first; of every project and status unless they are named."""
        return await self._table.list(project=project, status=status, limit=limit)

    async def output(self, named: str, *, characters: int = MAX_CHARACTERS) -> str:
        """The last of what its agents said, one prompt after the other: there they say what came of it.

        Of a program that prints events these are its words, with a line for each tool it called.
        """
        row = await self._table.find(named)
        failed, listener = row.status == "failed", self._listener(row)
        files = [self._ground.jobs.output(row.job(position)) for position in range(len(row.prompts))]
        if not failed:
            return await asyncio.to_thread(joined, [Printed(file, listener) for file in files], characters)
        printed = [Printed(file, listener, beside=True) for file in files[: row.position + 1]]
        text = await asyncio.to_thread(joined, [*printed, Printed(printed[-1].path.with_name("errors"))], characters)
        return f"{text.rstrip()}\n{row.status_text}\n".lstrip("\n")[-characters:]

    def _listener(self, row: Exploration) -> Callable[[], Listener] | None:
        """What hears the events of its agent; None for one that prints words."""
        try:
            # Whatever became of its variables since: what it printed can still be read.
            agent = self._home.agent(row.choice.model_copy(update={"env": ()}))
        except ResolventError:
            return None
        return None if isinstance(agent.listener(), PlainListener) else agent.listener

    async def read_file(self, named: str, path: str) -> bytes:
        """A file of the branch as it is now; NotFound when there is none."""
        row = await self._table.find(named)
        parts = path.removeprefix(INSIDE).removeprefix("./").split("/")
        if not row.snap or "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise NotFound(f"File or directory not found: {path[:500]}")
        try:
            return await self._ground.workspace.read(branch_of(row), "/".join(parts))
        except NotFound as error:
            raise NotFound(f"File or directory not found: {path[:500]}") from error

    async def diff(self, named: str) -> Diff:
        """What the branch changed, as git would show it; ignored files are named, not shown."""
        row = await self._table.find(named)
        base = await self._ground.repository.change(row.commit)
        if not row.snap:
            return Diff(base.commit, base.commit, "", (), ())
        workspace, branch = self._ground.workspace, branch_of(row)
        change = await workspace.export(branch, message=f"{row.name}\n", at=row.created_at) or base
        patch = await self._ground.repository.diff(base, change)
        paths = await self._ground.repository.changed_paths(base, change)
        return Diff(base.commit, change.commit, patch, paths, workspace.ignored(branch))

    async def wait(self, named: str, *, timeout_s: float) -> Exploration:
        """Return when nothing will happen in it any more, or when the time is over, whichever is first."""
        loop = asyncio.get_running_loop()
        deadline, seen = loop.time() + timeout_s, await self._table.changed(since=-1)
        while True:
            row = await self._table.find(named)
            left = deadline - loop.time()
            if row.ended or left <= 0:
                return row
            seen = await self._table.changed(since=seen, timeout_s=left)

    async def delete(self, named: str) -> Exploration:
        """End what runs in it and remove it; its `rescue` names what keeps its work, if nobody published that."""
        row, seen = await self._table.record(named), await self._table.changed(since=-1)
        # Who asks again, for its first call went down with a server, waits for the same deletion.
        if row.status != "deleting":
            await self._table.ask_to_delete(await self._table.find(named))
        while (row := await self._table.record(row.id)).status == "deleting":
            seen = await self._table.changed(since=seen)
        if row.status == "deleted":
            return row
        refusal = row.undeletable or Refusal(kind="Bug", message="nobody said why")
        hint = refusal.hint or (f"resolvent branch rm --discard {row.id}" if refusal.kind == "ExportRefused" else "")
        raise classes()[refusal.kind](f"branch {row.id} could not be deleted: {refusal.message}", hint=hint)

    async def work(self) -> None:
        """Work on what is due as soon as no other process does, until cancelled; agents go on without us."""
        # A lock of its own, beside the table: the runs of a repository have another worker.
        lock = DaemonLock(f"sqlite:///{(await self._home.rung()).sandbox}/explorations")
        await lock.wait()
        try:
            # What stands in the way of tidying up stands in the way of nothing else.
            with suppress(ResolventError):
                await sweep(self._table, self._ground.workspace, self._ground.repository, self._ground.traces)
            await ExplorationWorker(self._ground, agents=self._home.settings.limits.agents).work()
        finally:
            await lock.release()

    async def close(self) -> None:
        """Let go of the table; the home is the caller's."""
        await self._table.close()

    def _choice(self, asked: str) -> "AgentChoice":
        agents = self._home.settings.agents
        name, colon, model = (asked or agents.writer).partition(":")
        known = name if name in agents.defined else ALIASES.get(name, name)
        if known not in agents.defined:
            there = ", ".join(sorted({*agents.defined, *ALIASES}))
            raise NotFound(
                f"there is no agent {name[:80]!a}; there are: {there}",
                hint="define it in resolvent.toml, under [agents.NAME]",
            )
        return agent_named(self._home.settings, f"{known}{colon}{model}")

    async def _origin(self, named: str) -> tuple[str | None, str]:
        """The exploration a branch is forked from, if it is one, and the commit it comes from."""
        if named not in BASES:
            try:
                found = await self._table.find(named)
            except NotFound:
                return None, (await self._revision(named)).commit
            if found.status == "failed" and not found.snap:
                raise UsageError(f"branch {found.id} never began: {found.status_text}", hint="fork another one")
            if found.snap:
                await require_files(self._ground.workspace, found)
            return found.id, found.commit
        return None, (await self._revision(named)).commit

    async def _revision(self, named: str) -> Change:
        repository = self._ground.repository
        async with self._fetching:
            forge = await self._home.forge()
            await forge.sync(self._home.repository)
            base = await forge.fetch(repository.upstream, await forge.default_branch())
            if named in BASES:
                return await repository.change(base)
            try:
                return await repository.change(await forge.fetch(repository.upstream, named))
            except NotFound:
                pass
        try:
            return await repository.change(named)
        except NotFound as error:
            raise NotFound(f"there is no branch and no commit {named[:200]!a}", hint="list_branches") from error


def _require_sense(asked: Asked) -> None:
    if not 1 <= asked.count <= MAX_BRANCHES:
        raise UsageError(f"num_branches must be between 1 and {MAX_BRANCHES}")
    if not 1 <= len(asked.prompts) <= MAX_PROMPTS or not all(prompt.strip() for prompt in asked.prompts):
        raise UsageError(f"shared_prompt_sequence must be a list of 1 to {MAX_PROMPTS} prompts, none of them empty")
