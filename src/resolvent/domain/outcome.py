"""How a run can end."""

from typing import Annotated, Literal

from pydantic import Field

from resolvent.domain.change import Change
from resolvent.domain.gate import Gate
from resolvent.domain.model import Value
from resolvent.domain.subject import PullRequest


class Ended(Value):
    """What every ending tells."""

    reason: str = ""
    change: Change | None = None
    pull_request: PullRequest | None = None
    gate: Gate | None = None
    rounds: int = 0


class Proven(Ended):
    """A pull request whose every claim was executed."""

    outcome: Literal["proven"] = "proven"


class Argued(Ended):
    """A pull request that stands on argument: nothing could be executed to prove it."""

    outcome: Literal["argued"] = "argued"


class Merged(Ended):
    """The judged commit is on the base."""

    outcome: Literal["merged"] = "merged"
    merge_commit: str


class Declined(Ended):
    """There was nothing to fix, and here is why."""

    outcome: Literal["declined"] = "declined"


class Escalated(Ended):
    """A person has to look."""

    outcome: Literal["escalated"] = "escalated"


class Failed(Ended):
    """The run could not go on: usage, configuration or a bug."""

    outcome: Literal["failed"] = "failed"


class CalledOff(Ended):
    """A person cancelled the run."""

    outcome: Literal["cancelled"] = "cancelled"


Outcome = Annotated[
    Proven | Argued | Merged | Declined | Escalated | Failed | CalledOff, Field(discriminator="outcome")
]

EXIT_CODES = {
    "proven": 0,
    "argued": 0,
    "merged": 0,
    "declined": 0,
    "failed": 1,
    "cancelled": 1,
    "waiting": 3,
    "escalated": 3,
}
