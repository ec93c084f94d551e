"""What agents answer, typed; anything that does not fit is malformed, never a pass."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from resolvent.domain.change import Reproducer
from resolvent.domain.model import Value
from resolvent.domain.subject import Reported

# Each claim is executed at least twice: a review with more of them is no review.
MAX_CLAIMS = 100


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something")
    return text


Said = Annotated[str, Field(min_length=1), AfterValidator(_said)]


class Design(Value):
    """The solution an analysis proposes."""

    root_cause: Said
    severity: Literal["P0", "P1", "P2", "feature", "enhancement"]
    approach: Said
    test_strategy: str = ""
    risks: str = ""
    alternatives_rejected: str = ""


class Analysis(Value):
    """Is there something to do, why, and how to show it. VALID and INVALID are the older words for the same."""

    verdict: Literal["NEED_FIX", "NO_ACTION_NEEDED", "VALID", "INVALID"]
    reason: str = ""
    design: Design | None = None
    suggestion: str = ""
    reproducer: Reproducer | None = None
    no_reproducer: str = ""

    @model_validator(mode="after")
    def whole(self) -> "Analysis":
        if self.verdict == "NEED_FIX" and self.design is None:
            raise ValueError("NEED_FIX needs a design")
        if self.verdict == "VALID" and not self.suggestion.strip():
            raise ValueError("VALID needs a suggestion")
        if self.verdict == "NO_ACTION_NEEDED" and not self.reason.strip():
            raise ValueError("NO_ACTION_NEEDED needs a reason")
        if self.reproducer and self.no_reproducer:
            raise ValueError("either a reproducer or the reason why there is none")
        if self.no_action and (self.design or self.suggestion or self.reproducer):
            raise ValueError(f"{self.verdict} says that nothing is to do: no design, suggestion or reproducer")
        return self

    @property
    def no_action(self) -> bool:
        return self.verdict in ("NO_ACTION_NEEDED", "INVALID")


class Implementation(Value):
    """How the first change ended."""

    mode: Literal["IMPLEMENTATION_SUCCESS", "GH_AUTH_EXPIRED", "IMPLEMENTATION_BLOCKED"]
    pull_request: Reported | None = None
    reason: str = ""
    local_commit: str = ""
    retry_push_branch: str = ""

    @model_validator(mode="after")
    def whole(self) -> "Implementation":
        if self.mode == "IMPLEMENTATION_BLOCKED" and not self.reason.strip():
            raise ValueError("IMPLEMENTATION_BLOCKED needs a reason")
        if self.mode == "GH_AUTH_EXPIRED" and not (self.local_commit.strip() and self.retry_push_branch.strip()):
            raise ValueError("GH_AUTH_EXPIRED needs LOCAL_COMMIT and RETRY_PUSH_BRANCH")
        if self.mode != "IMPLEMENTATION_SUCCESS" and self.pull_request:
            raise ValueError(f"{self.mode} comes without a pull request")
        return self


class Fix(Value):
    """How a later change ended."""

    mode: Literal["FIX_SUCCESS", "GH_AUTH_EXPIRED"]
    local_commit: str = ""
    retry_push_branch: str = ""

    @model_validator(mode="after")
    def whole(self) -> "Fix":
        if self.mode == "GH_AUTH_EXPIRED" and not (self.local_commit.strip() and self.retry_push_branch.strip()):
            raise ValueError("GH_AUTH_EXPIRED needs LOCAL_COMMIT and RETRY_PUSH_BRANCH")
        return self


class Claim(Value):
    """What a reviewer asserts: severity with evidence, reachability and blast radius, and how to show it."""

    severity: Literal["P0", "P1"]
    description: Said
    code_evidence: Said
    reachability: Said
    blast_radius: Said
    reproducer: Reproducer | None = None
    no_reproducer: str = ""

    @model_validator(mode="after")
    def one_of_both(self) -> "Claim":
        if self.reproducer and self.no_reproducer:
            raise ValueError("either a reproducer or the reason why there is none")
        return self

    @property
    def title(self) -> str:
        return self.description.strip().splitlines()[0][:120]


class Review(Value):
    """What a reviewer found in one commit."""

    verdict: Literal["NO_P0_P1", "P0_P1_FINDINGS"]
    claims: tuple[Claim, ...] = Field(default=(), max_length=MAX_CLAIMS)

    @model_validator(mode="after")
    def whole(self) -> "Review":
        if (self.verdict == "P0_P1_FINDINGS") != bool(self.claims):
            raise ValueError("P0_P1_FINDINGS comes with claims, NO_P0_P1 without")
        return self


Scope = Literal["FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED"]
Origin = Literal["introduced", "pre_existing", "unknown"]


class Triage(Value):
    """A verifier's word on one finding, named by its id."""

    finding: Said
    valid: bool
    origin: Origin = "unknown"
    difficulty: Literal["S", "M", "L"]
    risk: Literal["low", "med", "high"]
    scope: Scope
    rationale: Said

    @model_validator(mode="after")
    def consistent(self) -> "Triage":
        if self.valid == (self.scope == "INVALID_OR_ALREADY_FIXED"):
            raise ValueError("INVALID_OR_ALREADY_FIXED is for findings that are not valid, and only for those")
        return self


class Verification(Value):
    """The triage of every finding that was left."""

    verdict: Literal["NO_IN_SCOPE_P0_P1", "IN_SCOPE_P0_P1"]
    triage: tuple[Triage, ...] = Field(max_length=MAX_CLAIMS)

    @model_validator(mode="after")
    def consistent(self) -> "Verification":
        in_scope = any(item.scope == "FIX_IN_THIS_PR" for item in self.triage)
        if in_scope != (self.verdict == "IN_SCOPE_P0_P1"):
            raise ValueError("IN_SCOPE_P0_P1 comes with a finding marked FIX_IN_THIS_PR, and only then")
        names = [item.finding for item in self.triage]
        if len(set(names)) != len(names):
            raise ValueError("each finding is triaged once")
        return self


class Variants(Value):
    """Other ways to show the problem of an issue, from somebody who has not seen what was changed."""

    reproducers: tuple[Reproducer, ...] = Field(max_length=MAX_CLAIMS)
