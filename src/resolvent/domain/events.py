"""Facts in the past tense; what front ends read."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from resolvent.domain.model import Value


class RunStarted(Value):
    event: Literal["run_started"] = "run_started"
    playbook: str
    subject: str
    title: str
    base: str


class RunResumed(Value):
    event: Literal["run_resumed"] = "run_resumed"
    play: int


class StepStarted(Value):
    event: Literal["step_started"] = "step_started"
    step: str
    verb: str
    title: str
    agent: str = ""


class JobStarted(Value):
    event: Literal["job_started"] = "job_started"
    step: str
    job: str
    agent: str = ""


class StepFinished(Value):
    event: Literal["step_finished"] = "step_finished"
    step: str
    verb: str
    title: str
    state: Literal["done", "failed"]
    seconds: float
    summary: str = ""


class StepRetried(Value):
    event: Literal["step_retried"] = "step_retried"
    step: str
    attempt: int
    reason: str


class AgentParked(Value):
    """It waits for its model; nothing failed."""

    event: Literal["agent_parked"] = "agent_parked"
    step: str
    agent: str
    until: float
    reason: str


class AgentReplaced(Value):
    event: Literal["agent_replaced"] = "agent_replaced"
    step: str
    agent: str
    by: str
    reason: str


class AgentNoticed(Value):
    """Something about a turn that ended well, which a person should know."""

    event: Literal["agent_noticed"] = "agent_noticed"
    step: str
    agent: str
    text: str


class BudgetWarned(Value):
    event: Literal["budget_warned"] = "budget_warned"
    scope: str
    spent_usd: float
    limit_usd: float


class FindingTriaged(Value):
    event: Literal["finding_triaged"] = "finding_triaged"
    finding: str
    severity: str
    title: str
    basis: str
    origin: str
    scope: str


class GateJudged(Value):
    event: Literal["gate_judged"] = "gate_judged"
    change: str
    open: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class DesignSettled(Value):
    event: Literal["design_settled"] = "design_settled"
    status: str
    comment_url: str = ""
    notes: str = ""
    rounds: int
    body: str = ""


class DecisionAsked(Value):
    event: Literal["decision_asked"] = "decision_asked"
    key: str
    text: str
    choices: tuple[str, ...]


class DecisionMade(Value):
    event: Literal["decision_made"] = "decision_made"
    key: str
    answer: str
    by: str = ""


class RunEnded(Value):
    event: Literal["run_ended"] = "run_ended"
    outcome: str
    reason: str = ""


Event = Annotated[
    RunStarted
    | RunResumed
    | StepStarted
    | JobStarted
    | StepFinished
    | StepRetried
    | AgentParked
    | AgentReplaced
    | AgentNoticed
    | BudgetWarned
    | FindingTriaged
    | GateJudged
    | DesignSettled
    | DecisionAsked
    | DecisionMade
    | RunEnded,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[Any] = TypeAdapter(Event)


class Recorded(Value):
    """An event with its place in the record."""

    seq: int
    run: str
    at: float
    event: Event
