"""An exploration: one branch of the branch server, and the prompts an agent is taken through in it."""

from typing import Literal

from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice

# The words existing clients compare with; `manifesting`: the agent is done, what it left is being sealed.
Status = Literal["queued", "running", "manifesting", "succeed", "failed", "deleting", "deleted"]
ENDED: tuple[Status, ...] = ("succeed", "failed")
READABLE: tuple[Status, ...] = (*ENDED, "manifesting")
GONE: tuple[Status, ...] = ("deleting", "deleted")


class Refusal(Value):
    """Why a branch could not be deleted: an error as it was, for whoever asked."""

    kind: str
    message: str
    hint: str = ""


class Exploration(Value):
    """One branch with its agent, as it was asked for and as far as it came."""

    id: str
    name: str
    display_name: str
    project: str
    # The exploration it was forked from; None: it holds the commit's tree and nothing else.
    parent: str | None
    commit: str
    agent: str
    choice: AgentChoice
    prompts: tuple[str, ...]
    # How many prompts are answered and sealed.
    position: int = 0
    status: Status = "queued"
    status_text: str = ""
    error: str = ""
    # Names what the branch held when it was last sealed; empty until the branch is made.
    snap: str = ""
    # Where git keeps the work of a branch that was deleted unpublished.
    rescue: str = ""
    # Its last deletion came to nothing.
    undeletable: Refusal | None = None
    created_at: float
    updated_at: float

    @property
    def ended(self) -> bool:
        """Nothing will happen in it any more."""
        return self.status in ENDED

    @property
    def readable(self) -> bool:
        """Its agent is done: the output is whole, even while the files are still being sealed."""
        return self.status in READABLE

    def job(self, position: int) -> str:
        """The id of the job that answers a prompt: the same whoever asks, so that none is started twice."""
        return f"{self.id}.{position + 1}"
