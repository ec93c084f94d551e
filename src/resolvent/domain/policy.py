"""What a maintainer decided once for every run."""

from typing import Literal

from pydantic import Field

from resolvent.domain.model import Value
from resolvent.domain.subject import MergeMethod


class Policy(Value):
    """What a maintainer decided once for every run."""

    max_fix_rounds: int = Field(default=5, ge=0, le=100)
    merge: Literal["never", "ask", "auto"] = "never"
    merge_method: MergeMethod = "merge"
    # The head is removed once it is merged.
    delete_branch: bool = False
    # A pull request is a draft until it is proven.
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    require_reproducer: bool = False
    reproduce_runs: int = Field(default=2, ge=1, le=20)
    # How often each reproducer must pass on a change that nothing else is held against.
    prove_runs: int = Field(default=3, ge=1, le=100)
    # What a blind reader writes from the issue alone: other ways to show the same problem.
    variants: int = Field(default=2, ge=0, le=5)
    # Look for the commit that brought the problem, among so many of the base's ancestors; 0: do not look.
    bisect: int = Field(default=0, ge=0, le=100_000)
    # Parts of a change that nothing needs are told, or taken out; so many trials at most.
    minimise: Literal["off", "report", "remove"] = "report"
    minimise_trials: int = Field(default=12, ge=1, le=1000)
    max_changed_lines: int = Field(default=3000, ge=1)
    # When a loop does not come to an end by itself: see `domain.convergence`.
    self_inflicted: float = Field(default=0.5, ge=0, le=1)
    recurrences: int = Field(default=1, ge=0)
    growth: float = Field(default=4.0, ge=1)
    exec_surface: Literal["ask", "allow"] = "ask"
    # A reviewer whose model is of the author's family overlooks what the author overlooked.
    same_family: Literal["allow", "warn", "refuse"] = "warn"
    ci_required: bool = True
    ci_wait: float = Field(default=1800.0, ge=0)
    status_comments: bool = True
