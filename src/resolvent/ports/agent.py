"""Agents: programs that answer or leave edits."""

from pathlib import Path
from typing import Protocol

from resolvent.domain.job import Abilities, Job, JobExit, Reply, Session, Task
from resolvent.domain.transcript import Moment


class Listener(Protocol):
    """Turns what a program prints into moments, line by line; the same lines always give the same moments."""

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """What one line tells; nothing for one that cannot be read."""


class Agent(Protocol):
    """A program that answers or leaves edits. It is described here and run by a supervisor."""

    name: str
    # Who made the model: a reviewer of the author's family sees less.
    family: str
    # Whose quota it uses: when one agent is told to wait, all of the same account do.
    account: str
    abilities: Abilities

    def ready(self) -> None:
        """AgentMissing or KeyRefused, with what to type, when its program cannot be started or has no key."""

    def asked_version(self) -> tuple[str, ...]:
        """The command that prints its version; empty when there is none."""

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch; AgentMissing when its program is not there."""

    def listener(self) -> Listener:
        """For one job's output, from its first line."""

    def session(self, task: Task, output: Path) -> Session | None:
        """The session of a turn that was interrupted, to go on with; None when there is none."""

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """Read what the ended process left; an error that says who must act when it did not end well.

        AgentBusy when it was told to wait, KeyRefused, BudgetSpent, AgentTimedOut, else AgentFailed.
        """
