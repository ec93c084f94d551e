"""Adapters by name: how a repository's settings become a world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resolvent.domain.record import AgentChoice
from resolvent.errors import AgentMissing, ConfigError
from resolvent.ports import Agent, Clock
from resolvent.settings import Settings, agent_environment, load, state_directory, store_url

if TYPE_CHECKING:
    from resolvent.adapters.forges.local import LocalForge
    from resolvent.adapters.journal.journal import StoredJournal
    from resolvent.adapters.workspace.copy import CopyWorkspace
    from resolvent.adapters.workspace.repository import TrustedRepository
    from resolvent.engine.world import World

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Home:
    """One repository's settings and state; adapters are opened when they are first needed."""

    repository: Path
    settings: Settings
    state: Path
    environ: Mapping[str, str]
    clock: Clock
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
        return cls(repository, settings, state, environ, clock or SystemClock())

    @property
    def store_url(self) -> str:
        return store_url(self.settings, state=self.state, environ=self.environ)

    async def journal(self) -> "StoredJournal":
        if "journal" not in self._opened:
            from resolvent.adapters.journal import connect

            self._opened["journal"] = await connect(self.store_url)
        return self._opened["journal"]  # type: ignore[return-value]

    async def forge(self) -> "LocalForge":
        """The forge the settings name."""
        if self.settings.forge.kind != "local":
            kind = self.settings.forge.kind
            raise ConfigError(f'forge.kind = "{kind}" is not in this version', hint='set forge.kind = "local"')
        if "forge" not in self._opened:
            from resolvent.adapters.forges.local import LocalForge
            from resolvent.adapters.journal.store import Store

            store = await Store.open(self.store_url)
            self._opened["store"] = store
            trusted = self.settings.forge.trusted_logins
            self._opened["forge"] = await LocalForge.open(store, self.state / "forge", trusted_logins=trusted)
        return self._opened["forge"]  # type: ignore[return-value]

    async def git_repository(self) -> "TrustedRepository":
        """Our own bare repository."""
        if "repository" not in self._opened:
            from resolvent.adapters.workspace.repository import TrustedRepository

            self._opened["repository"] = await TrustedRepository.open(self.state / "repo.git")
        return self._opened["repository"]  # type: ignore[return-value]

    async def workspace(self) -> "CopyWorkspace":
        from resolvent.adapters.workspace.copy import CopyWorkspace

        await self.git_repository()
        return CopyWorkspace(self.state)

    async def world(self) -> "World":
        """One of each port, ready for a worker."""
        from resolvent.adapters.jobs.supervised import SupervisedJobs
        from resolvent.engine.world import Slots, World

        limits = self.settings.limits
        return World(
            journal=await self.journal(),
            forge=await self.forge(),
            repository=await self.git_repository(),
            workspace=await self.workspace(),
            jobs=SupervisedJobs(self.state / "jobs"),
            clock=self.clock,
            agent=self.agent,
            slots=Slots(agents=limits.agents, checks=limits.checks),
            environment={"PATH": self.environ.get("PATH", PLAIN_PATH), "LANG": "C.UTF-8"},
            private_directory=self.private_directory,
        )

    def agent(self, choice: AgentChoice) -> Agent:
        """The adapter a configured agent uses."""
        environment = agent_environment(choice, self.environ, token=self.settings.forge.token)
        environment.setdefault("PATH", self.environ.get("PATH", PLAIN_PATH))
        choice = choice.model_copy(update={"env": tuple(environment)})
        if choice.use == "command":
            from resolvent.adapters.agents.command import CommandAgent

            return CommandAgent(choice.name, choice, environment=environment)
        if choice.use == "scripted":
            from resolvent.adapters.agents.scripted import scripted_agent

            return scripted_agent(choice, environment=environment)
        raise AgentMissing(
            f"agent {choice.name} (use = {choice.use!r}) is not in this version",
            hint="name a command agent in resolvent.toml: see `resolvent init`",
        )

    def private_directory(self, name: str) -> str:
        """A job's own HOME and TMPDIR, outside every workspace."""
        place = self.state / "private" / name
        for inner in ("home", "tmp"):
            (place / inner).mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(place)

    async def close(self) -> None:
        """Close what was opened."""
        for name in ("journal", "store"):
            if name in self._opened:
                await self._opened[name].close()  # type: ignore[attr-defined]
        self._opened.clear()
