"""Forges: where issues, pull requests, checks and merges live."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from resolvent.domain.change import Change
from resolvent.domain.subject import (
    Comment,
    Issue,
    Labelling,
    Listed,
    MergeMethod,
    Permission,
    PullRequest,
    Reaction,
    RequiredCheck,
    Synced,
)


class Forge(Protocol):
    """Issues, comments, pull requests, checks and merges. Writing twice is prevented by looking for a marker first.

    A `target` is `issue-N` or `pr-N`. An instant is seconds since the epoch. ForgeDown: it may have happened or not,
    look before trying again. ForgeRefused: it did not happen and will not; `details['auth']` when the token is why.
    """

    # --- who we are, and who others are

    async def login(self) -> str:
        """Who we are there."""

    async def trusted(self) -> tuple[str, ...]:
        """The logins whose markers count: ours and the configured ones."""

    async def permission(self, login: str) -> Permission:
        """What somebody may do there; `none` for who is unknown."""

    # --- commits

    async def sync(self, repository: Path) -> Synced:
        """Bring what the checkout holds where that is how the forge learns of it; UsageError if it cannot."""

    async def fetch(self, into: Path, ref: str) -> str:
        """Bring a branch or commit into our repository at `into`; returns the commit. NotFound if unknown."""

    async def default_branch(self) -> str: ...

    async def head_of(self, branch: str) -> str | None:
        """The commit a branch is at now; None when it does not exist."""

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        """Move `head` to the commit, only from `expect` (None: it must not exist yet); HeadMoved otherwise."""

    async def delete_branch(self, branch: str, *, expect: str) -> None:
        """Remove a branch that is at that commit; HeadMoved when it is elsewhere, gone already is fine."""

    # --- issues

    async def issue(self, reference: str) -> Issue:
        """By number, `#number` or URL; NotFound if unknown."""

    async def issues(
        self, *, state: Listed = "open", labels: Sequence[str] = (), since: float = 0.0
    ) -> tuple[Issue, ...]:
        """The issues in that state with all these labels that changed at that instant or later; oldest first."""

    async def search_issues(self, words: str, *, limit: int = 10) -> tuple[Issue, ...]:
        """Open issues whose title or body holds every word, or the exact text when quoted; oldest first.

        What we wrote ourselves is found at once; what others wrote may take the forge's index a while.
        """

    async def open_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue: ...

    # --- pull requests

    async def pull_request(self, reference: str) -> PullRequest:
        """By number, `#number` or URL; NotFound if unknown."""

    async def pull_requests(self, *, head: str = "", state: Listed = "all") -> tuple[PullRequest, ...]:
        """The pull requests in that state, of that head branch of this repository if one is named; newest first.

        A merged one is closed.
        """

    async def open_pull_request(
        self, *, head: str, base: str, title: str, body: str, draft: bool = False
    ) -> PullRequest: ...

    async def set_draft(self, pull: PullRequest, draft: bool) -> PullRequest:
        """Make it a draft, or ready for review; as it is already: nothing to do."""

    async def ask_for_review(self, pull: PullRequest, logins: Sequence[str]) -> None:
        """Ask these people; asked again they are asked once. ForgeRefused names who cannot be asked."""

    def fetch_line(self, pull: PullRequest) -> str:
        """What to type in one's own checkout: to look at a pull request, or to have it once it is merged."""

    async def merge(self, pull: PullRequest, *, expect: Change, method: MergeMethod = "merge") -> PullRequest:
        """Merge exactly that head; HeadMoved if it is another. The answer is read back, with its merge commit."""

    # --- both

    async def set_state(self, target: str, state: str) -> None:
        """Have an issue or an unmerged pull request `open` or `closed`; as it is already: nothing to do."""

    async def label(self, target: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Give it labels, made if they are new, and take others away; both may be so already."""

    async def labelling(self, target: str, label: str) -> Labelling:
        """Who put that label on last, and when; nobody, where that is not known or it never had it."""

    async def comments(self, target: str) -> tuple[Comment, ...]:
        """All comments, oldest first."""

    async def comments_since(self, instant: float) -> tuple[Comment, ...]:
        """Those on any target that were written or edited at that instant or later, oldest first."""

    async def comment(self, target: str, body: str) -> Comment: ...

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        """Let it say this instead, in its place; NotFound when it is gone."""

    async def comment_at(self, url: str) -> Comment:
        """The comment at that link; NotFound if unknown."""

    async def react(self, to: Comment | str, reaction: Reaction) -> None:
        """A reaction of ours to a comment or a target; once, however often this is asked."""

    # --- checks

    async def required_checks(self, commit: str) -> tuple[RequiredCheck, ...]:
        """What CI says of that commit under each required name; names without a result are pending."""

    async def rerun(self, check: RequiredCheck) -> None:
        """Ask CI to run one check again."""

    async def await_checks(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        """Wait until no required check of the commit is pending, or the time is over; then as required_checks."""

    def nudge(self, commit: str) -> None:
        """There is news of CI about that commit: whoever waits for it here looks now instead of later."""

    # --- one run per subject, whichever host it is on

    async def claim(self, subject: str, holder: str) -> str:
        """Who holds the subject now: `holder` if nobody did. Atomic; a holder's own claim stays its own."""

    async def holder(self, subject: str) -> str:
        """Who holds the subject; empty when nobody does. Nothing is changed by looking."""

    async def release(self, subject: str, holder: str) -> None:
        """Give a claim back; one that is not the holder's stays."""

    async def close(self) -> None:
        """Let go of whatever is open."""
