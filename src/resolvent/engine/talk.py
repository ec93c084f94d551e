"""What a question to an agent is made of: a talk, its turns, and what a turn leaves."""

from dataclasses import dataclass, replace

from resolvent.domain.job import Branch, JobExit, Reply, Session
from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice, Frozen
from resolvent.engine.prompts import Prompt
from resolvent.engine.requests import Request
from resolvent.errors import MalformedAnswer
from resolvent.ports import Agent


@dataclass(frozen=True)
class Talk:
    """What all turns of one question have in common."""

    request: Request
    frozen: Frozen
    agent: Agent
    choice: AgentChoice
    prompt: Prompt
    model: type[Value]
    schema: str
    # Whoever takes another's place leaves branches and jobs of its own.
    substitute: bool = False
    # It was waited for in vain in this run, and another stands ready: it is asked once, not for as long again.
    hurried: bool = False

    def names(self, tries: int) -> str:
        """What the branches, jobs and files of one try are called by."""
        return f"{self.choice.name}-{tries}" if self.substitute else str(tries)


@dataclass(frozen=True)
class Turn:
    """One turn: where it is taken, with which words, in which session."""

    branch: Branch
    text: str
    # `try.turn`: the same words are tried again in a new branch, a turn follows another in the same session.
    name: str
    private: str
    session: Session | None = None

    @property
    def number(self) -> int:
        return int(self.name.rpartition(".")[2])

    def after(self, *, text: str, session: Session | None, branch: Branch | None = None) -> "Turn":
        """The next turn of the same conversation."""
        tries, _, number = self.name.rpartition(".")
        name = f"{tries}.{int(number) + 1}"
        return replace(self, text=text, name=name, session=session, branch=branch or self.branch)


@dataclass(frozen=True)
class Taken:
    """A turn that ended well as a process; what it left may still be malformed."""

    turn: Turn
    exit: JobExit
    left: Reply | MalformedAnswer

    @property
    def session(self) -> Session | None:
        return self.left.session if isinstance(self.left, Reply) else None
