"""The rows of a run: what the journal keeps and the front ends show."""

from collections.abc import Mapping
from typing import Any, Literal

from resolvent.domain.change import Change
from resolvent.domain.job import Limits, Usage
from resolvent.domain.model import Value
from resolvent.domain.policy import Policy
from resolvent.domain.prices import Price
from resolvent.domain.subject import Issue, PullRequest

RunState = Literal["queued", "running", "waiting", "ended"]


class AgentChoice(Value):
    """Which agent plays a role in this run, frozen at submit."""

    name: str
    use: str
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    model: str = ""
    # The base URL of its model's server, and the variable that holds the key: the program's own unless said.
    endpoint: str = ""
    key: str = ""
    # Values for its environment, in which {endpoint}, {key} and {model} stand for what it is given of these.
    variables: dict[str, str] = {}
    # The method an ACP agent is logged in by.
    authenticate: str = ""
    family: str = ""
    # Agents of one account share its quota; their own names unless said.
    account: str = ""
    budget_usd: float | None = None
    # What its tokens cost, for a program that does not tell.
    price: Price | None = None
    # Who takes its place, and only then, when it cannot be had.
    fallback: str = ""
    limits: Limits = Limits()
    # What its program needs of the host beyond what its command names, when it runs in a box.
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def stand_ins(chosen: AgentChoice, fallbacks: Mapping[str, AgentChoice]) -> tuple[AgentChoice, ...]:
    """Who may be asked for that role: the chosen one, then whoever takes its place, in their order, each once."""
    found, left = [chosen], {name: one for name, one in fallbacks.items() if name != chosen.name}
    while (substitute := left.pop(found[-1].fallback, None)) is not None:
        found.append(substitute)
    return tuple(found)


class Frozen(Value):
    """The inputs of a run, frozen at submit; replays read these and nothing newer."""

    issue: Issue
    pull_request: PullRequest | None = None
    pull_change: Change | None = None
    base: Change
    base_branch: str
    policy: Policy = Policy()
    checks: dict[Literal["build", "test", "smoke"], str] = {}
    check_limits: Limits = Limits(wall_s=3600.0)
    agents: dict[Literal["writer", "reader", "arbiter"], AgentChoice]
    # Who takes whose place, by name; only where a person said so.
    fallbacks: dict[str, AgentChoice] = {}
    # What the whole run may cost.
    budget_usd: float | None = None
    prompts: dict[str, str]
    design_comment: str = ""
    design_comment_url: str = ""
    # A design is drafted and reviewed before anything is analysed.
    design_first: bool = False
    # A person said that agents and checks may run without walls.
    unsafe: bool = False


class RunRow(Value):
    """One run as the journal keeps it."""

    id: str
    playbook: str
    subject: str
    title: str
    state: RunState = "queued"
    outcome: str = ""
    reason: str = ""
    plays: int = 1
    cancelling: bool = False
    # Why it is to be cancelled; empty when a person here said so. The first line is the reason the run ends with.
    called_off: str = ""
    forked_from: str = ""
    created_at: float
    updated_at: float
    inputs: Frozen
    result: dict[str, Any] | None = None


class Due(Value):
    """As much of a run as a worker needs to know that it is its turn."""

    id: str
    plays: int
    state: RunState
    cancelling: bool


class StepRow(Value):
    """One verb of a run: its id is its content."""

    id: str
    run: str
    key: str
    verb: str
    name: str
    title: str
    attempt: int = 1
    position: int = 0
    state: Literal["running", "done", "failed"] = "running"
    started_at: float
    ended_at: float | None = None
    summary: str = ""
    result: dict[str, Any] | None = None


class JobRow(Value):
    """One supervised process of a run."""

    id: str
    run: str
    step: str
    name: str
    agent: str = ""
    turn: int = 1
    state: Literal["started", "ended", "lost"] = "started"
    ending: str = ""
    exit: int | None = None
    seconds: float = 0.0
    usage: Usage = Usage()
    # The branch it ran in, its private directory, and when it was over.
    branch: str = ""
    private: str = ""
    at: float = 0.0


class EffectRow(Value):
    """One write to the outside: intended before it is tried, done when it is known to be there."""

    id: str
    run: str
    kind: str
    target: str
    marker: str
    state: Literal["intended", "done"] = "intended"
    result: dict[str, Any] | None = None
