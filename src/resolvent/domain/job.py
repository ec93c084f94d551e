"""A job: one supervised process, agent or check, in one branch."""

from typing import Literal

from pydantic import Field

from resolvent.domain.model import Value


class Limits(Value):
    """What a job may take; idle counts seconds without output."""

    wall_s: float = Field(default=7200.0, gt=0)
    idle_s: float | None = Field(default=None, gt=0)
    output_bytes: int = Field(default=64 << 20, gt=0)
    # Between the request to end and the kill.
    grace_s: float = Field(default=5.0, ge=0)


class Job(Value):
    """Everything a supervisor needs; `environment` is the whole environment, nothing is inherited."""

    id: str
    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str] = {}
    stdin: str = ""
    # merged: `output` holds both; apart: `output` is standard output and `errors` beside it standard error.
    streams: Literal["merged", "apart"] = "merged"
    limits: Limits = Limits()
    # A frozen clock makes two runs comparable to the commit; None is the real time.
    frozen_at: float | None = None


Ending = Literal["exited", "wall", "idle", "output", "cancelled", "unstartable"]


class JobExit(Value):
    """How a job ended, as its supervisor recorded it; a death by signal is exit 128 + signal."""

    ending: Ending
    exit: int
    started_at: float
    ended_at: float
    seconds: float
    message: str = ""

    @property
    def ended(self) -> bool:
        """It ended by itself, not by a limit or a cancel."""
        return self.ending == "exited"


class Usage(Value):
    """What an agent says it spent."""

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class Branch(Value):
    """A fork of a workspace: `commit` is the change it was made from or became."""

    id: str
    parent: str | None
    commit: str


class Task(Value):
    """One turn asked of an agent: what the agent contract puts into its environment and prompt."""

    run: str
    step: str
    attempt: int
    turn: int
    prompt: str
    json_schema: str
    directory: str


class Reply(Value):
    """What an agent left: the end of its output, and the JSON answer if it wrote one."""

    text: str
    answer: str | None = None
    usage: Usage = Usage()
