"""The world as the engine sees it: one of each port, and how much may run at once."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from resolvent.domain.record import AgentChoice
from resolvent.ports import Agent, Clock, Forge, Jobs, Journal, Repository, Workspace


def nothing(point: str, verb: str) -> None:
    """The boundary of ordinary life: nobody is killed here."""


@dataclass(frozen=True)
class Backoff:
    """How often and how patiently a healing world is asked again."""

    first_s: float = 0.2
    factor: float = 2.0
    most_s: float = 30.0
    tries: int = 6

    def delays(self) -> list[float]:
        """The pauses between the tries."""
        return [min(self.first_s * self.factor**n, self.most_s) for n in range(self.tries - 1)]


class Slots:
    """What may run at once in this process; taken inside a verb just before its work, so recovery obeys them too."""

    def __init__(self, *, agents: int, checks: int) -> None:
        self.agents = asyncio.Semaphore(agents)
        self.checks = asyncio.Semaphore(checks)
        self.effects = asyncio.Semaphore(1)


@dataclass(frozen=True)
class World:
    """Everything outside the playbook."""

    journal: Journal
    forge: Forge
    repository: Repository
    workspace: Workspace
    jobs: Jobs
    clock: Clock
    agent: Callable[[AgentChoice], Agent]
    slots: Slots
    # The whole environment of a check, apart from its private HOME and TMPDIR.
    environment: dict[str, str]
    private_directory: Callable[[str], str]
    backoff: Backoff = field(default_factory=Backoff)
    boundary: Callable[[str, str], None] = nothing
    # Set once, when this process is about to end: no verb begins any more.
    draining: asyncio.Event = field(default_factory=asyncio.Event)
