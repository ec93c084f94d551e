"""Adapters by name: how a repository's settings become a world."""

import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from resolvent.domain.record import AgentChoice
from resolvent.errors import NoSandbox, UsageError
from resolvent.ports import Agent, Clock
from resolvent.settings import (
    Settings,
    agent_environment,
    forge_variables,
    load,
    state_directory,
    store_url,
)
from resolvent.wiring_agents import adapter
from resolvent.wiring_github import github_place

if TYPE_CHECKING:
    from resolvent.adapters.forges.github import GitHubPlace
    from resolvent.adapters.forges.local import LocalForge
    from resolvent.adapters.jobs.supervised import SupervisedJobs
    from resolvent.adapters.journal.journal import StoredJournal
    from resolvent.adapters.workspace.repository import TrustedRepository
    from resolvent.adapters.workspace.rungs import Rung
    from resolvent.domain.job import Limits
    from resolvent.engine.world import World
    from resolvent.ports import Forge, Workspace

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DISK_BYTES = 20 << 30


@dataclass
class Home:
    """One repository's settings and state; adapters are opened when they are first needed."""

    repository: Path
    settings: Settings
    state: Path
    environ: Mapping[str, str]
    clock: Clock
    # The flags its settings were read with.
    overrides: tuple[str, ...] = ()
    # Where its settings and prompts were read, when that is not the checkout: intake reads those of the default branch.
    configured: Path | None = None
    _opened: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        repository: Path,
        *,
        environ: Mapping[str, str],
        overrides: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> "Home":
        """Read the configuration of the person's own checkout and find its state."""
        from resolvent.adapters.clock import SystemClock

        settings = load(repository, environ=environ, overrides=overrides)
        state = state_directory(repository, environ=environ)
        return cls(repository, settings, state, environ, clock or SystemClock(), tuple(overrides))

    @property
    def store_url(self) -> str:
        return store_url(self.settings, state=self.state, environ=self.environ)

    @property
    def host(self) -> str:
        """The name of this store among others that use the same forge: `machine.store`."""
        machine = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-")[:40] or "host"
        store = sha256(f"{self.store_url}\n{self.state}".encode()).hexdigest()[:8]
        return f"{machine}.{store}"

    async def journal(self) -> "StoredJournal":
        if "journal" not in self._opened:
            from resolvent.adapters.journal import connect

            self._opened["journal"] = await connect(self.store_url)
        return self._opened["journal"]  # type: ignore[return-value]

    async def forge(self) -> "Forge":
        """The forge the settings name."""
        if self.settings.forge.kind == "local":
            return await self.local_forge()
        if "forge" not in self._opened:
            from resolvent.adapters.forges.github import GitHubForge

            self._opened["forge"] = await GitHubForge.open(self.github_place())
        return self._opened["forge"]  # type: ignore[return-value]

    async def forge_as(self, person: str) -> "Forge":
        """The forge, written to in a person's name where we may: on this machine. Elsewhere we are who the token is."""
        if self.settings.forge.kind == "local":
            return (await self.local_forge()).acting_as(person)
        return await self.forge()

    async def local_forge(self) -> "LocalForge":
        """The forge on this machine; UsageError where issues live elsewhere."""
        if self.settings.forge.kind != "local":
            raise UsageError(f"this is done at {self.settings.forge.repo}, not here", hint="gh issue list")
        if "forge" not in self._opened:
            from resolvent.adapters.forges.local import LocalForge
            from resolvent.adapters.journal.store import Store

            store = await Store.open(self.store_url)
            self._opened["store"] = store
            trusted = self.settings.forge.trusted_logins
            self._opened["forge"] = await LocalForge.open(
                store, self.state / "forge", trusted_logins=trusted, clock=self.clock
            )
        return self._opened["forge"]  # type: ignore[return-value]

    def github_place(self) -> "GitHubPlace":
        """Where the forge is and who we are there; ConfigError when a variable with a secret is not set."""
        ca, cache = self._expanded(self.settings.forge.ca), self.state / "forge-cache"
        return github_place(self.settings, self.environ, ca=ca, cache=cache)

    async def git_repository(self) -> "TrustedRepository":
        """Our own bare repository."""
        if "repository" not in self._opened:
            from resolvent.adapters.workspace.repository import TrustedRepository

            self._opened["repository"] = await TrustedRepository.open(self.state / "repo.git")
        return self._opened["repository"]  # type: ignore[return-value]

    async def rung(self) -> "Rung":
        """How branches are kept apart on this machine; NoSandbox, with what to do, when they cannot be as asked."""
        if "rung" not in self._opened:
            from resolvent.adapters.workspace.rungs import find

            path = self.environ.get("PATH", PLAIN_PATH)
            self._opened["rung"] = await find(self.state, wanted=self.settings.sandbox.rung, path=path)
        return self._opened["rung"]  # type: ignore[return-value]

    async def require_walls(self, *, unsafe: bool) -> None:
        """NoSandbox when jobs would run without walls and nobody said that they may."""
        if (await self.rung()).kind is None and not unsafe:
            raise NoSandbox(
                'sandbox.rung = "plain" runs agents and checks as you, without walls',
                hint="add --unsafe if you trust them on this machine, or look at: resolvent doctor",
            )

    async def workspace(self) -> "Workspace":
        """Branches, as the rung keeps them."""
        if "workspace" not in self._opened:
            await self.git_repository()
            rung, running = await self.rung(), self.jobs().running
            sandbox = self.settings.sandbox
            reads = tuple(self._expanded(path) for path in sandbox.reads)
            walls = rung.walls(reads=reads, network=sandbox.network, limits=self._bounds())
            written = [path for agent in self.settings.agents.defined.values() for path in agent.writes]
            walls = walls and replace(walls, written=tuple(self._expanded(path) for path in written))
            if rung.overlay and walls:
                from resolvent.adapters.workspace.overlay import OverlayWorkspace

                place = Path(rung.sandbox)
                self._opened["workspace"] = await OverlayWorkspace.open(
                    self.state, sandbox=place, walls=walls, running=running, published=self._published
                )
            else:
                from resolvent.adapters.workspace.copy import CopyWorkspace

                self._opened["workspace"] = CopyWorkspace(
                    self.state, walls=walls, running=running, published=self._published
                )
        return self._opened["workspace"]  # type: ignore[return-value]

    async def _published(self, commit: str) -> bool:
        return await (await self.journal()).published(commit)

    def jobs(self) -> "SupervisedJobs":
        """The supervised processes of this repository."""
        if "jobs" not in self._opened:
            from resolvent.adapters.jobs.supervised import SupervisedJobs

            self._opened["jobs"] = SupervisedJobs(self.state / "jobs", self.environ)
        return self._opened["jobs"]  # type: ignore[return-value]

    def _expanded(self, path: str) -> str:
        return path.replace("~", self.environ.get("HOME", ""), 1) if path.startswith("~/") else path

    def _bounds(self) -> "Limits":
        """What every box may take: as configured; and no more of the disk than anybody could mean."""
        from resolvent.domain.job import Limits

        sandbox = self.settings.sandbox
        return Limits(
            memory_bytes=sandbox.memory,
            disk_bytes=sandbox.disk or DISK_BYTES,
            processes=sandbox.processes,
            cpus=sandbox.cpu,
        )

    async def world(self) -> "World":
        """One of each port, ready for a worker."""
        from resolvent.engine.budgets import Budgets
        from resolvent.engine.world import Backoff, Slots, World

        limits, journal = self.settings.limits, await self.journal()
        # What was written while the answer got lost is shown by GitHub after a moment, and an outage takes its time.
        away = self.settings.forge.kind == "github"
        backoff = Backoff.lasting(limits.patience, first_s=3.0, most_s=30.0) if away else Backoff()
        return World(
            backoff=backoff,
            journal=journal,
            budgets=Budgets(journal, self.clock, limits.cost_day_usd),
            patience=Backoff.lasting(limits.patience),
            forge=await self.forge(),
            repository=await self.git_repository(),
            workspace=await self.workspace(),
            jobs=self.jobs(),
            clock=self.clock,
            agent=self.agent,
            slots=Slots(agents=limits.agents, checks=limits.checks),
            environment={"PATH": self.environ.get("PATH", PLAIN_PATH), "LANG": "C.UTF-8"},
            private_directory=self.private_directory,
            host="" if self.settings.forge.kind == "local" else self.host,
        )

    def agent(self, choice: AgentChoice) -> Agent:
        """The adapter a configured agent uses."""
        environment = agent_environment(choice, self.environ, withheld=forge_variables(self.settings))
        environment.setdefault("PATH", self.environ.get("PATH", PLAIN_PATH))
        seen = {name: tuple(self._expanded(path) for path in getattr(choice, name)) for name in ("reads", "writes")}
        choice = choice.model_copy(update={"env": tuple(environment), **seen})
        return adapter(choice, environment, self.environ)

    def private_directory(self, name: str) -> str:
        """A job's own HOME and TMPDIR, outside every workspace."""
        place = self.state / "private" / name
        for inner in ("home", "tmp"):
            # What a job put in their place since is its own affair.
            with suppress(FileExistsError):
                (place / inner).mkdir(mode=0o700, parents=True)
        return str(place)

    async def close(self) -> None:
        """Close what was opened."""
        for name in ("forge", "journal", "store", "workspace"):
            if name in self._opened:
                await self._opened[name].close()  # type: ignore[attr-defined]
        self._opened.clear()
