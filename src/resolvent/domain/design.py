"""A design before the code: what a drafter proposes, what a reviewer says of it, and how it ended."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from resolvent.domain.model import Value
from resolvent.domain.verdicts import Said

# It has to fit into one comment of a forge, headings and all.
MAX_LETTERS = 40_000
Points = Annotated[tuple[Said, ...], Field(max_length=100)]


class SolutionDesign(Value):
    """What is wrong, what is to be changed, and how that is going to be shown; every part of it is said."""

    root_cause: Said
    severity: Literal["P0", "P1", "P2", "feature"]
    approach: Said
    files_to_change: Points = Field(min_length=1)
    edge_cases: Points
    test_strategy: Said
    risks: Points
    alternatives_rejected: Points
    revision_notes: str = ""

    @model_validator(mode="after")
    def readable(self) -> "SolutionDesign":
        _fits_a_comment(
            self.root_cause,
            self.approach,
            self.test_strategy,
            self.revision_notes,
            *self.files_to_change,
            *self.edge_cases,
            *self.risks,
            *self.alternatives_rejected,
        )
        return self


class DesignDraft(Value):
    """A design that wants to be reviewed, or the reason why nothing is to be done."""

    verdict: Literal["NEED_DESIGN_REVIEW", "NO_ACTION_NEEDED"]
    reason: str = ""
    design: SolutionDesign | None = None

    @model_validator(mode="after")
    def whole(self) -> "DesignDraft":
        if (self.verdict == "NEED_DESIGN_REVIEW") != (self.design is not None):
            raise ValueError("NEED_DESIGN_REVIEW comes with a design, NO_ACTION_NEEDED without")
        if (self.verdict == "NO_ACTION_NEEDED") != bool(self.reason.strip()):
            raise ValueError("NO_ACTION_NEEDED comes with a reason, NEED_DESIGN_REVIEW without")
        _fits_a_comment(self.reason)
        return self


class DesignRevision(Value):
    """A design once more, after a review; it says what changed."""

    verdict: Literal["NEED_DESIGN_REVIEW"]
    design: SolutionDesign

    @model_validator(mode="after")
    def explained(self) -> "DesignRevision":
        if not self.design.revision_notes.strip():
            raise ValueError("a revision needs revision_notes: what changed, and why")
        return self


class DesignReview(Value):
    """A reviewer's word on one draft, and the comment it says it has posted."""

    verdict: Literal["DESIGN_APPROVED", "DESIGN_NEEDS_REVISION"]
    approval_notes: str = ""
    feedback: Points = ()
    comment_url: str = Field(default="", max_length=2000)

    @model_validator(mode="after")
    def whole(self) -> "DesignReview":
        if (self.verdict == "DESIGN_APPROVED") != bool(self.approval_notes.strip()):
            raise ValueError("DESIGN_APPROVED comes with approval notes, DESIGN_NEEDS_REVISION without")
        if (self.verdict == "DESIGN_NEEDS_REVISION") != bool(self.feedback):
            raise ValueError("DESIGN_NEEDS_REVISION comes with feedback, DESIGN_APPROVED without")
        _fits_a_comment(self.approval_notes, *self.feedback)
        return self


class Designed(Value):
    """How a design ended: the text that is implemented, where it stands, and what is left to say of it."""

    status: Literal["APPROVED", "CONSENSUS", "NO_ACTION_NEEDED"]
    comment_url: str = ""
    notes: str = ""
    rounds: int = 0
    body: str = ""


def _fits_a_comment(*texts: str) -> None:
    if sum(map(len, texts)) > MAX_LETTERS:
        raise ValueError(f"more than {MAX_LETTERS} characters do not fit into one comment: say what matters most")
